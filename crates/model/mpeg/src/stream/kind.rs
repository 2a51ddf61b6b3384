//! Traffic of real transport streams: over UDP, or in cells where the medium carries them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_site::{
    Attach, Copies, End, FlowAt, FlowEnds, FlowGround, FlowTakes, Form, Judge, Judged, PortNumbers, Problem,
    Review, TrafficKind,
};
use bentpipe_transport::app::{Replay, datagram, endpoints};
use bentpipe_units::{Bytes, RandomStream, Rate, Span, Time};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::ts;

use super::assessment::Assessment;
use super::cells::{self, Received, Receiver};
use super::keeper::{Keeper, Misinsertion, Shelf, udp_payloads};
use super::sent::{Kept, Sent};
use super::transport::{ClockJitter, TransportStream, references};
use super::{Adaptation, Stream, mux};

impl TrafficKind for Stream {
    fn takes(&self) -> FlowTakes {
        FlowTakes { groups: true, copies: Copies::None, ..FlowTakes::default() }
    }

    fn check(&self, key: &str, review: &mut Review<'_>) {
        if let Some((field, expected)) = self.card.problem() {
            review.refuse(&format!("{key}.card.{field}"), format!("expected {expected}"));
        }
        if let Some((field, expected)) = self.recovery.and_then(|recovery| recovery.problem()) {
            review.refuse(&format!("{key}.recovery.{field}"), format!("expected {expected}"));
        }
        if let Some((field, expected)) = self.model.as_ref().and_then(super::Model::problem) {
            review.refuse(&format!("{key}.model.{field}"), format!("expected {expected}"));
        }
        const MODEL: &str = "a stream is a file, a card or a model: expected none next to `model`";
        review.ensure(self.model.is_none() || self.file.is_none(), &format!("{key}.file"), MODEL);
        let is_default = self.card == super::Card::default();
        review.ensure(self.model.is_none() || is_default, &format!("{key}.card"), MODEL);
        let is_udp = self.adaptation == Adaptation::Udp;
        const CELLS: &str = "cells alone have it: expected an `adaptation` to cells, or none";
        review.ensure(!is_udp || self.misinsertion == 0.0, &format!("{key}.misinsertion"), CELLS);
        review.ensure(!is_udp || !self.deliver_errored, &format!("{key}.deliver_errored"), CELLS);
    }

    fn segment_len(&self) -> Option<u64> {
        (self.adaptation == Adaptation::Udp).then(|| self.header_len() + self.payload().get())
    }

    fn offered(&self, _: Bytes) -> Option<Rate> {
        if let Some(model) = &self.model {
            return model.rate.map(|rate| Rate::from_bps(rate.bounded().mean as u64));
        }
        self.file.is_none().then(|| self.card.rate.mul_f64(f64::from(self.card.streams())))
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let original = self.original(at, ground)?;
        let unreadable = |error: super::Unreadable| Problem::new(at.key("traffic"), error.to_string());
        let times = match original.whole.is_empty() {
            true => Vec::new(),
            false => original.whole.times().map_err(unreadable)?,
        };
        let times: Vec<Span> = times.iter().map(|time| at.start + *time).collect();
        match self.adaptation {
            Adaptation::Udp => self.over_udp(at, ground, original, &times),
            _ => self.in_cells(at, ground, original, &times),
        }
    }
}

impl Stream {
    fn payload(&self) -> Bytes {
        Bytes::new(ts::PACKET_LEN as u64 * u64::from(self.packets()))
    }

    /// Returns what is sent: a file, or the test card that a program makes.
    fn original(&self, at: &FlowAt<'_>, ground: &FlowGround<'_, '_>) -> Result<Original, Problem> {
        if let Some(model) = &self.model {
            return model_stream(model, at, ground);
        }
        let made = match &self.file {
            Some(file) => Original::read(ground.open(file)),
            None => Original::made(
                ground.make("test-card", &serde_json::to_value(&self.card).unwrap_or_default()),
            ),
        };
        let key = if self.file.is_some() { "traffic.file" } else { "traffic.card" };
        made.map_err(|problem| Problem::new(at.key(key), problem))
    }

