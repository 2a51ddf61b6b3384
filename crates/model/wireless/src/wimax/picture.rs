//! Picture of a cell's frames with bursts, preambles, maps and contention slots, as SVG.

use std::fmt::Write;
use std::io;

use bentpipe_net::InvalidConfig;

use super::air::{AirLog, Area, Content, Frame as Recorded};
use super::config::Cell;
use super::overhead::Frame;

/// Maximum number of frames drawn.
const MOST_DRAWN: usize = 12;
/// Maximum number of stations in the legend.
const MOST_NAMED: usize = 16;
const WIDTH: f64 = 1080.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 84.0;
const ROW: f64 = 20.0;
const GAP: f64 = 6.0;

/// Colours of stations, which repeat.
const STATIONS: [&str; 8] =
    ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#997700"];
const PREAMBLE: &str = "#222222";
const FCH: &str = "#666666";
const MAPS: &str = "#999999";
const RANGING: &str = "#dddddd";
const COLLISION: &str = "#cc3311";
const ASKED: &str = "#009988";

/// Geometry of a cell's frames, and the names of its stations.
pub(super) struct Picture {
    title: String,
    frame: Frame,
    /// Start of the uplink from that of the frame, as a share of the frame.
    uplink_start: f64,
    stations: Vec<String>,
}

impl Picture {
    /// Creates the picture of a cell.
    ///
    /// # Errors
    /// Returns an error that names an invalid key of the cell.
    pub(super) fn new(name: &str, cell: &Cell, stations: Vec<String>) -> Result<Picture, InvalidConfig> {
        let frame = Frame::new(cell)?;
        let share = frame.uplink_start(cell).as_secs_f64() / frame.phy.frame().as_secs_f64();
        Ok(Picture { title: format!("Cell {name}"), uplink_start: share, frame, stations })
    }

