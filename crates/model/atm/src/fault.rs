//! Faults of cells on a line: loss, bit errors, misinsertion, delay variation.
//!
//! Each fault is an element after a line; several in a row make a line with several faults. A train is
//! forwarded immediately with the new times of its cells; the fate of a cell does not depend on its train.
//! Corruption builds bytes: the HEC corrects or drops a corrupted header, and the CRC-10 a corrupted RM cell.
//! Corrupted bits of a PDU travel with their cell to the receiver that checks the CRC-32.
//!
//! Not modelled: errors in payload type and loss priority that the HEC misses, cell reordering.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_net::channel::pieces::Matrix;
use bentpipe_net::channel::{Coded, CodedConfig, Config as PacketFault, GilbertElliott, JitterLaw, Trials};
use bentpipe_net::{Cx, Element, Observer, Packet, Port, Why};
use bentpipe_net::{InvalidConfig, probability};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::atm::{self, HEADER_LEN, PAYLOAD_LEN, PayloadType, hec, rm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Kind, Train, Vc, Word};
use crate::metrics;

/// Bits of a cell, and of its header.
const CELL_BITS: u64 = 8 * atm::CELL_LEN as u64;
const HEADER_BITS: u64 = 8 * HEADER_LEN as u64;

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Config {
    /// Each cell is lost with the same probability.
    CellLoss {
        /// The cell loss ratio, 0 to 1. No default.
        #[schemars(range(min = 0.0, max = 1.0))]
        ratio: f64,
    },
    /// Loss in two states that change from cell to cell (Gilbert 1960, Elliott 1963). Starts in the stationary state.
    CellLossBursts {
        /// The probability of going from good to bad after a cell, 0 to 1. No default.
        #[schemars(range(min = 0.0, max = 1.0))]
        p: f64,
        /// The probability of going from bad to good after a cell, 0 to 1. No default.
        #[schemars(range(min = 0.0, max = 1.0))]
        r: f64,
        /// The probability of loss in the good state. Default: 0.
        #[schemars(range(min = 0.0, max = 1.0))]
        #[serde(default)]
        loss_good: f64,
        /// The probability of loss in the bad state. No default.
        #[schemars(range(min = 0.0, max = 1.0))]
        loss_bad: f64,
    },
    /// Each of a cell's 424 bits is wrong with the same probability.
    BitErrors {
        /// The bit error rate, 0 to 1. No default.
        #[schemars(range(min = 0.0, max = 1.0))]
        ber: f64,
    },
    /// Wrong bits behind DVB-S's decoders, in white noise.
    Coded(CodedConfig),
    /// Misinserted cells of other connections, with random payload, after cells of this line.
    Misinsertion {
        /// Misinserted cells per second. No default.
        #[schemars(range(max = 1_000_000.0))]
        per_second: f64,
        /// The VCI that they have, 32 to 4095. No default.
        vci: u16,
    },
    /// Random delay of each cell; order is preserved.
    DelayVariation {
        /// Distribution of the delay. No default.
        law: JitterLaw,
    },
}

impl Config {
    /// Returns the probability that one of `count` packets in succession is lost or damaged.
    ///
    /// Each has some cells. The first is also lost with the last cell of the one before, whose
    /// other cells are taken for its own. `None` for a code near its threshold and for misinserted cells: these have to be run.
    pub fn mean_loss(&self, cells: u64, count: u64) -> Option<f64> {
        let steps = match *self {
            Config::CellLoss { ratio } => Steps::of_chain([0.0, 1.0], [ratio, ratio]),
            Config::CellLossBursts { p, r, loss_good, loss_bad } => {
                Steps::of_chain([p, r], [loss_good, loss_bad])
            }
            Config::BitErrors { ber } => Steps::of_bits(ber),
            Config::Coded(config) => return of_code(config, cells, count),
            Config::Misinsertion { .. } => return None,
            Config::DelayVariation { .. } => return Some(0.0),
        };
        Some(1.0 - steps.arrives(cells, count))
    }

    /// Returns `true` if it delays cells at random.
    pub const fn is_random_delay(&self) -> bool {
        matches!(self, Config::DelayVariation { .. })
    }
}

