//! Several programmes in one transport stream, and each alone again.
//!
//! The multiplexer gives every PID of its inputs a new one, writes a PAT and PMTs, and sends at a constant rate, with NULL
//! packets where it has nothing to send. Packets leave in the first free slot after they are due, so references to the
//! clock are wrong in the new place: each programme gets a PID of its own with clock references stamped for the
//! slot that they leave in, next to the original reference (OPCR). The packets themselves are not touched but for
//! their PID, the inputs' tables among them; a private descriptor in the PMT says which PID was which. So taking apart
//! gives back every packet bit by bit, NULL packets left out.

use std::collections::{BTreeMap, HashMap};

use bentpipe_dvb::Tables;
use bentpipe_dvb::multiplex::{Multiplex, TsSource};
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::psi::{self, Elementary, Pat, Pmt};
use bentpipe_wire::section;
use bentpipe_wire::ts::{self, Adaptation, Method, Packet, Pcr, Pid};

use super::transport::{Bytes, TransportStream, Unreadable, pid};

/// First PID of the PMTs written; programme n has the n-th after it.
const FIRST_MAP: u16 = 0x20;
/// The PIDs of input n begin at this times n + 1.
const BLOCK: u16 = 0x100;
/// Offset of a programme's PCR PID in its block.
const CLOCK: u16 = BLOCK - 1;
/// The most inputs.
const MAX_INPUTS: usize = 16;
/// The longest multiplex, in bytes.
const MAX_LEN: u64 = 1 << 30;
/// Interval of the tables.
const TABLES_EVERY: Span = Span::from_millis(100);

/// Registration descriptor: owner of the following private descriptor (ISO/IEC 13818-1, 2.6.8).
const REGISTRATION: (u8, &[u8; 4]) = (5, b"BPIP");
/// The private descriptor: pairs of a PID and what it was.
const WAS: u8 = 0xc0;
/// Maximum number of pairs in a descriptor.
const PAIRS: usize = 63;

fn pid_of(number: u16) -> Pid {
    Pid::new(number).expect("13 bits")
}

/// Input of a multiplex.
struct Input<'a> {
    stream: &'a TransportStream,
    due: Vec<Span>,
    next: usize,
    /// New PIDs of the input's.
    pids: BTreeMap<Pid0, Pid>,
    map: &'a Pmt,
    /// The input's clock at the time of its first packet.
    clock: Pcr,
}

/// A PID by its number, which has an order.
type Pid0 = u16;

