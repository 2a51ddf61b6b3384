//! Modelled transport streams: a video source's rate as real bytes.
//!
//! A single-programme transport stream with PAT, PMT, SDT, and video whose PES packets carry presentation and decoding times. A clock
//! reference (MPCR) is in the first packet of each piece of constant rate (ATM Forum 97-0177). Pictures have the headers of MPEG-2
//! video and no macroblocks: the rest of them is stuffing.
//!
//! Pictures follow each other in coding order: an I or P picture, then the B pictures that are shown before it (an open group). A
//! picture is decoded two intervals after its first packet is due. B pictures are shown when they are decoded, and the others after
//! the B pictures behind them.

use std::path::PathBuf;

use bentpipe_units::{Bytes as ByteCount, RandomStream, Span, Time};
use bentpipe_wire::psi::{Elementary, Pat, Pmt, Programme};
use bentpipe_wire::section::Encapsulator;
use bentpipe_wire::si::{Sdt, Service, service_descriptor};
use bentpipe_wire::ts::{Adaptation, Method, PACKET_LEN, Pcr, Pid, Repr};
use bentpipe_wire::{pes, psi};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sizes::{Kind, Sizes};
use super::transport::{Bytes, MAX_LEN, TransportStream};
use crate::pictures::Pictures;
use crate::rates::{RateConfig, Rates};

/// Modelled stream: the bytes of a video source's rate, with clock references and time stamps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Model {
    /// Rate of the transport stream, of one programme. With `sizes` it must be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateConfig>,
    /// File of picture sizes in coding order, in place of `rate`. It is a table (CSV) of types and bytes, a transport stream, or an
    /// elementary stream of MPEG-2 video, and is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<PathBuf>,
    /// Time between pictures of `sizes`. Default: "40 ms".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
    /// Duration. Default: "10 s".
    #[serde(default = "length")]
    pub length: Span,
}

fn length() -> Span {
    Span::from_secs(10)
}

/// PID of the video and its clock.
const VIDEO: u16 = 0x100;
/// PID of the programme map.
const MAP: u16 = 0x1000;
/// Interval of the tables.
const TABLES_EVERY: Span = Span::from_millis(100);
/// Bits of a packet, in 10^-9.
const COST: u64 = PACKET_LEN as u64 * 8 * 1_000_000_000;
/// Intervals from the first packet of a picture until it is decoded.
const DELAY: u64 = 2;
/// Bytes of payload of a packet without adaptation field.
const PAYLOAD_LEN: usize = 184;

/// Place of a packet.
struct Slot {
    at: Time,
    /// Set if it is the first packet of a piece of constant rate.
    is_reference: bool,
    /// Picture that starts in it.
    starts: Option<Picture>,
}

/// Picture in coding order.
#[derive(Clone, Copy)]
struct Picture {
    kind: Kind,
    due: Time,
    /// Number of B pictures behind it that are shown before it.
    shown_before: u64,
}

