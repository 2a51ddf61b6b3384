//! `bentpipe ts mux`.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use bentpipe_units::{Rate, Span};
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
/// Bytes of payload of a TS packet without an adaptation field.
const PAYLOAD_LEN: usize = PACKET_LEN - 4;
/// PIDs under this one are of tables that a multiplex has once.
const FIRST_FREE_PID: u16 = 0x20;
/// The longest multiplex in bytes: days of any rate.
const MOST_BYTES: u64 = 1 << 40;
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
    check_length(&read, args.rate)?;
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

/// Whether what comes out has a length that somebody may want: times in captures may be anything.
fn check_length(inputs: &[Read], rate: Rate) -> Result<(), Error> {
    for Read { path, packets, .. } in inputs {
        let last = packets.iter().filter_map(|(time, _)| *time).max().map_or(Span::ZERO, Span::from_nanos);
        if rate.bdp(last).get() > MOST_BYTES {
            let shown = path.display();
            let text = format!(
                "{shown}: lasts {last}: at {rate} the multiplex would be longer than {MOST_BYTES} bytes"
            );
            return Err(Error::Usage(text));
        }
    }
    Ok(())
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
    maps: Vec<(Pid, Pmt)>,
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
        let maps = survey.maps().map(|(pid, pmt)| (pid, pmt.clone())).collect();
        Ok(Read { path: path.into(), packets, maps, pids })
    }
}

/// Times from an input's first one.
fn from_start(packets: &mut VecDeque<(Option<u64>, [u8; PACKET_LEN])>) {
    let start = packets.front().and_then(|(time, _)| *time).unwrap_or(0);
    packets.iter_mut().for_each(|(time, _)| *time = time.map(|time| time.saturating_sub(start)));
}

/// Gives times by the first PID's clock references: between two of them packets come evenly, before the first, behind the
/// last and where the clock jumps at the rate next to it. Without two clock references within a second there are no times.
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
    let pieces: Vec<(usize, f64)> =
        references.windows(2).filter_map(|pair| piece(pair[0], pair[1])).collect();
    let Some(&(_, mut step)) = pieces.first() else { return };
    let (mut pieces, mut ticks) = (pieces.into_iter().peekable(), 0.0);
    for (index, (time, _)) in packets.iter_mut().enumerate() {
        if index > 0 {
            while pieces.next_if(|(end, _)| *end < index).is_some() {}
            step = pieces.peek().map_or(step, |(_, step)| *step);
            ticks += step;
        }
        *time = Some((ticks * 1000.0 / 27.0) as u64);
    }
}

/// Where the packets between two references end, and the ticks from one to the next; none if the clock jumped.
fn piece((from, first): (usize, Pcr), (to, second): (usize, Pcr)) -> Option<(usize, f64)> {
    let ticks = second.since(first);
    (1..=Pcr::TICKS_PER_S).contains(&ticks).then(|| (to, ticks as f64 / (to - from) as f64))
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

/// How many packets a section takes alone, behind its pointer.
fn packets_of(section: &[u8]) -> u64 {
    (1 + section.len()).div_ceil(PAYLOAD_LEN) as u64
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
    let mut packets = 0;
    for &(pid, ref pmt) in inputs.iter().flat_map(|input| &input.maps) {
        let is_free = |number: &u16| pat.programmes.iter().all(|programme| programme.number != *number);
        let number = std::iter::once(pmt.number).chain(1..=u16::MAX).find(is_free).unwrap_or(pmt.number);
        let others = (FIRST_FREE_PID..0x1fff).filter_map(Pid::new);
        let map = std::iter::once(pid).chain(others).find(|pid| !taken.contains(pid)).unwrap_or(pid);
        taken.insert(map);
        pat.programmes.push(Programme { number, map });
        let section = Pmt { number, ..pmt.clone() }.to_section();
        packets += packets_of(&section);
        multiplexer.add_table(map, &section, interval.max(1));
    }
    let section = pat.to_section();
    packets += packets_of(&section);
    multiplexer.add_table(Pid::PAT, &section, interval.max(1));
    if interval <= packets {
        let text =
            format!("the tables take {packets} packets each time, and the rate has {interval} between");
        return Err(Error::Usage(format!("{text}: expected a higher --rate, or more --tables milliseconds")));
    }
    Ok(())
}
