use std::collections::{HashMap, VecDeque};

use bentpipe_units::{Bytes, RandomStream, Span, Time};
use proptest::prelude::*;

use super::*;

const RTT: Span = Span::from_millis(100);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// RFC 4828, table 1: packet drop rate, and kilobytes a second with 14, 536 and 1460 bytes of data and 40 of header.
const STANDARD: [(f64, [f64; 3]); 13] = [
    (0.00001, [209.25, 2232.00, 5812.49]),
    (0.00003, [120.79, 1288.41, 3355.24]),
    (0.00010, [66.12, 705.25, 1836.58]),
    (0.00030, [38.10, 406.44, 1058.45]),
    (0.00100, [20.74, 221.23, 576.12]),
    (0.00300, [11.76, 125.49, 326.79]),
    (0.01000, [6.07, 64.75, 168.61]),
    (0.03000, [2.99, 31.90, 83.07]),
    (0.10000, [0.96, 10.21, 26.58]),
    (0.20000, [0.29, 3.09, 8.06]),
    (0.30000, [0.11, 1.12, 2.93]),
    (0.40000, [0.05, 0.48, 1.26]),
    (0.50000, [0.02, 0.24, 0.63]),
];

#[test]
fn the_equation_gives_the_table_of_rfc_4828() {
    for (p, published) in STANDARD {
        for (segment, published) in [54.0, 576.0, 1500.0].into_iter().zip(published) {
            let ours = rate(segment, RTT, p) / 1000.0;
            let tolerance = published * 1e-3 + 0.005;
            assert!((ours - published).abs() <= tolerance, "p {p}, {segment} B: {ours}, not {published}");
        }
    }
}

#[test]
fn the_inverse_gives_the_rate_back() {
    for p in [1e-8, 1e-5, 1e-3, 0.03, 0.4, 1.0] {
        let back = loss_event_rate(1460.0, RTT, rate(1460.0, RTT, p));
        assert!((back / p - 1.0).abs() < 1e-6, "{back} for {p}");
    }
    assert_eq!(loss_event_rate(1460.0, RTT, 0.0), 1.0);
}

/// A history that has seen packets `sequence`, `gap_ms` apart, but for those that `is_lost`; and how many events it told.
fn history(params: Params, count: u64, gap_ms: u64, is_lost: impl Fn(u64) -> bool) -> (LossHistory, u32) {
    let mut history = LossHistory::new(params);
    let mut events = 0;
    for sequence in (0..count).filter(|sequence| !is_lost(*sequence)) {
        let arrival = Arrival { now: at(sequence * gap_ms), sequence, quarters: 0, is_marked: false };
        events += u32::from(history.arrive(&arrival, LossEventRule::Rtt(RTT), || 100.0));
    }
    (history, events)
}

fn p(history: &LossHistory) -> f64 {
    history.loss_event_rate(at(1_000_000), LossEventRule::Rtt(RTT))
}

#[test]
fn even_losses_give_their_rate() {
    for n in [20, 50, 300] {
        let (history, events) = history(Params::default(), n * 30 + 4, 10, |s| s % n == n - 1);
        assert_eq!(events, 30);
        assert!((p(&history) * n as f64 - 1.0).abs() < 1e-9, "{}", p(&history));
    }
}

#[test]
fn losses_within_a_round_trip_are_one_event() {
    // Three of twenty, 10 ms apart: within 100 ms. The same 60 ms apart: three events of their own.
    let is_lost = |s: u64| matches!(s % 40, 10 | 13 | 17);
    assert_eq!(history(Params::default(), 400, 10, is_lost).1, 10);
    assert_eq!(history(Params::default(), 400, 60, is_lost).1, 30);
    // A gap that lasts for three round trips is three events: at its start and each 11 packets later.
    let (history, events) = history(Params::default(), 100, 10, |s| (30..63).contains(&s));
    assert_eq!(events, 1, "they come to light together");
    assert_eq!(history.lengths(), [11.0, 11.0, 100.0]);
}