    /// Writes the picture of a log.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(super) fn write(&self, log: &AirLog, out: &mut dyn io::Write) -> io::Result<()> {
        io::Write::write_all(out, self.draw(log).as_bytes())
    }

    /// Draws the first busy frames of a log, and the mean use of all.
    pub(super) fn draw(&self, log: &AirLog) -> String {
        let frames = log.frames();
        let busy = frames.iter().filter(|frame| !frame.bursts.is_empty());
        let drawn: Vec<&Recorded> = busy.take(MOST_DRAWN).collect();
        let rows = if self.frame.is_tdd() { 1.0 } else { 2.0 };
        let height = TOP + drawn.len() as f64 * (rows * ROW + GAP) + 160.0;
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        self.head(&mut svg, frames.len());
        let mut y = TOP;
        for frame in &drawn {
            self.frame_at(&mut svg, frame, y);
            y += rows * ROW + GAP;
        }
        self.axis(&mut svg, y);
        self.means(&mut svg, &frames, y + 44.0);
        svg.push_str("</svg>\n");
        svg
    }

    fn head(&self, svg: &mut String, recorded: usize) {
        let phy = &self.frame.phy;
        let duplex = if self.frame.is_tdd() { "TDD" } else { "FDD" };
        let title = format!(
            "{}: {duplex}, frames of {}, symbols of {}; {recorded} frames recorded",
            escaped(&self.title),
            phy.frame(),
            phy.symbols(1)
        );
        text(svg, (LEFT, 20.0), "font-size=\"14\" font-weight=\"bold\"", &title);
        let parts = [
            ("preamble", PREAMBLE),
            ("FCH", FCH),
            ("maps", MAPS),
            ("ranging", RANGING),
            ("request slot", "#ffffff"),
            ("request", ASKED),
            ("collision", COLLISION),
        ];
        self.legend(svg, 38.0, parts.iter().map(|(name, colour)| (*name, *colour)));
        let named = self.stations.iter().take(MOST_NAMED).enumerate();
        self.legend(svg, 58.0, named.map(|(n, name)| (name.as_str(), colour_of(n))));
    }

    fn legend<'a>(&self, svg: &mut String, y: f64, entries: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut x = LEFT;
        for (name, colour) in entries {
            box_at(svg, (x, y - 9.0), (10.0, 10.0), colour, name);
            text(svg, (x + 14.0, y), "", &escaped(name));
            x += 26.0 + 6.5 * name.chars().count() as f64;
        }
    }

    /// Returns the place of a symbol of a subframe.
    fn x(&self, is_downlink: bool, symbol: f64) -> f64 {
        let frame_s = self.frame.phy.frame().as_secs_f64();
        let offset = if is_downlink { 0.0 } else { self.uplink_start };
        let share = offset + symbol * self.frame.phy.symbols(1).as_secs_f64() / frame_s;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn frame_at(&self, svg: &mut String, frame: &Recorded, y: f64) {
        let up = if self.frame.is_tdd() { y } else { y + ROW };
        text(svg, (8.0, y + 14.0), "", &format!("frame {}", frame.number));
        if !self.frame.is_tdd() {
            text(svg, (LEFT - 4.0, y + 14.0), "text-anchor=\"end\" fill=\"#666\"", "DL");
            text(svg, (LEFT - 4.0, up + 14.0), "text-anchor=\"end\" fill=\"#666\"", "UL");
        }
        for (is_downlink, areas, y, all) in
            [(true, &frame.downlink, y, self.frame.downlink), (false, &frame.uplink, up, self.frame.uplink)]
        {
            let (from, to) = (self.x(is_downlink, 0.0), self.x(is_downlink, all.into()));
            box_at(
                svg,
                (from, y),
                (to - from, ROW - 2.0),
                "#f6f6f6",
                if is_downlink { "downlink" } else { "uplink" },
            );
            areas.iter().for_each(|area| self.area(svg, is_downlink, area, y));
        }
    }

    fn area(&self, svg: &mut String, is_downlink: bool, area: &Area, y: f64) {
        let [from, to] = area.symbols.map(|symbol| self.x(is_downlink, symbol));
        let place = ((from, y), (to - from, ROW - 2.0));
        let symbols = format!("symbols {:.1} to {:.1}", area.symbols[0], area.symbols[1]);
        let (colour, what) = match area.content {
            Content::Preamble => (PREAMBLE, "preamble".to_owned()),
            Content::Fch => (FCH, "FCH".to_owned()),
            Content::Maps => (MAPS, "maps".to_owned()),
            Content::Ranging => (RANGING, "ranging".to_owned()),
            Content::Slot(0) => ("#ffffff", "request slot".to_owned()),
            Content::Slot(1) => (ASKED, "request".to_owned()),
            Content::Slot(n) => (COLLISION, format!("collision of {n} requests")),
            Content::Burst { station, profile } => {
                let name = self.stations.get(station).map_or("?", String::as_str);
                (colour_of(station), format!("{name}, {}", profile.name()))
            }
        };
        box_at(svg, place.0, place.1, colour, &format!("{what}, {symbols}"));
    }

    /// Draws the time axis below the frames.
    fn axis(&self, svg: &mut String, y: f64) {
        let frame_ms = self.frame.phy.frame().as_secs_f64() * 1e3;
        let (from, to) = (LEFT, WIDTH - RIGHT);
        let _ = writeln!(svg, "<path d=\"M{from} {y}H{to}\" stroke=\"#333\"/>");
        for tick in 0..=10 {
            let x = from + (to - from) * f64::from(tick) / 10.0;
            let _ = writeln!(svg, "<path d=\"M{x:.1} {y}v4\" stroke=\"#333\"/>");
            text(
                svg,
                (x, y + 16.0),
                "text-anchor=\"middle\"",
                &format!("{:.2}", frame_ms * f64::from(tick) / 10.0),
            );
        }
        text(svg, ((from + to) / 2.0, y + 30.0), "text-anchor=\"middle\"", "time in the frame (ms)");
    }

    /// Draws the mean use of both subframes, over all recorded frames.
    fn means(&self, svg: &mut String, frames: &[Recorded], y: f64) {
        let mut y = y + 16.0;
        text(svg, (8.0, y), "font-weight=\"bold\"", "mean of the recorded frames, in symbols");
        for is_downlink in [true, false] {
            y += 8.0;
            let all = f64::from(if is_downlink { self.frame.downlink } else { self.frame.uplink });
            let uses = uses(frames, is_downlink);
            text(svg, (LEFT - 4.0, y + 14.0), "text-anchor=\"end\"", if is_downlink { "DL" } else { "UL" });
            let scale = (WIDTH - LEFT - RIGHT) / all;
            let mut at = LEFT;
            for (what, colour, symbols) in &uses {
                let wide = symbols * scale;
                box_at(svg, (at, y), (wide, ROW - 2.0), colour, &format!("{what}: {symbols:.2} symbols"));
                if wide > 44.0 {
                    let label = format!("{what} {symbols:.1}");
                    let ink = if *colour == RANGING { "#333" } else { "#fff" };
                    let style = format!("fill=\"{ink}\" font-size=\"10\"");
                    text(svg, (at + 3.0, y + 13.0), &style, &label);
                }
                at += wide;
            }
            let used: f64 = uses.iter().map(|(.., symbols)| symbols).sum();
            box_at(svg, (at, y), ((all - used).max(0.0) * scale, ROW - 2.0), "#f6f6f6", "free");
            text(svg, (LEFT, y + 32.0), "fill=\"#666\"", &format!("{used:.1} of {all} symbols used"));
            y += 34.0;
        }
    }
}

