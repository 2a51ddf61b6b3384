//! What packets cost in a direction of a link: on a line, in a virtual channel, in the slots of a terminal, in DVB, or over
//! Wi-Fi.

use bentpipe_net::atm::{Encapsulation, Service};
use bentpipe_net::{Framing, dama, dvb, wifi};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::{aal5, llc};

use crate::build::{self, Way, direction};
use crate::scenario::{Link, Scenario, VirtualChannel};

/// A line with its framing, a terminal's carriers, or a cell of Wi-Fi.
pub(super) enum Medium {
    Line(Rate, Framing),
    /// The most that a virtual channel may get of its lines, and what it was given.
    Channel(Rate, VirtualChannel),
    /// The most that a terminal may get of its carriers, and their structure.
    Terminal(Rate, dama::Frame),
    /// A line of DVB, and how a stream is carried on it.
    Dvb(dvb::Line, Box<dvb::Config>),
    /// What a lone sender has of its cell.
    Wifi(wifi::Config),
}

impl Medium {
    pub(super) fn of(scenario: &Scenario, link: &Link, way: Way) -> Medium {
        if let Some(wifi) = link.wifi.clone() {
            return Medium::Wifi(wifi);
        }
        let settings = direction(link, way);
        if let Some(vc) = &link.vc {
            let lines = settings.rate.unwrap_or_default();
            return Medium::Channel(peak(vc.service).map_or(lines, |peak| peak.min(lines)), vc.clone());
        }
        let terminal = settings.dama.and_then(|dama| {
            let frame = build::frame(scenario, &dama.carrier).ok()?;
            Some(Medium::Terminal(frame.rate_of(dama.contract.most_units(&frame)), frame))
        });
        let stream = settings.dvb.and_then(|dvb| {
            let line = scenario.dvb.get(&dvb.line)?.clone();
            Some(Medium::Dvb(line, Box::new(dvb.stream)))
        });
        terminal.or(stream).unwrap_or(Medium::Line(settings.rate.unwrap_or_default(), link.framing))
    }

    /// The rate of frames or cells.
    pub(super) fn rate(&self) -> Rate {
        match self {
            Medium::Line(rate, _) | Medium::Channel(rate, _) | Medium::Terminal(rate, _) => *rate,
            Medium::Dvb(line, _) => line.rate(),
            Medium::Wifi(wifi) => wifi.data_rate(),
        }
    }

    /// What of it can be used: of ABR all but an RM cell in each `nrm`.
    pub(super) fn usable(&self) -> Rate {
        match self {
            Medium::Line(rate, framing) => framing.usable(*rate),
            Medium::Channel(rate, vc) => match vc.service {
                Service::Abr(abr) => {
                    let nrm = u128::from(abr.nrm.max(1));
                    Rate::from_bps((u128::from(rate.as_bps()) * (nrm - 1) / nrm) as u64)
                }
                _ => *rate,
            },
            Medium::Terminal(rate, _) => *rate,
            Medium::Dvb(line, _) => line.rate(),
            Medium::Wifi(wifi) => wifi.data_rate(),
        }
    }

    /// The cells that a packet takes, and the padding in the last of them, where there are cells.
    pub(super) fn cells(&self, len: usize) -> Option<(u64, Bytes)> {
        let len = match self {
            Medium::Line(_, Framing::Aal5LlcSnap { .. }) => len + headers(Encapsulation::LlcSnap),
            Medium::Channel(_, vc) => len + headers(vc.encapsulation),
            _ => return None,
        };
        Some((aal5::cells(len) as u64, Bytes::new(aal5::pad_len(len) as u64)))
    }

    /// The bytes that a packet takes.
    pub(super) fn wire_len(&self, len: usize) -> Bytes {
        match self {
            Medium::Line(_, framing) => framing.wire_len(len),
            Medium::Channel(_, vc) => Bytes::new(aal5::wire_len(len + headers(vc.encapsulation)) as u64),
            Medium::Terminal(_, frame) => frame.carrier_len(len),
            Medium::Dvb(_, stream) => stream.line_len(len),
            Medium::Wifi(_) => Bytes::new((len + wifi::OVERHEAD) as u64),
        }
    }

    /// The rate of IP packets of this length: usable * packet / on the line, or one in each exchange of a lone sender.
    pub(super) fn capacity(&self, len: usize) -> Rate {
        if let Medium::Wifi(wifi) = self {
            return Rate::of(Bytes::new(len as u64), wifi.exchange(len).with_access(wifi.standard));
        }
        let wire = self.wire_len(len).get().max(1);
        let bits = u128::from(self.usable().as_bps()) * len as u128 / u128::from(wire);
        Rate::from_bps(bits as u64)
    }

    /// How long a packet takes: of a terminal with slots enough, whole bursts one after the other.
    pub(super) fn time(&self, len: usize) -> Span {
        match self {
            Medium::Line(..) | Medium::Channel(..) | Medium::Dvb(..) => {
                self.usable().span_of(self.wire_len(len))
            }
            Medium::Terminal(_, frame) => {
                frame.slot() * self.wire_len(len).get().div_ceil(frame.burst().get())
            }
            Medium::Wifi(wifi) => {
                let exchange = wifi.exchange(len);
                exchange.lead + exchange.data
            }
        }
    }
}

/// The peak cell rate of a service, if it has one.
fn peak(service: Service) -> Option<Rate> {
    match service {
        Service::Cbr { pcr } | Service::Vbr { pcr } | Service::Ubr { pcr } => pcr,
        Service::Abr(abr) => abr.pcr,
    }
}

/// The bytes between a packet and its CPCS-PDU (RFC 2684).
fn headers(encapsulation: Encapsulation) -> usize {
    match encapsulation {
        Encapsulation::LlcSnap => llc::HEADER_LEN,
        Encapsulation::VcMux => 0,
    }
}
