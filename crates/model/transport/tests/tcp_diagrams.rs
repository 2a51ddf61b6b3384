//! Packet diagrams of what the RFCs say a TCP does.

use crate::tcp_diagram::{Diagram, plain};
use bentpipe_transport::tcp::{
    Bulk, Config, Endpoint, Failure, PartialAcks, ReceiveBuffer, Sink, Source, State,
};
use bentpipe_units::{Bytes, Rate, Span};

fn sends(segments: u64) -> impl FnOnce(Endpoint) -> Endpoint {
    let size = Some(Bytes::new(segments * 1000));
    move |endpoint| endpoint.with_source(Source::Bulk(Bulk { size, duration: None }))
}

/// An endpoint that has sent segments 1 to 10 at 100 ms, with RTT 100 ms.
fn ten_in_flight(config: Config) -> Diagram {
    let sack = if config.sack { "sack-ok" } else { "" };
    let config = Config { initial_window: 10, ..config };
    let mut diagram = Diagram::client(&config, sends(1000));
    diagram.play("@0 > syn").play(&format!("@100 < syn ack 1 mss 1000 {sack}"));
    for segment in 0..10 {
        diagram.play(&format!("> seq {}..{}", 1 + segment * 1000, 1001 + segment * 1000));
    }
    diagram
}

fn with_sack() -> Config {
    Config { sack: true, ..plain() }
}

#[test]
fn handshake_data_and_fin() {
    Diagram::client(&plain(), sends(2)).play(
        "@0   > syn mss 1000
         @100 < syn ack 1 mss 1460
              > seq 1..1001 ack 1
              > seq 1001..2001 fin ack 1
         @200 < ack 2002
         @300 < seq 1..1 fin ack 2002
              > ack 2",
    );
}

#[test]
fn passive_close() {
    let mut diagram = Diagram::server(&plain(), |endpoint| endpoint);
    diagram.play(
        "@0   < syn mss 1000
              > syn ack 1 mss 1000
         @100 < ack 1
         @100 < seq 1..1001 ack 1
         @100 < seq 1001..1501 fin ack 1
              > ack 1502 fin
         @200 < ack 2",
    );
    assert_eq!(diagram.endpoint.connection().state(), State::Closed);
    assert_eq!(diagram.endpoint.bytes_delivered(), 1500);
}

#[test]
fn lost_syns_are_repeated_and_given_up() {
    let config = Config { syn_retries: 3, ..plain() };
    let mut diagram = Diagram::client(&config, sends(1));
    diagram.play(
        "@0     > syn
         @1000  > syn
         @3000  > syn
         @7000  > syn
         @16000 -",
    );
    assert_eq!(diagram.endpoint.failure(), Some(Failure::SynTimeout));
}

/// RFC 6298 5.7: after a repeated SYN, data starts with 3 s.
#[test]
fn a_repeated_syn_leaves_three_seconds() {
    Diagram::client(&plain(), sends(1)).play(
        "@0    > syn
         @1000 > syn
         @1100 < syn ack 1 mss 1000
               > seq 1..1001 fin
         @4100 > seq 1..1001 fin
        ",
    );
}

/// RFC 5681 3.1: one segment after a lost SYN. RFC 6928 2 keeps its larger window until the second loss.
#[test]
fn lost_syns_leave_one_segment() {
    for (initial_window, syns) in [(4, "@1000 > syn\n@1100"), (10, "@1000 > syn\n@3000 > syn\n@3100")] {
        let mut diagram = Diagram::client(&Config { initial_window, ..plain() }, sends(100));
        diagram.play(&format!("@0 > syn\n{syns} < syn ack 1 mss 1000\n > seq 1..1001"));
        diagram.play("@3200 < ack 1001\n > seq 1001..2001\n > seq 2001..3001");
    }
    // The first SYN was late: its repeat was needless.
    let late = Config { initial_window: 2, timestamps: true, mss: Bytes::new(1012), ..plain() };
    Diagram::client(&late, sends(100)).play(
        "@0    > syn ts 0:0
         @1000 > syn ts 1000:0
         @1300 < syn ack 1 mss 1012 ts 7:0
               > seq 1..1001
               > seq 1001..2001",
    );
    let mut diagram = Diagram::client(&Config { initial_window: 10, ..plain() }, sends(3));
    diagram.play("@0 > syn").play("@1000 > syn").play("@1100 < syn ack 1 mss 1000");
    diagram.play("> seq 1..1001\n > seq 1001..2001\n > seq 2001..3001 fin");
}

