//! Queue disciplines: order of waiting packets, drops and marks.
//!
//! A discipline serves packets whole, each class or flow first in, first out. It gets the instant of each arrival and each
//! start of service, so a link that processes its queue only now and then still shows it true times.

use bentpipe_units::{RandomStream, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{InvalidConfig, Observer, Packet};

mod classes;
mod codel;
mod drop_tail;
mod dual_pi2;
mod ecn;
mod fq_codel;
mod integral;
pub mod metrics;
mod pie;
mod priority;
mod red;
mod tally;
mod timed;

pub use classes::{Class, Classes, Config as ClassesConfig, MOST_CLASSES};
pub use codel::{CoDel, Config as CoDelConfig};
pub(crate) use drop_tail::Backlog;
use drop_tail::MOST_PACKETS;
pub use drop_tail::{Config as DropTailConfig, DEFAULT_PACKETS, DropTail};
pub use dual_pi2::{Config as DualPi2Config, DualPi2};
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
    /// Returns it for immediate transmission, drops it, or keeps it until it is [`Queue::ready`].
    fn pass(
        &mut self,
        packet: Packet,
        now: Time,
        idle_since: Time,
        stream: &mut RandomStream,
    ) -> Option<Packet>;

    /// Removes and returns the packet whose transmission starts at `now`.
    ///
    /// `None` of an empty queue, and of one that is not ready. A medium that gets none while packets wait asks again when it
    /// is, or at the next arrival.
    fn dequeue(&mut self, now: Time) -> Option<Packet>;

    /// Returns the instant from which on a waiting packet may leave, [`Time::NEVER`] of none.
    ///
    /// It may be in the past. Disciplines that never hold packets back let them leave at any time.
    fn ready(&self) -> Time {
        if self.packets() > 0 { Time::ZERO } else { Time::NEVER }
    }

    /// Returns the number of waiting packets.
    fn packets(&self) -> usize;

    /// Returns the number of waiting bytes.
    fn bytes(&self) -> u64;

    /// Changes the parameters within the same discipline. Waiting packets stay, even beyond a lower limit; arrivals are
    /// subject to the new parameters.
    ///
    /// # Errors
    /// The key whose value is impossible, `kind` if the discipline is another; nothing is changed then.
    fn set(&mut self, discipline: &Discipline, now: Time) -> Result<(), InvalidConfig>;

    /// Reports the counters of the discipline. It has been served up to `now`.
    fn observe(&self, now: Time, observer: &mut dyn Observer);

    /// Reports the counters of each class, if it has any. A medium calls it after all else of the direction.
    fn observe_classes(&self, _now: Time, _observer: &mut dyn Observer) {}
}

/// Error for parameters of another discipline.
const OTHER_KIND: InvalidConfig = InvalidConfig::new("kind", "the discipline that the queue has");

/// Declares the disciplines, each with its parameters and the queue that it makes.
///
/// All but [`Classes`] may be a class's own, as classes have no classes in them.
macro_rules! disciplines {
    ($($(#[$attribute:meta])* $name:ident($config:ident: $type:ident) => $queue:expr;)+) => {
        /// Queueing discipline of a link, with its parameters.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum Discipline {
            $($(#[$attribute])* $name($type),)+
            /// Classes by DSCP with guaranteed rates, ceilings, priorities and weights.
            Classes(ClassesConfig),
        }

        /// Queueing discipline of a class, with its parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum Leaf {
            $($(#[$attribute])* $name($type),)+
        }

        impl From<Leaf> for Discipline {
            fn from(leaf: Leaf) -> Discipline {
                match leaf {
                    $(Leaf::$name(config) => Discipline::$name(config),)+
                }
            }
        }

        impl Discipline {
            /// Creates an empty queue of this discipline.
            ///
            /// # Errors
            /// Returns an error that names the key with an invalid value.
            pub fn build(&self) -> Result<Box<dyn Queue>, InvalidConfig> {
                match self {
                    $(Discipline::$name($config) => boxed($queue),)+
                    Discipline::Classes(config) => boxed(Classes::new(config)),
                }
            }
        }
    };
}

disciplines! {
    /// FIFO queue with tail drop.
    DropTail(config: DropTailConfig) => Ok(DropTail::new(config));
    /// Random early detection.
    Red(config: RedConfig) => Red::new(config);
    /// Two classes by DSCP, of which the expedited one is served first.
    Priority(config: PriorityConfig) => Ok(Priority::new(config));
    /// Controlled delay: drops at the head while packets wait too long.
    #[serde(rename = "codel")]
    CoDel(config: CoDelConfig) => CoDel::new(config);
    /// Flows in turn, each with controlled delay.
    #[serde(rename = "fq-codel")]
    FqCoDel(config: FqCoDelConfig) => FqCoDel::new(config);
    /// Drops of arrivals by a probability that follows the delay.
    Pie(config: PieConfig) => Pie::new(config);
    /// L4S and classic traffic in two queues, with coupled marks.
    #[serde(rename = "dualpi2")]
    DualPi2(config: DualPi2Config) => DualPi2::new(config);
}

fn boxed(queue: Result<impl Queue + 'static, InvalidConfig>) -> Result<Box<dyn Queue>, InvalidConfig> {
    Ok(Box::new(queue?))
}

impl Default for Leaf {
    fn default() -> Leaf {
        Leaf::DropTail(DropTailConfig::default())
    }
}

impl Leaf {
    /// Creates an empty queue of this discipline.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn build(self) -> Result<Box<dyn Queue>, InvalidConfig> {
        Discipline::from(self).build()
    }
}

impl Default for Discipline {
    fn default() -> Discipline {
        Discipline::DropTail(DropTailConfig::default())
    }
}

impl Discipline {
    /// Returns `true` if it may hold packets back while the line is idle.
    pub fn may_hold(&self) -> bool {
        matches!(self, Discipline::Classes(_))
    }
}
