//! Recording a network that somebody else moves on: an emulation in real time, which may end at any moment.

use std::ops::ControlFlow;

use bentpipe_sim::Network;
use bentpipe_units::{Span, Time};

use super::recorder::{MAX_CELLS, Recorder, Stopped, totals};
use super::series::{Recording, Sampling, Series};

/// A network that moves on in real time.
pub trait Live {
    /// Moves on to `end`; breaks if it ended before.
    fn run_until(&mut self, end: Time) -> ControlFlow<()>;

    /// The network, at the instant reached.
    fn network(&mut self) -> &mut Network;
}

impl Recorder {
    /// Records until `live` ends, `progress` wants to stop, or the recorder's duration is over; what was recorded until
    /// then is kept. `progress` is called after each sample. When memory would not hold more samples, every second one
    /// is dropped and fewer are taken from then on.
    ///
    /// # Errors
    /// If there are far too many values to record.
    pub fn follow<L: Live>(
        &self,
        live: &mut L,
        mut progress: impl FnMut(&mut L) -> ControlFlow<()>,
    ) -> Result<Recording, Stopped> {
        let mut series = Series::default();
        self.sample(live.network(), &mut series);
        let max_rows = (MAX_CELLS / series.columns.len().max(1)).max(4);
        let end = Time::ZERO + self.duration;
        let mut interval = if self.interval.is_zero() { Span::from_secs(1) } else { self.interval };
        let (mut next, mut warm) = (Time::ZERO + interval, None);
        loop {
            let ended = live.run_until(next.min(end));
            let now = live.network().now();
            if warm.is_none() && now >= Time::ZERO + self.warm_up {
                warm = Some(totals(live.network()));
            }
            // An end before the first instant is over leaves nothing new.
            if series.times.last().is_none_or(|last| *last < now) {
                self.sample(live.network(), &mut series);
            }
            if ended.is_break() || now >= end || progress(live).is_break() {
                break;
            }
            if series.times.len() >= max_rows {
                series.thin();
                interval = interval * 2;
            }
            next = now.max(next) + interval;
        }
        let network = live.network();
        Ok(Recording {
            series,
            sampling: Sampling { asked: self.interval, used: interval },
            warm: warm.unwrap_or_default(),
            end: totals(network),
            fingerprint: network.fingerprint(),
            work: network.work(),
            stray: network.stray(),
        })
    }
}