/// RFC 9293 3.10.7.4: the answer to a SYN sent again is questioned, and not processed. What is left of a window waits for an ACK.
#[test]
fn a_second_answer_to_a_syn_releases_no_data() {
    let config = Config { max_burst: Some(2), initial_window: 10, ..plain() };
    Diagram::client(&config, sends(100)).play(
        "@0    > syn
         @1000 > syn
         @1200 < syn ack 1 mss 1000
               > seq 1..1001
               > seq 1001..2001
         @2200 < syn ack 1 mss 1000
               > ack 1
         @2400 < ack 2001
               > seq 2001..3001
               > seq 3001..4001",
    );
    // Without the limit all of the window is out before.
    let all = Config { max_burst: None, initial_window: 3, ..plain() };
    Diagram::client(&all, sends(100)).play(
        "@0    > syn
         @1000 > syn
         @1200 < syn ack 1 mss 1000
               > seq 1..1001
         @2200 < syn ack 1 mss 1000
               > ack 1",
    );
}

#[test]
fn a_refused_connection_fails() {
    let mut diagram = Diagram::client(&plain(), sends(1));
    diagram.play("@0 > syn").play("@100 < seq 0..0 rst ack 1").play("@5000 -");
    assert_eq!(diagram.endpoint.failure(), Some(Failure::Refused));
}

/// RFC 9293 3.10.7.4: a reset within the window but not at its edge is only questioned.
#[test]
fn a_guessed_reset_is_questioned() {
    let mut diagram = Diagram::server(&plain(), |endpoint| endpoint);
    diagram.play(
        "@0   < syn mss 1000
              > syn ack 1
         @100 < ack 1
         @200 < seq 500..500 rst
              > ack 1
         @300 < seq 1..1 rst",
    );
    assert_eq!(diagram.endpoint.failure(), Some(Failure::Reset));
}

#[test]
fn every_second_segment_is_acknowledged_and_the_last_late() {
    Diagram::server(&plain(), |endpoint| endpoint).play(
        "@0   < syn mss 1000
              > syn ack 1
         @100 < ack 1
         @110 < seq 1..1001 ack 1
         @120 < seq 1001..2001 ack 1
              > ack 2001
         @130 < seq 2001..3001 ack 1
         @330 > ack 3001",
    );
}

#[test]
fn quick_acks_at_the_start() {
    let config =
        Config { quick_acks: true, receive_buffer: ReceiveBuffer::Exact(Bytes::new(6000)), ..plain() };
    Diagram::server(&config, |endpoint| endpoint).play(
        "@0   < syn mss 1000
              > syn ack 1
         @100 < ack 1
         @110 < seq 1..1001 ack 1
              > ack 1001
         @111 < seq 1001..2001 ack 1
              > ack 2001
         @112 < seq 2001..3001 ack 1
              > ack 3001
         @113 < seq 3001..4001 ack 1
         @114 < seq 4001..5001 ack 1
              > ack 5001",
    );
}

#[test]
fn out_of_order_data_is_sacked_latest_first() {
    Diagram::server(&Config { sack: true, dsack: true, ..plain() }, |endpoint| endpoint).play(
        "@0   < syn mss 1000 sack-ok
              > syn ack 1 sack-ok
         @100 < ack 1
         @110 < seq 1001..2001 ack 1
              > ack 1 sack 1001-2001
         @120 < seq 3001..4001 ack 1
              > ack 1 sack 3001-4001,1001-2001
         @130 < seq 5001..6001 ack 1
              > ack 1 sack 5001-6001,3001-4001,1001-2001
         @140 < seq 2001..3001 ack 1
              > ack 1 sack 1001-4001,5001-6001
         @150 < seq 2001..3001 ack 1   # twice: RFC 2883
              > ack 1 sack 2001-3001,1001-4001,5001-6001
         @160 < seq 1..1001 ack 1
              > ack 4001 sack 5001-6001
         @170 < seq 4001..5001 ack 1
              > ack 6001",
    );
}