impl<'a> Input<'a> {
    fn new(n: usize, stream: &'a TransportStream) -> Result<Input<'a>, Unreadable> {
        let problem = |text: &str| Unreadable(format!("input {}: {text}", n + 1));
        let map = stream.programmes.first().ok_or_else(|| problem("no programme"))?;
        let due = stream.times_by(map.clock).map_err(|error| problem(&error.0))?;
        let (first, reference) = *stream.references(map.clock).first().ok_or_else(|| problem("no clock"))?;
        let lead = (due[first].as_secs_f64() * Pcr::TICKS_PER_S as f64).round() as u64;
        let clock = reference.plus(Pcr::MODULUS - lead % Pcr::MODULUS);
        let numbers: std::collections::BTreeSet<Pid0> =
            stream.packets.iter().filter_map(pid).map(Pid::number).collect();
        let numbers: Vec<Pid0> = numbers.into_iter().filter(|number| *number != Pid::NULL.number()).collect();
        if numbers.len() >= usize::from(CLOCK) {
            return Err(problem("more PIDs than a block has"));
        }
        let block = BLOCK * (n as u16 + 1);
        let pids = numbers.iter().zip(block..).map(|(number, new)| (*number, pid_of(new))).collect();
        Ok(Input { stream, due, next: 0, pids, map, clock })
    }

    /// Returns the due time of the next packet other than NULL.
    fn next_due(&mut self) -> Option<Span> {
        while pid(self.stream.packets.get(self.next)?).is_none_or(|pid| pid == Pid::NULL) {
            self.next += 1;
        }
        Some(self.due[self.next])
    }

    /// Returns the next packet with its new PID, and its clock reference, if any.
    fn take(&mut self) -> (Bytes, Option<Pcr>) {
        let mut bytes = self.stream.packets[self.next];
        self.next += 1;
        let packet = Packet::new_checked(&bytes[..]).expect("read before");
        let old = packet.pid();
        let adaptation = packet.adaptation().ok().flatten();
        let reference = adaptation.and_then(|adaptation| adaptation.pcr).filter(|_| old == self.map.clock);
        set_pid(&mut bytes, self.pids[&old.number()]);
        (bytes, reference)
    }

    fn pmt(&self, n: usize) -> Pmt {
        let renamed = |stream: &Elementary| Elementary {
            pid: self.pids.get(&stream.pid.number()).copied().unwrap_or(Pid::NULL),
            ..stream.clone()
        };
        let mut descriptors = self.map.descriptors.clone();
        descriptors.extend([REGISTRATION.0, 4]);
        descriptors.extend(REGISTRATION.1);
        let pairs: Vec<(u16, u16)> = self.pids.iter().map(|(old, new)| (new.number(), *old)).collect();
        for pairs in pairs.chunks(PAIRS) {
            descriptors.extend([WAS, 4 * pairs.len() as u8]);
            descriptors
                .extend(pairs.iter().flat_map(|(new, old)| [new.to_be_bytes(), old.to_be_bytes()]).flatten());
        }
        Pmt {
            number: n as u16 + 1,
            version: 0,
            clock: clock_pid(n),
            descriptors,
            streams: self.map.streams.iter().map(renamed).collect(),
        }
    }

    /// The rate that carries it: the highest between two clock references.
    fn peak_bps(&self) -> f64 {
        let bits = |packets: usize| (packets * ts::PACKET_LEN * 8) as f64;
        let references = self.stream.references(self.map.clock);
        let rates = references.windows(2).map(|pair| {
            let ticks = pair[1].1.since(pair[0].1).max(1);
            bits(pair[1].0 - pair[0].0) * Pcr::TICKS_PER_S as f64 / ticks as f64
        });
        rates.fold(0.0, f64::max)
    }
}

/// The length of a PMT's section in bytes.
fn section_len(pmt: &Pmt) -> usize {
    let streams: usize = pmt.streams.iter().map(|stream| 5 + stream.descriptors.len()).sum();
    12 + pmt.descriptors.len() + streams + section::CRC_LEN
}

fn clock_pid(n: usize) -> Pid {
    pid_of(BLOCK * (n as u16 + 1) + CLOCK)
}

fn set_pid(bytes: &mut Bytes, pid: Pid) {
    let [high, low] = pid.number().to_be_bytes();
    bytes[1] = bytes[1] & 0xe0 | high;
    bytes[2] = low;
}

/// Multiplexes the first programmes of several streams into one. The default rate is the sum of their peak rates,
/// plus a twentieth and the tables.
///
/// # Errors
/// If there is none or more than 16, one of them has no clock, or they do not fit the rate.
pub fn multiplex(streams: &[TransportStream], rate: Option<Rate>) -> Result<TransportStream, Unreadable> {
    if streams.is_empty() || streams.len() > MAX_INPUTS {
        return Err(Unreadable(format!("{} inputs: expected 1 to {MAX_INPUTS}", streams.len())));
    }
    let inputs = streams.iter().enumerate().map(|(n, stream)| Input::new(n, stream));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let enough = inputs.iter().map(Input::peak_bps).sum::<f64>() * 1.05 + 200_000.0 * inputs.len() as f64;
    let rate = rate.unwrap_or(Rate::from_bps(enough as u64));
    let longest = inputs.iter().filter_map(|input| input.due.last()).max().copied();
    let limit = longest.unwrap_or_default() + Span::from_secs(1);
    if rate.bdp(limit).get() > MAX_LEN {
        return Err(Unreadable(format!("at {rate} the multiplex would be longer than {MAX_LEN} bytes")));
    }
    let mut multiplex = Multiplex::new(Some(tables(&inputs)?));
    let (mut sources, mut out) = ([Programmes { inputs, stamp: None }], Vec::new());
    while sources[0].is_left() || multiplex.tables_due() == Time::ZERO {
        let now = slot(out.len(), rate);
        if now > Time::ZERO + limit {
            return Err(Unreadable(format!("{rate} does not carry the inputs: they come a second late")));
        }
        out.push(multiplex.pop(now, &mut sources).map_or(ts::NULL_PACKET, |(_, packet)| packet));
    }
    Ok(TransportStream::of(out))
}

/// Returns the time at which the `n`-th slot begins.
fn slot(n: usize, rate: Rate) -> Time {
    let bits = n as u128 * ts::PACKET_LEN as u128 * 8;
    Time::from_nanos((bits * 1_000_000_000 / u128::from(rate.as_bps().max(1))) as u64)
}

/// Returns the tables of all inputs.
fn tables(inputs: &[Input<'_>]) -> Result<Tables, Unreadable> {
    let maps: Vec<(Pid, Pmt)> =
        inputs.iter().enumerate().map(|(n, input)| (pid_of(FIRST_MAP + n as u16), input.pmt(n))).collect();
    match maps.iter().position(|(_, pmt)| section_len(pmt) > psi::MAX_LEN) {
        Some(n) => Err(Unreadable(format!("input {}: more PIDs and descriptors than a PMT holds", n + 1))),
        None => Ok(Tables::new(TABLES_EVERY, 1, maps)),
    }
}

/// Inputs of a multiplex, in the order in which their packets are due.
struct Programmes<'a> {
    inputs: Vec<Input<'a>>,
    /// Input and value of a clock reference that has just left, to be stamped again.
    stamp: Option<(usize, Pcr)>,
}

impl Programmes<'_> {
    /// Returns `true` if something is left to send.
    fn is_left(&mut self) -> bool {
        self.stamp.is_some() || self.inputs.iter_mut().any(|input| input.next_due().is_some())
    }