/// Returns the part of packets that a code loses whose errors come in bursts. One in a header loses the cell.
fn of_code(config: CodedConfig, cells: u64, count: u64) -> Option<f64> {
    let loss = |bytes: usize| PacketFault::Coded(config).mean_loss(bytes);
    let whole = loss(usize::try_from(cells.checked_mul(count)?).ok()?.checked_mul(atm::CELL_LEN)?)?;
    let header = if cells > 1 { loss(HEADER_LEN)? } else { 0.0 };
    Some(1.0 - (1.0 - whole) * (1.0 - header))
}

/// Probabilities of a cell's ways with the state behind it, by the state before it.
struct Steps {
    /// Probability of the bad state.
    bad: f64,
    clean: Matrix,
    damaged: Matrix,
    lost: Matrix,
}

impl Steps {
    /// Returns those of two states that lose cells.
    fn of_chain([p, r]: [f64; 2], loss: [f64; 2]) -> Steps {
        let step = [[1.0 - p, p], [r, 1.0 - r]];
        let part = |of: [f64; 2]| [0, 1].map(|from| step[from].map(|to| to * of[from]));
        let bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
        Steps { bad, clean: part(loss.map(|loss| 1.0 - loss)), damaged: [[0.0; 2]; 2], lost: part(loss) }
    }

    /// Returns those of a receiver at a bit error rate.
    ///
    /// It corrects a wrong bit of a header unless the header before was wrong.
    fn of_bits(ber: f64) -> Steps {
        let errors = PacketFault::BitErrors { ber, crc: true };
        let right = |bytes: usize| 1.0 - errors.mean_loss(bytes).unwrap_or_default();
        let (header, payload) = (right(HEADER_LEN), right(PAYLOAD_LEN));
        let corrected = HEADER_BITS as f64 * ber * header / (1.0 - ber).max(f64::MIN_POSITIVE);
        let passes = [[header, corrected], [header, 0.0]];
        let part = |of: f64| passes.map(|row| row.map(|to| to * of));
        let lost = [[0.0, 1.0 - header - corrected], [0.0, 1.0 - header]];
        Steps { bad: 1.0 - header, clean: part(payload), damaged: part(1.0 - payload), lost }
    }

    /// Returns the probability that `count` packets in succession arrive, of some cells each.
    ///
    /// A packet before leaves nothing behind if its last cell arrives, or if none of its cells does behind one that left nothing.
    fn arrives(&self, cells: u64, count: u64) -> f64 {
        let first = [1.0 - self.bad, self.bad];
        let sum = |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]];
        let all = |from, step: &Matrix, times| (0..times).fold(from, |states, _| after(states, step));
        // The first state is stationary, and so is that in front of each last cell.
        let ended = sum(after(first, &self.clean), after(first, &self.damaged));
        let (mut nothing, mut before) = (ended, ended);
        for _ in 0..MOST_LOST {
            before = all(before, &self.lost, cells);
            if before[0] + before[1] < NEVER {
                break;
            }
            nothing = sum(nothing, before);
        }
        all(nothing, &self.clean, cells.saturating_mul(count)).iter().sum()
    }
}

/// The most packets in succession of which no cell arrives.
const MOST_LOST: u32 = 64;

/// Probability that does not count.
const NEVER: f64 = 1e-12;

/// Returns the probabilities of the states behind a step.
fn after(states: [f64; 2], step: &Matrix) -> [f64; 2] {
    [0, 1].map(|to| states[0] * step[0][to] + states[1] * step[1][to])
}

/// A fault on a line: input 0 to output 0.
#[derive(Debug)]
pub struct Faults {
    fault: Fault,
    /// Departure of the last cell.
    last: Option<Time>,
    passed: u64,
    lost: u64,
    damaged: u64,
    corrected: u64,
    discarded: u64,
    misdelivered: u64,
    inserted: u64,
}

#[derive(Debug)]
enum Fault {
    Loss(Trials),
    Bursts(GilbertElliott),
    Bits { errors: Trials, receiver: hec::Receiver },
    Coded { coded: Box<Coded>, receiver: hec::Receiver },
    Misinsertion { mean_s: f64, vc: Vc, next: Option<Time> },
    Delay(JitterLaw),
}

