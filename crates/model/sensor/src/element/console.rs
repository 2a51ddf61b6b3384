//! Console that sends a query as a bundle and receives its rows.

use std::any::Any;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_dtn::carry;
use bentpipe_net::{Cx, Element, Histogram, Observer, Packet, Port};
use bentpipe_site::{Growth, Judge, Judged};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::Bundle;
use serde_json::{Value, json};

use super::{content, picture};
use crate::message::{Message, Place, Row};
use crate::metrics;

/// Maximum number of rows that are kept for the file.
const KEPT: usize = 1_000_000;

/// Content of a log.
#[derive(Debug, Default)]
struct Content {
    /// Rows with the times of arrival and sample.
    rows: Vec<(Time, Time, Row)>,
    /// Error of the query.
    problem: Option<String>,
    map: Vec<Place>,
}

/// File of rows, and that of the query and the map.
const ROWS: &str = "rows.csv";
const QUERY: &str = "query.jsonl";

/// Rows at a console and map of the field, for files.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Query, its operators and titles of the values.
    description: Value,
    content: Arc<Mutex<Content>>,
}

impl Log {
    /// Creates a log with what [`super::describe`] returns.
    pub fn new(description: Value) -> Log {
        Log { description, content: Arc::default() }
    }

    fn head(&self) -> String {
        let mut text = "received [s],sampled [s],epoch,mote".to_owned();
        let titles = self.description["titles"].as_array().into_iter().flatten();
        titles.filter_map(Value::as_str).for_each(|title| _ = write!(text, ",{title}"));
        text.push('\n');
        text
    }

    /// Returns the rows from a number on as lines.
    fn lines(&self, from: usize) -> (String, usize) {
        let (content, mut text) = (self.content(), String::new());
        for (received, sampled, row) in content.rows.get(from..).unwrap_or_default() {
            let [received, sampled] = [received, sampled].map(|time| time.as_secs_f64());
            let _ = write!(text, "{received:.3},{sampled:.3},{},{}", row.epoch, row.node);
            row.values.iter().for_each(|value| _ = write!(text, ",{value}"));
            text.push('\n');
        }
        (text, content.rows.len())
    }

    /// Returns the map as a line.
    ///
    /// It has the coordinates of each place, and the parent if there is one.
    fn map(&self) -> Option<String> {
        let content = self.content();
        let parent = |place: &Place| (usize::from(place.parent) < content.map.len()).then_some(place.parent);
        let places: Vec<Value> =
            content.map.iter().map(|place| json!([place.x, place.y, parent(place)])).collect();
        (!places.is_empty()).then(|| format!("{}\n", json!({ "map": places })))
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, received: Time, sampled: Time, row: Row) {
        let rows = &mut self.content().rows;
        if rows.len() < KEPT {
            rows.push((received, sampled, row));
        }
    }

    /// Sets the map of the field.
    pub(super) fn set_map(&self, map: Vec<Place>) {
        self.content().map = map;
    }
}

impl Judge for Log {
    fn judge(&mut self) -> Judged {
        let rows = self.head() + &self.lines(0).0;
        let query = format!("{}\n{}", self.description, self.map().unwrap_or_default());
        let content = self.content();
        let mut files = vec![(ROWS, rows.into_bytes()), (QUERY, query.into_bytes())];
        let problem = content.problem.iter();
        files.extend(problem.map(|problem| ("refused.txt", format!("{problem}\n").into_bytes())));
        if !content.map.is_empty() {
            files.push(("field.svg", picture::draw(&content.map).into_bytes()));
        }
        Judged { files, ..Judged::default() }
    }

    fn grows(&self) -> Vec<Growth> {
        let (log, mut written) = (self.clone(), None);
        let rows = Growth {
            name: ROWS,
            more: Box::new(move || {
                let head = if written.is_none() { log.head() } else { String::new() };
                let (lines, count) = log.lines(written.unwrap_or(0));
                written = Some(count);
                (head + &lines).into_bytes()
            }),
        };
        let (log, mut has_map, mut has_head) = (self.clone(), false, false);
        let query = Growth {
            name: QUERY,
            more: Box::new(move || {
                let head = if has_head { String::new() } else { format!("{}\n", log.description) };
                let map = if has_map { None } else { log.map() };
                (has_head, has_map) = (true, has_map || map.is_some());
                (head + &map.unwrap_or_default()).into_bytes()
            }),
        };
        vec![rows, query]
    }
}

/// Console at port 0 of its node.
#[derive(Debug)]
pub struct Console {
    template: Bundle,
    query: Message,
    period: Span,
    start: Time,
    is_sent: bool,
    log: Log,
    rows: u64,
    bundles: u64,
    bytes: u64,
    refused: u64,
    response: Option<Span>,
    value: f64,
    delays: Histogram,
}

impl Console {
    /// Creates a console that sends a query at `start`. Rows are of epochs of `period`.
    pub fn new(template: Bundle, query: Message, (start, period): (Span, Span), log: Log) -> Console {
        Console {
            template,
            query,
            period,
            start: Time::ZERO + start,
            is_sent: false,
            log,
            rows: 0,
            bundles: 0,
            bytes: 0,
            refused: 0,
            response: None,
            value: f64::NAN,
            delays: Histogram::default(),
        }
    }

    fn take(&mut self, start: u64, row: Row, now: Time) {
        let sampled = Time::from_nanos(start) + self.period * u64::from(row.epoch);
        self.rows += 1;
        self.response.get_or_insert(now - self.start);
        self.delays.record(now - sampled);
        self.value = row.values.first().map_or(f64::NAN, |value| f64::from(*value));
        self.log.push(now, sampled, row);
    }
}

impl Element for Console {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if let Some(payload) = carry::unwrap(packet).and_then(content) {
            match Message::parse(&payload) {
                Some(Message::Rows { start, rows, .. }) => {
                    self.bundles += 1;
                    self.bytes += payload.len() as u64;
                    rows.into_iter().for_each(|row| self.take(start, row, now));
                }
                Some(Message::Refused { problem, .. }) => {
                    self.refused += 1;
                    self.log.content().problem = Some(problem);
                }
                _ => {}
            }
        }
        if self.is_sent { Time::NEVER } else { self.start }
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.is_sent {
            return Time::NEVER;
        }
        if cx.now() < self.start {
            return self.start;
        }
        self.is_sent = true;
        let mut bundle = self.template.clone();
        bundle.payload.bytes = self.query.to_bytes();
        bundle.payload.zeros = 0;
        cx.emit(Port(0), carry::wrap(bundle));
        Time::NEVER
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::ROWS, self.rows);
        observer.counter(&metrics::ROW_BUNDLES, self.bundles);
        observer.counter(&metrics::RESULT_BYTES, self.bytes);
        observer.counter(&metrics::QUERIES_REFUSED, self.refused);
        observer.gauge(&metrics::RESPONSE, self.response.map_or(f64::NAN, Span::as_secs_f64));
        observer.gauge(&metrics::VALUE, self.value);
        observer.histogram(&metrics::ROW_DELAYS, &self.delays);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
