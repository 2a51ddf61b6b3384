//! Time-sequence graphs of the TCP connections of a capture.
//!
//! Each direction with data has a graph: segments, retransmissions, the line of acknowledgements, the window's edge, SACK blocks.
//! Sequence numbers are relative to the first, beyond 2^32. Near the sender the graph shows what the sender does; near the
//! receiver a segment that fills a hole looks like a retransmission.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bentpipe_intake::{Link, Reason, Refusal};
use bentpipe_report::{Axis, Block, Cell, Curve, Mark, Page, Plot, Table, number, quantity};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Flags, Options, Segment, SeqNumber};
use serde_json::{Value, json};

use super::write;
use crate::capture::{Capture, Packet, Wanted, write_counts};
use crate::{Error, Intake, Outcome, Session};

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 10_000;

/// Maximum number of segments and acknowledgements.
const MAX_EVENTS: usize = 4_000_000;

/// Maximum number of points of a curve on a page.
const MAX_POINTS: usize = 30_000;

/// Maximum height of the window's edge in the graph, over the last byte sent.
const MAX_HEIGHT: f64 = 1.5;

/// Time-sequence graphs of a capture as text, page and xplot file.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Capture.
    pub input: PathBuf,
    /// Number of the only connection that is drawn, from 1. Default: that with the most bytes.
    pub connection: Option<usize>,
    /// First and last time that is drawn, in seconds from the first packet.
    pub range_s: [f64; 2],
    /// HTML page with the graph.
    pub report: Option<PathBuf>,
    /// File for xplot.
    pub xplot: Option<PathBuf>,
    /// Enables ANSI colours in the text.
    pub colours: bool,
    /// Choice of packets, and a file for the records that are left out.
    pub intake: Intake,
}

/// Segment with data, SYN or FIN.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sent {
    at_s: f64,
    /// First byte and the one after the last, relative to the first of the connection.
    range: [u64; 2],
    is_retransmission: bool,
}

/// Acknowledgement, with the edge of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Acknowledged {
    at_s: f64,
    ack: u64,
    edge: u64,
}

/// Data in one direction, and what the other one answers.
#[derive(Clone, Debug, Default)]
struct Direction {
    first: Option<SeqNumber>,
    /// End of what was sent.
    highest: u64,
    /// End of the data that were sent, without FIN.
    data: u64,
    /// Set once a SYN was sent, which the numbers count.
    has_syn: bool,
    /// Shift of the windows that its receiver offers; `None` before the receiver's SYN.
    scale: Option<u8>,
    segments: Vec<Sent>,
    acks: Vec<Acknowledged>,
    /// Times and blocks of selective acknowledgements.
    sacks: Vec<(f64, [u64; 2])>,
}

impl Direction {
    /// Returns a number relative to the first, nearest to the end of what was sent.
    fn relative(&mut self, number: SeqNumber) -> u64 {
        let first = *self.first.get_or_insert(number);
        let end = first + (self.highest as u32);
        self.highest.saturating_add_signed(number.delta(end).into())
    }

    fn on_segment(&mut self, at_s: f64, segment: &Segment<&[u8]>) {
        let start = self.relative(segment.seq());
        let end = start + u64::from(segment.segment_len());
        let is_syn = segment.flags().contains(Flags::SYN);
        self.has_syn |= is_syn;
        self.data = self.data.max(start + u64::from(is_syn) + segment.payload_len() as u64);
        if end > start {
            let is_retransmission = start < self.highest;
            self.segments.push(Sent { at_s, range: [start, end], is_retransmission });
            self.highest = self.highest.max(end);
        }
    }

    fn on_answer(&mut self, at_s: f64, segment: &Segment<&[u8]>, options: &Options) {
        let is_syn = segment.flags().contains(Flags::SYN);
        if is_syn {
            self.scale = Some(options.window_scale.unwrap_or(0).min(14));
        }
        let Some(ack) = segment.ack() else { return };
        let ack = self.relative(ack);
        // The window of a SYN is not scaled (RFC 7323, section 2.2).
        let shift = if is_syn { 0 } else { self.scale.unwrap_or(0) };
        let edge = ack + (u64::from(segment.window()) << shift);
        self.acks.push(Acknowledged { at_s, ack, edge });
        for (left, right) in options.sack.iter() {
            let block = [self.relative(left), self.relative(right)];
            self.sacks.push((at_s, block));
        }
    }

    fn bytes(&self) -> u64 {
        self.data.saturating_sub(self.has_syn.into())
    }