impl Model {
    /// Returns the key of an invalid value, with the expected one.
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let length_fits = (Span::from_millis(100)..=Span::from_secs(3600)).contains(&self.length);
        let interval = self.interval.unwrap_or(Span::from_millis(40));
        let interval_fits = (Span::from_millis(1)..=Span::from_secs(10)).contains(&interval);
        let is_single = self.rate.is_none_or(|rate| rate.programmes == 1);
        [
            (self.rate.is_some() != self.sizes.is_some(), "rate", "a rate, or `sizes` in place of it"),
            (
                self.interval.is_none() || self.sizes.is_some(),
                "interval",
                "none: `rate.pictures` have their own",
            ),
            (interval_fits, "interval", "from \"1 ms\" to \"10 s\""),
            (is_single, "rate.programmes", "1: a stream has one programme"),
            (length_fits, "length", "from \"100 ms\" to \"1 h\""),
        ]
        .into_iter()
        .find_map(|(holds, key, expected)| (!holds).then_some((key, expected)))
    }

    /// Generates the stream. `sizes` is the content of the file of that name.
    ///
    /// # Errors
    /// Returns the reason if the rate is impossible, the sizes cannot be read, or the stream would be longer than a file may be.
    pub fn generate(
        &self,
        sizes: Option<&[u8]>,
        stream: &mut RandomStream,
    ) -> Result<TransportStream, String> {
        let (slots, interval) = match (&self.rate, sizes) {
            (Some(rate), None) => (self.by_rate(rate, stream)?, rate.pictures.unwrap_or_default().interval),
            (None, Some(bytes)) => {
                let interval = self.interval.unwrap_or(Span::from_millis(40));
                (self.by_sizes(&Sizes::read(bytes)?, interval)?, interval)
            }
            _ => return Err("expected a rate or sizes".to_owned()),
        };
        let packets = Writer::new(interval).write(slots);
        if packets.is_empty() {
            return Err("the rate does not fill a packet".to_owned());
        }
        Ok(TransportStream::of(packets))
    }

    fn end(&self) -> Time {
        Time::ZERO + self.length
    }

    fn by_rate(&self, rate: &RateConfig, stream: &mut RandomStream) -> Result<Vec<Slot>, String> {
        let rates = Rates::new(rate, Time::ZERO, stream);
        let mut rates = rates.map_err(|error| format!("rate.{}: expected {}", error.key, error.expected))?;
        let pictures = rate.pictures.unwrap_or_default();
        let (mut slots, mut earned) = (Vec::new(), 0_u64);
        // The first piece is part of a picture, which is not sent.
        let first = rates.next_piece(stream);
        let mut due = first.start + first.span;
        let origin = due;
        loop {
            let number = rates.picture();
            let piece = rates.next_piece(stream);
            if piece.start >= origin + self.length {
                return Ok(slots);
            }
            let (end, bps) = (piece.start + piece.span, piece.rate.as_bps());
            let (mut at, mut is_reference) = (piece.start, true);
            loop {
                let span = COST
                    .saturating_sub(earned)
                    .checked_div(bps)
                    .map(|_| COST.saturating_sub(earned).div_ceil(bps));
                let left = end.since(at).as_nanos();
                let Some(span) = span.filter(|span| *span <= left) else {
                    earned += bps * left;
                    break;
                };
                at += Span::from_nanos(span);
                earned = earned + bps * span - COST;
                let starts = (at > due).then(|| {
                    // A picture of which no packet was sent is left out.
                    while due + pictures.interval < at {
                        due += pictures.interval;
                    }
                    let nth = due.since(origin).as_nanos() / pictures.interval.as_nanos();
                    let number = number.unwrap_or(nth as usize % pictures.len());
                    let picture = Picture::of(&pictures, number, due);
                    due += pictures.interval;
                    picture
                });
                if slots.len() as u64 * PACKET_LEN as u64 > MAX_LEN {
                    return Err(too_long());
                }
                slots.push(Slot {
                    at: Time::ZERO + at.since(origin),
                    is_reference,
                    starts: starts.map(|picture| picture.since(origin)),
                });
                is_reference = false;
            }
        }
    }

    /// Spreads the packets of each picture evenly over its interval.
    fn by_sizes(&self, sizes: &Sizes, interval: Span) -> Result<Vec<Slot>, String> {
        let (mut slots, mut due, mut next_tables) = (Vec::new(), Time::ZERO, Time::ZERO);
        for (nth, (kind, len)) in sizes.pictures().iter().cycle().enumerate() {
            if due >= self.end() {
                break;
            }
            let mut packets = (*len as usize + OVERHEAD).div_ceil(PAYLOAD_LEN) as u64;
            if due >= next_tables {
                (packets, next_tables) = (packets + TABLES, due + TABLES_EVERY);
            }
            if (slots.len() as u64 + packets) * PACKET_LEN as u64 > MAX_LEN {
                return Err(too_long());
            }
            let picture = Picture { kind: *kind, due, shown_before: sizes.shown_before(nth) };
            slots.extend((0..packets).map(|n| Slot {
                at: due + Span::from_nanos(interval.as_nanos() * n / packets),
                is_reference: n == 0,
                starts: (n == 0).then_some(picture),
            }));
            due += interval;
        }
        Ok(slots)
    }
}