#[test]
fn packets_out_of_order_are_not_lost() {
    let mut history = LossHistory::new(Params::default());
    for (i, sequence) in [0, 1, 4, 2, 3, 7, 8, 5, 6, 9, 10].into_iter().enumerate() {
        let arrival = Arrival { now: at(i as u64 * 10), sequence, quarters: 0, is_marked: false };
        assert!(!history.arrive(&arrival, LossEventRule::Rtt(RTT), || 100.0), "at {sequence}");
    }
    assert!(history.is_empty());
}

#[test]
fn a_mark_counts_at_once_and_what_is_missing_before_it_begins_the_event() {
    let mut history = LossHistory::new(Params::default());
    let mut arrive = |now, sequence, is_marked| {
        history.arrive(
            &Arrival { now: at(now), sequence, quarters: 0, is_marked },
            LossEventRule::Rtt(RTT),
            || 50.0,
        )
    };
    assert!(!arrive(0, 0, false));
    assert!(!arrive(20, 2, false));
    assert!(arrive(30, 3, true));
    assert_eq!(history.first_of_open(), Some(1));
}

#[test]
fn the_window_counter_tells_events_apart() {
    let events = |quarters: [u64; 3]| {
        let mut history = LossHistory::new(Params::default());
        // Lost are 2 and 6; the packets before them, 1 and 5, have the first two counter values.
        let counters =
            [(1, quarters[0]), (3, quarters[0]), (4, quarters[0]), (5, quarters[1]), (7, quarters[2])];
        let rest = [(8, quarters[2]), (9, quarters[2])];
        let told = counters.into_iter().chain(rest).filter(|&(sequence, quarters)| {
            let arrival = Arrival { now: at(sequence), sequence, quarters, is_marked: false };
            history.arrive(&arrival, LossEventRule::Counter, || 50.0)
        });
        told.count()
    };
    assert_eq!(events([3, 7, 8]), 1);
    assert_eq!(events([3, 8, 9]), 2);
}

#[test]
fn a_long_interval_lowers_the_rate_and_discounts_the_past() {
    let lossy = |count: u64, discounting| {
        let params = Params { discounting, ..Params::default() };
        p(&history(params, count, 20, |s| s < 400 && s % 20 == 19).0)
    };
    // Just after the last loss: the past alone, 1/20.
    assert!((lossy(404, false) - 0.05).abs() < 1e-9);
    // 600 packets on: I_0 = 601 from packet 399 at weight 1, seven of 20 at weights 1 1 1 .8 .6 .4 .2 (RFC 5348, 5.4).
    let plain = (1.0 + 5.0) / (601.0 + 5.0 * 20.0);
    assert!((lossy(1000, false) - plain).abs() < 1e-9, "{}", lossy(1000, false));
    // With discounting their weight is a quarter: 601 is more than eight times 20.
    let discounted = (1.0 + 5.0 * 0.25) / (601.0 + 5.0 * 20.0 * 0.25);
    assert!((lossy(1000, true) - discounted).abs() < 1e-9, "{}", lossy(1000, true));
}

#[test]
fn short_intervals_of_small_packets_count_every_loss() {
    let small = Params { small_packets: true, discounting: false, ..Params::default() };
    // Five of ten packets are lost in 100 ms, over and over, at 10 ms a packet: an event each 110 ms.
    let is_lost = |s: u64| s % 10 < 5;
    let at_end =
        |params| history(params, 3000, 10, is_lost).0.loss_event_rate(at(29_990), LossEventRule::Rtt(RTT));
    let (standard, counted) = (at_end(Params { small_packets: false, ..small }), at_end(small));
    assert!((0.05..0.1001).contains(&standard), "{standard}");
    assert!((0.4..=0.6).contains(&counted), "{counted}");
}

/// Both ends over a path without limits: its RTT is constant, and `is_lost` says which packets are lost. Gives the
/// sender's states, one for each report.
struct Loop {
    sender: Sender,
    receiver: Receiver,
    segment: Bytes,
    now: Time,
    next: u64,
    reports: VecDeque<(Time, Report)>,
    sent_at: HashMap<u64, Time>,
    arrivals: VecDeque<(Time, u64)>,
}

impl Loop {
    fn new(params: Params, segment: u64) -> Loop {
        let segment = Bytes::new(segment);
        Loop {
            sender: Sender::new(params, segment),
            receiver: Receiver::new(params, segment),
            segment,
            now: at(0),
            next: 0,
            reports: VecDeque::new(),
            sent_at: HashMap::new(),
            arrivals: VecDeque::new(),
        }
    }