    fn retransmissions(&self) -> usize {
        self.segments.iter().filter(|sent| sent.is_retransmission).count()
    }

    /// Returns the time from the first to the last segment or acknowledgement.
    fn lasts_s(&self) -> f64 {
        let times = self.segments.iter().map(|sent| sent.at_s).chain(self.acks.iter().map(|ack| ack.at_s));
        let (first, last) =
            times.fold((f64::MAX, 0.0_f64), |(first, last), at| (first.min(at), last.max(at)));
        (last - first).max(0.0)
    }

    /// Returns the part between two times.
    fn between(&self, [from, to]: [f64; 2]) -> Direction {
        let is_in = |at: f64| (from..=to).contains(&at);
        Direction {
            segments: self.segments.iter().filter(|sent| is_in(sent.at_s)).copied().collect(),
            acks: self.acks.iter().filter(|ack| is_in(ack.at_s)).copied().collect(),
            sacks: self.sacks.iter().filter(|(at, _)| is_in(*at)).copied().collect(),
            ..*self
        }
    }
}

/// Ends of a direction: sender and receiver.
type Ends = [SocketAddr; 2];

/// VLANs of a connection, both of whose directions may have an interface of their own.
type Vlans = [Option<u16>; 2];

/// Directions with data, in the order of their first packet.
#[derive(Debug, Default)]
struct Connections {
    places: BTreeMap<(Ends, Vlans), usize>,
    all: Vec<(Ends, Vlans, Direction)>,
    first_ns: Option<u64>,
    events: usize,
    /// Account of the capture as JSON.
    account: Value,
    /// Account in a line, behind the name of the capture.
    remark: String,
}

/// Returns the reason for which a packet is not a segment of TCP.
fn is_segment(packet: &Packet<'_>) -> Result<(), Refusal> {
    let other = |detail: Cow<'static, str>| (Reason::Content, detail);
    let malformed = |_| other("of malformed IP packets".into());
    let elided = packet.len.saturating_sub(packet.bytes.len());
    let upper = ip::Packet::new_elided(packet.bytes, elided);
    let upper = upper.as_ref().map_err(|_| malformed(()))?.upper();
    let upper = upper.map_err(|_| malformed(()))?;
    match upper.protocol {
        Protocol::TCP if upper.is_fragment => Err(other("of TCP in fragments".into())),
        Protocol::TCP => {
            Segment::new_elided(upper.bytes, upper.elided).map(|_| ()).map_err(|_| match packet.is_cut() {
                true => (Reason::Cut, "of TCP segments that the capture cut".into()),
                false => other("of malformed TCP segments".into()),
            })
        }
        found => Err(other(format!("of {found}, not TCP").into())),
    }
}

impl Connections {
    fn read(path: &Path, intake: &Intake, session: &dyn Session) -> Result<(Connections, bool), Error> {
        let mut found = Connections::default();
        let mut capture = Capture::open(path, Wanted::Datagrams, intake, session)?;
        capture.for_each_if(is_segment, |packet| {
            found.packet(packet);
            let is_much = found.all.len() > 2 * MAX_CONNECTIONS || found.events > MAX_EVENTS;
            if is_much {
                let most = format!("more than {MAX_CONNECTIONS} connections or {MAX_EVENTS} segments");
                return Err(Error::Usage(format!("{}: {most}: expected a shorter capture", path.display())));
            }
            Ok(!session.is_interrupted())
        })?;
        found.all.retain(|(.., direction)| direction.bytes() > 0);
        if found.all.is_empty() {
            let (shown, account) = (path.display(), capture.account());
            return Err(Error::Usage(format!("{shown}: no TCP connection with data: {account}")));
        }
        session.note(&capture.remark());
        found.account = capture.json();
        found.remark = capture.remark();
        Ok((found, capture.account().has_damage()))
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        let &Packet { time_ns, bytes, len, link, .. } = packet;
        let Ok(packet) = ip::Packet::new_elided(bytes, len.saturating_sub(bytes.len())) else { return };
        let Ok(upper) = packet.upper() else { return };
        if upper.protocol != Protocol::TCP || upper.is_fragment {
            return;
        }
        let Ok(segment) = Segment::new_elided(upper.bytes, upper.elided) else { return };
        let Ok(options) = Options::parse(segment.options()) else { return };
        let at_s = time_ns.saturating_sub(*self.first_ns.get_or_insert(time_ns)) as f64 / 1e9;
        let from = SocketAddr::new(packet.src(), segment.src_port());
        let to = SocketAddr::new(packet.dst(), segment.dst_port());
        self.direction([from, to], link.vlans).on_segment(at_s, &segment);
        self.direction([to, from], link.vlans).on_answer(at_s, &segment, &options);
        self.events += 2;
    }