impl Fault {
    fn new(config: &Config) -> Result<Fault, InvalidConfig> {
        let trials = |value, key| probability(value, key).map(Trials::new);
        Ok(match *config {
            Config::CellLoss { ratio } => Fault::Loss(trials(ratio, "ratio")?),
            Config::CellLossBursts { p, r, loss_good, loss_bad } => {
                Fault::Bursts(GilbertElliott::new([p, r], [loss_good, loss_bad])?)
            }
            Config::BitErrors { ber } => {
                Fault::Bits { errors: trials(ber, "ber")?, receiver: hec::Receiver::new() }
            }
            Config::Coded(config) => {
                InvalidConfig::ensure(!config.crc, "crc", "false: of a cell, the header alone has a check")?;
                Fault::Coded { coded: Box::new(Coded::new(&config)?), receiver: hec::Receiver::new() }
            }
            Config::Misinsertion { per_second, vci } => {
                let possible = per_second > 0.0 && per_second <= 1e6;
                InvalidConfig::ensure(possible, "per_second", "above 0 and at most 1000000")?;
                let vc = Vc::new(vci).ok_or(InvalidConfig::new("vci", "from 32 to 4095"))?;
                Fault::Misinsertion { mean_s: 1.0 / per_second, vc, next: None }
            }
            Config::DelayVariation { law } => {
                law.check()?;
                Fault::Delay(law)
            }
        })
    }
}

impl Faults {
    /// Creates a line with this fault.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<Faults, InvalidConfig> {
        let fault = Fault::new(config)?;
        let (last, none) = (None, 0);
        Ok(Faults {
            fault,
            last,
            passed: none,
            lost: none,
            damaged: none,
            corrected: none,
            discarded: none,
            misdelivered: none,
            inserted: none,
        })
    }

    /// Changes the fault, for cells that leave the line from now on.
    ///
    /// # Errors
    /// The key whose value is impossible; then nothing changes.
    pub fn set(&mut self, config: &Config) -> Result<(), InvalidConfig> {
        self.fault = Fault::new(config)?;
        Ok(())
    }

    fn pass(&mut self, mut train: Box<Train>, stream: &mut RandomStream) -> Box<Train> {
        let Train { cells, cargo } = &mut *train;
        let mut out = Train::with_room(cells.len());
        for cell in cells.drain(..) {
            let own: VecDeque<Packet> = cargo.drain(..cell.word.cargo().min(cargo.len())).collect();
            self.cell(cell, own, &mut out, stream);
        }
        train.recycle();
        self.passed += out.cells.len() as u64;
        out
    }

    fn cell(&mut self, cell: Cell, mut cargo: VecDeque<Packet>, out: &mut Train, stream: &mut RandomStream) {
        let mut cell = cell;
        let is_lost = match &mut self.fault {
            Fault::Loss(trials) => trials.hits(stream),
            Fault::Bursts(chain) => chain.loses(stream),
            Fault::Bits { errors, receiver } => {
                let wrong = wrong_bits(errors, stream);
                let (word, counts) = received(cell.word, &wrong, receiver, &mut cargo);
                self.count(counts);
                cell.word = word.unwrap_or(cell.word);
                word.is_none()
            }
            Fault::Coded { coded, receiver } => {
                let mut wrong = Vec::new();
                coded.wrong_bits(CELL_BITS / 8, stream, |bit| wrong.push(bit));
                let (word, counts) = received(cell.word, &wrong, receiver, &mut cargo);
                self.count(counts);
                cell.word = word.unwrap_or(cell.word);
                word.is_none()
            }
            Fault::Misinsertion { .. } => false,
            Fault::Delay(law) => {
                cell.at += law.draw(stream);
                false
            }
        };
        if is_lost {
            self.lost += 1;
            return cargo.into_iter().for_each(|packet| packet.lose(Why::Channel));
        }
        // A nanosecond between two cells, as on any line.
        let earliest = self.last.map_or(Time::ZERO, |last| last + Span::from_nanos(1));
        cell.at = cell.at.max(earliest);
        self.last = Some(cell.at);
        out.cells.push(cell);
        out.cargo.extend(cargo);
        self.insert(cell.at, out, stream);
    }

    fn count(&mut self, found: Found) {
        self.corrected += u64::from(found.is_corrected);
        self.discarded += u64::from(found.is_discarded);
        self.misdelivered += u64::from(found.is_misdelivered);
        self.damaged += u64::from(found.is_damaged);
    }

    /// Inserts a misinserted cell directly after one of the line's, if one is due.
    fn insert(&mut self, at: Time, out: &mut Train, stream: &mut RandomStream) {
        let Fault::Misinsertion { mean_s, vc, next } = &mut self.fault else { return };
        let mut draw = |from: Time| from + Span::from_secs_f64(stream.exponential(*mean_s));
        let due = *next.get_or_insert_with(|| draw(Time::ZERO));
        if due > at {
            return;
        }
        *next = Some(draw(at));
        let mut payload = Packet::new(PAYLOAD_LEN, 0);
        rand::RngCore::fill_bytes(stream, payload.header_mut());
        let at = at + Span::from_nanos(1);
        out.cells.push(Cell { at, word: Word::whole(*vc, false) });
        out.cargo.push_back(payload);
        self.last = Some(at);
        self.inserted += 1;
    }
}

