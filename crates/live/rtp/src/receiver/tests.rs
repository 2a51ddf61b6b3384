use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::{Codec, Phases, Plan, Sender, Streams};

/// Sends a plan over loopback and receives it, until all came or nothing more does.
fn over_loopback(at: &str, plan: Plan, streams: Streams) -> Option<(Receiver, crate::Tally)> {
    let at: IpAddr = at.parse().expect("an address");
    let ports = if streams == Streams::ByPort { plan.streams() as u16 } else { 1 };
    // Tests run side by side: whichever ports are free.
    let mut free = (20_000..60_000).step_by(1000);
    let mut receiver = loop {
        match Receiver::listen((Some(at), free.next()?), ports, 1000, None) {
            Ok(receiver) => break receiver,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(_) => return None,
        }
    };
    let to = SocketAddr::from((at, receiver.ports().next()?));
    let sender = Sender::new(plan, (to, 0), streams, 5).expect("a socket");
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let tally = std::thread::scope(|scope| {
        let sending = scope.spawn(|| sender.run(&stop, &sent));
        let started = Instant::now();
        let watch = &mut |reception: &Reception| match reception.packets() == plan.packets() {
            false if started.elapsed() < Duration::from_secs(20) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        };
        receiver.run(&stop, watch).expect("it waits");
        sending.join().expect("it sends")
    });
    Some((receiver, tally))
}

fn check(plan: Plan, streams: Streams) {
    for at in ["127.0.0.1", "::1"] {
        // A machine without IPv6 has no ::1.
        let Some((receiver, tally)) = over_loopback(at, plan, streams) else { continue };
        let (reception, payload) = (receiver.reception(), plan.format().payload_len as u64);
        let overall = reception.overall();
        assert!(tally.is_whole && tally.refused == 0, "{tally:?}");
        assert_eq!((tally.packets, tally.lateness.count()), (plan.packets(), plan.packets()));
        assert_eq!((overall.streams, overall.packets), (plan.streams().into(), plan.packets()));
        assert_eq!((overall.lost, overall.duplicates, overall.reordered), (0, 0, 0));
        assert_eq!((overall.bytes, tally.bytes), (plan.packets() * (12 + payload), overall.bytes));
        let each = plan.packets() / u64::from(plan.streams());
        for (_, figures) in reception.streams() {
            assert_eq!((figures.packets, figures.markers, figures.strays()), (each, 1, 0));
        }
        // The first and the last packet may each be late; what is between does not add up.
        let mean = overall.mean_interval_ns.expect("packets");
        let slack = 2.0 * tally.lateness.max().as_nanos() as f64 / (each - 1) as f64 + 0.02e6;
        assert!((mean - plan.format().interval.as_nanos() as f64).abs() < slack, "{mean} ns");
        assert!(overall.delay_ns.expect("marks").min > 0.0);
        assert_eq!((receiver.overflows(), receiver.errors()), (0, 0));
    }
}

#[test]
fn gsm_streams_arrive_as_they_were_sent() {
    let gsm = Codec::Gsm.format(None, None).expect("a format");
    check(Plan::new(gsm, 31, Phases::Staggered, 25).expect("a plan"), Streams::BySsrc);
}

#[test]
fn aligned_streams_arrive_at_their_ports() {
    let g711 = Codec::Pcmu.format(None, None).expect("a format");
    check(Plan::new(g711, 100, Phases::Aligned, 10).expect("a plan"), Streams::ByPort);
}

#[test]
fn a_port_that_is_taken_or_none_is_said() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let at = Some(Ipv4Addr::LOCALHOST.into());
    let error = Receiver::listen((at, port), 1, 10, None).err().expect("it is taken").to_string();
    assert!(error.starts_with(&format!("port {port}: ")), "{error}");
    assert!(Receiver::listen((at, 65_535), 2, 10, None).is_err());
}

#[test]
fn a_stop_ends_sending_and_says_so() {
    let gsm = Codec::Gsm.format(None, None).expect("a format");
    let plan = Plan::new(gsm, 1, Phases::Staggered, 1000).expect("a plan");
    let sender = Sender::new(plan, ("127.0.0.1:9".parse().expect("an address"), 0), Streams::BySsrc, 1);
    let tally = sender.expect("a socket").run(&AtomicBool::new(true), &AtomicU64::new(0));
    assert!(!tally.is_whole && tally.packets == 0);
}