/// Bytes in front of a picture: clock reference and PES header.
const OVERHEAD: usize = 8 + pes::HEADER_LEN + 10;
/// Packets of the tables.
const TABLES: u64 = 3;

fn too_long() -> String {
    format!("longer than {} in all: expected a shorter `length`, or a lower rate", ByteCount::new(MAX_LEN))
}

impl Picture {
    /// Returns picture `number` of a group in coding order.
    fn of(pictures: &Pictures, number: usize, due: Time) -> Picture {
        let distance = usize::from(pictures.distance);
        let kind = match number {
            0 => Kind::I,
            _ if number.is_multiple_of(distance) => Kind::P,
            _ => Kind::B,
        };
        Picture { kind, due, shown_before: if kind == Kind::B { 0 } else { distance as u64 - 1 } }
    }

    fn since(self, origin: Time) -> Picture {
        Picture { due: Time::ZERO + self.due.since(origin), ..self }
    }

    /// Returns presentation and decoding time.
    fn stamps(&self, interval: Span) -> [pes::Stamp; 2] {
        let ticks = |intervals: u64| {
            let nanos = u128::from(self.due.since(Time::ZERO).as_nanos() + interval.as_nanos() * intervals);
            pes::Stamp::new((nanos * u128::from(pes::Stamp::TICKS_PER_S) / 1_000_000_000) as u64)
        };
        let waits = if self.shown_before > 0 { self.shown_before + 1 } else { 0 };
        [ticks(DELAY + waits), ticks(DELAY)]
    }

    /// Returns the headers of the picture, of MPEG-2 video (ISO/IEC 13818-2, section 6.2).
    ///
    /// `reference` is its place in the order of presentation since the last I picture.
    fn headers(&self, reference: u16, interval: Span) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.kind == Kind::I {
            // 720 by 576 samples, 4:3, and the frame rate that is nearest to the interval; main profile at main level.
            let rate = frame_rate(interval);
            bytes.extend([0, 0, 1, 0xb3, 0x2d, 0x02, 0x40, 0x20 | rate, 0x0e, 0xa6, 0x23, 0x80]);
            bytes.extend([0, 0, 1, 0xb5, 0x14, 0x8a, 0x00, 0x01, 0x00, 0x00]);
        }
        let kind = match self.kind {
            Kind::I => 1_u8,
            Kind::P => 2,
            Kind::B => 3,
        };
        // temporal_reference, picture_coding_type, vbv_delay of all ones; full_pel and f_code of P and B pictures.
        bytes.extend([0, 0, 1, 0, (reference >> 2) as u8, (reference << 6) as u8 | kind << 3 | 7, 0xff]);
        match self.kind {
            Kind::I => bytes.push(0xf8),
            Kind::P => bytes.extend([0xfb, 0x80]),
            Kind::B => bytes.extend([0xfb, 0xb8]),
        }
        // Picture coding extension: f_code of 1 where there are vectors, frame picture, progressive.
        let codes = match self.kind {
            Kind::I => [0x8f, 0xff, 0xf3],
            Kind::P => [0x81, 0x1f, 0xf3],
            Kind::B => [0x81, 0x11, 0x13],
        };
        bytes.extend([0, 0, 1, 0xb5]);
        bytes.extend(codes);
        bytes.extend([0x41, 0x80]);
        // The start of a slice, by which readers find the picture's end; it has no macroblocks.
        bytes.extend([0, 0, 1, 1, 0x08]);
        bytes
    }
}