    fn run(&mut self, until: Time, mut is_lost: impl FnMut(u64) -> bool) -> Vec<(Time, State)> {
        let (half, mut states) = (Span::from_millis(50), Vec::new());
        loop {
            let arrival = self.arrivals.front().map_or(Time::NEVER, |arrival| arrival.0);
            let report = self.reports.front().map_or(Time::NEVER, |report| report.0);
            let send = self.sender.send_at().max(self.now);
            let timers = self.sender.deadline().min(self.receiver.deadline());
            let next = arrival.min(report).min(send).min(timers);
            if next > until {
                return states;
            }
            self.now = next;
            if next == arrival {
                let (_, sequence) = self.arrivals.pop_front().expect("one");
                let data = Arrival { now: self.now, sequence, quarters: 0, is_marked: false };
                if self.receiver.on_data(&data, self.segment.get(), self.sender.rtt()) {
                    self.report(half);
                }
            } else if next == report {
                let (_, report) = self.reports.pop_front().expect("one");
                self.sender.on_feedback(&Feedback {
                    now: self.now,
                    sent: self.sent_at[&report.sequence],
                    delay: report.delay,
                    sequence: report.sequence,
                    receive_rate: report.receive_rate,
                    loss_event_rate: report.loss_event_rate,
                });
                states.push((self.now, self.sender.state()));
            } else if next == timers {
                self.sender.on_timer(self.now);
                if self.receiver.on_timer(self.now) {
                    self.report(half);
                }
            } else {
                self.sent_at.insert(self.next, self.now);
                self.sender.on_sent(self.now, self.next, true);
                if !is_lost(self.next) {
                    self.arrivals.push_back((self.now + half, self.next));
                }
                self.next += 1;
            }
        }
    }

    fn report(&mut self, half: Span) {
        let report = self.receiver.report(self.now).expect("data came");
        self.reports.push_back((self.now + half, report));
    }
}

#[test]
fn the_rate_follows_the_equation_at_a_fixed_loss_rate() {
    for loss in [0.003, 0.01, 0.05] {
        let mut stream = RandomStream::new(7, "tfrc");
        let mut path = Loop::new(Params::default(), 1460);
        path.run(at(30_000), |_| stream.chance(loss));
        let before = path.next;
        let states = path.run(at(630_000), |_| stream.chance(loss));
        let p = states.iter().map(|(_, state)| state.loss_event_rate).sum::<f64>() / states.len() as f64;
        let sent = (path.next - before) as f64 * 1460.0 / 600.0;
        let ratio = sent / rate(1460.0, RTT, p);
        // The mean of a convex function lies above its value at the mean.
        assert!((0.95..1.25).contains(&ratio), "loss {loss}: p {p}, {ratio} of the equation's rate");
    }
}

#[test]
fn slow_start_doubles_each_round_trip_from_the_initial_window() {
    let mut path = Loop::new(Params { damping: false, ..Params::default() }, 1460);
    let states = path.run(at(900), |_| false);
    // RFC 5348, section 4.2: min(4 * 1460, max(2 * 1460, 4380)) = 4380 bytes in the first measured round trip.
    assert_eq!(states[0].1.rate, 43_800.0);
    let rates: Vec<f64> = states.iter().map(|(_, state)| state.rate).collect();
    assert_eq!(rates[1..3], [2.0 * 43_800.0, 4.0 * 43_800.0]);
    // Then twice what was received decides, which was sent up to two round trips before.
    assert!(rates.windows(3).all(|three| (1.9..=4.0).contains(&(three[2] / three[0]))), "{rates:?}");
}

#[test]
fn rfc_3448_starts_with_a_packet_a_round_trip() {
    let params = Params { revision: Revision::Rfc3448, damping: false, ..Params::default() };
    let states = Loop::new(params, 1460).run(at(400), |_| false);
    assert_eq!(states[0].1.rate, 14_600.0);
}

