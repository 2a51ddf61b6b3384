//! Timers of each transaction, by the tables of RFC 3261 17 and RFC 6026 7.

use bentpipe_units::{Span, Time};

use super::Timers;
use super::client::{self, Client};
use super::server::{self, Server};

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64(seconds)
}

/// Returns a client transaction with a final response at 1 s.
fn answered_client(is_invite: bool, is_reliable: bool, status: u16, timers: &Timers) -> Client {
    let mut machine = Client::new(Time::ZERO, is_invite, is_reliable, timers);
    assert!(machine.on_response(at(1.0), status, timers).deliver);
    machine
}

/// Returns a server transaction with a final response at 1 s.
fn answered_server(is_invite: bool, is_reliable: bool, status: u16, timers: &Timers) -> Server {
    let mut machine = Server::new(Time::ZERO, is_invite, is_reliable, timers);
    assert!(machine.on_answer(at(1.0), status, timers));
    machine
}

#[test]
fn timer_d_keeps_the_ack_of_a_failure_for_32_s() {
    let timers = Timers::default();
    let mut machine = answered_client(true, false, 486, &timers);
    assert_eq!(machine.on_response(at(2.0), 486, &timers), client::Reaction { deliver: false, ack: true });
    assert_eq!(machine.deadline(), at(33.0));
    machine.on_time(at(32.999_999_999), &timers);
    assert_eq!(machine.state(), client::State::Completed);
    assert_eq!(machine.on_time(at(33.0), &timers), client::Expiry::Quiet);
    assert_eq!(machine.state(), client::State::Terminated);
    assert_eq!(answered_client(true, true, 486, &timers).deadline(), at(1.0), "0 s over TCP");
    let (fast, slow) = (Span::from_millis(100), Span::from_secs(1));
    for (t1, d) in [(fast, 32.0), (slow, 64.0)] {
        let timers = Timers { t1, ..timers };
        assert_eq!(answered_client(true, false, 486, &timers).deadline(), at(1.0 + d), "at least 32 s");
    }
}

#[test]
fn timer_e_is_t2_after_a_provisional_response() {
    let timers = Timers::default();
    let mut machine = Client::new(Time::ZERO, false, false, &timers);
    machine.on_response(at(0.1), 100, &timers);
    let mut sent = vec![];
    while machine.deadline() < at(32.0) {
        let now = machine.deadline();
        assert_eq!(machine.on_time(now, &timers), client::Expiry::Retransmit);
        sent.push(now.as_secs_f64());
    }
    assert_eq!(sent, [0.5, 4.5, 8.5, 12.5, 16.5, 20.5, 24.5, 28.5]);
    machine.on_time(at(31.0), &timers);
    assert_eq!(machine.on_time(at(32.0), &timers), client::Expiry::TimedOut, "Timer F goes on");
}

#[test]
fn timer_k_absorbs_repeated_responses_for_t4() {
    let timers = Timers::default();
    let mut machine = answered_client(false, false, 200, &timers);
    assert_eq!(machine.on_response(at(2.0), 200, &timers), client::Reaction { deliver: false, ack: false });
    assert_eq!(machine.deadline(), at(6.0));
    assert_eq!(machine.on_time(at(6.0), &timers), client::Expiry::Quiet);
    assert_eq!(machine.state(), client::State::Terminated);
    assert_eq!(answered_client(false, true, 200, &timers).deadline(), at(1.0), "0 s over TCP");
}

#[test]
fn timer_m_delivers_each_2xx_for_64_t1() {
    let timers = Timers::default();
    for is_reliable in [false, true] {
        let mut machine = answered_client(true, is_reliable, 200, &timers);
        assert_eq!(
            machine.on_response(at(20.0), 200, &timers),
            client::Reaction { deliver: true, ack: false }
        );
        assert!(!machine.on_response(at(20.0), 486, &timers).deliver, "failures of other branches");
        assert_eq!(machine.deadline(), at(33.0));
        assert_eq!(machine.on_time(at(33.0), &timers), client::Expiry::Quiet);
        assert!(!machine.on_response(at(34.0), 200, &timers).deliver);
    }
}

#[test]
fn timer_h_ends_a_failure_without_an_ack_also_over_tcp() {
    let timers = Timers::default();
    for is_reliable in [false, true] {
        let mut machine = answered_server(true, is_reliable, 486, &timers);
        let mut repeats = 0;
        while machine.on_time(machine.deadline(), &timers) == server::Expiry::Retransmit {
            repeats += 1;
        }
        // Timer G: after 0.5, 1.5 and 3.5 s, then each 4 s; a stream needs none.
        assert_eq!(repeats, if is_reliable { 0 } else { 10 });
        assert_eq!(machine.state(), server::State::Terminated);
        let mut machine = answered_server(true, is_reliable, 486, &timers);
        machine.on_time(at(32.999_999_999), &timers);
        assert_eq!(machine.on_time(at(33.0), &timers), server::Expiry::NotConfirmed);
    }
}

#[test]
fn timer_i_absorbs_repeated_acks_for_t4() {
    let timers = Timers::default();
    let mut machine = answered_server(true, false, 486, &timers);
    assert!(!machine.on_ack(at(2.0), &timers), "that of a failure is for the transaction");
    assert_eq!((machine.state(), machine.deadline()), (server::State::Confirmed, at(7.0)));
    assert!(!machine.on_repeat() && !machine.on_ack(at(3.0), &timers));
    assert_eq!(machine.deadline(), at(7.0), "a second ACK changes nothing");
    assert_eq!(machine.on_time(at(7.0), &timers), server::Expiry::Quiet);
    let mut machine = answered_server(true, true, 486, &timers);
    machine.on_ack(at(2.0), &timers);
    assert_eq!(machine.deadline(), at(2.0), "0 s over TCP");
}

#[test]
fn timer_j_repeats_the_response_to_repeated_requests_for_64_t1() {
    let timers = Timers::default();
    let mut machine = answered_server(false, false, 200, &timers);
    assert!(machine.on_repeat());
    assert_eq!(machine.deadline(), at(33.0));
    assert_eq!(machine.on_time(at(33.0), &timers), server::Expiry::Quiet);
    assert!(!machine.on_repeat());
    assert_eq!(answered_server(false, true, 200, &timers).deadline(), at(1.0), "0 s over TCP");
}

#[test]
fn timer_l_absorbs_repeated_invites_and_delivers_acks_for_64_t1() {
    let timers = Timers::default();
    for is_reliable in [false, true] {
        let mut machine = answered_server(true, is_reliable, 200, &timers);
        assert!(!machine.on_repeat(), "the agent repeats its 2xx itself");
        assert!(machine.on_answer(at(1.5), 200, &timers) && machine.on_ack(at(2.0), &timers));
        assert_eq!(machine.deadline(), at(33.0));
        assert_eq!(machine.on_time(at(33.0), &timers), server::Expiry::Quiet);
        assert_eq!(machine.state(), server::State::Terminated);
    }
}

#[test]
fn a_server_sends_100_by_itself_unless_its_user_was_faster() {
    let timers = Timers::default();
    let mut machine = Server::new(Time::ZERO, true, false, &timers);
    assert_eq!(machine.on_time(at(0.2), &timers), server::Expiry::Trying);
    assert_eq!(machine.deadline(), Time::NEVER, "Timer C is the proxy's");
    let mut machine = Server::new(Time::ZERO, true, false, &timers);
    assert!(machine.on_answer(at(0.1), 180, &timers));
    assert_eq!(machine.deadline(), Time::NEVER);
}
