//! Records of calls after the run.

use std::any::Any;

use bentpipe_sim::{ElementId, Network};
use bentpipe_units::{Span, Time};

/// State of a call at the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Not yet answered.
    Waiting,
    /// Up.
    Up,
    /// Ended after its answer.
    Ended,
    /// Given up by the caller before an answer.
    Cancelled,
    /// Failed without a response.
    TimedOut,
    /// Failed for another reason.
    Failed,
}

impl CallEnd {
    /// Returns the word in files.
    pub fn word(self) -> &'static str {
        match self {
            CallEnd::Waiting => "waiting",
            CallEnd::Up => "up",
            CallEnd::Ended => "ended",
            CallEnd::Cancelled => "cancelled",
            CallEnd::TimedOut => "timed-out",
            CallEnd::Failed => "failed",
        }
    }
}

/// Quality of a call's voice as one end receives it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallQuality {
    /// Packets that the loss is of: those that arrived or were lost.
    pub packets: u64,
    /// Share of packets lost or late.
    pub loss: Option<f64>,
    /// Mean delay from mouth to ear.
    pub mouth_to_ear: Option<Span>,
    /// Rating of the E-model.
    pub r: Option<f64>,
    /// Mean opinion score of the rating.
    pub mos: Option<f64>,
}

/// Knowledge of an exchange about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDetail {
    /// Number of the caller.
    pub caller: String,
    /// Number called.
    pub callee: String,
    /// Cause of its end or refusal; empty while it is up.
    pub cause: String,
    /// Protocols and trunk that it takes: "sip - iax genoa".
    pub path: String,
}

/// Record of a call at one end of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecord {
    /// Protocol: "sip", "iax" or "rtp".
    pub protocol: &'static str,
    /// Codec, if the flow carries voice.
    pub codec: Option<String>,
    /// Time at which it was placed.
    pub placed: Time,
    /// Time from placing it to the callee's ringing.
    pub post_dial: Option<Span>,
    /// Time from placing it to its answer.
    pub set_up: Option<Span>,
    /// Time of its end.
    pub ended: Option<Time>,
    /// State.
    pub end: CallEnd,
    /// Quality, if this end receives voice.
    pub quality: Option<CallQuality>,
    /// Numbers, cause and path, if an exchange has the record.
    pub detail: Option<CallDetail>,
}

impl CallRecord {
    /// Returns the time from the answer to the end of the call, or to `now`.
    pub fn duration(&self, now: Time) -> Option<Span> {
        let answered = self.placed + self.set_up?;
        Some(self.ended.unwrap_or(now).since(answered))
    }
}

/// Element that has records of calls.
pub trait KeepsCalls: Any {
    /// Returns the records of all calls at the end of a run, oldest first.
    fn calls(&self, now: Time) -> Vec<CallRecord>;
}

/// Reader of the calls of an element in a network.
#[derive(Clone, Copy, Debug)]
pub struct CallReader(fn(&mut Network, ElementId) -> Vec<CallRecord>);

impl PartialEq for CallReader {
    fn eq(&self, other: &CallReader) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for CallReader {}

impl CallReader {
    /// Returns the reader of elements of a type.
    pub fn of<E: KeepsCalls>() -> CallReader {
        CallReader(|network, element| {
            let now = network.now();
            network.element::<E>(element).map(|element| element.calls(now)).unwrap_or_default()
        })
    }

    /// Returns the records of an element.
    pub fn read(self, network: &mut Network, element: ElementId) -> Vec<CallRecord> {
        (self.0)(network, element)
    }
}