#[test]
fn the_first_loss_halves_the_rate_of_slow_start() {
    let mut path = Loop::new(Params { damping: false, ..Params::default() }, 1460);
    let states = path.run(at(3_000), |sequence| sequence == 400);
    let top = states.iter().map(|(_, state)| state.rate).fold(0.0, f64::max);
    let after = states.iter().find(|(_, state)| state.loss_event_rate > 0.0).expect("a loss").1.rate;
    assert!((0.4..0.6).contains(&(after / top)), "{after} after {top}");
}

#[test]
fn small_packets_have_the_rates_of_rfc_4828() {
    // Table 2, rows where the equation decides: its segment counts 1500 bytes where section 3 says 1460 of data.
    for (p, published) in [(0.1, 26.58), (0.2, 8.06), (0.3, 2.93), (0.4, 1.26), (0.5, 0.63)] {
        let mut sender = Sender::new(Params { small_packets: true, ..Params::default() }, Bytes::new(536));
        sender.on_handshake(at(0), RTT);
        for n in 1..4 {
            sender.on_feedback(&Feedback {
                now: at(n * 100),
                sent: at(n * 100 - 100),
                delay: Span::ZERO,
                sequence: n,
                receive_rate: 1e9,
                loss_event_rate: p,
            });
        }
        let whole = sender.state().rate * 576.0 / 536.0 * 1500.0 / 1460.0 / 1000.0;
        assert!((whole - published).abs() < published * 1e-3 + 0.005, "p {p}: {whole}, not {published}");
    }
    let mut fast = Loop::new(Params { small_packets: true, ..Params::default() }, 100);
    fast.run(at(5_000), |_| false);
    let before = fast.next;
    fast.run(at(15_000), |_| false);
    assert_eq!(fast.next - before, 1000, "100 packets a second");
}

#[test]
fn without_reports_the_rate_is_halved_down_to_a_packet_in_64_seconds() {
    let mut sender = Sender::new(Params::default(), Bytes::new(1000));
    sender.on_sent(at(0), 0, true);
    let mut rates = Vec::new();
    for _ in 0..12 {
        let now = sender.deadline();
        sender.on_sent(now, 1, true);
        sender.on_timer(now);
        rates.push(sender.state().rate);
    }
    assert_eq!(rates[..3], [500.0, 250.0, 125.0]);
    assert_eq!(rates[11], 1000.0 / 64.0);
}

#[test]
fn an_approved_rate_is_used_until_it_is_validated_and_given_up_if_nothing_is_heard() {
    let settled = || {
        let mut path = Loop::new(Params { damping: false, ..Params::default() }, 1000);
        path.run(at(160), |_| false);
        path
    };
    let mut path = settled();
    let before = path.sender.state().rate;
    assert!(path.sender.on_quick_start(path.now, 128_000.0, Bytes::new(32)));
    assert!((path.sender.state().rate - 128_000.0 * 1000.0 / 1032.0).abs() < 1e-6);
    path.run(at(700), |_| false);
    assert!(path.sender.state().rate >= 124_000.0, "{}", path.sender.state().rate);
    assert!(!path.sender.on_quick_start(path.now, 1000.0, Bytes::new(32)), "no more than the present rate");

    let mut silent = settled();
    silent.sender.on_quick_start(silent.now, 128_000.0, Bytes::new(32));
    silent.reports.clear();
    let states = silent.run(at(470), |_| true);
    assert!(states.is_empty() || states.iter().all(|(_, state)| state.rate > 0.0));
    assert_eq!(silent.sender.state().rate, before);
}

#[test]
fn a_duplicate_before_the_rtt_is_known_is_not_a_rate() {
    for revision in [Revision::Rfc5348, Revision::Rfc3448] {
        let mut receiver = Receiver::new(Params { revision, ..Params::default() }, Bytes::new(200));
        let arrive = |receiver: &mut Receiver, micros: u64, sequence, rtt| {
            let now = Time::ZERO + Span::from_micros(micros);
            let arrival = Arrival { now, sequence, quarters: 0, is_marked: false };
            assert!(receiver.on_data(&arrival, 200, rtt), "each is answered");
            receiver.report(now).expect("data came").receive_rate
        };
        assert_eq!(arrive(&mut receiver, 0, 0, None), 0.0, "RFC 5348, section 6.3");
        assert_eq!(arrive(&mut receiver, 160, 0, None), 0.0, "200 B in 160 us");
        // Over the last round trip, as section 6.2 has it.
        let rate = arrive(&mut receiver, 1_200_000, 1, Some(Span::from_millis(1200)));
        assert!((rate - 400.0 / 1.2).abs() < 1.0, "{rate}");
    }
}