/// Returns frame_rate_code of the nearest frame rate (ISO/IEC 13818-2, table 6-4).
fn frame_rate(interval: Span) -> u8 {
    let rates = [24_000.0 / 1001.0, 24.0, 25.0, 30_000.0 / 1001.0, 30.0, 50.0, 60_000.0 / 1001.0, 60.0];
    let off = |rate: f64| (rate * interval.as_secs_f64()).ln().abs();
    (1..).zip(rates).min_by(|a, b| off(a.1).total_cmp(&off(b.1))).map_or(3, |(code, _)| code)
}

/// Writer of packets into slots.
struct Writer {
    interval: Span,
    tables: [(Encapsulator, Vec<u8>); TABLES as usize],
    next_tables: Time,
    pending: Vec<Bytes>,
    continuity: u8,
    /// Rest of the headers of the current picture.
    rest: Vec<u8>,
    /// Set while a clock reference waits for a packet of video.
    is_due: bool,
    /// Pictures shown since the last I picture.
    shown: u16,
}

impl Writer {
    fn new(interval: Span) -> Writer {
        let pid = |number| Pid::new(number).expect("13 bits");
        let programmes = vec![Programme { number: 1, map: pid(MAP) }];
        let pat = Pat { stream_id: 1, programmes, ..Pat::default() };
        let streams = vec![Elementary { kind: 2, pid: pid(VIDEO), descriptors: Vec::new() }];
        let pmt = Pmt { number: 1, version: 0, clock: pid(VIDEO), descriptors: Vec::new(), streams };
        let services = vec![Service {
            number: 1,
            has_schedule: false,
            has_present: false,
            running: 4,
            is_restricted: false,
            descriptors: service_descriptor(1, b"bentpipe", b"Modelled video"),
        }];
        let part = psi::Part::default();
        let sdt = Sdt { stream_id: 1, network_id: 0xff01, version: 0, is_actual: true, part, services };
        let sections =
            [(Pid::PAT, pat.to_section()), (pid(MAP), pmt.to_section()), (Pid::SDT, sdt.to_section())];
        let tables = sections.map(|(pid, section)| (Encapsulator::new(pid, Method::Padding), section));
        Writer {
            interval,
            tables,
            next_tables: Time::ZERO,
            pending: Vec::new(),
            continuity: 0,
            rest: Vec::new(),
            is_due: false,
            shown: 0,
        }
    }

    fn write(mut self, slots: Vec<Slot>) -> Vec<Bytes> {
        slots.into_iter().map(|slot| self.packet(&slot)).collect()
    }

    fn packet(&mut self, slot: &Slot) -> Bytes {
        self.is_due |= slot.is_reference;
        // With pictures, as their packets are counted; without, when they are due.
        let may_begin = slot.starts.is_some() || self.interval > TABLES_EVERY;
        if may_begin && slot.at >= self.next_tables {
            self.next_tables = slot.at + TABLES_EVERY;
            let mut bytes = Vec::new();
            self.tables.iter_mut().for_each(|(encapsulator, section)| encapsulator.push(section, &mut bytes));
            self.pending = bytes.as_chunks().0.iter().rev().copied().collect();
        }
        // Neither a picture nor a reference waits for tables.
        if slot.starts.is_none()
            && !self.is_due
            && let Some(table) = self.pending.pop()
        {
            return table;
        }
        if let Some(picture) = &slot.starts {
            self.start(picture);
        }
        self.video(slot)
    }

    fn start(&mut self, picture: &Picture) {
        let [pts, dts] = picture.stamps(self.interval);
        let header = pes::Repr::new(0xe0, Some(pts), (pts != dts).then_some(dts));
        self.rest = vec![0; header.buffer_len()];
        header.emit(&mut self.rest);
        if picture.kind == Kind::I {
            self.shown = 0;
        }
        // Within a group, pictures are numbered by their presentation: an I or P picture after the B pictures behind it.
        let place = match picture.kind {
            Kind::B => self.shown.saturating_sub(1),
            _ => self.shown + picture.shown_before as u16,
        };
        self.shown += 1;
        self.rest.extend(picture.headers(place & 0x3ff, self.interval));
    }