/// RFC 7323 5: a segment with an old timestamp is acknowledged and dropped.
#[test]
fn paws_drops_old_segments() {
    let mut diagram =
        Diagram::server(&Config { timestamps: true, ack_every: 1, ..plain() }, |endpoint| endpoint);
    diagram.play(
        "@0   < syn mss 1000 ts 5000:0
              > syn ack 1 ts 0:5000
         @100 < ack 1 ts 5100:0
         @110 < seq 1..1001 ack 1 ts 5110:0
              > ack 1001 ts 110:5110
         @120 < seq 1001..2001 ack 1 ts 4000:0
              > ack 1001 ts 120:5110
         @130 < seq 1001..2001 ack 1 ts 5130:0
              > ack 2001 ts 130:5130",
    );
    assert_eq!(diagram.endpoint.bytes_delivered(), 2000);
}

/// RFC 6582 3.2: one loss. Each duplicate inflates the window; the full ACK ends recovery with ssthresh.
#[test]
fn new_reno_repairs_one_loss() {
    let mut diagram = ten_in_flight(Config { limited_transmit: false, ..plain() });
    diagram.play(
        "@200 < ack 1     # for 2
         @201 < ack 1     # for 3
         @202 < ack 1     # for 4: ssthresh 5, cwnd 5 + 3
              > seq 1..1001
         @203 < ack 1
         @204 < ack 1     # 5 + 5, flight 10
         @205 < ack 1     # 5 + 6
              > seq 10001..11001
         @206 < ack 1
              > seq 11001..12001
         @207 < ack 1
              > seq 12001..13001
         @208 < ack 1     # for 10
              > seq 13001..14001
         @300 < ack 10001 # all that was sent before: cwnd 5, flight 4
              > seq 14001..15001",
    );
}

/// RFC 6582 3.2 step 3: three losses, one repaired in each round trip.
#[test]
fn new_reno_repairs_a_hole_for_each_partial_ack() {
    let mut diagram = ten_in_flight(Config { limited_transmit: false, ..plain() });
    diagram.play(
        "@200 < ack 1
         @201 < ack 1
         @202 < ack 1
              > seq 1..1001
         @203 < ack 1
         @204 < ack 1
         @205 < ack 1
              > seq 10001..11001
         @300 < ack 3001  # of 5 + 6, deflate by 3, inflate by 1: 9 for 8 in flight
              > seq 3001..4001
              > seq 11001..12001
         @310 < ack 3001
              > seq 12001..13001
         @400 < ack 6001  # 8 for 7
              > seq 6001..7001
              > seq 13001..14001
         @500 < ack 11001 # recovery is over: 5 for 3
              > seq 14001..15001
              > seq 15001..16001",
    );
}

/// RFC 6582 4: the impatient variant lets the timer run from the first partial ACK on.
#[test]
fn impatient_and_slow_but_steady() {
    for (variant, partial_acks) in
        [("impatient", PartialAcks::Impatient), ("steady", PartialAcks::SlowButSteady)]
    {
        let mut diagram = ten_in_flight(Config { limited_transmit: false, partial_acks, ..plain() });
        diagram.play(
            "@200 < ack 1
             @201 < ack 1
             @202 < ack 1
                  > seq 1..1001
             @900 < ack 2001
                  > seq 2001..3001
             @1700 < ack 4001
                  > seq 4001..5001",
        );
        match variant {
            // 1 s from 900 and from 1700.
            "impatient" => diagram.play("@1900 > seq 4001..5001"),
            _ => diagram.play("@2700 > seq 4001..5001"),
        };
    }
}

/// RFC 3042: a new segment for each of the first two duplicates, which do not count for ssthresh.
#[test]
fn limited_transmit_and_reordering() {
    ten_in_flight(plain()).play(
        "@200 < ack 1
              > seq 10001..11001
         @201 < ack 1
              > seq 11001..12001
         @202 < ack 4001  # it was only late: slow start by one segment
              > seq 12001..13001
              > seq 13001..14001",
    );
}