#[test]
fn a_sender_without_data_is_not_held_to_what_was_received() {
    // Ten packets a second where four times that is allowed: RFC 5348 keeps the rate, RFC 3448 holds it to twice.
    let rate = |revision| {
        let params = Params { revision, damping: false, ..Params::default() };
        let mut sender = Sender::new(params, Bytes::new(1000));
        sender.on_handshake(at(0), RTT);
        let report = |n: u64, receive_rate| Feedback {
            now: at(n * 100 + 100),
            sent: at(n * 100),
            delay: Span::ZERO,
            sequence: n,
            receive_rate,
            loss_event_rate: 1e-4,
        };
        sender.on_feedback(&report(0, 40_000.0));
        (1..20).for_each(|n| sender.on_feedback(&report(n, 10_000.0)));
        sender.state().rate
    };
    // 0.85 of what was received when the loss came, and later twice that.
    assert_eq!(rate(Revision::Rfc5348), 2.0 * 0.85 * 40_000.0);
    assert_eq!(rate(Revision::Rfc3448), 2.0 * 10_000.0);
}

#[test]
fn the_mean_segment_sets_the_gaps_and_the_initial_rate() {
    let mut sender = Sender::new(Params { damping: false, ..Params::default() }, Bytes::new(1460));
    sender.on_handshake(at(0), RTT);
    assert_eq!(sender.state().rate, 4380.0 / RTT.as_secs_f64());
    // min(4 * 100, max(2 * 100, 4380)) = 400 bytes: four packets in a round trip.
    sender.set_segment(100.0);
    assert_eq!(sender.state().rate, 400.0 / RTT.as_secs_f64());
    sender.on_sent(at(0), 0, true);
    assert_eq!(sender.send_at(), at(0) + RTT / 4);
    // Later it does not change the rate, but the gaps.
    sender.set_segment(200.0);
    assert_eq!(sender.state().rate, 400.0 / RTT.as_secs_f64());
    assert_eq!(sender.send_at(), at(0) + RTT / 2);
}

#[test]
fn a_receiver_that_held_packets_for_ever_does_not_stop_time() {
    let mut sender = Sender::new(Params { damping: false, ..Params::default() }, Bytes::new(100));
    sender.on_sent(at(0), 0, true);
    for (n, loss_event_rate) in [(1, 0.0), (2, 0.0), (3, 1e-9)] {
        sender.on_feedback(&Feedback {
            now: at(n),
            sent: at(n - 1),
            delay: Span::from_secs(3600),
            sequence: n - 1,
            receive_rate: f64::from(u32::MAX),
            loss_event_rate,
        });
        // What was not used for an RTT may go at once: a microsecond of packets a nanosecond apart.
        let mut at_once = 0;
        while sender.send_at() <= at(n) && at_once < 2000 {
            sender.on_sent(at(n), n, true);
            at_once += 1;
        }
        assert!(at_once <= 1001, "{at_once} packets, {:?}", sender.state());
        assert!(sender.deadline() > at(n), "{:?}", sender.state());
    }
}

proptest! {
    #[test]
    fn any_arrivals_leave_a_rate_between_zero_and_one(
        arrivals in prop::collection::vec((0..1u64 << 48, 0..10_000_000_000u64, any::<bool>()), 1..60),
        rtt in 0..2_000_000_000u64,
        small_packets: bool,
        by_counter: bool,
    ) {
        let mut history = LossHistory::new(Params { small_packets, ..Params::default() });
        let by = if by_counter { LossEventRule::Counter } else { LossEventRule::Rtt(Span::from_nanos(rtt)) };
        let mut now = Time::ZERO;
        for (sequence, step, is_marked) in arrivals {
            now += Span::from_nanos(step);
            history.arrive(&Arrival { now, sequence, quarters: step % 100, is_marked }, by, || 10.0);
            let p = history.loss_event_rate(now, by);
            prop_assert!((0.0..=1.0).contains(&p), "{}", p);
        }
    }
}