    fn over_udp(
        &self,
        at: &FlowAt<'_>,
        ground: &mut FlowGround<'_, '_>,
        original: Original,
        times: &[Span],
    ) -> Result<FlowEnds, Problem> {
        let ends = ground.datagrams(at, Protocol::UDP, PortNumbers::consecutive(1))?;
        ground.fit(at, &ends, (self.payload(), self.header_len()), "ts_packets")?;
        let count = usize::from(self.packets());
        let groups = original.whole.packets.chunks(count).zip(times.chunks(count));
        let packets = groups.map(|(group, times)| {
            let due = times.last().copied().unwrap_or_default();
            (due, datagram(endpoints(&ends), &group.concat()))
        });
        let sender = Replay::new(packets.collect(), Span::ZERO);
        let sender = sender.map_err(|error| at.impossible("", &error))?;
        let places = sender.sent();
        let due = times.chunks(count).map(|times| Time::ZERO + times.last().copied().unwrap_or_default());
        let sent = Sent::new(original.whole.to_bytes(), count * ts::PACKET_LEN, due.collect());
        let sent = Arc::new(sent);
        let at_nodes = ends.receivers.iter().map(|to| Attach::Node(to.0, to.1));
        let (shelves, receivers) =
            kept(&sent, at_nodes, &|shelf| Keeper::of_datagrams(shelf, Arc::clone(&places)));
        let sender = End::new(sender, ends.sender);
        Ok(FlowEnds { sender, receivers, judges: self.verdicts(at, ground, original, &sent, shelves) })
    }

    fn in_cells(
        &self,
        at: &FlowAt<'_>,
        ground: &mut FlowGround<'_, '_>,
        original: Original,
        times: &[Span],
    ) -> Result<FlowEnds, Problem> {
        let (near, far) = ground.native(at, "adaptation", Form::CellPayloads)?;
        let count = usize::from(self.packets());
        let cells = cells::sent(&original.whole.packets, times, self.adaptation, count);
        let lasts = cells.first().zip(cells.last()).map(|(first, last)| last.0.saturating_sub(first.0));
        let inserted = Misinsertion::new(self.misinsertion, cells.len(), lasts.unwrap_or_default());
        let bytes = cells.iter().flat_map(|(_, cell)| cell).copied().collect();
        let sent =
            Sent::new(bytes, cells::CELL_LEN, cells.iter().map(|(due, _)| Time::ZERO + *due).collect());
        let sent = Arc::new(sent);
        let sender =
            Replay::new(cells.into_iter().map(|(due, cell)| (due, cell.to_vec())).collect(), Span::ZERO);
        let sender = sender.map_err(|error| at.impossible("", &error))?;
        let keeper = |shelf| Keeper::of_cells(shelf, inserted);
        let (shelves, receivers) = kept(&sent, far.into_iter(), &keeper);
        let sender = End::attached(sender, near);
        Ok(FlowEnds { sender, receivers, judges: self.verdicts(at, ground, original, &sent, shelves) })
    }

    /// Returns the verdict about each receiver, with its name if they are a group.
    fn verdicts(
        &self,
        at: &FlowAt<'_>,
        ground: &FlowGround<'_, '_>,
        original: Original,
        sent: &Arc<Sent>,
        shelves: Vec<Shelf>,
    ) -> Vec<(Option<String>, Box<dyn Judge>)> {
        let original = Arc::new(original);
        let verdict = |(shelf, node): (Shelf, &usize)| {
            let (original, sent) = (Arc::clone(&original), Arc::clone(sent));
            let verdict: Box<dyn Judge> = Box::new(Verdict { setup: self.clone(), original, shelf, sent });
            (at.group.map(|_| ground.name(*node).to_owned()), verdict)
        };
        shelves.into_iter().zip(at.receivers).map(verdict).collect()
    }
}

