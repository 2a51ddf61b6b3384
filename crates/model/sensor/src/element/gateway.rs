//! Gateway of a field: base station and motes in one element.

use std::any::Any;
use std::collections::HashMap;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_units::Time;
use bentpipe_wireless::wpan::AirLog;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::Field;
use crate::message::{MAX_ROWS, Message, Row};
use crate::metrics;
use crate::network::Motes;
use crate::samples::Samples;

/// Place where a query runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SensorCollection")]
pub enum Collection {
    /// Motes select, project and aggregate on the way to the base station.
    #[default]
    InNetwork,
    /// Motes send all samples that the query names, and the gateway runs the query.
    Everything,
}

/// Query that a gateway starts by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Text.
    pub text: String,
    /// Place where it runs.
    pub collection: Collection,
}

/// Gateway of a field. Its ports are clients, which send queries and get rows.
#[derive(Debug)]
pub struct Gateway {
    field: Field,
    samples: Option<Samples>,
    own: Option<Start>,
    log: Option<AirLog>,
    motes: Option<Motes>,
    inbox: Vec<(Port, Vec<u8>)>,
    /// Client of a query of the field, and its number there.
    clients: HashMap<u8, (Port, u8)>,
    /// Clients that have the map.
    mapped: Vec<Port>,
}

impl Gateway {
    /// Creates the gateway of a field.
    ///
    /// It may have samples from a file, and a query that it starts by itself.
    pub fn new(field: Field, samples: Option<Samples>, own: Option<Start>) -> Gateway {
        Gateway {
            field,
            samples,
            own,
            log: None,
            motes: None,
            inbox: Vec::new(),
            clients: HashMap::new(),
            mapped: Vec::new(),
        }
    }

    /// Returns the field of the motes.
    pub fn field(&self) -> &Field {
        &self.field
    }

    /// Returns the log of the radio's frames, if the field is to have one.
    pub fn record(&mut self) -> Option<AirLog> {
        let most = self.field.capture as usize;
        self.log = (most > 0).then(|| AirLog::new(most, self.field.mac.superframe));
        self.log.clone()
    }

    /// Starts a query.
    ///
    /// # Errors
    /// Returns the reason why the query cannot run.
    fn start(&mut self, start: &Start, now: Time) -> Result<u8, String> {
        let query = self.field.parse(&start.text).map_err(|error| error.to_string())?;
        let motes = self.motes.as_mut().ok_or("the field is not set up")?;
        motes.start(query, &start.text, start.collection == Collection::Everything, now)
    }

    fn handle(&mut self, port: Port, bytes: &[u8], cx: &mut Cx<'_>) {
        let Some(Message::Query { number, ships_everything, text }) = Message::parse(bytes) else { return };
        let collection = if ships_everything { Collection::Everything } else { Collection::InNetwork };
        match self.start(&Start { text, collection }, cx.now()) {
            Ok(query) => {
                self.clients.insert(query, (port, number));
            }
            Err(problem) => {
                let refusal = Message::Refused { number, problem };
                cx.emit(port, Packet::from_bytes(&refusal.to_bytes()));
            }
        }
    }

    /// Sends the rows of this instant to their clients.
    fn deliver(&mut self, cx: &mut Cx<'_>) {
        let Some(motes) = &mut self.motes else { return };
        let mut results = motes.take_results();
        // Stable, so that rows of a query stay in their order.
        results.sort_by_key(|result| result.query);
        for chunk in results.chunk_by(|one, other| one.query == other.query) {
            let Some(&(port, number)) = self.clients.get(&chunk[0].query) else { continue };
            if !self.mapped.contains(&port) {
                self.mapped.push(port);
                cx.emit(port, Packet::from_bytes(&Message::Map(motes.map()).to_bytes()));
            }
            for rows in chunk.chunks(MAX_ROWS) {
                let rows: Vec<Row> = rows.iter().map(|result| result.row.clone()).collect();
                let message = Message::Rows { number, start: chunk[0].start.as_nanos(), rows };
                cx.emit(port, Packet::from_bytes(&message.to_bytes()));
            }
        }
    }
}

impl Element for Gateway {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        self.inbox.push((port, packet.to_vec()));
        cx.now()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if self.motes.is_none() {
            self.motes = Some(Motes::new(self.field.clone(), self.samples.clone(), cx.stream()));
            if let (Some(motes), Some(log)) = (&mut self.motes, &self.log) {
                motes.record(log.clone());
            }
            if let Some(own) = self.own.take() {
                // The text was checked before the run, and no other query runs.
                let _ = self.start(&own, now);
            }
        }
        for (port, bytes) in std::mem::take(&mut self.inbox) {
            self.handle(port, &bytes, cx);
        }
        if let Some(motes) = &mut self.motes {
            motes.advance(now, cx.stream());
        }
        self.deliver(cx);
        self.motes.as_ref().map_or(Time::NEVER, Motes::next_event)
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        let motes = self.motes.as_ref();
        let (totals, counts) = motes.map(|motes| (motes.totals(), motes.counts())).unwrap_or_default();
        let ((reached, depth), energy) =
            motes.map(|motes| (motes.tree(), motes.energy(now))).unwrap_or_default();
        observer.gauge(&metrics::MOTES, reached as f64);
        observer.gauge(&metrics::DEPTH, f64::from(depth));
        observer.counter(&metrics::QUERIES, totals.queries);
        observer.counter(&metrics::MESSAGES, totals.messages);
        observer.counter(&metrics::MESSAGES_LOST, totals.lost);
        observer.counter(&metrics::LATE, totals.late);
        observer.counter(&metrics::FIELD_ROWS, totals.rows);
        observer.counter(&metrics::SAMPLES, totals.samples);
        observer.counter(&metrics::FRAMES, counts.frames);
        observer.counter(&metrics::FRAME_BYTES, counts.bytes);
        observer.counter(&metrics::ACKS, counts.acks);
        observer.counter(&metrics::COLLIDED, counts.collided);
        observer.counter(&metrics::CORRUPTED, counts.corrupted);
        observer.counter(&metrics::BUSY, counts.busy);
        observer.counter(&metrics::ACCESS_FAILURES, counts.access_failures);
        observer.counter(&metrics::UNACKNOWLEDGED, counts.unacknowledged);
        observer.gauge(&metrics::ENERGY, energy.total);
        observer.gauge(&metrics::ENERGY_MOST, energy.most);
        observer.gauge(&metrics::SAMPLING, totals.sampling);
        observer.gauge(&metrics::LIFETIME, motes.map_or(f64::NAN, |motes| motes.lifetime(now)));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
