//! Queue disciplines: order of waiting packets, drops and marks.
//!
//! A discipline serves packets whole, each class or flow first in, first out. It gets the instant of each arrival and each
//! start of service, so a link that processes its queue only now and then still shows it true times.

use bentpipe_units::{RandomStream, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{InvalidConfig, Observer, Packet};

mod codel;
mod drop_tail;
mod ecn;
mod fq_codel;
mod integral;
pub mod metrics;
mod pie;
mod priority;
mod red;
mod tally;
mod timed;

pub use codel::{CoDel, Config as CoDelConfig};
pub(crate) use drop_tail::Backlog;
use drop_tail::MOST_PACKETS;
pub use drop_tail::{Config as DropTailConfig, DEFAULT_PACKETS, DropTail};
pub use fq_codel::{Config as FqCoDelConfig, FqCoDel};
pub use pie::{Config as PieConfig, Pie};
pub use priority::{Config as PriorityConfig, Dscps, Priority};
pub use red::{Config as RedConfig, Red, Rounding};

/// A queue discipline.
pub trait Queue: Send {
    /// Enqueues a packet that arrives while the transmitter is busy, or drops it.
    fn enqueue(&mut self, packet: Packet, now: Time, stream: &mut RandomStream);

    /// Passes a packet that finds the queue empty and the transmitter idle since `idle_since`.
    ///
    /// Returns it for immediate transmission, or drops it.
    fn pass(
        &mut self,
        packet: Packet,
        now: Time,
        idle_since: Time,
        stream: &mut RandomStream,
    ) -> Option<Packet>;

    /// Removes and returns the packet whose transmission starts at `now`.
    fn dequeue(&mut self, now: Time) -> Option<Packet>;

    /// Returns the number of waiting packets.
    fn packets(&self) -> usize;

    /// Returns the number of waiting bytes.
    fn bytes(&self) -> u64;

    /// Changes the parameters within the same discipline. Waiting packets stay, even beyond a lower limit; arrivals are
    /// subject to the new parameters.
    ///
    /// # Errors
    /// The key whose value is impossible, `kind` if the discipline is another; nothing is changed then.
    fn set(&mut self, discipline: &Discipline) -> Result<(), InvalidConfig>;

    /// Reports the counters of the discipline. It has been served up to `now`.
    fn observe(&self, now: Time, observer: &mut dyn Observer);
}

/// Error for parameters of another discipline.
const OTHER_KIND: InvalidConfig = InvalidConfig::new("kind", "the discipline that the queue has");

/// Queueing discipline of a link, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Discipline {
    /// FIFO queue with tail drop.
    DropTail(DropTailConfig),
    /// Random early detection.
    Red(RedConfig),
    /// Two classes by DSCP, of which the expedited one is served first.
    Priority(PriorityConfig),
    /// Controlled delay: drops at the head while packets wait too long.
    #[serde(rename = "codel")]
    CoDel(CoDelConfig),
    /// Flows in turn, each with controlled delay.
    #[serde(rename = "fq-codel")]
    FqCoDel(FqCoDelConfig),
    /// Drops of arrivals by a probability that follows the delay.
    Pie(PieConfig),
}

impl Default for Discipline {
    fn default() -> Discipline {
        Discipline::DropTail(DropTailConfig::default())
    }
}

impl Discipline {
    /// Creates an empty queue of this discipline.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn build(&self) -> Result<Box<dyn Queue>, InvalidConfig> {
        match self {
            Discipline::DropTail(config) => Ok(Box::new(DropTail::new(config))),
            Discipline::Red(config) => Ok(Box::new(Red::new(config)?)),
            Discipline::Priority(config) => Ok(Box::new(Priority::new(config))),
            Discipline::CoDel(config) => Ok(Box::new(CoDel::new(config)?)),
            Discipline::FqCoDel(config) => Ok(Box::new(FqCoDel::new(config)?)),
            Discipline::Pie(config) => Ok(Box::new(Pie::new(config)?)),
        }
    }
}
