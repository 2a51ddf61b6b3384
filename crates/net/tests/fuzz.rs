//! Replays the fuzz targets' corpora, and a bounded number of mutations of them.

#[path = "../../../fuzz/src/net.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate, where it is reachable")]
mod targets;

use std::path::Path;
use std::sync::Arc;

use bentpipe_net::dama::{self, Contract, ControlCentre, Encapsulation, Frame, Terminal, TerminalConfig};
use bentpipe_net::{Body, Cx, Element, Outbox, Packet, Port, Wire};
use bentpipe_units::{Rate, Span, Stream, Time};
use targets::{TARGETS, fuzz_burst, fuzz_dvb, fuzz_trace};

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let entries = std::fs::read_dir(folder).expect("the corpus").map(|entry| entry.expect("readable").path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

#[test]
fn traces_and_their_mutations_pass() {
    let corpus = corpus("trace");
    assert!(corpus.len() >= 5);
    let mut rng = Stream::new(7, "fuzz");
    for _ in 0..20_000 {
        let mut input = corpus[below(&mut rng, corpus.len())].clone();
        fuzz_trace(&input);
        for _ in 0..1 + below(&mut rng, 4) {
            let at = below(&mut rng, input.len() + 1);
            match below(&mut rng, 3) {
                0 => input.insert(at, b"01#\n\r 2\xff"[below(&mut rng, 8)]),
                1 => input.truncate(at),
                _ => {
                    input.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << below(&mut rng, 8));
                }
            }
        }
        fuzz_trace(&input);
    }
}

#[test]
fn dvb_streams_and_their_mutations_pass() {
    let corpus = corpus("dvb");
    assert!(corpus.len() >= 6);
    let mut rng = Stream::new(7, "fuzz-dvb");
    for _ in 0..20_000 {
        let mut input = corpus[below(&mut rng, corpus.len())].clone();
        fuzz_dvb(&input);
        for _ in 0..1 + below(&mut rng, 6) {
            let at = below(&mut rng, input.len());
            match below(&mut rng, 8) {
                0 => input.truncate(at.max(2)),
                1 => input[0] = below(&mut rng, 64) as u8,
                _ => input[at] ^= 1 << below(&mut rng, 8),
            }
        }
        fuzz_dvb(&input);
    }
}

#[test]
fn bursts_and_their_mutations_pass() {
    let corpus = corpus("burst");
    assert!(corpus.len() >= 5);
    let mut rng = Stream::new(7, "fuzz-burst");
    for input in &corpus {
        fuzz_burst(input);
    }
    for _ in 0..10_000 {
        let mut input = corpus[below(&mut rng, corpus.len())].clone();
        for _ in 0..1 + below(&mut rng, 8) {
            let at = below(&mut rng, input.len());
            match below(&mut rng, 10) {
                0 => input.truncate(at.max(1)),
                1 => input[0] = below(&mut rng, 256) as u8,
                2..5 => input[at % 64] ^= 1 << below(&mut rng, 8),
                _ => input[at] ^= 1 << below(&mut rng, 8),
            }
        }
        fuzz_burst(&input);
    }
}

#[test]
fn attacks_on_ends_and_nodes_pass() {
    for name in ["tcp_end", "tfrc", "node"] {
        let target = TARGETS.iter().find(|target| target.0 == name).expect("a target").1;
        let corpus = corpus(name);
        assert!(corpus.len() >= 6);
        corpus.iter().for_each(|input| target(input));
        let mut rng = Stream::new(7, "fuzz-ends");
        for _ in 0..1000 {
            let mut input = corpus[below(&mut rng, corpus.len())].clone();
            for _ in 0..1 + below(&mut rng, 6) {
                let at = below(&mut rng, input.len());
                match below(&mut rng, 8) {
                    0 => input.truncate(at.max(2)),
                    1 => input[at] = below(&mut rng, 256) as u8,
                    _ => input[at] ^= 1 << below(&mut rng, 8),
                }
            }
            target(&input);
        }
    }
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
    let (mut outbox, mut stream) = (Outbox::default(), Stream::new(7, "bursts"));
    let mut cx = Cx::new(now, &wires, &mut outbox, &mut stream);
    match packet {
        Some((port, packet)) => element.receive(Port(port), packet, &mut cx),
        None => element.wake(&mut cx),
    };
    std::iter::from_fn(|| outbox.pop()).map(|(wire, packet)| (wire.to(), packet)).collect()
}

fn below(rng: &mut Stream, bound: usize) -> usize {
    ((rng.unit() * bound as f64) as usize).min(bound.saturating_sub(1))
}