/// Returns the receiving ends, and the shelf of each.
fn kept(
    sent: &Arc<Sent>,
    ends: impl Iterator<Item = Attach>,
    keeper: &dyn Fn(Shelf) -> Keeper,
) -> (Vec<Shelf>, Vec<End>) {
    let keep = |at: Attach| {
        let shelf = Arc::new(Mutex::new(Kept::of(Arc::clone(sent))));
        (Arc::clone(&shelf), End::attached(keeper(shelf), at))
    };
    ends.map(keep).unzip()
}

/// Generates a modelled stream. Its random numbers depend on the seed of the run and the name of the flow.
fn model_stream(
    model: &super::Model,
    at: &FlowAt<'_>,
    ground: &FlowGround<'_, '_>,
) -> Result<Original, Problem> {
    let file = model.sizes.as_ref().map(|sizes| -> Result<(String, Vec<u8>), String> {
        let mut opened = ground.open(sizes)?;
        let bytes = super::transport::read_at_most(&mut opened.bytes);
        Ok((opened.shown.clone(), bytes.map_err(|error| format!("{}: {error}", opened.shown))?))
    });
    let key = if file.is_some() { "traffic.model.sizes" } else { "traffic.model" };
    let problem = |text: String| Problem::new(at.key(key), text);
    let file = file.transpose().map_err(problem)?;
    let mut stream = RandomStream::new(at.seed, &at.key("model"));
    let made = model.generate(file.as_ref().map(|(_, bytes)| &bytes[..]), &mut stream);
    let shown = |text: String| file.as_ref().map_or(text.clone(), |(shown, _)| format!("{shown}: {text}"));
    let whole = made.map_err(|text| problem(shown(text)))?;
    Ok(Original { parts: vec![whole.clone()], whole })
}

/// Stream to send, and the streams that it was made of.
struct Original {
    whole: TransportStream,
    parts: Vec<TransportStream>,
}

impl Original {
    /// Reads a file.
    fn read(opened: Result<bentpipe_site::Opened, String>) -> Result<Original, String> {
        let mut opened = opened?;
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", opened.shown);
        let bytes = super::transport::read_at_most(&mut opened.bytes).map_err(|error| said(&error))?;
        let whole = TransportStream::read(&bytes).map_err(|error| said(&error))?;
        Ok(Original { parts: vec![whole.clone()], whole })
    }

    /// Reads what a program made: a stream for each eye. Without one there is nothing to send.
    fn made(parts: Result<Vec<Vec<u8>>, String>) -> Result<Original, String> {
        let parts = parts?.iter().map(|bytes| TransportStream::read(bytes)).collect::<Result<Vec<_>, _>>();
        let parts = parts.map_err(|error| error.to_string())?;
        let whole = match &parts[..] {
            [] => TransportStream::of(Vec::new()),
            [only] => only.clone(),
            several => mux::multiplex(several, None).map_err(|error| error.to_string())?,
        };
        Ok(Original { whole, parts })
    }
}

/// Statistics of a stream that are determined after the run.
struct Verdict {
    setup: Stream,
    original: Arc<Original>,
    shelf: Shelf,
    /// Cells or datagrams sent.
    sent: Arc<Sent>,
}

impl Judge for Verdict {
    fn judge(&mut self) -> Judged {
        let mut received = self.received();
        let stream = TransportStream::of(std::mem::take(&mut received.packets));
        let parts = self.parts(&stream);
        let mut measures = self.carried(&received, &stream);
        let same = self.original.parts.iter().zip(&parts).map(|(original, part)| mux::same(original, part));
        measures.push(("intact", "ratio", same.sum::<f64>() / parts.len().max(1) as f64));
        let pairs = self.original.parts.iter().zip(&parts);
        // A modelled stream has no pictures to compare.
        let pairs = pairs.filter(|_| self.setup.model.is_none());
        let videos = pairs.map(|(sent, part)| [sent.to_bytes(), part.to_bytes()]).collect();
        let is_card = self.setup.file.is_none() && self.setup.model.is_none();
        let card = is_card.then(|| serde_json::to_value(&self.setup.card).unwrap_or_default());
        Judged { measures, videos, card, received: stream.to_bytes(), ..Judged::default() }
    }
}

