//! Queue disciplines: what waits for a transmitter, in which order, and what is dropped or marked instead.
//!
//! A discipline serves packets whole and first in, first out; it is told the instant of each arrival and each start of
//! service, so a link that looks after its queue only now and then still shows it true times.

use bentpipe_units::{Stream, Time};

use crate::{Impossible, Observer, Packet};

mod drop_tail;
mod red;

pub(crate) use drop_tail::Backlog;
pub use drop_tail::{Config as DropTailConfig, DropTail};
pub use red::{Config as RedConfig, Red, Rounding};

/// A queue discipline.
pub trait Queue: Send {
    /// Takes a packet that arrives while the transmitter is busy, or drops it.
    fn enqueue(&mut self, packet: Packet, now: Time, stream: &mut Stream);

    /// A packet that finds the queue empty and the transmitter idle since `idle_since`: gives it back to be sent at
    /// once, or drops it.
    fn pass(&mut self, packet: Packet, now: Time, idle_since: Time, stream: &mut Stream) -> Option<Packet>;

    /// The packet whose transmission starts at `now`.
    fn dequeue(&mut self, now: Time) -> Option<Packet>;

    /// How many packets wait.
    fn packets(&self) -> usize;

    /// How many bytes wait.
    fn bytes(&self) -> u64;

    /// Takes new parameters of the same discipline. What waits goes on waiting, also beyond a lower limit; what
    /// arrives is held against the new ones.
    ///
    /// # Errors
    /// The key whose value is impossible, `kind` if the discipline is another; nothing is changed then.
    fn set(&mut self, discipline: &Discipline) -> Result<(), Impossible>;

    /// Reports what the discipline counts.
    fn observe(&self, observer: &mut dyn Observer);
}

/// What a queue says to parameters of another discipline.
const OTHER_KIND: Impossible = Impossible { key: "kind", expected: "the discipline that the queue has" };

/// Which discipline a link's queue has, and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "kebab-case")
)]
pub enum Discipline {
    /// First in, first out; what does not fit is dropped.
    DropTail(DropTailConfig),
    /// Random early detection.
    Red(RedConfig),
}

impl Default for Discipline {
    fn default() -> Discipline {
        Discipline::DropTail(DropTailConfig::default())
    }
}

impl Discipline {
    /// An empty queue of this discipline.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn build(&self) -> Result<Box<dyn Queue>, Impossible> {
        match self {
            Discipline::DropTail(config) => Ok(Box::new(DropTail::new(config))),
            Discipline::Red(config) => Ok(Box::new(Red::new(config)?)),
        }
    }
}
