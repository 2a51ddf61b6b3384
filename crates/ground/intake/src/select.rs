//! Selection of a stream by the flags that all commands share.

use std::fmt;
use std::net::IpAddr;

use bentpipe_wire::pcap::Record;

use crate::{Link, StreamId};

/// Interface of a capture, by its name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface(pub String);

impl Interface {
    fn is_of(&self, record: &Record<'_>) -> bool {
        record.interface_name == Some(&self.0) || self.0.parse() == Ok(record.interface)
    }
}

/// Selection: what is set has to agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Interface of the capture.
    pub interface: Option<Interface>,
    /// Identifier of a VLAN tag.
    pub vlan: Option<u16>,
    /// Source address.
    pub source: Option<IpAddr>,
    /// Destination address, such as a multicast group.
    pub destination: Option<IpAddr>,
    /// Destination port.
    pub port: Option<u16>,
    /// Synchronisation source of RTP.
    pub ssrc: Option<u32>,
    /// Input stream identifier of baseband frames.
    pub isi: Option<u8>,
}

impl Select {
    /// Returns `true` if the record's interface and VLAN are selected.
    pub(crate) fn admits_record(&self, record: &Record<'_>, link: &Link) -> bool {
        self.interface.as_ref().is_none_or(|interface| interface.is_of(record))
            && self.vlan.is_none_or(|vlan| link.has(vlan))
    }

    /// Returns `true` if the addresses and the port of a stream are selected.
    pub(crate) fn admits_ends(&self, id: &StreamId) -> bool {
        let Some((from, to)) = id.ends else {
            return self.source.is_none() && self.destination.is_none() && self.port.is_none();
        };
        self.source.is_none_or(|source| source == from.ip())
            && self.destination.is_none_or(|destination| destination == to.ip())
            && self.port.is_none_or(|port| port == to.port())
    }

    /// Returns `true` if the sender within these ends is selected.
    pub(crate) fn admits_sender(&self, id: &StreamId) -> bool {
        self.ssrc.is_none_or(|ssrc| id.ssrc == Some(ssrc)) && self.isi.is_none_or(|isi| id.isi == Some(isi))
    }
}

impl fmt::Display for Select {
    /// Writes the flags that are set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            ("--interface", self.interface.as_ref().map(|of| of.0.clone())),
            ("--vlan", self.vlan.map(|of| of.to_string())),
            ("--src", self.source.map(|of| of.to_string())),
            ("--dst", self.destination.map(|of| of.to_string())),
            ("--port", self.port.map(|of| of.to_string())),
            ("--ssrc", self.ssrc.map(|of| format!("{of:#010x}"))),
            ("--isi", self.isi.map(|of| of.to_string())),
        ];
        let set = flags.into_iter().filter_map(|(flag, value)| Some(format!("{flag} {}", value?)));
        f.write_str(&set.collect::<Vec<_>>().join(" "))
    }
}