    fn video(&mut self, slot: &Slot) -> Bytes {
        let pcr = std::mem::take(&mut self.is_due).then(|| {
            let nanos = u128::from(slot.at.since(Time::ZERO).as_nanos());
            Pcr::new((nanos * u128::from(Pcr::TICKS_PER_S) / 1_000_000_000) as u64)
        });
        let adaptation = pcr.map(|pcr| Adaptation { len_bytes: 7, pcr: Some(pcr), ..Adaptation::default() });
        let pid = Pid::new(VIDEO).expect("13 bits");
        let repr = Repr { unit_start: slot.starts.is_some(), adaptation, ..Repr::new(pid, self.continuity) };
        self.continuity = (self.continuity + 1) % 16;
        let mut packet = [0; PACKET_LEN];
        repr.emit(&mut packet);
        let room = &mut packet[repr.buffer_len()..];
        let len = room.len().min(self.rest.len());
        room[..len].copy_from_slice(&self.rest[..len]);
        self.rest.drain(..len);
        packet
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_units::Rate;
    use bentpipe_wire::pes;
    use bentpipe_wire::ts::Packet;

    use super::*;

    fn model(pictures: Option<Pictures>) -> Model {
        let rate = RateConfig::new(Rate::from_bps(4_000_000), Rate::from_bps(1_000_000));
        let rate = Some(RateConfig { pictures, ..rate });
        Model { rate, sizes: None, interval: None, length: Span::from_secs(20) }
    }

    fn generated(model: &Model, sizes: Option<&[u8]>) -> TransportStream {
        assert_eq!(model.problem(), None);
        let made = model.generate(sizes, &mut RandomStream::new(3, "model"));
        TransportStream::read(&made.expect("a stream").to_bytes()).expect("a readable stream")
    }

    /// Presentation and decoding times in ticks, and the packets of each picture.
    fn pictures(stream: &TransportStream) -> Vec<(u64, u64, usize)> {
        let mut found: Vec<(u64, u64, usize)> = Vec::new();
        for bytes in &stream.packets {
            let packet = Packet::new_checked(bytes).expect("a packet");
            if packet.pid().number() != VIDEO {
                continue;
            }
            if packet.unit_start() {
                let header = packet.payload().and_then(pes::Repr::parse).expect("a header");
                let [pts, dts] = [header.pts, header.decoding()].map(|stamp| stamp.expect("a stamp").ticks());
                found.push((pts, dts, 0));
            }
            if let Some(last) = found.last_mut() {
                last.2 += 1;
            }
        }
        found
    }

    #[test]
    fn rate_and_references_are_those_of_the_source() {
        let stream = generated(&model(None), None);
        let times = stream.times().expect("references");
        let rate = (stream.len() - 1) as f64 * 1504.0 / times.last().expect("packets").as_secs_f64();
        assert!((rate / 4e6 - 1.0).abs() < 0.15, "{rate}");
        let references = stream.references(Pid::new(VIDEO).expect("13 bits"));
        let gaps: Vec<f64> =
            references.windows(2).map(|pair| pair[1].1.since(pair[0].1) as f64 / 27e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 0.06).abs() < 0.005 && gaps.iter().all(|gap| (0.019..0.102).contains(gap)), "{mean}");
        // Between two references packets are evenly spaced, so times by them are the source's: no packet is early.
        assert!(times.is_sorted());
    }

