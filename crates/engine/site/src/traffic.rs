//! Contract of traffic: the kind of data that a flow sends.

use std::fmt::Debug;
use std::path::Path;

use bentpipe_units::{Bytes, Rate, Span};

use crate::files::Opened;
use crate::flow::{FlowAt, FlowEnds, FlowGround};
use crate::problem::Problem;
use crate::real::RealTraffic;
use crate::review::Review;
use crate::route::Route;
use crate::sample::Sample;
use crate::topology::IpVersion;

/// Number of elements that copies of a flow have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// Separate elements for each copy.
    #[default]
    Each,
    /// Elements shared by all copies that start together.
    Together,
    /// No copies.
    None,
}

/// Settings of a flow that its traffic takes, and its needs of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowTakes {
    /// Set if it may go to a group.
    pub groups: bool,
    /// Set if receivers answer, so that there must be a path back.
    pub answers: bool,
    /// Set if an application writes it.
    pub application: bool,
    /// Elements of its copies.
    pub copies: Copies,
}

/// Path of a flow, as traffic takes defaults from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFacts {
    /// IP version.
    pub ip: IpVersion,
    /// Longest IP packet that passes both ways.
    pub mtu: Bytes,
}

/// Window that bounds a connection's data in flight, for budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Most bytes on the way that the buffers of both ends allow.
    pub most: Bytes,
    /// Packets that it begins with.
    pub initial: u32,
    /// Buffers of the sending and of the receiving end alone.
    pub ends: [Bytes; 2],
}

/// Idle path on which a connection's window grows, for budgets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ascent {
    /// Links by the time from the start of the flow on.
    pub route: Route,
    /// Greatest rate of payload at any time.
    pub fastest: Rate,
    /// Payload of a full packet.
    pub payload: Bytes,
    /// Window that fills the path at the start.
    pub window: Bytes,
    /// Window that fills it at any time, with which it ends.
    pub full: Bytes,
    /// Number of ACKs after which it is given up.
    pub most_acks: u64,
    /// Bytes that the flow has. `None` without an end.
    pub data: Option<Bytes>,
    /// Time for which arrivals are followed at most.
    pub lasts: Span,
}

/// Growth of a window on an idle path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Climbed {
    /// Time from the start to the window. `None` if the law, the data or the time end before.
    pub time: Option<Span>,
    /// Number of ACKs that it took.
    pub acks: u64,
    /// Time from the start to the end of what was followed, at the receiver. `None` if it was given up.
    pub end: Option<Span>,
    /// Bytes that have arrived by then.
    pub arrived: Bytes,
    /// Least time from the start until all data has arrived. `None` without an end.
    pub whole: Option<Span>,
}

/// Packets of a file that a flow sends, for budgets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Number of packets that it sends, repetitions counted.
    pub packets: u64,
    /// Bytes of all of them.
    pub bytes: Bytes,
    /// Time from the first to the last, or to the end of its time.
    pub lasts: Span,
    /// Packets of the whole file, their bytes and their time.
    pub of: (u64, Bytes, Span),
    /// Note on what of the file is not sent as it is there.
    pub note: Option<String>,
}

/// Kind of data that a flow sends.
pub trait TrafficKind: Debug {
    /// Returns the settings that it takes of its flow.
    fn takes(&self) -> FlowTakes;