    /// Returns the clock of input `n` as it is when the slot at `now` begins.
    fn stamped(&self, n: usize, original: Pcr, now: Time) -> Bytes {
        let ticks = u128::from(now.as_nanos()) * u128::from(Pcr::TICKS_PER_S) / 1_000_000_000;
        let pcr = self.inputs[n].clock.plus(ticks as u64);
        let adaptation =
            Adaptation { len_bytes: 183, pcr: Some(pcr), opcr: Some(original), ..Adaptation::default() };
        let repr =
            ts::Repr { adaptation: Some(adaptation), has_payload: false, ..ts::Repr::new(clock_pid(n), 0) };
        let mut bytes = [ts::STUFFING; ts::PACKET_LEN];
        repr.emit(&mut bytes);
        bytes
    }
}

impl TsSource for Programmes<'_> {
    fn pop(&mut self, at: Time) -> Option<Bytes> {
        if let Some((n, original)) = self.stamp.take() {
            return Some(self.stamped(n, original, at));
        }
        let due = self.inputs.iter_mut().enumerate().filter_map(|(n, input)| Some((input.next_due()?, n)));
        let (_, n) = due.min().filter(|(due, _)| Time::ZERO + *due <= at)?;
        let (packet, reference) = self.inputs[n].take();
        self.stamp = reference.map(|reference| (n, reference));
        Some(packet)
    }
}

