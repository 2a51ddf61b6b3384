//! RTCP of calls that others signal and carry.

use bentpipe_net::Observer;
use bentpipe_units::{RandomStream, Span, Time};

use super::config::{Rtcp, Settings};
use super::metrics;
use super::phone::{Ear, Mouth};
use super::reports::Reports;

/// RTCP of one end of a call: reports about a mouth and an ear.
#[derive(Clone, Debug)]
pub struct Control {
    settings: Settings,
    reports: Reports,
    /// Nominal rate of the session.
    bytes_per_s: f64,
    next: Time,
}

/// Error returned when a packet of RTCP is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Numbers of packets of RTCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounts {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
    /// Received, and malformed.
    pub malformed: u64,
}

impl Control {
    /// Creates the RTCP of a call that begins. `None`: the settings have none.
    pub fn new(
        settings: &Settings,
        ip_header_len: usize,
        now: Time,
        stream: &mut RandomStream,
    ) -> Option<Control> {
        if settings.config.rtcp == Rtcp::None {
            return None;
        }
        let bytes_per_s = settings.session_bytes_per_s(ip_header_len);
        let mut reports = Reports::new();
        let next = now + reports.interval(bytes_per_s, stream);
        Some(Control { settings: *settings, reports, bytes_per_s, next })
    }

    /// Returns the time of the next report.
    pub fn deadline(&self) -> Time {
        self.next
    }

    /// Returns the report that is due.
    pub fn poll(
        &mut self,
        (mouth, ear): (&Mouth, &Ear),
        now: Time,
        stream: &mut RandomStream,
    ) -> Option<Vec<u8>> {
        if self.next > now {
            return None;
        }
        let ends = (&mouth.sender, &ear.receiver);
        let report = self.reports.compose(&self.settings, ends, now, false);
        self.next = now + self.reports.interval(self.bytes_per_s, stream);
        Some(report)
    }

    /// Returns the last report, which says goodbye.
    pub fn leave(&mut self, (mouth, ear): (&Mouth, &Ear), now: Time) -> Vec<u8> {
        self.next = Time::NEVER;
        self.reports.compose(&self.settings, (&mouth.sender, &ear.receiver), now, true)
    }

    /// Receives a compound packet.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn receive(&mut self, payload: &[u8], mouth: &Mouth, now: Time) -> Result<(), Malformed> {
        self.reports.receive(payload, mouth.sender.ssrc(), now).map_err(|()| Malformed)
    }

    /// Returns the round-trip time by the reports of the other end.
    pub fn round_trip(&self) -> Option<Span> {
        self.reports.round_trip
    }
}

impl ControlCounts {
    /// Counts a packet that came.
    pub fn note(&mut self, received: Result<(), Malformed>) {
        match received {
            Ok(()) => self.received += 1,
            Err(Malformed) => self.malformed += 1,
        }
    }

    /// Reports the counts.
    pub fn observe(&self, observer: &mut dyn Observer) {
        observer.counter(&metrics::REPORTS_SENT, self.sent);
        observer.counter(&metrics::REPORTS_RECEIVED, self.received);
        observer.counter(&metrics::MALFORMED, self.malformed);
    }
}
