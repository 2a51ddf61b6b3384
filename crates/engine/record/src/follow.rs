//! Recording of a network driven from outside: an emulation, which may end at any moment.

use std::ops::ControlFlow;

use bentpipe_sim::Network;
use bentpipe_units::{Span, Time};

use super::recorder::{MAX_CELLS, Parts, Recorder, Stopped, start_window, totals};
use super::series::{Recording, Sampling, Series};

/// A network that moves on in real time.
pub trait Live {
    /// Moves on to `end`; breaks if it ended before.
    fn run_until(&mut self, end: Time) -> ControlFlow<()>;

    /// Returns the network, at the instant reached.
    fn network(&mut self) -> &mut Network;
}

impl Recorder {
    /// Records until `live` ends, `progress` stops it, or the recorder's duration is over.
    ///
    /// The samples up to then are kept. `progress` is called after each sample, with all
    /// up to then. When memory cannot hold more
    /// samples, every second one is dropped and the interval doubles.
    ///
    /// # Errors
    /// Returns an error if there are too many values to record.
    pub fn follow<L: Live>(
        &self,
        live: &mut L,
        mut progress: impl FnMut(&mut L, &Series) -> ControlFlow<()>,
    ) -> Result<Recording, Stopped> {
        let (parts, mut series) = (Parts::of(live.network()), Series::default());
        self.sample(live.network(), &parts, &mut series);
        let max_rows = (MAX_CELLS / series.columns.len().max(1)).max(4);
        let end = Time::ZERO + self.duration;
        let mut interval = if self.interval.is_zero() { Span::from_secs(1) } else { self.interval };
        let (mut next, mut warm) = (Time::ZERO + interval, None);
        loop {
            let ended = live.run_until(next.min(end));
            let now = live.network().now();
            if warm.is_none() && now >= Time::ZERO + self.warm_up {
                if !self.warm_up.is_zero() {
                    live.network().start_window();
                }
                warm = Some(start_window(live.network(), &parts));
            }
            // An end before the first instant is over leaves nothing new.
            if series.times.last().is_none_or(|last| *last < now) {
                self.sample(live.network(), &parts, &mut series);
            }
            if ended.is_break() || now >= end || progress(live, &series).is_break() {
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
            end: totals(network, &parts),
            fingerprint: network.fingerprint(),
            work: network.work(),
            stray: network.unrouted_packets(),
        })
    }
}