impl Verdict {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn received(&self) -> Received {
        let kept = self.kept();
        if self.setup.adaptation == Adaptation::Udp {
            return udp_payloads(&kept);
        }
        let Stream { adaptation, deliver_errored, .. } = self.setup;
        let mut receiver = Receiver::new(adaptation, self.setup.packets().into(), deliver_errored);
        let mut end = Time::ZERO;
        for unit in kept.units() {
            receiver.cell(unit.at, unit.content);
            end = unit.at;
        }
        receiver.finish(end)
    }

    /// Returns the performance of the cells by I.356. AAL1 spaces them evenly, so they have a 1-point delay variation.
    fn assessed(&self) -> Vec<(&'static str, &'static str, f64)> {
        let times = self.sent.times();
        let ends = times.first().zip(times.last()).filter(|(first, last)| first < last);
        let interval_s =
            |(first, last): (&Time, &Time)| last.since(*first).as_secs_f64() / (times.len() - 1) as f64;
        let is_even = self.setup.adaptation != Adaptation::Aal5;
        let interval_s = ends.filter(|_| is_even).map(interval_s);
        let kept = self.kept();
        let received = kept.units().map(|unit| (unit.at, unit.place));
        Assessment::of(times, received).measures(interval_s)
    }

    /// Returns the streams that were multiplexed, or the only one.
    fn parts(&self, stream: &TransportStream) -> Vec<TransportStream> {
        if self.original.parts.len() == 1 {
            return vec![stream.clone()];
        }
        let part =
            |number| mux::demultiplex(stream, number).unwrap_or_else(|_| TransportStream::of(Vec::new()));
        (1..=self.original.parts.len() as u16).map(part).collect()
    }

    fn carried(
        &self,
        received: &Received,
        stream: &TransportStream,
    ) -> Vec<(&'static str, &'static str, f64)> {
        let stats = received.stats;
        let sent = self.original.whole.len() as f64;
        let mut found = Vec::new();
        if self.setup.adaptation != Adaptation::Udp {
            found.extend([
                ("cells-sent", "cells", self.sent.len() as f64),
                ("cells-arrived", "cells", stats.cells as f64),
                ("good-pdus", "packets", stats.good_pdus as f64),
                ("bad-pdus", "packets", stats.bad_pdus as f64),
                ("cells-missing", "cells", stats.aal1.lost as f64),
                ("misinserted-found", "cells", stats.aal1.misinserted as f64),
                ("octets-corrected", "B", stats.aal1.corrected as f64),
                ("rows-failed", "count", stats.aal1.failed_rows as f64),
            ]);
            found.extend(self.assessed());
        } else {
            found.push(("bad-datagrams", "packets", stats.bad_pdus as f64));
        }
        let good = (stream.len() as u64 - stats.marked) as f64;
        found.extend([
            ("ts-sent", "packets", sent),
            ("ts-arrived", "packets", stream.len() as f64),
            ("ts-marked", "packets", stats.marked as f64),
            ("ts-loss", "ratio", 1.0 - good / sent.max(1.0)),
        ]);
        if let Some(jitter) = ClockJitter::of(stream, &received.times) {
            found.push(("pcr-jitter", "s", jitter.deviation_s));
            found.push(("pcr-jitter-peak", "s", jitter.peak_to_peak_s));
        }
        let seen = self.setup.recovery.zip(references(stream, &received.times));
        if let Some(recovered) = seen.and_then(|(recovery, seen)| recovery.recover(&seen)) {
            found.extend(recovered.lock_s.map(|lock_s| ("clock-lock-time", "s", lock_s)));
            found.push(("clock-jitter", "s", recovered.jitter_s));
            found.push(("clock-jitter-peak", "s", recovered.peak_to_peak_s));
            found.push(("clock-jumps", "count", recovered.jumps as f64));
        }
        found
    }
}
