//! Packet diagrams of Quick-Start in TCP (RFC 4782, section 4).

use crate::tcp_diagram::{Diagram, plain};
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{Element, Observer};
use bentpipe_transport::tcp::{Bulk, Config, Endpoint, Failure, Source};
use bentpipe_units::Rate;

/// Asks for 640 kbit/s, code 4. At 100 ms and with 1040 bytes a packet that is a window of 7692 bytes; a packet takes 13 ms.
fn asking() -> Config {
    Config { quick_start: Some(Rate::from_bps(640_000)), initial_window: 2, ..plain() }
}

fn endless(endpoint: Endpoint) -> Endpoint {
    endpoint.with_source(Source::Bulk(Bulk::default()))
}

struct Find<'a>(&'a str, f64);

impl Observer for Find<'_> {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        if metric.name == self.0 {
            self.1 = total as f64;
        }
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        if metric.name == self.0 {
            self.1 = value;
        }
    }
}

impl Diagram {
    fn value(&mut self, name: &str) -> f64 {
        let mut find = Find(name, f64::NAN);
        self.endpoint.observe(bentpipe_units::Time::ZERO, &mut find);
        find.1
    }
}

/// Sections 4.1 and 4.4: the request with the SYN, the report with the ACK, data paced up to the window.
#[test]
fn an_approved_rate_gives_a_paced_window() {
    let mut diagram = Diagram::client(&asking(), endless);
    diagram.play(
        "@0   > syn ask 4
         @100 < syn ack 1 mss 1000 answer 4
              > ack 1 report 4
              > seq 1..1001
         @113 > seq 1001..2001
         @126 > seq 2001..3001
         @139 > seq 3001..4001
         @152 > seq 4001..5001
         @165 > seq 5001..6001
         @178 > seq 6001..7001
         @199 -",
    );
    assert_eq!((diagram.value("cwnd"), diagram.value("quick-starts")), (7692.0, 1.0));
    // The first ACK ends the mode: the window is what was used of it, and grows by slow start.
    diagram.play("@200 < ack 1001").play("> seq 7001..8001").play("> seq 8001..9001");
    assert_eq!(diagram.value("cwnd"), 8000.0);
}

/// Section 4.4: an RTT that was too long gave a window of which less is used.
#[test]
fn what_was_not_used_when_the_first_ack_comes_is_given_back() {
    let mut diagram = Diagram::client(&asking(), endless);
    diagram.play(
        "@0   > syn ask 4
         @100 < syn ack 1 mss 1000 answer 4
              > ack 1 report 4
              > seq 1..1001
         @113 > seq 1001..2001
         @126 > seq 2001..3001
         @130 < ack 1001",
    );
    // Three segments and slow start's step; the pace that was begun is kept to.
    assert_eq!(diagram.value("cwnd"), 4000.0);
    diagram.play("@139 > seq 3001..4001").play("> seq 4001..5001");
}

/// A lower rate than was asked for is used as well (80 kbit/s: one packet in an RTT, less than the initial window).
#[test]
fn a_lower_rate_is_used_only_if_it_gives_more() {
    let mut lower = Diagram::client(&asking(), endless);
    lower.play(
        "@0   > syn ask 4
         @100 < syn ack 1 mss 1000 answer 3
              > ack 1 report 3
              > seq 1..1001
         @126 > seq 1001..2001
         @152 > seq 2001..3001
         @199 -",
    );
    let mut too_low = Diagram::client(&asking(), endless);
    too_low.play(
        "@0   > syn ask 4
         @100 < syn ack 1 mss 1000 answer 1
              > ack 1 report 1
              > seq 1..1001
              > seq 1001..2001
         @199 -",
    );
    assert_eq!((lower.value("quick-starts"), too_low.value("quick-starts-refused")), (1.0, 1.0));
}

/// Section 4.4: no answer, one with a wrong TTL difference, a wrong nonce or more than was asked for is a refusal: a report
/// of zero, and the window that there would be.
#[test]
fn what_is_no_consent_is_a_refusal() {
    for answer in ["", "answer 4 ttl", "answer 4 nonce", "answer 5", "answer 0"] {
        let mut diagram = Diagram::client(&asking(), endless);
        diagram.play("@0 > syn ask 4").play(&format!("@100 < syn ack 1 mss 1000 {answer}")).play(
            "> ack 1 report 0
             > seq 1..1001
             > seq 1001..2001
             @200 < ack 2001
             > seq 2001..3001
             > seq 3001..4001
             > seq 4001..5001",
        );
        assert_eq!(diagram.value("quick-starts-refused"), 1.0, "{answer}");
    }
}

