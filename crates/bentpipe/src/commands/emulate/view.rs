//! What is shown while an emulation runs: on a terminal a table that is drawn anew, elsewhere a table now and then.

mod layout;

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use bentpipe_emu::{cpu_time, terminal_size};
use bentpipe_lab::build::LinkHandle;
use bentpipe_net::{Link, Observer, Unit};
use bentpipe_units::{Span, Time};

use super::live::RealTimeRun;
use layout::{Row, Status, layout};

/// Shows what it is given. Drawing is done by a thread of its own: a slow terminal must not make packets late.
pub(in super::super) struct View {
    links: Vec<LinkHandle>,
    drawer: Option<(Sender<Picture>, JoinHandle<()>)>,
    on_terminal: bool,
    last: std::cell::RefCell<Last>,
}

/// What is drawn.
type Picture = (Vec<Row>, Status);

#[derive(Default)]
struct Last {
    at: Time,
    delivered_bytes: Vec<u64>,
}

impl View {
    pub(in super::super) fn start(links: Vec<LinkHandle>, quiet: bool) -> View {
        let on_terminal = std::io::stderr().is_terminal();
        let drawer = (!quiet).then(|| {
            let (sender, pictures) = channel::<Picture>();
            (sender, std::thread::spawn(move || draw(&pictures, on_terminal)))
        });
        View { links, drawer, on_terminal, last: std::cell::RefCell::default() }
    }

    /// Takes the state of the network, if it is time to show it again.
    pub(in super::super) fn show(&self, live: &mut RealTimeRun) {
        let Some((sender, _)) = &self.drawer else { return };
        let now = live.driver().network().now();
        let interval = if self.on_terminal { Span::from_millis(500) } else { Span::from_secs(10) };
        let mut last = self.last.borrow_mut();
        if now < last.at + interval {
            return;
        }
        let rows = self.rows(live, &mut last, now);
        last.at = now;
        let late = live.driver().lateness();
        let status = Status {
            elapsed_s: now.as_secs_f64(),
            packets: late.count(),
            late_s: [late.quantile(0.5), late.quantile(0.99), late.max()].map(Span::as_secs_f64),
            cpu: cpu_time().as_secs_f64() / now.as_secs_f64(),
        };
        let _ = sender.send((rows, status));
    }

    /// Ends drawing.
    pub(in super::super) fn end(self) {
        if let Some((sender, thread)) = self.drawer {
            drop(sender);
            let _ = thread.join();
        }
    }

    fn rows(&self, live: &mut RealTimeRun, last: &mut Last, now: Time) -> Vec<Row> {
        last.delivered_bytes.resize(self.links.len(), 0);
        let span_s = now.since(last.at).as_secs_f64();
        let network = live.driver().network();
        let links = self.links.iter().zip(&mut last.delivered_bytes);
        let row = |(link, bytes_before): (&LinkHandle, &mut u64)| {
            let mut seen = Seen { of: link.path(), ..Seen::default() };
            for element in
                [link.shaper, Some(link.line), link.channels.first().copied()].into_iter().flatten()
            {
                seen.is_other = false;
                network.observe(element, &mut seen);
            }
            let bytes =
                seen.delivered_bytes.saturating_sub(std::mem::replace(bytes_before, seen.delivered_bytes));
            let delay = network.element::<Link>(link.line).map_or(link.delay, |line| line.delay(now));
            Row {
                name: format!("{} {}", link.name, link.way.name()),
                rate_bps: bytes as f64 * 8.0 / span_s,
                queue_bytes: seen.queue_bytes,
                delay_s: delay.as_secs_f64(),
                drops: seen.drops,
            }
        };
        links.map(row).collect()
    }
}

/// A terminal of unknown size is taken for one of this.
const USUAL_SIZE: (usize, usize) = (80, 24);

fn draw(pictures: &std::sync::mpsc::Receiver<Picture>, on_terminal: bool) {
    let mut lines = 0;
    for (rows, status) in pictures {
        let size = terminal_size(std::io::stderr().as_fd()).unwrap_or(USUAL_SIZE);
        let size = if on_terminal { size } else { (usize::MAX, usize::MAX) };
        let text = layout(&rows, &status, size);
        let up = if on_terminal && lines > 0 { format!("\u{1b}[{lines}A\u{1b}[J") } else { String::new() };
        lines = text.lines().count();
        let _ = std::io::stderr().lock().write_all(format!("{up}{text}").as_bytes());
    }
}

/// What the elements of one direction of a link report.
#[derive(Default)]
struct Seen {
    /// The direction's path: other parts of an element that it shares are left out.
    of: String,
    is_other: bool,
    delivered_bytes: u64,
    queue_bytes: f64,
    drops: Vec<(&'static str, u64)>,
}

impl Observer for Seen {
    fn part(&mut self, path: &str) {
        self.is_other = path != self.of;
    }

    fn counter(&mut self, name: &'static str, _: Unit, total: u64) {
        match name {
            _ if self.is_other => {}
            "delivered-bytes" => self.delivered_bytes = total,
            name if total > 0 && (name == "lost" || name.starts_with("dropped")) => {
                self.drops.push((name, total));
            }
            _ => {}
        }
    }

    fn gauge(&mut self, name: &'static str, _: Unit, value: f64) {
        if name == "queue-bytes" && !self.is_other {
            // What waits for tokens, and what waits for the line.
            self.queue_bytes += value;
        }
    }
}