/// Findings of a receiver in a cell with wrong bits.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// The header was corrected.
    is_corrected: bool,
    /// The header was beyond correction.
    is_discarded: bool,
    /// The header was taken for that of another connection.
    is_misdelivered: bool,
    /// The payload has wrong bits.
    is_damaged: bool,
}

/// Returns the cell as received, `None` if it is dropped, and the receiver's findings.
fn received(
    sent: Word,
    wrong: &[u64],
    receiver: &mut hec::Receiver,
    cargo: &mut VecDeque<Packet>,
) -> (Option<Word>, Found) {
    let (header, payload): (Vec<u64>, Vec<u64>) = wrong.iter().partition(|bit| **bit < HEADER_BITS);
    let judged = judge_header(sent, &header, receiver);
    let found = Found {
        is_corrected: judged == Some(sent) && !header.is_empty(),
        is_discarded: judged.is_none(),
        is_misdelivered: judged.is_some_and(|word| word != sent),
        is_damaged: !payload.is_empty(),
    };
    (judged.and_then(|word| damage(word, &payload, cargo)), found)
}

/// Returns the positions of a cell's corrupted bits.
fn wrong_bits(errors: &mut Trials, stream: &mut RandomStream) -> Vec<u64> {
    let (mut bits, mut from) = (Vec::new(), 0);
    while let Some(ahead) = errors.next_hit(CELL_BITS - from, stream) {
        bits.push(from + ahead);
        from += ahead + 1;
    }
    bits
}

/// Returns the cell as received with these header errors, or `None` if it is dropped.
fn judge_header(word: Word, wrong: &[u64], receiver: &mut hec::Receiver) -> Option<Word> {
    if wrong.is_empty() {
        *receiver = hec::Receiver::new();
        return Some(word);
    }
    let payload_type = match word.kind() {
        Kind::Data | Kind::Whole => PayloadType::User { congested: word.efci(), last: word.is_last() },
        Kind::Rm => PayloadType::ResourceManagement,
        Kind::Oam => PayloadType::OamEndToEnd,
    };
    let mut header = [0; HEADER_LEN];
    atm::Repr { payload_type, clp: word.clp(), ..atm::Repr::new(0, word.vc().vci()) }.emit(&mut header);
    wrong.iter().for_each(|bit| header[(bit / 8) as usize] ^= 0x80 >> (bit % 8));
    if receiver.receive(&mut header) == hec::HecStatus::Bad {
        return None;
    }
    let read = atm::Repr::parse(atm::Interface::Uni, &header).ok()?;
    let vc = Vc::new(read.vci).filter(|_| read.vpi == 0)?;
    Some(word.on(vc))
}

