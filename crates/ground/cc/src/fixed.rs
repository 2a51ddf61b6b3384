//! Fixed rate: segments leave at a given rate, and neither losses nor delays change it. For paths whose capacity is known and not
//! shared, such as the satellite side of a proxy that splits connections (RFC 3135, section 4.1).
//!
//! The send buffer and the peer bound the window. Recovery retransmits at the same rate.

use bentpipe_units::Rate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Ack, Connection, Controller, Loss, State};

/// Parameters of the fixed rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Rate of data, headers not counted.
    pub rate: Rate,
}

impl Default for Params {
    fn default() -> Params {
        Params { rate: Rate::from_bps(1_000_000) }
    }
}

impl Params {
    /// Returns a controller of this rate, of at least 1 bit/s.
    pub fn build(&self, connection: &Connection) -> Fixed {
        let rate = self.rate.max(Rate::from_bps(1));
        Fixed { rate, window: connection.max_window.max(connection.smss.into()) }
    }
}

/// Fixed rate.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    rate: Rate,
    window: u64,
}

impl Controller for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    /// Returns `true`: losses do not change the rate.
    fn owns_recovery(&self) -> bool {
        true
    }

    fn on_ack(&mut self, _ack: &Ack) {}

    fn on_loss(&mut self, _loss: &Loss) {}

    fn on_timeout(&mut self, _loss: &Loss, _first: bool) {}

    fn on_idle(&mut self, _restart_window: u64) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn state(&self) -> State {
        State { cwnd: self.window, ssthresh: u64::MAX, bandwidth: Some(self.rate) }
    }
}
