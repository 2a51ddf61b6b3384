//! Blocks of LTP, and the bundles in them.

use std::collections::HashMap;

use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::dtn::ltp::{BUNDLE_PROTOCOL, SessionId};
use foldhash::quality::RandomState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ltp::{Engine, Event};
use crate::node::{Node, URGENT, Waiting};

/// Limits of blocks of several bundles. Either of them ends a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LtpAggregation")]
pub struct Aggregation {
    /// Bytes of bundles at which a block is full, 1 B to 8 MB.
    pub bytes: Bytes,
    /// Maximum time that a bundle waits for others at its node. Expedited ones, and contacts that end, do not wait.
    ///
    /// Default: 0 s, a block of those that wait for the link anyway.
    #[serde(default)]
    pub wait: Span,
}

impl Aggregation {
    /// Upper limit of `bytes`.
    pub const MAX_BYTES: Bytes = Bytes::new(8_000_000);

    /// Checks the limits.
    ///
    /// # Errors
    /// Returns the problem if `bytes` is out of range.
    pub fn check(&self) -> Result<(), String> {
        match self.bytes.get() {
            bytes if (1..=Aggregation::MAX_BYTES.get()).contains(&bytes) => Ok(()),
            bytes => Err(format!("expected 1 B to {}, got {bytes} B", Aggregation::MAX_BYTES)),
        }
    }

    /// Returns the start of a block, given the end and the rate of its contact.
    fn begin(&self, waiting: &Waiting, (end, rate): (Time, Rate), now: Time) -> Time {
        if waiting.bytes >= self.bytes.get() || waiting.priority >= URGENT {
            return now;
        }
        // Headers, and what comes before it on the link, take less than the bundles again.
        let time = rate.span_of(Bytes::new(waiting.bytes.saturating_mul(2)));
        let last = Time::ZERO + end.since(Time::ZERO).saturating_sub(time);
        (waiting.since + self.wait).min(last).max(now)
    }
}

/// Terms of a block: its neighbour, its color, its limits and the contact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Number of the neighbour.
    pub to: u64,
    /// Red data: acknowledged.
    pub is_red: bool,
    /// Limits of blocks; `None` if each has one bundle.
    pub aggregation: Option<Aggregation>,
    /// End of the contact.
    pub end: Time,
    /// Rate of the contact.
    pub rate: Rate,
}

/// Bundles of a block. One of them needs no memory of its own.
#[derive(Clone, Debug)]
pub struct Block {
    /// Number of the neighbour.
    pub to: u64,
    /// Length in bytes.
    pub len: u64,
    first: u64,
    rest: Vec<u64>,
}

impl Block {
    /// Notes at the node that all bundles were sent, or could not be.
    fn done(&self, is_sent: bool, node: &mut Node, now: Time) {
        node.done(self.first, is_sent, now);
        self.rest.iter().for_each(|id| node.done(*id, is_sent, now));
    }
}

/// Time without blocks to a neighbour that cancelled one. It doubles up to [`MAX_PAUSE`].
const PAUSE: Span = Span::from_secs(1);
/// Longest time without blocks to a neighbour that cancels them.
const MAX_PAUSE: Span = Span::from_secs(60);

/// Blocks in transmission.
#[derive(Debug, Default)]
pub struct Blocks {
    all: HashMap<SessionId, Block, RandomState>,
    /// End and length of the pauses of neighbours that cancelled their last blocks.
    pauses: HashMap<u64, (Time, Span)>,
}

impl Blocks {
    /// Begins a block of bundles that wait for a neighbour, and returns its length.
    ///
    /// # Errors
    /// Returns the instant from which on to try again if none is to begin now.
    pub fn begin(
        &mut self,
        (engine, node): (&mut Engine, &mut Node),
        terms: &Terms,
        now: Time,
    ) -> Result<u64, Time> {
        if let Some((end, _)) = self.pauses.get(&terms.to).filter(|(end, _)| *end > now) {
            return Err(*end);
        }
        let limit = terms.aggregation.map_or(0, |aggregation| aggregation.bytes.get());
        if let Some(aggregation) = terms.aggregation {
            let waiting = node.waiting(terms.to).ok_or(Time::NEVER)?;
            let begin = aggregation.begin(&waiting, (terms.end, terms.rate), now);
            if begin > now {
                return Err(begin);
            }
        }
        let (first, bundle) = node.poll_transmit(terms.to, u64::MAX, now).ok_or(Time::NEVER)?;
        let (mut data, mut rest) = (bundle.to_vec(), Vec::new());
        while (data.len() as u64) < limit
            && let Some((id, bundle)) = node.poll_transmit(terms.to, u64::MAX, now)
        {
            bundle.emit(&mut data);
            rest.push(id);
        }
        let len = data.len() as u64;
        let block = Block { to: terms.to, len, first, rest };
        match engine.send(terms.to, BUNDLE_PROTOCOL, data, if terms.is_red { len } else { 0 }) {
            Ok(session) => {
                self.all.insert(session, block);
                Ok(len)
            }
            Err(_) => {
                block.done(false, node, now);
                Err(Time::NEVER)
            }
        }
    }

    /// Notes the outcome of a block at the node when its session has ended.
    ///
    /// Returns the block, if the event is of one. A neighbour that cancels blocks, as it has no room, has a pause.
    pub fn end(&mut self, event: &Event, node: &mut Node, now: Time) -> Option<Block> {
        let (session, is_sent) = match event {
            Event::Sent(session) => (session, true),
            Event::Failed(session, _) | Event::Refused(session, _) => (session, false),
            Event::Received { .. } | Event::Cancelled(..) => return None,
        };
        let block = self.all.remove(session)?;
        if let Event::Refused(..) = event {
            let (end, span) = self.pauses.get(&block.to).copied().unwrap_or((Time::ZERO, Span::ZERO));
            // Blocks that were on their way together are cancelled together.
            if end <= now {
                let span = (span * 2).clamp(PAUSE, MAX_PAUSE);
                self.pauses.insert(block.to, (now + span, span));
            }
        } else if is_sent {
            self.pauses.remove(&block.to);
        }
        block.done(is_sent, node, now);
        Some(block)
    }

    /// Returns the sessions with blocks for a neighbour.
    pub fn sessions(&self, to: u64) -> Vec<SessionId> {
        self.all.iter().filter(|(_, block)| block.to == to).map(|(session, _)| *session).collect()
    }

    /// Returns the neighbour of a session's block.
    pub fn neighbour(&self, session: SessionId) -> Option<u64> {
        self.all.get(&session).map(|block| block.to)
    }
}

#[cfg(test)]
mod tests;