/// RFC 6675: two losses repaired in one round trip.
#[test]
fn sack_repairs_two_losses_in_a_round_trip() {
    ten_in_flight(Config { limited_transmit: false, ..with_sack() }).play(
        "@200 < ack 1 sack 1001-2001
         @201 < ack 1 sack 1001-3001
         @202 < ack 1 sack 1001-4001          # the first is lost: ssthresh 5, pipe 6, and 1 with the repair
              > seq 1..1001
         @203 < ack 1 sack 5001-6001,1001-4001  # 5 is missing, but not lost yet
         @204 < ack 1 sack 5001-7001,1001-4001  # pipe 5
         @205 < ack 1 sack 5001-8001,1001-4001  # now 5 is lost
              > seq 4001..5001                # pipe 2 and the repairs
              > seq 10001..11001
         @206 < ack 1 sack 5001-9001,1001-4001
              > seq 11001..12001
         @300 < ack 4001 sack 5001-10001
              > seq 12001..13001
              > seq 13001..14001
         @305 < ack 10001                     # the end of recovery: pipe 4
              > seq 14001..15001",
    );
}

/// The repair is lost too: without more the timer finds out; as Linux does it, SACKs of later data do.
#[test]
fn a_lost_repair_waits_for_the_timer_or_for_sacks() {
    let start = "@200 < ack 1 sack 1001-2001
                 @201 < ack 1 sack 1001-3001
                 @202 < ack 1 sack 1001-4001
                      > seq 1..1001
                 @203 < ack 1 sack 1001-5001
                 @204 < ack 1 sack 1001-6001
                 @205 < ack 1 sack 1001-7001
                      > seq 10001..11001
                 @206 < ack 1 sack 1001-8001
                      > seq 11001..12001
                 @207 < ack 1 sack 1001-9001
                      > seq 12001..13001
                 @208 < ack 1 sack 1001-10001
                      > seq 13001..14001
                 @305 < ack 1 sack 1001-11001
                      > seq 14001..15001
                 @306 < ack 1 sack 1001-12001
                      > seq 15001..16001";
    let config = Config { limited_transmit: false, ..with_sack() };
    ten_in_flight(config.clone()).play(start).play(
        "@307 < ack 1 sack 1001-13001
              > seq 16001..17001
         @1202 > seq 1..1001",
    );
    ten_in_flight(Config { detect_lost_retransmissions: true, ..config }).play(start).play(
        "@307 < ack 1 sack 1001-13001
              > seq 1..1001",
    );
}

/// RFC 2018 8: what was SACKed is gone; the timer notices, and sends everything again.
#[test]
fn reneging_is_survived() {
    ten_in_flight(Config { limited_transmit: false, ..with_sack() }).play(
        "@200  < ack 1 sack 1001-2001
         @201  < ack 1 sack 1001-3001
         @202  < ack 1 sack 1001-4001
               > seq 1..1001
         @300  < ack 1001                     # 2 to 4 were thrown away
         @1300 > seq 1001..2001
         @1400 < ack 2001
               > seq 2001..3001
               > seq 3001..4001",
    );
}

/// RFC 6298 5: the timer doubles; everything outstanding is sent again in slow start.
#[test]
fn a_timeout_backs_off_and_starts_slowly() {
    ten_in_flight(plain()).play(
        "@1100 > seq 1..1001
         @3100 > seq 1..1001
         @7100 > seq 1..1001
         @7200 < ack 1001
               > seq 1001..2001
               > seq 2001..3001",
    );
}

/// RFC 5682: the ACKs were only late; after two of them the window is as before.
#[test]
fn frto_finds_a_spurious_timeout() {
    let mut diagram = ten_in_flight(Config { frto: true, ..plain() });
    diagram.play(
        "@1100 > seq 1..1001
         @1150 < ack 1001          # of the original
               > seq 10001..11001  # not what is outstanding, but something new
               > seq 11001..12001
         @1151 < ack 2001          # of the original too
               > seq 12001..13001",
    );
    assert_eq!(diagram.endpoint.bytes_acked(), 2000);
}

/// RFC 5682 step 3a: a duplicate says that something is missing, so slow start goes on.
#[test]
fn frto_finds_a_genuine_timeout() {
    ten_in_flight(Config { frto: true, ..plain() }).play(
        "@1100 > seq 1..1001
         @1200 < ack 1001
               > seq 10001..11001
               > seq 11001..12001
         @1300 < ack 1001
         @1301 < ack 3001
               > seq 3001..4001",
    );
}

