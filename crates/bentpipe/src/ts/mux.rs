//! `bentpipe ts mux`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use bentpipe_units::Rate;
use bentpipe_wire::psi::{Pat, Pmt, Programme};
use bentpipe_wire::ts::{self, Multiplexer, PACKET_LEN, Packet, Pcr, Pid};
use clap::Args;

use super::files::{Sink, Stream, Unit, clock};
use super::percent;
use super::survey::{Role, Survey};
use crate::rohc::{Error, Verdict, is_interrupted};
use crate::show;

/// Bits of a TS packet.
const PACKET_BITS: u64 = PACKET_LEN as u64 * 8;
/// PIDs under this one are of tables that a multiplex has once.
const FIRST_FREE_PID: u16 = 0x20;
/// How many packets of an input without times are offered at once.
const OFFERED: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct MuxArgs {
    /// Streams to multiplex, bare or in captures, and last the file to write
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Rate of the multiplex, NULL packets included
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// How many packets of an input may wait; more are dropped
    #[arg(long, value_name = "PACKETS", default_value_t = 10_000)]
    queue: usize,
    /// How often the tables are sent, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    tables: u64,
}

/// An input: its packets, each with its time from the input's start, or none of them.
struct Input {
    packets: VecDeque<(Option<u64>, [u8; PACKET_LEN])>,
    number: usize,
}

/// Multiplexes files.
pub(super) fn run(args: &MuxArgs) -> Result<Verdict, Error> {
    let (output, inputs) = args.files.split_last().expect("two files at least");
    let rate = args.rate.as_bps();
    if rate == 0 {
        return Err(Error::Usage("--rate 0: a multiplex has a rate".into()));
    }
    let mut read: Vec<Read> = inputs.iter().map(|path| Read::new(path)).collect::<Result<_, _>>()?;
    keep_first_tables(&mut read);
    let mut multiplexer = Multiplexer::new().restamping(rate);
    tables(&mut multiplexer, &read, args.tables * rate / 1000 / PACKET_BITS)?;
    let mut inputs: Vec<Input> = read
        .into_iter()
        .map(|read| Input { packets: read.packets, number: multiplexer.add_input(args.queue) })
        .collect();
    let mut sink = Sink::create(output, &args.files[0])?;
    send(&mut multiplexer, &mut inputs, rate, &mut sink)?;
    sink.finish()?;
    Ok(say(&multiplexer, &inputs, &args.files))
}

/// Sends until nothing is left.
fn send(
    multiplexer: &mut Multiplexer,
    inputs: &mut [Input],
    rate: u64,
    sink: &mut Sink,
) -> Result<(), Error> {
    let is_left = |multiplexer: &Multiplexer, input: &Input| {
        !input.packets.is_empty() || multiplexer.waiting(input.number) > 0
    };
    while inputs.iter().any(|input| is_left(multiplexer, input)) && !is_interrupted() {
        let bits = u128::from(multiplexer.slots() * PACKET_BITS);
        let now = (bits * 1_000_000_000 / u128::from(rate)) as u64;
        inputs.iter_mut().for_each(|input| input.offer(multiplexer, now));
        let (_, packet) = multiplexer.tick();
        sink.write(now, &packet)?;
    }
    Ok(())
}

impl Input {
    /// Hands over what has come by now. The part of a slot that a packet waits until the multiplexer sees it, its clock
    /// reference is moved by at once.
    fn offer(&mut self, multiplexer: &mut Multiplexer, now: u64) {
        while let Some((time, packet)) = self.packets.front_mut() {
            match *time {
                Some(time) if time <= now => ts::restamp(packet, ticks(now - time)),
                None if multiplexer.waiting(self.number) < OFFERED => {}
                _ => break,
            }
            multiplexer.push(self.number, packet);
            self.packets.pop_front();
        }
    }
}

/// Nanoseconds in ticks of 27 MHz.
fn ticks(nanoseconds: u64) -> u64 {
    nanoseconds * 27 / 1000
}

fn say(multiplexer: &Multiplexer, inputs: &[Input], files: &[PathBuf]) -> Verdict {
    let mut dropped = 0;
    for (input, path) in inputs.iter().zip(files) {
        let counts = multiplexer.counts(input.number);
        dropped += counts.dropped;
        show::note(&format!("{}: {} packets sent, {} dropped", path.display(), counts.sent, counts.dropped));
    }
    let (slots, nulls) = (multiplexer.slots(), multiplexer.nulls());
    show::note(&format!("{slots} packets in all, {} of them NULL", percent(nulls, slots)));
    match dropped {
        _ if is_interrupted() => Verdict::Interrupted,
        0 => Verdict::Clean,
        _ => Verdict::Failed,
    }
}

/// A file that was read.
struct Read {
    path: PathBuf,
    packets: VecDeque<(Option<u64>, [u8; PACKET_LEN])>,
    pmts: BTreeMap<Pid, Pmt>,
    pids: BTreeSet<Pid>,
}