    fn direction(&mut self, ends: Ends, vlans: Vlans) -> &mut Direction {
        let next = self.all.len();
        let place = *self.places.entry((ends, vlans)).or_insert(next);
        if place == next {
            self.all.push((ends, vlans, Direction::default()));
        }
        &mut self.all[place].2
    }
}

impl Sequence {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if the capture cannot be read, or has no such connection.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let [from, to] = self.range_s;
        if from.is_nan() || to.is_nan() || from >= to {
            return Err(Error::Usage("--from: expected less than --to".to_owned()));
        }
        let outputs = [&self.report, &self.xplot].map(Option::as_deref);
        crate::capture::check_apart(&self.input, outputs, &self.intake)?;
        let (found, has_damage) = Connections::read(&self.input, &self.intake, session)?;
        let chosen = self.chosen(&found)?;
        write_counts(&self.intake, json!({ "directions": directions(&found.all) }), found.account.clone())?;
        let (ends, _, direction) = &found.all[chosen];
        let shown = direction.between(self.range_s);
        if let Some(path) = &self.report {
            if shown.segments.len().max(shown.acks.len()) > MAX_POINTS {
                session.note(&format!(
                    "the page shows the first {MAX_POINTS} of each kind: see --from and --to"
                ));
            }
            let plot = plot(*ends, &shown);
            let (title, lead) = (named(*ends), format!("Connection {}. {}", chosen + 1, found.remark));
            let blocks = vec![Block::Table(table(&found.all)), Block::Plots(vec![plot])];
            write(path, &Page { title, lead, facts: Vec::new(), blocks }.to_html())?;
        }
        if let Some(path) = &self.xplot {
            write(path, &xplot(*ends, &shown))?;
        }
        Ok(Outcome::new(table(&found.all).to_text(self.colours), session, has_damage))
    }

    /// Returns the place of the connection that is drawn.
    fn chosen(&self, found: &Connections) -> Result<usize, Error> {
        let count = found.all.len();
        match self.connection {
            Some(number) if (1..=count).contains(&number) => Ok(number - 1),
            Some(number) => {
                Err(Error::Usage(format!("--connection {number}: expected a number from 1 to {count}")))
            }
            None => Ok((0..count).rev().max_by_key(|n| found.all[*n].2.bytes()).unwrap_or(0)),
        }
    }
}

fn named([from, to]: Ends) -> String {
    format!("{from} to {to}")
}

/// Describes all directions as JSON.
fn directions(all: &[(Ends, Vlans, Direction)]) -> Vec<Value> {
    let of = |([from, to], vlans, direction): &(Ends, Vlans, Direction)| {
        json!({
            "source": from.to_string(),
            "destination": to.to_string(),
            "vlans": vlans.iter().flatten().collect::<Vec<_>>(),
            "bytes": direction.bytes(),
            "segments": direction.segments.len(),
            "retransmissions": direction.retransmissions(),
            "acks": direction.acks.len(),
            "sack_blocks": direction.sacks.len(),
            "duration_s": direction.lasts_s(),
        })
    };
    all.iter().map(of).collect()
}

fn table(all: &[(Ends, Vlans, Direction)]) -> Table {
    let row = |(n, (ends, vlans, direction)): (usize, &(Ends, Vlans, Direction))| {
        let (bytes, lasts) = (direction.bytes(), direction.lasts_s());
        let rate = if lasts > 0.0 { number(bytes as f64 * 8.0 / lasts / 1e6) } else { String::new() };
        let again = direction.retransmissions();
        let counts = [bytes.to_string(), direction.segments.len().to_string(), again.to_string()];
        let more = [direction.acks.len().to_string(), direction.sacks.len().to_string(), number(lasts), rate];
        let mut cells = vec![
            Cell::Text((n + 1).to_string()),
            Cell::Text(named(*ends) + &Link { vlans: *vlans, ..Link::default() }.to_string()),
        ];
        cells.extend(counts.into_iter().chain(more).map(Cell::Number));
        cells
    };
    let head = ["", "direction", "bytes", "segments", "again", "ACKs", "SACK blocks", "time (s)", "Mbit/s"];
    let rows = all.iter().enumerate().map(row).collect();
    Table { caption: String::new(), head: head.map(str::to_owned).to_vec(), rows }
}

