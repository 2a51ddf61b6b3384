//! Errors of frames, where a link layer that sends again stands between them and packets.

use bentpipe_units::{RandomStream, Time};

use super::trace::Reader;
use super::{Config, GilbertElliott, LoadedFault, Trials};
use crate::InvalidConfig;
use crate::config::probability;

/// Decides of each frame sent whether it arrives whole.
#[derive(Debug)]
pub enum FrameErrors {
    /// Each frame with the same probability.
    Frames(Trials),
    /// Each bit with the same probability: a frame with any wrong bit is lost.
    Bits(Trials),
    /// Two states that change from frame to frame.
    Bursts(GilbertElliott),
    /// Frames of a trace.
    Trace(Reader),
}

impl FrameErrors {
    /// Creates the errors of a channel of that configuration.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value; `kind` for a kind that does not lose
    /// packets.
    pub fn new(fault: &LoadedFault) -> Result<FrameErrors, InvalidConfig> {
        let trials = |value, key| probability(value, key).map(Trials::new);
        Ok(match &fault.config {
            Config::PacketErrors { loss } => FrameErrors::Frames(trials(*loss, "loss")?),
            Config::BitErrors { ber, .. } => FrameErrors::Bits(trials(*ber, "ber")?),
            Config::GilbertElliott { p, r, loss_good, loss_bad } => {
                FrameErrors::Bursts(GilbertElliott::new([*p, *r], [*loss_good, *loss_bad])?)
            }
            Config::Trace(config) => FrameErrors::Trace(config.reader(fault.trace.as_ref())?),
            Config::Signal(_)
            | Config::Outages { .. }
            | Config::BitBursts { .. }
            | Config::Coded(_)
            | Config::Duplication { .. }
            | Config::Reordering { .. }
            | Config::Jitter { .. }
            | Config::JitterTable(_) => {
                let expected =
                    "what loses frames: packet-errors, bit-errors, gilbert-elliott, trace or signal";
                return Err(InvalidConfig::new("kind", expected));
            }
        })
    }

    /// Returns `true` if a frame of `bits` sent at `at` is lost.
    #[inline]
    pub fn loses(&mut self, at: Time, bits: u64, stream: &mut RandomStream) -> bool {
        match self {
            FrameErrors::Frames(trials) => trials.hits(stream),
            FrameErrors::Bits(trials) => {
                let mut from = 0;
                // Every wrong bit is drawn, so that the distance to the next one begins after this frame.
                while let Some(at) = trials.next_hit(bits - from, stream) {
                    from += at + 1;
                }
                from > 0
            }
            FrameErrors::Bursts(chain) => chain.loses(stream),
            FrameErrors::Trace(reader) => reader.loses(at, stream),
        }
    }
}
