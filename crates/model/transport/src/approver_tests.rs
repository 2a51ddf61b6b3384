//! The Quick-Start approver of `net`, on the packets of transports.

use bentpipe_net::Packet;
use bentpipe_net::quick_start::{Approver, Config, announced};
use bentpipe_units::Rate;
use bentpipe_wire::quick_start::{Function, IpOption, RateCode, find};

use crate::datagram::Path;
use bentpipe_net::testing::{Harness, MS};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::quick_start::Response;

const REQUEST: IpOption =
    IpOption { function: Function::Request, rate: RateCode::from_bits(5), ttl: 200, nonce: 0x1234_5678 };

fn packet(version: u8, zeros: u32) -> Packet {
    let (local, remote) = match version {
        4 => ("10.0.0.1:1", "10.0.0.2:2"),
        _ => ("[fd00::1]:1", "[fd00::2]:2"),
    };
    let path = Path::new(local.parse().expect("one"), remote.parse().expect("one"), 0).expect("fine");
    path.packet(Protocol::UDP, Some(&REQUEST), &[0; 8], zeros)
}

fn rig(rate_bps: u64, is_router: bool) -> Harness<Approver> {
    let approver = Approver::new(&Config::default(), Rate::from_bps(rate_bps), is_router).expect("possible");
    Harness::new(approver)
}

fn answer(rig: &mut Harness<Approver>, at: u64, version: u8) -> IpOption {
    rig.receive(at, 0, packet(version, 0));
    find(rig.out.last().expect("one").2.header()).expect("an option").1
}

#[test]
fn a_free_link_approves_and_takes_a_hop() {
    for version in [4, 6] {
        let approved = answer(&mut rig(10_000_000, true), MS, version);
        assert_eq!(approved, IpOption { ttl: 199, ..REQUEST });
        assert!(Response::to(&approved, 63).is_consent(&REQUEST, 64));
        let at_home = answer(&mut rig(10_000_000, false), MS, version);
        assert!(Response::to(&at_home, 64).is_consent(&REQUEST, 64));
    }
}

#[test]
fn what_does_not_fit_is_lowered_or_refused() {
    // 0.9 of 1 Mbit/s has room for 640 kbit/s; the nonce still shows that the rate was lowered.
    let lowered = answer(&mut rig(1_000_000, true), MS, 4);
    assert_eq!(lowered.rate.bps(), 640_000);
    assert!(Response::to(&lowered, 63).is_consent(&REQUEST, 64));
    let refused = answer(&mut rig(80_000, true), MS, 4);
    assert_eq!((refused.rate, refused.ttl, refused.nonce), (RateCode::NONE, 0, 0));
}

#[test]
fn approvals_count_for_two_intervals_and_use_for_ten() {
    // 0.9 of 3 Mbit/s: two requests of 1.28 Mbit/s fit together, a third does not, and later one does again.
    let mut approvals = rig(3_000_000, true);
    let rates = [0, 0, 100, 310].map(|at| answer(&mut approvals, at * MS, 4).rate.bps());
    assert_eq!(rates, [1_280_000, 1_280_000, 80_000, 1_280_000]);
    // 30,000 bytes in 150 ms are 1.6 Mbit/s: 1.1 are left, for 1.5 s.
    let mut used = rig(3_000_000, true);
    used.receive(0, 0, packet(4, 30_000));
    let refused_before = used.value("refused");
    let at = |used: &mut Harness<Approver>, millis: u64| answer(used, millis * MS, 4).rate.bps();
    assert_eq!(refused_before, 0.0);
    assert_eq!(at(&mut used, 1_400), 640_000);
    assert_eq!(at(&mut used, 1_800), 1_280_000);
}

#[test]
fn what_is_left_of_a_request_and_what_a_report_says_is_announced() {
    let mut rig = rig(1_000_000, true);
    rig.receive(0, 0, packet(4, 0));
    assert_eq!(announced(&rig.out[0].2), Some(Rate::from_bps(640_000)));
    let path = Path::new("10.0.0.1:1".parse().expect("one"), "10.0.0.2:2".parse().expect("one"), 0);
    let path = path.expect("fine");
    let report = IpOption { function: Function::Report, rate: RateCode::NONE, ..REQUEST };
    assert_eq!(announced(&path.packet(Protocol::UDP, Some(&report), &[0; 8], 0)), Some(Rate::default()));
    assert_eq!(announced(&path.packet(Protocol::UDP, None, &[0; 8], 0)), None);
}

#[test]
fn other_packets_pass_unchanged() {
    let mut rig = rig(10_000_000, true);
    let path = Path::new("10.0.0.1:1".parse().expect("one"), "10.0.0.2:2".parse().expect("one"), 0);
    let plain = path.expect("fine").packet(Protocol::UDP, None, &[7; 8], 100);
    rig.receive(0, 0, plain.clone());
    assert_eq!(rig.out[0].2.to_vec(), plain.to_vec());
}
