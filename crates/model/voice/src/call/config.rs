//! Configuration of calls, and the settings that follow from it.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rate::{Adapt, Usual};
use super::rating::{Delays, Rating};
use crate::codec::{Codec, Format};
use crate::conversation::Speech;
use crate::emodel::{Impairment, Params, Sensitivity};
use crate::frames::{Frames, Timing};
use crate::playout::Playout;

/// Maximum interval of windows and of comfort noise.
const LONGEST: Span = Span::from_secs(3600);

/// Voice calls, both directions together: RTP and RTCP with a conversation, playout and quality.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Config {
    /// Codec of both directions.
    pub codec: Codec,
    /// Rate of the codec. Default: its usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Adaptation of the rate during a call. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapt: Option<Adapt>,
    /// Frames per packet. Default: 20 ms, or one longer frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u32>,
    /// Speech of both parties. Default: ITU-T P.59.
    #[serde(default)]
    pub speech: Speech,
    /// Enables silence suppression: no speech packets in pauses. Default: true.
    #[serde(default = "yes")]
    pub silence_suppression: bool,
    /// Time after a spurt for which speech packets continue. Default: 0 s.
    #[serde(default = "no_time")]
    pub hangover: Span,
    /// Interval of comfort noise in a pause. Default: that of the codec; one packet per pause for most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comfort_noise: Option<Span>,
    /// Playout buffer. Default: fixed, 60 ms.
    #[serde(default)]
    pub playout: Playout,
    /// RTCP reports. Default: "extended".
    #[serde(default)]
    pub rtcp: Rtcp,
    /// Equipment impairment. Default: that published for the codec; R is not computed without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impairment: Option<Impairment>,
    /// Sensitivity of the conversation to delay, for R. Default: "default".
    #[serde(default)]
    pub sensitivity: Sensitivity,
    /// Advantage factor of R, 0 to 20. Default: 0.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 20.0))]
    pub advantage: f64,
    /// Talker echo loudness rating in decibels (TELR), narrow band only. Default: no echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub echo_loudness: Option<f64>,
    /// Threshold of a good call.
    #[serde(default)]
    pub good: Good,
    /// Length of the windows in which R is measured over time. Default: 5 s.
    #[serde(default = "five_seconds")]
    pub window: Span,
    /// Differentiated services codepoint. Default: 46, expedited forwarding.
    #[serde(default = "expedited")]
    #[schemars(range(min = 0, max = 63))]
    pub dscp: u8,
}

/// RTCP packets of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rtcp {
    /// No packets.
    None,
    /// Sender and receiver reports (RFC 3550).
    Reports,
    /// Reports with VoIP metrics (RFC 3611).
    #[default]
    Extended,
}

/// Threshold of a good call: all of these at each end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Good {
    /// Maximum share of packets lost or late. Default: 0.05.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(default = "five_percent")]
    pub loss: f64,
    /// Maximum mean mouth-to-ear delay. Default: 400 ms (ITU-T G.114).
    #[serde(default = "longest_delay")]
    pub delay: Span,
    /// Minimum rating R. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub r: Option<f64>,
}

impl Default for Good {
    fn default() -> Good {
        Good { loss: five_percent(), delay: longest_delay(), r: None }
    }
}

const fn yes() -> bool {
    true
}

const fn no_time() -> Span {
    Span::ZERO
}

const fn five_seconds() -> Span {
    Span::from_secs(5)
}

const fn expedited() -> u8 {
    46
}

const fn five_percent() -> f64 {
    0.05
}

const fn longest_delay() -> Span {
    Span::from_millis(400)
}

impl Config {
    /// Creates calls of a codec with all else as by default.
    pub fn new(codec: Codec) -> Config {
        Config {
            codec,
            rate: None,
            adapt: None,
            frames: None,
            speech: Speech::P59,
            silence_suppression: true,
            hangover: Span::ZERO,
            comfort_noise: None,
            playout: Playout::default(),
            rtcp: Rtcp::Extended,
            impairment: None,
            sensitivity: Sensitivity::Default,
            advantage: 0.0,
            echo_loudness: None,
            good: Good::default(),
            window: five_seconds(),
            dscp: expedited(),
        }
    }

    /// Returns the settings that follow.
    ///
    /// # Errors
    /// Returns an error if a value is impossible.
    pub fn settings(&self) -> Result<Settings, InvalidConfig> {
        let format = self.codec.format(self.rate)?;
        let frames = self.frames.unwrap_or(format.usual_frames());
        let interval = format.interval(frames)?;
        self.check()?;
        let impairment = self.impairment.or(format.impairment());
        let needs = self.good.r.is_none() || impairment.is_some();
        InvalidConfig::ensure(
            needs,
            "good.r",
            "none without `impairment = { ie = .., bpl = .. }`: G.113 does not have both factors of this codec",
        )?;
        Ok(Settings {
            format,
            interval,
            payload_len: format.payload_len(frames) as u32,
            held: interval + format.look_ahead,
            step_ticks: format.ticks(interval) as u32,
            rating: impairment.map(|impairment| self.rating(&format, impairment)),
            config: *self,
        })
    }

    /// Returns the codec before its rate changes.
    pub(super) fn usual(&self) -> Usual {
        let Config { codec, rate, frames, impairment, .. } = *self;
        Usual { codec, rate, frames, impairment }
    }