/// Section 4.7.2: a SYN with a request waits three seconds, and is repeated without it; an answer is void then.
#[test]
fn a_repeated_syn_asks_for_nothing() {
    Diagram::client(&asking(), endless).play(
        "@0    > syn ask 4
         @3000 > syn
         @3100 < syn ack 1 mss 1000 answer 4
               > ack 1 report 0
               > seq 1..1001",
    );
}

/// Section 4.7.2: a reset may be meant for the option.
#[test]
fn a_reset_is_answered_by_a_syn_without_request() {
    let mut diagram = Diagram::client(&asking(), endless);
    diagram.play(
        "@0   > syn ask 4
         @100 < seq 0..0 rst ack 1
              > syn
         @200 < seq 0..0 rst ack 1
         @300 -",
    );
    assert_eq!(diagram.endpoint.failure(), Some(Failure::Refused));
}

/// Section 4.3: the answer goes with the SYN that answers, once; a request for nothing is not answered.
#[test]
fn a_request_is_answered_once() {
    Diagram::server(&plain(), |endpoint| endpoint).play(
        "@0    < syn mss 1000 ask 5
               > syn ack 1 answer 5
         @500  < seq 0..0 syn mss 1000
               > syn ack 1",
    );
    Diagram::server(&plain(), |endpoint| endpoint).play("@0 < syn mss 1000 ask 0").play("> syn ack 1");
}

/// Section 4.9: both ends may ask, the passive one with its SYN.
#[test]
fn both_ends_may_ask() {
    let mut server = Diagram::server(&asking(), endless);
    server.play(
        "@0   < syn mss 1000 ask 5
              > syn ack 1 answer 5 ask 4
         @100 < ack 1 answer 4
              > ack 1 report 4
              > seq 1..1001
         @113 > seq 1001..2001
         @126 > seq 2001..3001",
    );
    let mut client = Diagram::client(&asking(), endless);
    client.play(
        "@0   > syn ask 4
         @100 < syn ack 1 mss 1000 answer 4 ask 3
              > ack 1 report 4 answer 3
              > seq 1..1001
         @113 > seq 1001..2001",
    );
}

/// Section 4.6: after the loss of a Quick-Start packet the default initial window holds, and ssthresh is at most half of what
/// came through: six of seven packets.
#[test]
fn a_lost_packet_brings_the_default_window_back() {
    let mut diagram = Diagram::client(&Config { sack: true, ..asking() }, endless);
    diagram.play(
        "@0   > syn ask 4
         @100 < syn ack 1 mss 1000 sack-ok answer 4
              > ack 1 report 4
              > seq 1..1001
         @113 > seq 1001..2001
         @126 > seq 2001..3001
         @139 > seq 3001..4001
         @152 > seq 4001..5001
         @165 > seq 5001..6001
         @178 > seq 6001..7001
         @200 < ack 1001   # 2 is lost
              > seq 7001..8001
              > seq 8001..9001
         @226 < ack 1001 sack 2001-3001
              > seq 9001..10001
         @239 < ack 1001 sack 2001-4001
              > seq 10001..11001
         @252 < ack 1001 sack 2001-5001
              > seq 1001..2001",
    );
    assert_eq!(diagram.value("cwnd"), 2000.0);
    assert_eq!(diagram.value("ssthresh"), 3500.0);
    diagram.play("@352 < ack 11001").play("> seq 11001..12001").play("> seq 12001..13001");
    assert_eq!((diagram.value("cwnd"), diagram.value("ssthresh")), (2000.0, 3000.0));
}

/// The loss of what was sent later is no business of Quick-Start's.
#[test]
fn a_later_loss_is_an_ordinary_one() {
    let config = Config { limited_transmit: false, ..asking() };
    let mut diagram = Diagram::client(&config, endless);
    diagram.play(
        "@0   > syn ask 4
         @100 < syn ack 1 mss 1000 answer 3
              > ack 1 report 3
              > seq 1..1001
         @126 > seq 1001..2001
         @152 > seq 2001..3001
         @200 < ack 1001
              > seq 3001..4001
              > seq 4001..5001
         @226 < ack 3001
              > seq 5001..6001
              > seq 6001..7001
              > seq 7001..8001
         @300 < ack 3001
         @301 < ack 3001
         @302 < ack 3001
              > seq 3001..4001",
    );
    // Half of the five in flight, as ever.
    assert_eq!((diagram.value("fast-recoveries"), diagram.value("ssthresh")), (1.0, 2500.0));
}
