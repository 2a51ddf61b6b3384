//! Rating of a call at one end, and the delays that it depends on.

use bentpipe_units::Span;

use super::reception::Reception;
use crate::codec::Band;
use crate::emodel::{self, Impairment, Params};
use crate::losses::Losses;

/// E-model of a codec with all terms that do not change during a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rating {
    impairment: Impairment,
    band: Band,
    params: Params,
    /// R without delay, equipment impairment and echo.
    base: f64,
    has_echo: bool,
}

impl Rating {
    /// Creates the rating of a codec. `params` has neither delay nor equipment impairment.
    pub(super) fn new(band: Band, params: Params, impairment: Impairment, has_echo: bool) -> Rating {
        let base = match band {
            Band::Narrow => params.r(),
            Band::Wide => emodel::wide_band_r(0.0, params.sensitivity, 0.0, params.advantage),
        };
        Rating { impairment, band, params, base, has_echo: has_echo && band == Band::Narrow }
    }

    /// Returns the rating of the same codec at another rate.
    pub(super) fn with_ie(self, ie: f64) -> Rating {
        Rating { impairment: Impairment { ie, ..self.impairment }, ..self }
    }

    /// Returns R for a mouth-to-ear delay and losses, within its scale; NaN without packets.
    ///
    /// G.107 adds impairments without a bound. A call is not worse than the end of the scale, and so it counts in a mean.
    pub(super) fn r(&self, delay: Option<Span>, losses: &Losses) -> f64 {
        self.within_scale(self.sum_of_terms(delay, losses))
    }

    fn within_scale(&self, r: f64) -> f64 {
        let most = match self.band {
            Band::Narrow => emodel::NARROW_SCALE,
            Band::Wide => emodel::NARROW_SCALE * emodel::WIDE_RATIO,
        };
        r.clamp(0.0, most)
    }

    fn sum_of_terms(&self, delay: Option<Span>, losses: &Losses) -> f64 {
        // Packets came, and none was in time. G.107's equipment impairment has no value there: the burst ratio is zero.
        if losses.played == 0 && losses.late > 0 {
            return 0.0;
        }
        let (Some(delay), false) = (delay, losses.expected() == 0) else { return f64::NAN };
        let loss_percent = 100.0 * losses.ratio();
        // A window may cut a run of losses, and then has less than the shortest run.
        let burst_ratio = losses.burst_ratio().max(1e-3);
        let equipment = self.impairment.effective(loss_percent, burst_ratio);
        let ms = delay.as_secs_f64() * 1e3;
        if self.has_echo {
            let echo = Params { echo_delay: ms, loop_delay: 2.0 * ms, delay: ms, ..self.params };
            return echo.r() - equipment;
        }
        self.base - emodel::delay_impairment(ms, self.params.sensitivity) - equipment
    }

    /// Returns R of a mix.
    ///
    /// The legs of the talkers add their equipment impairment, and their rooms their noise. Equipment impairments of codecs in tandem add up (G.113).
    pub(super) fn r_of_mix(&self, delay: Option<Span>, losses: &Losses, reception: &Reception) -> f64 {
        let Some(equipment) = reception.equipment() else { return f64::NAN };
        self.within_scale(self.sum_of_terms(delay, losses) - equipment - self.noise(reception.rooms()))
    }

    /// Returns the impairment by the noise of more than one room at the sending side.
    fn noise(&self, rooms: f64) -> f64 {
        if self.band == Band::Wide || rooms.is_nan() || rooms <= 1.0 {
            return 0.0;
        }
        let room_noise_send = self.params.room_noise_send + 10.0 * libm::log10(rooms);
        self.params.r() - Params { room_noise_send, ..self.params }.r()
    }

    /// Returns the mean opinion score of a rating on the scale of the codec.
    pub(super) fn mos(&self, r: f64) -> f64 {
        match self.band {
            Band::Narrow => emodel::mos(r),
            Band::Wide => emodel::wide_band_mos(r),
        }
    }

    /// Returns a rating in the range of RTCP: 0 to 100 on the narrow-band scale.
    pub(super) fn for_report(&self, r: f64) -> f64 {
        match self.band {
            Band::Narrow => r,
            Band::Wide => r / emodel::WIDE_RATIO,
        }
    }
}

/// Sums of delays of the packets that arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delays {
    /// Packets that arrived.
    pub(super) arrived: u64,
    /// Sum of their network delays in nanoseconds.
    pub(super) network_ns: u128,
    /// Speech packets played.
    pub(super) played: u64,
    /// Sum of their delays in the playout buffer in nanoseconds.
    pub(super) buffered_ns: u128,
    /// Sum of their mouth-to-ear delays in nanoseconds.
    pub(super) mouth_to_ear_ns: u128,
    /// Sum of the equipment impairments of their rates, where these change.
    pub(super) ie: f64,
}

impl Delays {
    pub(super) fn network(&self) -> Option<Span> {
        mean(self.network_ns, self.arrived)
    }

    pub(super) fn buffered(&self) -> Option<Span> {
        mean(self.buffered_ns, self.played)
    }

    pub(super) fn mouth_to_ear(&self) -> Option<Span> {
        mean(self.mouth_to_ear_ns, self.played)
    }

    /// Returns the mean equipment impairment of the packets played.
    pub(super) fn ie(&self) -> Option<f64> {
        (self.played > 0).then(|| self.ie / self.played as f64)
    }

    pub(super) fn since(&self, earlier: &Delays) -> Delays {
        Delays {
            arrived: self.arrived - earlier.arrived,
            network_ns: self.network_ns - earlier.network_ns,
            played: self.played - earlier.played,
            buffered_ns: self.buffered_ns - earlier.buffered_ns,
            mouth_to_ear_ns: self.mouth_to_ear_ns - earlier.mouth_to_ear_ns,
            ie: self.ie - earlier.ie,
        }
    }

    pub(super) fn add(&mut self, other: &Delays) {
        self.arrived += other.arrived;
        self.network_ns += other.network_ns;
        self.played += other.played;
        self.buffered_ns += other.buffered_ns;
        self.mouth_to_ear_ns += other.mouth_to_ear_ns;
        self.ie += other.ie;
    }
}

fn mean(sum_ns: u128, count: u64) -> Option<Span> {
    sum_ns.checked_div(count.into()).map(|mean| Span::from_nanos(mean as u64))
}