/// Returns the graph of a direction.
fn plot(ends: Ends, direction: &Direction) -> Plot {
    let mut plot = Plot::new(named(ends), Axis::new("time", "s"), Axis::new("sequence number", "B"));
    let (edge, hidden) = edge(direction);
    plot.note = format!("Drag over a part to enlarge it.{hidden}");
    let bars = |bars: Vec<(f64, [u64; 2])>| -> Vec<(f64, f64)> {
        let bar =
            |(at, [low, high]): (f64, [u64; 2])| [(at, low as f64), (at, high as f64), (f64::NAN, f64::NAN)];
        bars.into_iter().take(MAX_POINTS).flat_map(bar).collect()
    };
    let segments = |again: bool| {
        let sent = direction.segments.iter().filter(|sent| sent.is_retransmission == again);
        sent.map(|sent| (sent.at_s, sent.range)).collect()
    };
    let curve = |name: &str, points: Vec<(f64, f64)>, mark: Mark, colour: usize| Curve {
        name: name.to_owned(),
        points,
        mark,
        colour,
        ..Curve::default()
    };
    let acks = || direction.acks.iter().take(MAX_POINTS);
    let all = [
        curve("window's edge", edge, Mark::Dashed, 3),
        curve("acknowledged", stairs(acks().map(|ack| (ack.at_s, ack.ack))), Mark::Dashed, 2),
        curve("segments", bars(segments(false)), Mark::Rows, 0),
        curve("retransmissions", bars(segments(true)), Mark::Rows, 1),
        curve("SACK", bars(direction.sacks.clone()), Mark::Rows, 4),
    ];
    plot.curves = all.into_iter().filter(|curve| !curve.points.is_empty()).collect();
    plot
}

/// Returns the line of the window's edge, and a note on what is left out.
///
/// Data cannot be read if the edge is far above them.
fn edge(direction: &Direction) -> (Vec<(f64, f64)>, String) {
    let sent = direction.segments.iter().map(|sent| sent.range[1]).max().unwrap_or(0) as f64;
    let highest = MAX_HEIGHT * sent;
    let acks = direction.acks.iter().take(MAX_POINTS);
    let mut points = stairs(acks.map(|ack| (ack.at_s, ack.edge)));
    let top = points.iter().map(|point| point.1).fold(0.0, f64::max);
    if sent == 0.0 || top <= highest {
        return (points, String::new());
    }
    // A gap, so that no line leads over the part that is left out.
    points.iter_mut().filter(|point| point.1 > highest).for_each(|point| point.1 = f64::NAN);
    if points.iter().all(|point| point.1.is_nan()) {
        points.clear();
    }
    (points, format!(" The window's edge is partly above the picture, up to {}", quantity(top, None, "B")))
}

/// Returns the points of a line that holds each value until the next.
fn stairs(points: impl Iterator<Item = (f64, u64)>) -> Vec<(f64, f64)> {
    let (mut all, mut last) = (Vec::new(), None);
    for (at, value) in points {
        let value = value as f64;
        all.extend(last.map(|last| (at, last)));
        all.push((at, value));
        last = Some(value);
    }
    all
}

/// Returns the graph in the language of xplot.
fn xplot(ends: Ends, direction: &Direction) -> String {
    let mut text =
        format!("double double\ntitle\n{}\nxlabel\ntime (s)\nylabel\nsequence number\n", named(ends));
    // Writing to a string does not fail.
    let mut line = |colour: &str, what: &str, [x, y]: [f64; 2], [to_x, to_y]: [f64; 2]| {
        let _ = writeln!(text, "{colour}\n{what} {x:.9} {y:.0} {to_x:.9} {to_y:.0}");
    };
    for (points, colour) in [
        (stairs(direction.acks.iter().map(|ack| (ack.at_s, ack.ack))), "green"),
        (stairs(direction.acks.iter().map(|ack| (ack.at_s, ack.edge))), "yellow"),
    ] {
        points.windows(2).for_each(|pair| line(colour, "line", pair[0].into(), pair[1].into()));
    }
    for Sent { at_s, range: [low, high], is_retransmission } in &direction.segments {
        let colour = if *is_retransmission { "red" } else { "white" };
        line(colour, "line", [*at_s, *low as f64], [*at_s, *high as f64]);
    }
    for (at_s, [low, high]) in &direction.sacks {
        line("purple", "line", [*at_s, *low as f64], [*at_s, *high as f64]);
    }
    text.push_str("go\n");
    text
}

#[cfg(test)]
mod tests;
