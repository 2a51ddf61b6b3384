//! Replays the fuzz targets' corpora, and a bounded number of mutations of them.

#[path = "../../../../fuzz/src/replay.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared between test files")]
mod replay;
#[path = "../../../../fuzz/src/dvb.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use std::path::Path;
use std::sync::Arc;

use bentpipe_dvb::dama::{self, Contract, ControlCentre, Encapsulation, Frame, Terminal, TerminalConfig};
use bentpipe_net::{Body, Cx, Element, Outbox, Packet, Port, Wire};
use bentpipe_units::{RandomStream, Rate, Span, Time};
use replay::{below, corpus, replay};
use targets::TARGETS;

/// Replays a target's corpus, of `least` inputs, with `count` mutations of 1 to `most` changes.
fn check(name: &str, least: usize, [count, most]: [usize; 2], change: fn(&mut Vec<u8>, &mut RandomStream)) {
    let target = TARGETS.iter().find(|target| target.0 == name).expect("a target");
    let inputs = corpus(env!("CARGO_MANIFEST_DIR"), name);
    assert!(inputs.len() >= least, "{name}: {} inputs", inputs.len());
    replay(*target, &inputs, (count, most), change);
}

#[test]
fn dvb_streams_and_their_mutations_pass() {
    check("stream", 6, [20_000, 6], |input, rng| {
        let at = below(rng, input.len());
        match below(rng, 8) {
            0 => input.truncate(at.max(2)),
            1 => input[0] = below(rng, 64) as u8,
            _ => input[at] ^= 1 << below(rng, 8),
        }
    });
}

#[test]
fn bursts_and_their_mutations_pass() {
    check("burst", 5, [10_000, 8], |input, rng| {
        let at = below(rng, input.len());
        match below(rng, 10) {
            0 => input.truncate(at.max(1)),
            1 => input[0] = below(rng, 256) as u8,
            2..5 => input[at % 64] ^= 1 << below(rng, 8),
            _ => input[at] ^= 1 << below(rng, 8),
        }
    });
}

#[test]
#[ignore = "writes the seeds into the source tree"]
fn write_bursts() {
    use Encapsulation::{Gse, Mpe, Rle, RleCrc, Ule};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/burst");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (n, encapsulation) in [Ule, Mpe, Gse, Rle, RleCrc].into_iter().enumerate() {
        let mut input = vec![n as u8];
        for burst in bursts(encapsulation) {
            let Body::Bytes(body) = burst.body() else { continue };
            input.push(burst.header().len() as u8);
            input.extend((body.len() as u16).to_le_bytes());
            input.extend(burst.header().iter().chain(body));
        }
        std::fs::write(folder.join(format!("{encapsulation:?}").to_lowercase()), input).expect("written");
    }
}

/// Bursts of a terminal that asks on them, and has more to send than one holds.
fn bursts(encapsulation: Encapsulation) -> Vec<Packet> {
    let config = dama::Config {
        encapsulation,
        requests: dama::Requests::Piggyback,
        cells: Some(2),
        ..dama::Config::default()
    };
    let frame = Arc::new(Frame::new(&config, 1).expect("possible"));
    let contract =
        Contract { cra: Rate::from_bps(100_000), rbdc: Some(Rate::from_bps(400_000)), ..Contract::default() };
    let mut centre = ControlCentre::new(&frame, &[contract]).expect("possible");
    let config = TerminalConfig { contract, ..TerminalConfig::default() };
    let mut terminal = Terminal::new(&config, &frame).expect("possible");
    for (_, plan) in call(&mut centre, Time::ZERO, None) {
        call(&mut terminal, Time::ZERO, Some((1, plan)));
    }
    for len in [40, 300, 20, 700, 60] {
        let bytes: Vec<u8> = (0..len).map(|n| if n == 0 { 0x45 } else { n as u8 }).collect();
        call(&mut terminal, Time::ZERO, Some((0, Packet::from_bytes(&bytes))));
    }
    call(&mut terminal, Time::ZERO + Span::from_secs(2), None).into_iter().map(|(_, burst)| burst).collect()
}

fn call(element: &mut dyn Element, now: Time, packet: Option<(u16, Packet)>) -> Vec<(u32, Packet)> {
    let wires = [Wire::new(0, Port(0))];
    let (mut outbox, mut stream) = (Outbox::default(), RandomStream::new(7, "bursts"));
    let mut cx = Cx::new(now, &wires, &mut outbox, &mut stream);
    match packet {
        Some((port, packet)) => element.receive(Port(port), packet, &mut cx),
        None => element.wake(&mut cx),
    };
    std::iter::from_fn(|| outbox.pop()).map(|(wire, packet)| (wire.to(), packet)).collect()
}