    #[test]
    fn pictures_are_presented_in_order() {
        let stream = generated(&model(Some(Pictures::default())), None);
        let found = pictures(&stream);
        assert!((495..=500).contains(&found.len()), "{}", found.len());
        let mut shown: Vec<u64> = found.iter().map(|(pts, ..)| *pts).collect();
        shown.sort_unstable();
        // But for both ends, where some are missing, there is one every 40 ms.
        assert!(shown[3..shown.len() - 2].windows(2).all(|pair| pair[1] - pair[0] == 3600), "{shown:?}");
        assert!(found.windows(2).all(|pair| pair[1].1 - pair[0].1 == 3600));
        let waits: Vec<u64> = found.iter().map(|(pts, dts, _)| (pts - dts) / 3600).collect();
        let start = waits.iter().position(|wait| *wait == 3).expect("a reference picture");
        assert_eq!(waits[start..start + 6], [3, 0, 0, 3, 0, 0]);
        // I, P and B pictures are 5, 3 and 1 parts; tables take some packets.
        let sizes: Vec<f64> = found.iter().map(|(.., packets)| *packets as f64).collect();
        let mean = |rest: usize| {
            let all: Vec<f64> = sizes[start..].iter().skip(rest).step_by(3).copied().collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        // One I and three P pictures in a group: 3.5 parts in the mean.
        assert!((mean(0) / mean(1) - 3.5).abs() < 0.5, "{} and {}", mean(0), mean(1));
    }

    #[test]
    fn sizes_of_a_file_are_kept() {
        let text = b"I,30000\nB,4000\nB,5000\nP,12000\nB,1\nB,4000\n";
        let model =
            Model { rate: None, sizes: Some("sizes.csv".into()), interval: None, length: Span::from_secs(2) };
        let stream = generated(&model, Some(text));
        let found = pictures(&stream);
        assert_eq!(found.len(), 50);
        let packets = |len: usize| (len + OVERHEAD).div_ceil(PAYLOAD_LEN);
        let expected: Vec<usize> = [30_000, 4000, 5000, 12_000, 1, 4000].map(packets).to_vec();
        assert!(
            found.iter().zip(expected.iter().cycle()).all(|((.., found), expected)| found == expected),
            "{found:?}"
        );
        let waits: Vec<u64> = found[..6].iter().map(|(pts, dts, _)| (pts - dts) / 3600).collect();
        assert_eq!(waits, [3, 0, 0, 3, 0, 0]);
        // What was made is read again as sizes, but for the last picture.
        let again = Sizes::read(&stream.to_bytes()).expect("sizes");
        assert_eq!(
            (again.pictures().len(), again.pictures()[0].0, again.pictures()[1].0),
            (49, Kind::I, Kind::B)
        );
    }

    #[test]
    fn impossible_models_are_named() {
        let key = |model: Model| model.problem().map(|(key, _)| key);
        let good = model(None);
        assert_eq!(key(Model { rate: None, ..good.clone() }), Some("rate"));
        assert_eq!(key(Model { sizes: Some("a".into()), ..good.clone() }), Some("rate"));
        assert_eq!(key(Model { interval: Some(Span::from_millis(20)), ..good.clone() }), Some("interval"));
        assert_eq!(key(Model { length: Span::ZERO, ..good.clone() }), Some("length"));
        let rate = good.rate.map(|rate| RateConfig { programmes: 2, ..rate });
        assert_eq!(key(Model { rate, ..good.clone() }), Some("rate.programmes"));
        let rate = good.rate.map(|rate| RateConfig { hurst: 2.0, ..rate });
        let said = Model { rate, ..good.clone() }.generate(None, &mut RandomStream::new(1, "model"));
        assert!(said.is_err_and(|text| text.starts_with("rate.hurst: expected")));
        let long = Model { length: Span::from_secs(3600), sizes: Some("a".into()), rate: None, ..good };
        let said = long.generate(Some(b"I,1000000"), &mut RandomStream::new(1, "model"));
        assert!(said.is_err_and(|text| text.contains("expected a shorter `length`")));
    }
}
