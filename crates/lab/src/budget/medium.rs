//! What packets cost in a direction of a link: on a line, in the slots of a terminal, in DVB, or over Wi-Fi.

use bentpipe_net::{Framing, dama, dvb, wifi};
use bentpipe_units::{Bytes, Rate, Span};

use crate::build::{self, Way, direction};
use crate::scenario::{Link, Scenario};

/// A line with its framing, a terminal's carriers, or a cell of Wi-Fi.
pub(super) enum Medium {
    Line(Rate, Framing),
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
            Medium::Line(rate, _) | Medium::Terminal(rate, _) => *rate,
            Medium::Dvb(line, _) => line.rate(),
            Medium::Wifi(wifi) => wifi.data_rate(),
        }
    }

    /// What of it can be used.
    pub(super) fn usable(&self) -> Rate {
        match self {
            Medium::Line(rate, framing) => framing.usable(*rate),
            Medium::Terminal(rate, _) => *rate,
            Medium::Dvb(line, _) => line.rate(),
            Medium::Wifi(wifi) => wifi.data_rate(),
        }
    }

    /// The bytes that a packet takes.
    pub(super) fn wire_len(&self, len: usize) -> Bytes {
        match self {
            Medium::Line(_, framing) => framing.wire_len(len),
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
            Medium::Line(..) | Medium::Dvb(..) => self.usable().span_of(self.wire_len(len)),
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