/// RFC 3522: the ACK echoes the timestamp of the original.
#[test]
fn eifel_undoes_a_spurious_timeout() {
    let config =
        Config { eifel: true, timestamps: true, mss: Bytes::new(1012), initial_window: 4, ..plain() };
    Diagram::client(&config, sends(100)).play(
        "@0    > syn
         @100  < syn ack 1 mss 1012 ts 7:0
               > seq 1..1001 ts 100:7
               > seq 1001..2001 ts 100:7
               > seq 2001..3001 ts 100:7
               > seq 3001..4001 ts 100:7
         @1100 > seq 1..1001 ts 1100:7
         @1200 < ack 1001 ts 8:100
               > seq 4001..5001",
    );
}

/// RFC 3522 3.2 judges the original against its first repeat. Data that was repeated in an earlier recovery has two repeats: the
/// ACK of the first is older than the second.
#[test]
fn eifel_does_not_judge_data_repeated_before() {
    let config = Config {
        eifel: true,
        sack: true,
        timestamps: true,
        mss: Bytes::new(1012),
        initial_window: 10,
        ..plain()
    };
    let mut diagram = Diagram::client(&config, sends(1000));
    diagram.play("@0 > syn").play("@100 < syn ack 1 mss 1012 sack-ok ts 7:0");
    for segment in 0..10 {
        diagram.play(&format!("> seq {}..{}", 1 + segment * 1000, 1001 + segment * 1000));
    }
    diagram.play(
        "@200 < ack 1 sack 1001-2001 ts 8:100
              > seq 10001..11001
         @201 < ack 1 sack 1001-3001 ts 9:100
              > seq 11001..12001
         @202 < ack 1 sack 4001-5001,1001-3001 ts 10:100
              > seq 1..1001 ts 202:10
         @203 < ack 1 sack 4001-7001,1001-3001 ts 11:100
         @204 < ack 1 sack 4001-8001,1001-3001 ts 12:100
         @205 < ack 1 sack 4001-9001,1001-3001 ts 13:100
              > seq 3001..4001 ts 205:13
         @210 < ack 3001 sack 4001-9001 ts 14:100       # the original of 1 was late: undone, a repeat in flight
              > seq 12001..13001
              > seq 13001..14001
              > seq 14001..15001
              > seq 15001..16001
              > seq 16001..17001
              > seq 17001..18001
         @211 < ack 3001 sack 4001-10001 ts 15:100
              > seq 3001..4001 ts 211:15
         @212 < ack 10001 ts 16:205                     # answers the first repeat: no reason to undo
         @300 -",
    );
}

/// RFC 9293 3.8.6.1: a closed window is probed, ever more rarely, until it opens.
#[test]
fn a_closed_window_is_probed() {
    Diagram::client(&plain(), sends(10)).play(
        "@0    > syn
         @100  < syn ack 1 mss 1000 win 2000
               > seq 1..1001
               > seq 1001..2001
         @200  < ack 2001 win 0
         @1200 > seq 2001..2002
         @1300 < ack 2001 win 0
         @3200 > seq 2001..2002
         @3300 < ack 2001 win 0
         @7200 > seq 2001..2002
         @7300 < ack 2002 win 3000   # the byte was taken
               > seq 2002..3002
               > seq 3002..4002
               > seq 4002..5002",
    );
}

/// RFC 9293 3.8.6: a window that shrinks stops new data, and what is outside comes by the timer.
#[test]
fn a_shrunken_window_is_heeded() {
    ten_in_flight(plain()).play(
        "@200  < ack 2001 win 3000   # to 5001; 5 to 10 are beyond
         @300  < ack 5001 win 0      # and those were thrown away
         @1300 > seq 5001..6001
         @1400 < ack 5001 win 2000
         @3300 > seq 5001..6001
         @3400 < ack 6001 win 2000
               > seq 6001..7001
               > seq 7001..8001",
    );
}