/// Returns the cell with these payload bit errors, or `None` if it is dropped.
///
/// Bits are counted from the start of the header.
fn damage(word: Word, wrong: &[u64], cargo: &mut VecDeque<Packet>) -> Option<Word> {
    if wrong.is_empty() {
        return Some(word);
    }
    let bits = wrong.iter().map(|bit| bit - HEADER_BITS);
    match word.kind() {
        Kind::Data if word.is_damaged() => {
            bits.for_each(|bit| cargo.iter_mut().take(1).for_each(|mask| mask.flip_bit(bit)));
            Some(word)
        }
        Kind::Data => {
            let mut mask = Packet::new(PAYLOAD_LEN, 0);
            bits.for_each(|bit| mask.flip_bit(bit));
            cargo.push_front(mask);
            Some(word.damaged())
        }
        Kind::Whole => {
            bits.for_each(|bit| cargo.iter_mut().for_each(|payload| payload.flip_bit(bit)));
            Some(word)
        }
        Kind::Rm => {
            let mut payload = [0; PAYLOAD_LEN];
            word.rm_repr().emit(&mut payload);
            bits.for_each(|bit| payload[(bit / 8) as usize] ^= 0x80 >> (bit % 8));
            let read = rm::Repr::parse(&payload).ok()?;
            Some(Word::rm(word.vc(), word.clp(), &read))
        }
        Kind::Oam => Some(word),
    }
}