/// Returns the mean symbols of each use of a subframe.
fn uses(frames: &[Recorded], is_downlink: bool) -> Vec<(&'static str, &'static str, f64)> {
    let kinds = [
        ("preambles", PREAMBLE),
        ("FCH", FCH),
        ("maps", MAPS),
        ("ranging", RANGING),
        ("slots", ASKED),
        ("bursts", STATIONS[0]),
    ];
    let mut sums = [0.0; 6];
    for area in frames.iter().flat_map(|frame| if is_downlink { &frame.downlink } else { &frame.uplink }) {
        let kind = match area.content {
            Content::Preamble => 0,
            Content::Fch => 1,
            Content::Maps => 2,
            Content::Ranging => 3,
            Content::Slot(_) => 4,
            Content::Burst { .. } => 5,
        };
        sums[kind] += area.symbols[1] - area.symbols[0];
    }
    let mean = |sum: f64| sum / frames.len().max(1) as f64;
    let used = kinds.into_iter().zip(sums).filter(|(_, sum)| *sum > 0.0);
    used.map(|((what, colour), sum)| (what, colour, mean(sum))).collect()
}

fn colour_of(station: usize) -> &'static str {
    STATIONS[station % STATIONS.len()]
}

fn box_at(svg: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str, title: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{fill}\" stroke=\"#888\" \
         stroke-width=\"0.4\"><title>{}</title></rect>",
        escaped(title)
    );
}

fn text(svg: &mut String, (x, y): (f64, f64), style: &str, content: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{content}</text>");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::air::Burst;
    use super::super::phy::Profile;
    use super::*;
    use bentpipe_units::Time;

    #[test]
    fn every_area_is_drawn_at_its_place() {
        let cell = Cell::default();
        let log = AirLog::default();
        let burst = Burst { at: Time::ZERO, station: 1, is_downlink: true, pdus: vec![vec![0; 6]] };
        let content = Content::Burst { station: 1, profile: Profile::Qpsk12 };
        log.frames().push(Recorded {
            number: 7,
            downlink: vec![
                Area { symbols: [0.0, 2.0], content: Content::Preamble },
                Area { symbols: [5.0, 15.5], content },
            ],
            uplink: vec![Area { symbols: [8.0, 10.0], content: Content::Slot(2) }],
            bursts: vec![burst],
        });
        let stations = vec!["a".to_owned(), "b<1>".to_owned()];
        let svg = Picture::new("mast", &cell, stations).expect("possible").draw(&log);
        // 62 symbols of 80 us in a frame of 5 ms.
        let x = |symbol: f64| LEFT + symbol * 80.0 / 5000.0 * (WIDTH - LEFT - RIGHT);
        assert!(
            svg.contains(&format!("x=\"{:.2}\" y=\"{TOP:.1}\" width=\"{:.2}\"", x(5.0), x(15.5) - x(5.0))),
            "{svg}"
        );
        for said in [
            "frame 7",
            "b&lt;1&gt;, qpsk-1/2, symbols 5.0 to 15.5",
            "collision of 2 requests",
            "12.5 of 62 symbols",
        ] {
            assert!(svg.contains(said), "{said}: {svg}");
        }
        let names: BTreeSet<&str> = svg.lines().filter_map(|line| line.split([' ', '>']).next()).collect();
        assert!(
            names.iter().all(|name| ["<svg", "<rect", "<text", "<path", "</svg"].contains(name)),
            "{names:?}"
        );
    }
}