#[test]
fn a_slow_reader_closes_and_opens_its_window() {
    let config = Config { receive_buffer: ReceiveBuffer::Exact(Bytes::new(4000)), ack_every: 1, ..plain() };
    let sink = Sink::Paced(Rate::from_bps(8000));
    Diagram::server(&config, |endpoint| endpoint.with_sink(sink)).play(
        "@0    < syn mss 1000
               > syn ack 1 win 4000
         @100  < ack 1
         @100  < seq 1..1001 ack 1
               > ack 1001 win 3000
         @100  < seq 1001..2001 ack 1
               > ack 2001 win 2000
         @100  < seq 2001..3001 ack 1
               > ack 3001 win 1000
         @100  < seq 3001..4001 ack 1
               > ack 4001 win 0
         @1100 > ack 4001 win 1000",
    );
}

/// RFC 3168: an echo halves the window once in a round trip and is answered by CWR; the receiver echoes until then.
#[test]
fn ecn_halves_the_window_once() {
    let config = Config { ecn: true, initial_window: 4, ..plain() };
    Diagram::client(&config, sends(100)).play(
        "@0   > syn ece cwr
         @100 < syn ece ack 1 mss 1000
              > seq 1..1001 ect
              > seq 1001..2001 ect
              > seq 2001..3001 ect
              > seq 3001..4001 ect
         @200 < ece ack 1001            # cwnd 2, flight 3
         @201 < ece ack 2001            # flight 2: no second reduction
         @202 < ece ack 3001
              > seq 4001..5001 cwr ect
         @203 < ack 4001                # the round trip is over
              > seq 5001..6001 ect",
    );
    Diagram::server(&Config { ack_every: 1, ..config }, |endpoint| endpoint).play(
        "@0   < syn ece cwr mss 1000
              > syn ece ack 1
         @100 < ack 1
         @110 < seq 1..1001 ack 1 ce
              > ack 1001 ece
         @120 < seq 1001..2001 ack 1
              > ack 2001 ece
         @130 < seq 2001..3001 ack 1 cwr
              > ack 3001",
    );
}

/// RFC 3168 6.1.2: the echo on the ACK that reaches the end of the reduced round trip is of a mark that was answered. Data after
/// it answers the next.
#[test]
fn ecn_echoes_of_one_mark_reduce_once() {
    let config = Config { ecn: true, initial_window: 10, ..plain() };
    let mut diagram = Diagram::client(&config, sends(1000));
    diagram.play("@0 > syn ece cwr").play("@100 < syn ece ack 1 mss 1000");
    for segment in 0..10 {
        diagram.play(&format!("> seq {}..{} ect", 1 + segment * 1000, 1001 + segment * 1000));
    }
    diagram.play(
        "@200 < ece ack 1001           # cwnd 4.5, flight 9
         @201 < ece ack 6001           # flight 4
         @202 < ece ack 7001           # flight 3
              > seq 10001..11001 cwr ect
         @203 < ece ack 10001          # the end of what was in flight: flight 1
              > seq 11001..12001 ect
              > seq 12001..13001 ect
              > seq 13001..14001 ect
         @300 < ece ack 11001          # a mark after the reduction: cwnd 2, flight 3
         @301 < ack 13001              # flight 1
              > seq 14001..15001 cwr ect",
    );
}

#[test]
fn nagle_waits_for_the_ack() {
    let paced = bentpipe_transport::tcp::Paced {
        rate: Rate::from_bps(80_000),
        write: Bytes::new(100),
        duration: None,
    };
    let source = Source::Paced(paced);
    for nagle in [true, false] {
        let mut diagram =
            Diagram::client(&Config { nagle, ..plain() }, |endpoint| endpoint.with_source(source));
        diagram.play(
            "@0   > syn
             @5   < syn ack 1 mss 1000
                  > ack 1
             @10  > seq 1..101",
        );
        match nagle {
            true => diagram.play("@35 < ack 101").play("> seq 101..301"),
            false => diagram.play("@20 > seq 101..201").play("@30 > seq 201..301"),
        };
    }
}

#[test]
fn a_silent_peer_ends_the_connection() {
    let mut diagram = ten_in_flight(Config { retries: 2, ..plain() });
    diagram.play("@1100 > seq 1..1001").play("@3100 > seq 1..1001").play("@100000 -");
    assert_eq!(diagram.endpoint.failure(), Some(Failure::RetriesExhausted));
    assert!(
        diagram
            .endpoint
            .finished_at()
            .is_some_and(|at| at.since(bentpipe_units::Time::ZERO) == Span::from_millis(7100))
    );
}
