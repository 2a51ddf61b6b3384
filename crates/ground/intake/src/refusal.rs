//! Records that are left out, with their reasons in words.

use std::borrow::Cow;

use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::pcap::Record;

use crate::Reason;

/// Reason in words.
pub type Refusal = (Reason, Cow<'static, str>);

/// Record that is left out.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut<'a> {
    /// Number of the record in the file, from 1.
    pub number: u64,
    /// The record as it was read.
    pub record: Record<'a>,
    /// Kind of the reason.
    pub reason: Reason,
    /// The reason in words.
    pub detail: &'a str,
}

/// Callback invoked with each record that is left out.
pub type EachLeftOut<'a> = dyn FnMut(&LeftOut<'_>) + 'a;

pub(crate) fn copied() -> Refusal {
    (Reason::Duplicate, "of packets that came before".into())
}

pub(crate) fn incomplete() -> Refusal {
    (Reason::Fragment, "of incomplete fragments".into())
}

/// Returns the reason of fragments whose datagram has another checksum.
pub(crate) fn mixed() -> Refusal {
    (Reason::Fragment, "of fragments of several datagrams, by the checksum".into())
}

/// Describes the protocol of a frame by its EtherType.
pub(crate) fn ethertype(ethertype: EtherType) -> String {
    let name = match ethertype {
        EtherType::ARP => " (ARP)",
        EtherType(0x8863) => " (PPPoE discovery)",
        EtherType(0x88cc) => " (LLDP)",
        EtherType(0x8847) => " (MPLS)",
        EtherType(0x888e) => " (EAPOL)",
        _ => "",
    };
    format!("of EtherType {:#06x}{name}", ethertype.0)
}
