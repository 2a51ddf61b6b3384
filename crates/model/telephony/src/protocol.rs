//! Protocols of calls as callers and callees use them.

mod iax;
mod lines;
mod sip;

use std::fmt::Debug;
use std::net::SocketAddr;

use bentpipe_net::Observer;
use bentpipe_net::metric::{Counter, Of};
use bentpipe_site::CallQuality;
use bentpipe_units::Time;

pub use iax::{Iax, Settings as IaxSettings, Voice};
pub(crate) use lines::RTP_DSCP;
pub use lines::{Lines, Outcomes, PhoneVoice};
pub use sip::{Phone, Settings as SipSettings, Sip};
pub(crate) use sip::{capabilities, host};

/// Event of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The call comes in.
    Incoming,
    /// The callee rings.
    Ringing,
    /// The callee answered.
    Answered,
    /// The caller has the answer.
    Confirmed,
    /// The call is over.
    Ended,
    /// The peer does not answer the protocol.
    TimedOut,
    /// The call failed for another cause.
    Failed(Cause),
}

/// Cause of a call that failed, as an answer has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Busy: a phone, or a conference that is full.
    Busy,
    /// No capacity: the limit of a trunk, or no free port of an exchange.
    NoCapacity,
    /// Another one.
    Other,
}

impl Cause {
    /// Returns that of a final response of SIP.
    pub(crate) fn of_status(status: u16) -> Cause {
        match status {
            486 | 600 => Cause::Busy,
            503 => Cause::NoCapacity,
            _ => Cause::Other,
        }
    }

    /// Returns that of a cause code of IAX2, which Q.850 defines.
    pub(crate) fn of_code(code: Option<u8>) -> Cause {
        match code {
            Some(17) => Cause::Busy,
            Some(34 | 42) => Cause::NoCapacity,
            _ => Cause::Other,
        }
    }
}

impl Happening {
    /// Returns `true` if nothing follows in the call.
    pub(crate) fn is_last(self) -> bool {
        matches!(self, Happening::Ended | Happening::TimedOut | Happening::Failed(_))
    }
}

/// Messages sent again, and repeated ones received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// Sent again.
    pub sent: u64,
    /// Received again.
    pub absorbed: u64,
}

/// Protocol of calls, with the state of one end.
pub trait Protocol: Debug + Send + Sized + 'static {
    /// Settings other than those of the calls.
    type Settings: Clone + Debug + Send;
    /// Identity of a call.
    type Call: Copy + Debug + Ord + Send;
    /// Name in call records.
    const NAME: &'static str;
    /// Key of the voice in the traffic.
    const VOICE_KEY: &'static str;
    /// Counter of messages sent.
    const MESSAGES: &'static Of<Counter>;
    /// Counter of bytes sent.
    const BYTES: &'static Of<Counter>;

    /// Creates an end without calls.
    fn new(settings: &Self::Settings, user: &str, local: SocketAddr, seed: u64) -> Self;
    /// Acts at the start of the run.
    fn start(&mut self, _now: Time) {}
    /// Returns the codec of the voice that calls carry.
    fn codec(_settings: &Self::Settings) -> Option<String> {
        None
    }
    /// Returns the length of the longest datagram with voice in bytes; zero without voice.
    fn longest_voice(settings: &Self::Settings) -> usize;
    /// Calls the callee at an address.
    fn place(&mut self, now: Time, remote: SocketAddr) -> Option<Self::Call>;
    /// Has an incoming call ring.
    fn ring(&mut self, now: Time, call: Self::Call);
    /// Answers an incoming call.
    fn answer(&mut self, now: Time, call: Self::Call);
    /// Ends or cancels a call.
    fn hang_up(&mut self, now: Time, call: Self::Call);
    /// Receives a datagram.
    fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]);
    /// Handles timers that are due.
    fn handle_timeout(&mut self, now: Time);
    /// Returns the time of the next timer.
    fn deadline(&mut self) -> Time;
    /// Returns the next event.
    fn event(&mut self) -> Option<(Self::Call, Happening)>;
    /// Returns the next datagram to send.
    fn transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)>;
    /// Returns `true` if a datagram to another port than that of the protocol is voice.
    fn receive_voice(&mut self, _now: Time, _from: SocketAddr, _port: u16, _datagram: &[u8]) -> bool {
        false
    }
    /// Returns the next datagram of voice to send, from a port of its own.
    fn transmit_voice(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)> {
        None
    }
    /// Returns the lines with voice, if there are any.
    fn lines(&mut self) -> Option<&mut Lines> {
        None
    }
    /// Returns the quality of a call's voice up to now, as this end receives it.
    fn quality(&self, _call: Self::Call) -> Option<CallQuality> {
        None
    }
    /// Forgets the voice of a call that is over, and returns its quality.
    fn finish(&mut self, _call: Self::Call) -> Option<CallQuality> {
        None
    }
    /// Returns the counts of repeated messages.
    fn repeats(&self) -> Repeats;
    /// Reports the counters of the protocol, which are zero before the start.
    fn observe(_settings: &Self::Settings, _protocol: Option<&Self>, _observer: &mut dyn Observer) {}
}