    /// Reports its errors at its key: "flow.bulk.traffic".
    fn check(&self, _key: &str, _review: &mut Review<'_>) {}

    /// Fills in what depends on the path.
    ///
    /// `is_given` returns `true` for a key of the file.
    fn resolve(&mut self, _path: &mut dyn FnMut() -> Option<PathFacts>, _is_given: &dyn Fn(&str) -> bool) {}

    /// Returns the length of transport headers in a full packet. Default: UDP's.
    fn header_len(&self) -> u64 {
        8
    }

    /// Returns the length of a full packet without its IP header. Default: as long as the path allows.
    fn segment_len(&self) -> Option<u64> {
        None
    }

    /// Returns `true` if it cuts its data to packets that its path carries.
    ///
    /// Default: it sends datagrams, however long, which nodes fragment.
    fn cuts(&self) -> bool {
        false
    }

    /// Returns the length of full packets of the other direction without their IP header. Default: headers alone, an ACK.
    fn answer_len(&self) -> u64 {
        self.header_len()
    }

    /// Returns the mean rate of payload that it offers, if it has its own.
    ///
    /// `packet` is the length of its packets.
    fn offered(&self, _packet: Bytes) -> Option<Rate> {
        None
    }

    /// Returns the time after which it sends no more, if it ends by itself.
    ///
    /// Default: it does not, or its application does.
    fn lasts(&self) -> Option<Span> {
        None
    }

    /// Returns the packets of a file that it sends in a time.
    ///
    /// It is the problem with that file where there is one.
    ///
    /// Default: `None`, as it has none.
    fn recorded(
        &self,
        _open: &mut dyn FnMut(&Path) -> Result<Opened, String>,
        _until: Span,
    ) -> Option<Result<Recorded, String>> {
        None
    }

    /// Returns the reason why its rate is not known before the run. Default: it is, or is all that it gets.
    fn unknown_rate(&self) -> Option<&'static str> {
        None
    }

    /// Returns the packets that `copies` of it send, where they are known before the run. Default: `None`.
    ///
    /// Addresses are examples; ports are those of the first flow between two nodes.
    fn sample(&self, _ip: IpVersion, _copies: u16) -> Option<Sample> {
        None
    }

    /// Returns the window of its connections, if they have one.
    fn window(&self) -> Option<Window> {
        None
    }

    /// Returns the DSCP with which its packets are sent. Default: none that is known of all.
    fn dscp(&self) -> Option<u8> {
        None
    }

    /// Returns the mean number of full-sized answers to a packet. Default: none but rare feedback.
    fn answers_per_packet(&self) -> f64 {
        0.0
    }

    /// Returns the growth of a connection's window. Default: no window.
    fn ascend(&self, _path: &Ascent) -> Option<Climbed> {
        None
    }

    /// Returns the proxy that its packets come to first, and the traffic up to there. Default: none.
    fn first_leg(&self) -> Option<(&str, Box<dyn TrafficKind>)> {
        None
    }

    /// Returns what programs of real hosts send in its place.
    ///
    /// # Errors
    /// Returns the reason if no program does. Default: none does.
    fn real(&self, _ip: IpVersion) -> Result<RealTraffic, &'static str> {
        Err("no program stands for this traffic")
    }

    /// Creates the elements of a flow or copy, and binds them to nodes.
    ///
    /// # Errors
    /// Returns an error if a value is impossible, or no port is left.
    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem>;
}

/// Declares the enum of all traffic.
///
/// A row is a doc comment, the variant, the word that files have, and the type that implements [`TrafficKind`].
#[macro_export]
macro_rules! traffic {
    ($( $(#[$meta:meta])* $Variant:ident $word:literal $Config:ty; )*) => {
        /// Data that a flow sends.
        #[derive(
            Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize,
            ::schemars::JsonSchema,
        )]
        #[serde(tag = "kind")]
        pub enum Traffic {
            $( $(#[$meta])* #[serde(rename = $word)] $Variant($Config), )*
        }

        impl Traffic {
            /// Words of all kinds, in the order of their rows.
            pub const KINDS: &[&str] = &[$($word),*];

            /// Returns the word of its kind.
            pub fn word(&self) -> &'static str {
                match self { $( Traffic::$Variant(_) => $word, )* }
            }

            /// Returns its kind.
            pub fn kind(&self) -> &dyn $crate::TrafficKind {
                match self { $( Traffic::$Variant(kind) => kind, )* }
            }

            /// Returns its kind, to be changed.
            pub fn kind_mut(&mut self) -> &mut dyn $crate::TrafficKind {
                match self { $( Traffic::$Variant(kind) => kind, )* }
            }
        }
    };
}