impl Read {
    fn new(path: &Path) -> Result<Read, Error> {
        let (mut survey, mut packets) = (Survey::new(), VecDeque::new());
        Stream::read(path)?.for_each(|time, unit| {
            survey.add(unit);
            if let Unit::Ts(packet) = unit {
                packets.push_back((time, *packet));
            }
            Ok(())
        })?;
        if packets.is_empty() {
            return Err(Error::Usage(format!("{}: no TS packets", path.display())));
        }
        if packets[0].0.is_none() {
            time_by_clock(&mut packets);
        }
        from_start(&mut packets);
        let is_carried = |pid: &Pid| !matches!(survey.role(*pid), Role::Pat | Role::Pmt | Role::Null);
        packets
            .retain(|(_, packet)| Packet::new_checked(packet).is_ok_and(|packet| is_carried(&packet.pid())));
        let pids = survey.streams.keys().copied().filter(|pid| is_carried(pid)).collect();
        Ok(Read { path: path.into(), packets, pmts: survey.pmts, pids })
    }
}

/// Times from an input's first one.
fn from_start(packets: &mut VecDeque<(Option<u64>, [u8; PACKET_LEN])>) {
    let start = packets.front().and_then(|(time, _)| *time).unwrap_or(0);
    packets.iter_mut().for_each(|(time, _)| *time = time.map(|time| time.saturating_sub(start)));
}

/// Gives times by the first PID's clock references: between two of them packets come evenly, before the first and behind
/// the last at the rate next to it. Without two clock references there are no times.
fn time_by_clock(packets: &mut VecDeque<(Option<u64>, [u8; PACKET_LEN])>) {
    let mut clocked = None;
    let mut references: Vec<(usize, Pcr)> = Vec::new();
    for (index, (_, packet)) in packets.iter().enumerate() {
        if let (Some(clock), Ok(packet)) = (clock(packet), Packet::new_checked(packet))
            && *clocked.get_or_insert(packet.pid()) == packet.pid()
        {
            references.push((index, clock));
        }
    }
    let pairs: Vec<_> = references.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let Some(&first) = pairs.first() else { return };
    let mut start = tick_per_packet(first) * first.0.0 as f64;
    let mut at = pairs.iter().enumerate().map(|(number, &pair)| {
        let from = if number == 0 { 0 } else { pair.0.0 };
        (from, pair, number + 1 == pairs.len())
    });
    let count = packets.len();
    for (from, pair, is_last) in &mut at {
        let to = if is_last { count } else { pair.1.0 };
        let step = tick_per_packet(pair);
        for (index, (time, _)) in packets.range_mut(from..to).enumerate() {
            let ticks = start + step * ((from + index) as f64 - pair.0.0 as f64);
            *time = Some((ticks * 1000.0 / 27.0) as u64);
        }
        start += pair.1.1.since(pair.0.1) as f64;
    }
}

fn tick_per_packet(((from, first), (to, second)): ((usize, Pcr), (usize, Pcr))) -> f64 {
    second.since(first) as f64 / (to - from) as f64
}

/// Leaves out tables (service descriptions and the like) that an earlier input has on the same PID.
fn keep_first_tables(inputs: &mut [Read]) {
    let mut seen: BTreeSet<Pid> = BTreeSet::new();
    for input in inputs {
        let is_repeated = |pid: Pid| pid.number() < FIRST_FREE_PID && seen.contains(&pid);
        input
            .packets
            .retain(|(_, packet)| Packet::new_checked(packet).is_ok_and(|packet| !is_repeated(packet.pid())));
        seen.extend(&input.pids);
    }
}

/// One PAT for all programmes, and their PMTs. A programme whose number or whose PMT's PID is taken gets another one.
fn tables(multiplexer: &mut Multiplexer, inputs: &[Read], interval: u64) -> Result<(), Error> {
    let mut taken: BTreeSet<Pid> = BTreeSet::new();
    for input in inputs {
        let own = |pid: &&Pid| pid.number() >= FIRST_FREE_PID;
        if let Some(pid) = input.pids.iter().filter(own).find(|&&pid| !taken.insert(pid)) {
            let text = format!("{}: PID {pid} is in another input too", input.path.display());
            return Err(Error::Usage(text));
        }
    }
    let mut pat = Pat { stream_id: 1, ..Pat::default() };
    let interval = interval.max(1);
    for (&pid, pmt) in inputs.iter().flat_map(|input| &input.pmts) {
        let is_free = |number: &u16| pat.programmes.iter().all(|programme| programme.number != *number);
        let number = std::iter::once(pmt.number).chain(1..=u16::MAX).find(is_free).unwrap_or(pmt.number);
        let others = (FIRST_FREE_PID..0x1fff).filter_map(Pid::new);
        let map = std::iter::once(pid).chain(others).find(|pid| !taken.contains(pid)).unwrap_or(pid);
        taken.insert(map);
        pat.programmes.push(Programme { number, map });
        multiplexer.add_table(map, &Pmt { number, ..pmt.clone() }.to_section(), interval);
    }
    multiplexer.add_table(Pid::PAT, &pat.to_section(), interval);
    Ok(())
}