/// Extracts one programme of a stream. A stream made by [`multiplex`] is restored exactly, but for NULL packets; of
/// other streams the programme's packets are copied unchanged, with a PAT that lists only the programme.
///
/// # Errors
/// If there is no such programme.
pub fn demultiplex(stream: &TransportStream, number: u16) -> Result<TransportStream, Unreadable> {
    let found = stream.programmes.iter().find(|programme| programme.number == number);
    let map = found.ok_or_else(|| {
        let known = stream.programmes();
        Unreadable(format!("no programme {number}: expected one of {known:?}"))
    })?;
    let was = was(map);
    let packets = if was.is_empty() { alone(stream, map) } else { restored(stream, &was) };
    Ok(TransportStream::of(packets))
}

/// Returns the original PIDs, from the private descriptor.
fn was(map: &Pmt) -> HashMap<u16, u16> {
    let mut is_ours = false;
    let mut was = HashMap::new();
    for (tag, content) in psi::descriptors(&map.descriptors) {
        is_ours |= tag == REGISTRATION.0 && content == REGISTRATION.1;
        if is_ours && tag == WAS {
            let number = |at: &[u8; 2]| u16::from_be_bytes(*at) & 0x1fff;
            was.extend(
                content.as_chunks::<4>().0.iter().map(|[a, b, c, d]| (number(&[*a, *b]), number(&[*c, *d]))),
            );
        }
    }
    was
}

/// Packets with their old PIDs. Damaged ones are judged by the PID that they show.
fn restored(stream: &TransportStream, was: &HashMap<u16, u16>) -> Vec<Bytes> {
    let restore = |bytes: &Bytes| {
        let shown = u16::from_be_bytes([bytes[1], bytes[2]]) & 0x1fff;
        let mut bytes = *bytes;
        set_pid(&mut bytes, pid_of(*was.get(&shown)?));
        Some(bytes)
    };
    stream.packets.iter().filter_map(restore).collect()
}

/// Returns the packets of a programme, each PAT replaced by its own.
fn alone(stream: &TransportStream, map: &Pmt) -> Vec<Bytes> {
    let pats = stream.packets.iter().filter(|bytes| pid(bytes) == Some(Pid::PAT));
    let mut receiver = section::Receiver::new(Pid::PAT);
    let mut pat = Pat::default();
    let mut read = |section: &[u8]| pat = Pat::parse(section).unwrap_or_else(|_| std::mem::take(&mut pat));
    pats.for_each(|packet| receiver.push(packet, &mut read));
    pat.programmes.retain(|programme| programme.number == map.number);
    let own = pat.programmes.first().map(|programme| programme.map);
    let mut keep: Vec<Pid> = map.streams.iter().map(|stream| stream.pid).collect();
    keep.extend(own.into_iter().chain([map.clock]));
    let (mut encapsulator, section) =
        (section::Encapsulator::new(Pid::PAT, Method::Padding), pat.to_section());
    let mut packets = Vec::new();
    for bytes in &stream.packets {
        match pid(bytes) {
            Some(Pid::PAT) => {
                let mut table = Vec::new();
                encapsulator.push(&section, &mut table);
                packets.extend(table.as_chunks().0);
            }
            Some(pid) if keep.contains(&pid) => packets.push(*bytes),
            _ => {}
        }
    }
    packets
}

/// Returns the share of a stream's packets, NULL packets excluded, that another stream has. It is 1 only if the other
/// has exactly these, in order.
pub fn same<'a>(original: &'a TransportStream, other: &'a TransportStream) -> f64 {
    let is_useful = |bytes: &&Bytes| pid(bytes) != Some(Pid::NULL);
    let useful = |stream: &'a TransportStream| stream.packets.iter().filter(is_useful);
    if useful(original).eq(useful(other)) {
        return 1.0;
    }
    let mut count: HashMap<&Bytes, u64> = HashMap::with_capacity(other.len());
    useful(other).for_each(|bytes| *count.entry(bytes).or_default() += 1);
    let there = useful(original).filter(|bytes| match count.get_mut(bytes) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    });
    let all = useful(original).count().max(1) as f64;
    (there.count() as f64 / all).min(1.0 - 1.0 / all)
}
