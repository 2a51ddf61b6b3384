//! Whatever a transport says, in whatever order: no panic, and the window within its bounds.

use bentpipe_cc::{
    Ack, Connection, ControllerConfig, Counting, Exit, Growth, Loss, NAMES, Sent, bbr, cubic, hybla, vegas,
    westwood,
};
use bentpipe_units::{Span, Time};
use proptest::num::f64::ANY as F64;
use proptest::prelude::*;

fn choices() -> impl Strategy<Value = ControllerConfig> {
    let named = (0..NAMES.len()).prop_map(|i| NAMES[i].0.parse().unwrap());
    let hybla = (F64, any::<u64>()).prop_map(|(max_exponent, rtt0)| {
        ControllerConfig::Hybla(hybla::Params {
            max_exponent,
            rtt0: Span::from_nanos(rtt0),
            scale_initial: true,
            slow_start_exit: Exit::Hoe,
            ..Default::default()
        })
    });
    let cubic = (F64, F64, 0..3).prop_map(|(c, beta, form)| {
        ControllerConfig::Cubic(cubic::Params {
            c,
            beta,
            form: [cubic::Form::Rfc8312, cubic::Form::Rfc9438, cubic::Form::Linux][form as usize],
            slow_start: Growth::Limited,
            slow_start_exit: Exit::Hystart,
            counting: Counting::Segments,
            ..Default::default()
        })
    });
    let others = prop_oneof![
        (F64, F64).prop_map(|(alpha, gamma)| {
            ControllerConfig::Vegas(vegas::Params {
                alpha,
                gamma,
                alternate_rounds: true,
                ..Default::default()
            })
        }),
        (F64, any::<u64>()).prop_map(|(pole, min_sample)| {
            let min_sample = Span::from_nanos(min_sample);
            let adoption = westwood::SsthreshUpdate::RecoveryEnd;
            ControllerConfig::Westwood(westwood::Params {
                pole,
                min_sample,
                adoption,
                forget_min_rtt: true,
                ..Default::default()
            })
        }),
        (F64, F64, F64).prop_map(|(startup_gain, window_gain, pacing_margin)| {
            let probe_rtt = Span::ZERO;
            ControllerConfig::Bbr(bbr::Params {
                startup_gain,
                window_gain,
                pacing_margin,
                probe_rtt,
                ..Default::default()
            })
        }),
    ];
    prop_oneof![3 => named, 1 => hybla, 1 => cubic, 1 => others]
}

/// Small numbers and all numbers.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..100_000, any::<u64>()]
}

fn maybe_span() -> impl Strategy<Value = Option<Span>> {
    proptest::option::of(prop_oneof![0_u64..2_000_000_000, any::<u64>()].prop_map(Span::from_nanos))
}

#[derive(Clone, Debug)]
enum Event {
    Sent(u64, u64),
    Ack([u64; 4], [Option<Span>; 3], bool, bool),
    Loss(u64),
    Recovered,
    Timeout(u64, bool),
    Spurious,
    Idle(u64),
    AppLimited(u64),
}

fn events() -> impl Strategy<Value = Event> {
    let ack = (
        any::<bool>(),
        any::<bool>(),
        [amount(), amount(), amount(), amount()],
        [maybe_span(), maybe_span(), maybe_span()],
    )
        .prop_map(|(limited, recovery, amounts, rtts)| Event::Ack(amounts, rtts, limited, recovery));
    prop_oneof![
        1 => (amount(), amount()).prop_map(|(bytes, flight)| Event::Sent(bytes, flight)),
        8 => ack,
        1 => amount().prop_map(Event::Loss),
        1 => Just(Event::Recovered),
        1 => (amount(), any::<bool>()).prop_map(|(flight, first)| Event::Timeout(flight, first)),
        1 => Just(Event::Spurious),
        1 => amount().prop_map(Event::Idle),
        1 => amount().prop_map(Event::AppLimited),
    ]
}

fn ack(
    now: Time,
    [acked, delivered, flight, pipe]: [u64; 4],
    [rtt, srtt, min_rtt]: [Option<Span>; 3],
    limited: bool,
    in_recovery: bool,
) -> Ack {
    Ack { now, acked, delivered, flight, pipe, rtt, srtt, min_rtt, cwnd_limited: limited, in_recovery }
}

proptest! {
    #[test]
    fn the_window_stays_within_its_bounds(
        choice in choices(),
        smss in prop_oneof![1_u32..10_000, any::<u32>()],
        initial_window_segments in any::<u32>(),
        initial_ssthresh in amount(),
        max_window in amount(),
        handshake in maybe_span(),
        script in proptest::collection::vec((amount(), events()), 0..60),
    ) {
        let connection = Connection { smss, initial_window_segments, initial_ssthresh, max_window };
        let (low, high) = (u64::from(smss.max(1)), max_window.max(u64::from(smss.max(1))));
        let mut cc = choice.build(&connection);
        let mut now = Time::ZERO;
        cc.on_established(now, handshake);
        for (later, event) in script {
            now += Span::from_nanos(later);
            match event {
                Event::Sent(bytes, flight) => cc.on_sent(&Sent { now, bytes, flight }),
                Event::Ack(amounts, rtts, limited, recovery) => cc.on_ack(&ack(now, amounts, rtts, limited, recovery)),
                Event::Loss(flight) => cc.on_loss(&Loss { now, flight, pipe: flight, min_rtt: None }),
                Event::Recovered => cc.on_recovered(&ack(now, [0; 4], [None; 3], false, true)),
                Event::Timeout(flight, first) => cc.on_timeout(&Loss { now, flight, pipe: flight, min_rtt: None }, first),
                Event::Spurious => cc.on_spurious(),
                Event::Idle(restart_window) => cc.on_idle(restart_window),
                Event::AppLimited(flight) => cc.on_app_limited(flight),
            }
            let window = cc.window();
            prop_assert!(window >= low, "{window} below {low}");
            // Above 2^53 a double's neighbour may be what the maximum rounds to.
            prop_assert!(window as f64 <= high as f64, "{window} above {high}");
            prop_assert_ne!(cc.pacing_rate().map(|rate| rate.as_bps()), Some(0));
            let _ = cc.state();
        }
    }
}