impl Element for Faults {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let digest = packet.digest();
        let Some(train) = Train::from_packet(packet) else { return Time::NEVER };
        let train = self.pass(train, cx.stream());
        if !train.cells.is_empty() {
            cx.emit(Port(0), train.into_packet(digest));
        }
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::PASSED, self.passed);
        observer.counter(&metrics::LOST, self.lost);
        observer.counter(&metrics::DAMAGED, self.damaged);
        observer.counter(&metrics::HEADERS_CORRECTED, self.corrected);
        observer.counter(&metrics::HEADERS_DISCARDED, self.discarded);
        observer.counter(&metrics::MISDELIVERED, self.misdelivered);
        observer.counter(&metrics::MISINSERTED, self.inserted);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VC: Vc = Vc::FIRST;

    /// Passes PDUs through a fault and returns its output. Each has twelve cells, one every 3 us.
    fn through(config: &Config, pdus: u32, in_one: bool) -> (Faults, Train) {
        let mut faults = Faults::new(config).unwrap();
        let mut stream = RandomStream::new(3, "faults");
        let mut out = Train::default();
        let mut whole = Box::<Train>::default();
        for (serial, index) in (0..pdus).flat_map(|serial| (0..12).map(move |index| (serial, index))) {
            let at = Time::from_nanos(u64::from(serial * 12 + u32::from(index)) * 3000);
            whole.cells.push(Cell { at, word: Word::data(VC, serial, index, index == 11) });
            whole.cargo.extend((index == 11).then(|| Packet::new(0, 560)));
            if !in_one {
                let part = faults.pass(std::mem::take(&mut whole), &mut stream);
                out.cells.extend(part.cells);
                out.cargo.extend(part.cargo);
            }
        }
        let rest = faults.pass(whole, &mut stream);
        out.cells.extend(rest.cells);
        out.cargo.extend(rest.cargo);
        (faults, out)
    }

    #[test]
    fn losses_are_as_many_as_said_and_packets_stay_with_their_cells() {
        let (faults, out) = through(&Config::CellLoss { ratio: 0.01 }, 10_000, true);
        // 1200 of 120,000, give or take four standard deviations.
        assert!((1060..1340).contains(&faults.lost), "{}", faults.lost);
        assert_eq!(out.cells.len() as u64 + faults.lost, 120_000);
        let wanted: usize = out.cells.iter().map(|cell| cell.word.cargo()).sum();
        assert_eq!(out.cargo.len(), wanted);
    }

    #[test]
    fn a_fault_is_changed_for_what_comes_then() {
        let (mut faults, _) = through(&Config::CellLoss { ratio: 0.0 }, 10, true);
        assert!(faults.set(&Config::CellLoss { ratio: 2.0 }).is_err());
        faults.set(&Config::CellLoss { ratio: 1.0 }).unwrap();
        let mut train = Train::default();
        train.cells.push(Cell { at: Time::from_nanos(1_000_000_000), word: Word::data(VC, 0, 0, false) });
        assert!(faults.pass(Box::new(train), &mut RandomStream::new(3, "faults")).cells.is_empty());
        assert_eq!((faults.passed, faults.lost), (120, 1));
    }

    /// A packet of two cells is lost with each of them, and with the last one before unless both of those are lost.
    #[test]
    fn a_lost_last_cell_takes_the_next_packet_with_it() {
        let loss = |cells, count| Config::CellLoss { ratio: 0.1 }.mean_loss(cells, count).expect("a mean");
        let kept = (0.1 - 0.01) / (1.0 - 0.01);
        assert!((loss(2, 1) - (1.0 - 0.81 * (1.0 - kept))).abs() < 1e-12, "{}", loss(2, 1));
        assert!((loss(1, 1) - 0.1).abs() < 1e-12, "{}", loss(1, 1));
        assert!((loss(2, 3) - (1.0 - 0.9_f64.powi(6) * (1.0 - kept))).abs() < 1e-12);
        // Bursts lose both of them more often together.
        let bursts = Config::CellLossBursts { p: 0.01, r: 0.09, loss_good: 0.0, loss_bad: 1.0 };
        let lost = bursts.mean_loss(2, 1).expect("a mean");
        let together = 1.0 - 0.9 * 0.99 * 0.99 - 0.1 * 0.91 * 0.0;
        assert!(lost < loss(2, 1) && lost > 1.0 - 0.9 * 0.99, "{lost} {together}");
        assert_eq!(Config::CellLoss { ratio: 1.0 }.mean_loss(3, 1), Some(1.0));
        assert_eq!(Config::CellLoss { ratio: 0.0 }.mean_loss(3, 1), Some(0.0));
    }

    #[test]
    fn trains_make_no_difference() {
        let law = JitterLaw::Exponential { mean: Span::from_micros(20) };
        for config in [
            Config::CellLoss { ratio: 0.1 },
            Config::CellLossBursts { p: 0.01, r: 0.2, loss_good: 0.0, loss_bad: 0.9 },
            Config::BitErrors { ber: 1e-3 },
            Config::Misinsertion { per_second: 1000.0, vci: 40 },
            Config::DelayVariation { law },
        ] {
            let (one, many) = (through(&config, 300, true), through(&config, 300, false));
            assert_eq!(one.1, many.1, "{config:?}");
            assert!(one.1.cells.windows(2).all(|pair| pair[0].at < pair[1].at), "{config:?}");
        }
    }

    #[test]
    fn wrong_bits_are_corrected_dropped_or_sent_along() {
        let (faults, out) = through(&Config::BitErrors { ber: 1e-4 }, 10_000, true);
        // One wrong bit in a header of 40: 480 of 120,000. Two in one header, or two headers in a row: a few.
        assert!((380..580).contains(&faults.corrected), "{}", faults.corrected);
        assert!((1..60).contains(&faults.discarded), "{}", faults.discarded);
        assert_eq!(faults.misdelivered, 0);
        // 384 bits of payload: 1 - 0.9999^384 = 3.77 %.
        let damaged = out.cells.iter().filter(|cell| cell.word.is_damaged()).count();
        assert!((4200..4850).contains(&damaged), "{damaged}");
        assert_eq!(out.cargo.len(), out.cells.iter().map(|cell| cell.word.cargo()).sum::<usize>());
    }

    #[test]
    fn wrong_rm_cells_fail_their_crc() {
        let repr = rm::Repr { explicit: rm::Rate::MAX, ..rm::Repr::default() };
        let word = Word::rm(VC, false, &repr);
        for bit in HEADER_BITS..CELL_BITS {
            assert_eq!(damage(word, &[bit], &mut VecDeque::new()), None);
        }
        assert_eq!(damage(word, &[], &mut VecDeque::new()), Some(word));
    }

    #[test]
    fn strange_cells_come_at_their_rate() {
        let (faults, out) = through(&Config::Misinsertion { per_second: 1000.0, vci: 40 }, 10_000, true);
        // 360 ms.
        assert!((280..440).contains(&faults.inserted), "{}", faults.inserted);
        let strange = out.cells.iter().filter(|cell| cell.word.vc().vci() == 40).count() as u64;
        assert_eq!(strange, faults.inserted);
        assert!(Faults::new(&Config::Misinsertion { per_second: 1.0, vci: 31 }).is_err());
    }
}
