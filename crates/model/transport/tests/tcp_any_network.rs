//! Whatever a network drops, doubles and reorders, all bytes arrive, in order, and both ends close.

use crate::tcp_path::{Chaos, Pair, addresses};
use bentpipe_transport::tcp::{Bulk, Config, Endpoint, PartialAcks, ReceiveBuffer, Sink, Source, State};
use bentpipe_units::{Bytes, Rate, Span};
use proptest::prelude::*;

fn switches() -> impl Strategy<Value = Config> {
    let recovery = (any::<[bool; 8]>(), 1u32..4, 1u32..11, prop_oneof![Just(536u64), Just(1460), Just(9140)]);
    let rest = (any::<[bool; 8]>(), 3_000u64..200_000, prop::option::of(1u32..20), any::<u32>());
    (recovery, rest).prop_map(|((a, ack_every, initial_window, mss), (b, buffer, max_burst, isn))| Config {
        mss: Bytes::new(mss),
        ack_every,
        initial_window,
        sack: a[0],
        timestamps: a[1],
        fack: a[2],
        prr: a[3],
        frto: a[4],
        eifel: a[5],
        limited_transmit: a[6],
        detect_lost_retransmissions: a[7],
        window_scaling: b[0],
        nagle: b[1],
        quick_acks: b[2],
        dsack: b[3],
        ecn: b[4],
        partial_acks: if b[5] { PartialAcks::Impatient } else { PartialAcks::SlowButSteady },
        send_buffer: Bytes::new(4 * buffer.max(mss)),
        receive_buffer: ReceiveBuffer::Exact(Bytes::new(buffer)),
        max_burst,
        initial_sequence: Some(isn),
        // The test is over delivery, not patience.
        retries: 100,
        syn_retries: 100,
        msl: Span::from_secs(1),
        ..Config::default()
    })
}

fn chaos() -> impl Strategy<Value = (f64, f64, f64, u64)> {
    (0.0..0.3f64, 0.0..0.3f64, 0.0..0.3f64, 0u64..500)
}

/// Transfers of the given sizes both ways; both ends must end in order.
fn transfer(
    seed: u64,
    configs: (Config, Config),
    ways: [(f64, f64, f64, u64); 2],
    sizes: (u64, u64),
    sink: Sink,
) -> Result<(), TestCaseError> {
    let (from, to) = addresses(seed % 2 == 1);
    let source = |size| Source::Bulk(Bulk { size: Some(Bytes::new(size)), duration: None });
    let client = Endpoint::active(configs.0, from, to).expect("a client").with_source(source(sizes.0));
    let server =
        Endpoint::passive(configs.1, to).expect("a server").with_source(source(sizes.1)).with_sink(sink);
    let chaos = ways.map(|(drop, double, hold, ms)| Chaos::new(drop, double, hold, Span::from_millis(ms)));
    let mut pair = Pair::in_chaos(seed, client, server, chaos);
    // A day of simulated time is more than the worst case takes.
    for _ in 0..8640 {
        let now = pair.network.now().as_secs_f64();
        pair.run(now + 10.0);
        let (client, server) = (pair.client, pair.server);
        let ended = |pair: &mut Pair, id| pair.endpoint(id).finished_at().is_some();
        if ended(&mut pair, client) && ended(&mut pair, server) {
            break;
        }
    }
    let (client, server) = (pair.client, pair.server);
    for (id, sent, received) in [(client, sizes.0, sizes.1), (server, sizes.1, sizes.0)] {
        let values = pair.values(id);
        let end = pair.endpoint(id);
        prop_assert_eq!(end.failure(), None);
        prop_assert_eq!(end.connection().state(), State::Closed, "{:?}", values);
        prop_assert_eq!(end.bytes_delivered(), received);
        // The last ACK may be lost, and the peer gone when the data is repeated.
        prop_assert!(end.bytes_acked() <= sent);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn all_bytes_arrive(
        seed in 0u64..1000,
        configs in (switches(), switches()),
        there in chaos(),
        back in chaos(),
        sizes in (1u64..300_000, 1u64..50_000),
        slow in prop::option::of(200_000u64..5_000_000),
    ) {
        let sink = slow.map_or(Sink::AtOnce, |bps| Sink::Paced(Rate::from_bps(bps)));
        transfer(seed, configs, [there, back], sizes, sink)?;
    }
}
