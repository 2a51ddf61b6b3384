//! Live view of an emulation. On a terminal it is a table that is redrawn, elsewhere a table now and then.

mod layout;

use std::io::Write;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use bentpipe_assemble::LinkHandle;
use bentpipe_atm as atm;
use bentpipe_emu::{cpu_time, plain};
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{Observer, link, queue, shaper};
use bentpipe_units::{Span, Time};

use crate::live::RealTimeRun;
use layout::{Row, Status, layout};

/// Destination of the live view.
pub struct Display {
    /// Stream that is written to.
    pub output: Box<dyn Write + Send>,
    /// Size of the terminal in columns and rows, over which each table is redrawn.
    pub terminal_size: Option<Box<dyn Fn() -> (usize, usize) + Send>>,
}

/// Live view. A thread of its own draws it: a slow terminal does not delay packets.
pub(crate) struct View {
    links: Vec<LinkHandle>,
    drawer: Option<(Sender<Picture>, JoinHandle<()>)>,
    on_terminal: bool,
    last: std::cell::RefCell<Last>,
}

/// Contents of a table.
type Picture = (Vec<Row>, Status);

#[derive(Default)]
struct Last {
    at: Time,
    delivered_bytes: Vec<u64>,
}

impl View {
    /// Starts the view; without a display it shows nothing.
    pub(crate) fn start(links: Vec<LinkHandle>, display: Option<Display>) -> View {
        let on_terminal = display.as_ref().is_some_and(|display| display.terminal_size.is_some());
        let drawer = display.map(|display| {
            let (sender, pictures) = channel::<Picture>();
            (sender, std::thread::spawn(move || draw(&pictures, display)))
        });
        View { links, drawer, on_terminal, last: std::cell::RefCell::default() }
    }

    /// Shows the state of the network, if it is time to.
    pub(crate) fn show(&self, live: &mut RealTimeRun) {
        let Some((sender, _)) = &self.drawer else { return };
        let now = live.driver().network().now();
        let interval = if self.on_terminal { Span::from_millis(500) } else { Span::from_secs(10) };
        let mut last = self.last.borrow_mut();
        if now < last.at + interval {
            return;
        }
        let _ = sender.send(self.picture(live, &mut last, now));
    }

    /// Returns the table since the last one as text of any width.
    pub(crate) fn text(&self, live: &mut RealTimeRun) -> String {
        let now = live.driver().network().now();
        let (rows, status) = self.picture(live, &mut self.last.borrow_mut(), now);
        layout(&rows, &status, (usize::MAX, usize::MAX))
    }

    fn picture(&self, live: &mut RealTimeRun, last: &mut Last, now: Time) -> Picture {
        let rows = self.rows(live, last, now);
        last.at = now;
        let late = live.driver().lateness();
        let status = Status {
            elapsed_s: now.as_secs_f64(),
            packets: late.count(),
            late_s: [late.quantile(0.5), late.quantile(0.99), late.max()].map(Span::as_secs_f64),
            cpu: cpu_time().as_secs_f64() / now.as_secs_f64(),
        };
        (rows, status)
    }

    /// Ends drawing.
    pub(crate) fn end(self) {
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
            let mut seen = Seen { of: link.path(), delay: link.delay, ..Seen::default() };
            let stages = link.stages.iter().map(|stage| stage.front);
            let behind = link.channels.iter().copied().chain(link.receiver);
            for element in stages.chain([link.line]).chain(behind) {
                seen.is_other = false;
                network.observe(element, &mut seen);
            }
            let bytes =
                seen.delivered_bytes.saturating_sub(std::mem::replace(bytes_before, seen.delivered_bytes));
            Row {
                name: format!("{} {}", link.name, link.way.name()),
                rate_bps: bytes as f64 * 8.0 / span_s,
                queue_bytes: seen.queue_bytes,
                delay_s: seen.delay.as_secs_f64(),
                drops: seen.drops,
            }
        };
        links.map(row).collect()
    }
}

fn draw(pictures: &std::sync::mpsc::Receiver<Picture>, mut display: Display) {
    let mut lines = 0;
    for (rows, status) in pictures {
        let size = display.terminal_size.as_ref().map(|size| size());
        let text = layout(&rows, &status, size.unwrap_or((usize::MAX, usize::MAX)));
        let is_above = size.is_some() && lines > 0;
        let up = if is_above { format!("\u{1b}[{lines}A\u{1b}[J") } else { String::new() };
        lines = text.lines().count();
        let _ = display.output.write_all(format!("{up}{}", plain::text(&text)).as_bytes());
    }
}

/// Bytes that the line passed on.
static DELIVERED: [&Of<Counter>; 2] = [&link::metrics::DELIVERED_BYTES, &atm::metrics::DELIVERED_BYTES];

/// Bytes that wait for tokens, and for the line.
static QUEUED: [&Of<Gauge>; 2] = [&shaper::metrics::QUEUE_BYTES, &queue::metrics::QUEUE_BYTES];

/// Readings of the elements of one direction of a link.
#[derive(Default)]
struct Seen {
    /// The direction's path: other parts of an element that it shares are left out.
    of: String,
    is_other: bool,
    delivered_bytes: u64,
    queue_bytes: f64,
    delay: Span,
    /// Drops and losses by cause.
    drops: Vec<(&'static str, u64)>,
}

impl Seen {
    fn add_drops(&mut self, cause: &'static str, total: u64) {
        match self.drops.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, sum)) => *sum += total,
            None => self.drops.push((cause, total)),
        }
    }
}

impl Observer for Seen {
    fn part(&mut self, path: &str) {
        self.is_other = path != self.of;
    }

    /// Leaves classes out: what they drop is among what the queue does.
    fn class(&mut self, _: &str) {
        self.is_other = true;
    }

    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        match metric {
            _ if self.is_other => {}
            metric if DELIVERED.iter().any(|known| metric.is(known)) => self.delivered_bytes = total,
            metric if total > 0 && (metric.is_drop || metric.is_loss) => {
                self.add_drops(metric.name, total);
            }
            _ => {}
        }
    }

    fn delay(&mut self, delay: Span) {
        if !self.is_other {
            self.delay = delay;
        }
    }

    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        if QUEUED.iter().any(|known| metric.is(known)) && !self.is_other {
            // What waits for tokens, and what waits for the line.
            self.queue_bytes += value;
        }
    }
}