    fn rating(&self, format: &Format, impairment: Impairment) -> Rating {
        let params = Params {
            impairment: Impairment { ie: 0.0, bpl: 1.0 },
            advantage: self.advantage,
            sensitivity: self.sensitivity,
            telr: self.echo_loudness.unwrap_or(Params::default().telr),
            ..Params::default()
        };
        Rating::new(format.band, params, impairment, self.echo_loudness.is_some())
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        self.speech.check()?;
        self.playout.check()?;
        if let Some(adapt) = &self.adapt {
            adapt.check(&self.usual()).map_err(|error| error.inside("adapt"))?;
            let reports = "reports, by which the rate is adapted";
            InvalidConfig::ensure(self.rtcp != Rtcp::None, "rtcp", reports)?;
        }
        let advantage = (0.0..=20.0).contains(&self.advantage);
        InvalidConfig::ensure(advantage, "advantage", "0 to 20 (ITU-T G.107)")?;
        let echo = self.echo_loudness.is_none_or(|telr| (0.0..=100.0).contains(&telr));
        InvalidConfig::ensure(echo, "echo_loudness", "0 to 100 dB")?;
        InvalidConfig::ensure(self.dscp < 64, "dscp", "a codepoint from 0 to 63")?;
        let impairment = self.impairment.is_none_or(|of| (0.0..=95.0).contains(&of.ie) && of.bpl >= 1.0);
        InvalidConfig::ensure(impairment, "impairment", "`ie` of 0 to 95 and `bpl` of at least 1")?;
        InvalidConfig::ensure((0.0..=1.0).contains(&self.good.loss), "good.loss", "0 to 1")?;
        let is_span = |span: Span| span >= Span::from_millis(10) && span <= LONGEST;
        InvalidConfig::ensure(is_span(self.window), "window", "\"10 ms\" to \"1 h\"")?;
        let noise = self.comfort_noise.is_none_or(is_span);
        InvalidConfig::ensure(noise, "comfort_noise", "\"10 ms\" to \"1 h\"")?;
        InvalidConfig::ensure(self.hangover <= LONGEST, "hangover", "at most \"1 h\"")
    }
}

/// Settings of calls that both ends share.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Configuration.
    pub(super) config: Config,
    /// Codec at its rate.
    pub(super) format: Format,
    /// Time of a packet.
    pub(super) interval: Span,
    /// Payload of a speech packet in bytes.
    pub(super) payload_len: u32,
    /// Time from the first sample of a packet to its transmission.
    pub(super) held: Span,
    /// Ticks of the RTP clock in a packet.
    pub(super) step_ticks: u32,
    /// E-model, where the codec is rated.
    pub(super) rating: Option<Rating>,
}

impl Settings {
    /// Returns the RTP payload of a speech packet in bytes.
    pub fn payload_len(&self) -> u32 {
        self.payload_len
    }

    /// Returns `true` if a packet is comfort noise, and not speech.
    ///
    /// Noise in the codec's own format differs from speech by its length.
    pub fn is_noise(&self, payload_type: u8, len: usize) -> bool {
        let noise = self.format.noise;
        match noise.payload_type {
            Some(own) => payload_type == own,
            None => len == noise.len && len != self.payload_len as usize,
        }
    }

    /// Returns the time from the first sample of a packet to its transmission.
    pub fn held(&self) -> Span {
        self.held
    }

    /// Returns the codec at its rate.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Returns the equipment impairment: the configured one, or that published for the codec.
    pub fn impairment(&self) -> Option<Impairment> {
        self.config.impairment.or(self.format.impairment())
    }

    /// Returns the equipment impairment factor without losses.
    pub fn ie(&self) -> Option<f64> {
        self.config.impairment.map(|of| of.ie).or(self.format.rated.map(|rated| rated.ie))
    }

    /// Returns the time of a packet.
    pub fn interval(&self) -> Span {
        self.interval
    }

    /// Returns the rating with the mean impairment of the packets played.
    pub(super) fn rating_of(&self, delays: &Delays) -> Option<Rating> {
        let rating = self.rating?;
        let adapted = self.config.adapt.and(delays.ie());
        Some(adapted.map_or(rating, |ie| rating.with_ie(ie)))
    }

    /// Returns the nominal rate of a direction at IP in bytes per second.
    pub(super) fn session_bytes_per_s(&self, ip_header: usize) -> f64 {
        let packet = ip_header + 8 + 12 + self.payload_len as usize;
        packet as f64 / self.interval.as_secs_f64()
    }

    /// Returns the mean number of speech packets per second and direction.
    pub fn packets_per_s(&self) -> f64 {
        self.frames().speech / self.interval.as_secs_f64()
    }

    /// Returns the mean number of packets of comfort noise per second and direction.
    pub fn noise_per_s(&self) -> f64 {
        self.frames().noise / self.interval.as_secs_f64()
    }

    /// Returns the payload of a packet of comfort noise in bytes.
    pub fn noise_len(&self) -> u32 {
        self.format.noise.len as u32
    }

    /// Returns the mean numbers of packets in an interval.
    fn frames(&self) -> Frames {
        if !self.config.silence_suppression {
            return Frames { speech: 1.0, noise: 0.0 };
        }
        let (config, noise) = (&self.config, self.format.noise);
        let timing = Timing {
            frame: self.interval,
            hangover: config.hangover,
            second_after: config.comfort_noise.or(noise.second_after).or(noise.interval),
            interval: config.comfort_noise.or(noise.interval),
        };
        Frames::of(config.speech, &timing)
    }
}
