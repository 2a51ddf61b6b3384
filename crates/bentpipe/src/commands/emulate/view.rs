//! What is shown while an emulation runs: on a terminal a table that is drawn anew, elsewhere a line now and then.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use bentpipe_lab::build::LinkHandle;
use bentpipe_lab::report::quantity;
use bentpipe_net::{Observer, Unit};
use bentpipe_units::{Span, Time};

use super::live::RealTimeRun;

/// Shows what it is given. Drawing is done by a thread of its own: a slow terminal must not make packets late.
pub(super) struct View {
    links: Vec<LinkHandle>,
    drawer: Option<(Sender<String>, JoinHandle<()>)>,
    on_terminal: bool,
    last: std::cell::RefCell<Last>,
}

#[derive(Default)]
struct Last {
    at: Time,
    delivered_bytes: Vec<u64>,
}

impl View {
    pub(super) fn start(links: Vec<LinkHandle>, quiet: bool) -> View {
        let on_terminal = std::io::stderr().is_terminal();
        let drawer = (!quiet).then(|| {
            let (sender, texts) = channel::<String>();
            (sender, std::thread::spawn(move || draw(&texts, on_terminal)))
        });
        View { links, drawer, on_terminal, last: std::cell::RefCell::default() }
    }

    /// Takes the state of the network, if it is time to show it again.
    pub(super) fn show(&self, live: &mut RealTimeRun) {
        let Some((sender, _)) = &self.drawer else { return };
        let now = live.driver().network().now();
        let interval = if self.on_terminal { Span::from_millis(500) } else { Span::from_secs(10) };
        let mut last = self.last.borrow_mut();
        if now < last.at + interval {
            return;
        }
        let text = self.text(live, &mut last, now);
        last.at = now;
        let _ = sender.send(text);
    }

    /// Ends drawing.
    pub(super) fn end(self) {
        if let Some((sender, thread)) = self.drawer {
            drop(sender);
            let _ = thread.join();
        }
    }

    fn text(&self, live: &mut RealTimeRun, last: &mut Last, now: Time) -> String {
        last.delivered_bytes.resize(self.links.len(), 0);
        let span_s = now.since(last.at).as_secs_f64();
        let mut text = String::new();
        for (link, bytes_before) in self.links.iter().zip(&mut last.delivered_bytes) {
            let mut seen = Seen::default();
            let elements = [link.shaper, Some(link.line), link.channel];
            let network = live.driver().network();
            elements.into_iter().flatten().for_each(|element| network.observe(element, &mut seen));
            let rate = (seen.delivered_bytes.saturating_sub(*bytes_before)) as f64 * 8.0 / span_s;
            *bytes_before = seen.delivered_bytes;
            let _ = write!(
                text,
                "{:<24} {:>14}",
                format!("{} {}", link.name, link.way.name()),
                quantity(rate, None, "bit/s")
            );
            let _ =
                write!(text, "   queue {:>10}   delay {}", quantity(seen.queue_bytes, None, "B"), link.delay);
            for (name, total) in seen.drops.iter().filter(|(_, total)| *total > 0) {
                let _ = write!(text, "   {name} {total}");
            }
            text.push('\n');
        }
        let cpu = bentpipe_emu::cpu_time().as_secs_f64() / now.as_secs_f64();
        let late = live.driver().lateness();
        let (p50, p99, max) = (late.quantile(0.5), late.quantile(0.99), late.max());
        let _ = writeln!(
            text,
            "{:.1} s, {} packets, late p50 {p50}, p99 {p99}, max {max}, CPU {:.0} %",
            now.as_secs_f64(),
            late.count(),
            cpu * 100.0
        );
        text
    }
}

fn draw(texts: &std::sync::mpsc::Receiver<String>, on_terminal: bool) {
    let mut lines = 0;
    for text in texts {
        let up = if on_terminal && lines > 0 { format!("\u{1b}[{lines}A\u{1b}[J") } else { String::new() };
        lines = text.lines().count();
        let _ = std::io::stderr().lock().write_all(format!("{up}{text}").as_bytes());
    }
}

/// What the elements of one direction of a link report.
#[derive(Default)]
struct Seen {
    delivered_bytes: u64,
    queue_bytes: f64,
    drops: Vec<(&'static str, u64)>,
}

impl Observer for Seen {
    fn counter(&mut self, name: &'static str, _: Unit, total: u64) {
        match name {
            "delivered-bytes" => self.delivered_bytes = total,
            name if name == "lost" || name.starts_with("dropped") => self.drops.push((name, total)),
            _ => {}
        }
    }

    fn gauge(&mut self, name: &'static str, _: Unit, value: f64) {
        if name == "queue-bytes" {
            self.queue_bytes = value;
        }
    }
}
