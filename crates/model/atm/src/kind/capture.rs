//! Captures of virtual channels.

use crate::{Encapsulation, Vc};
use bentpipe_net::Packet;
use bentpipe_units::Time;
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::{aal5, erf, llc};

use bentpipe_site::{CaptureFormat, Records};

/// IP packets of a virtual channel as ERF records of their AAL5 PDUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pdus {
    vc: Vc,
    encapsulation: Encapsulation,
}

impl Pdus {
    pub(super) fn new(vc: Vc, encapsulation: Encapsulation) -> Pdus {
        Pdus { vc, encapsulation }
    }

    /// Returns a packet as a record, if it is not too long for one.
    fn record(&self, now: Time, packet: &[u8]) -> Option<Vec<u8>> {
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let header = llc::Repr::Routed(if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 });
        let header_len = if self.encapsulation == Encapsulation::LlcSnap { header.buffer_len() } else { 0 };
        let pdu = aal5::Repr::new(header_len + packet.len());
        let record = record_header(now.as_nanos(), self.vc.vci(), &pdu);
        if packet.is_empty() || record.buffer_len() + pdu.buffer_len() > usize::from(u16::MAX) {
            return None;
        }
        let mut bytes = vec![0; record.buffer_len() + pdu.buffer_len()];
        record.emit(&mut bytes);
        let payload = &mut bytes[record.buffer_len()..];
        if header_len > 0 {
            header.emit(payload);
        }
        payload[header_len..pdu.payload_len].copy_from_slice(packet);
        pdu.emit(payload);
        Some(bytes)
    }
}

/// Returns the header of a record with a PDU.
fn record_header(time_ns: u64, vci: u16, pdu: &aal5::Repr) -> erf::Repr {
    let content = erf::Content::Aal5(erf::AtmHeader { vpi: 0, vci });
    erf::Repr::new(time_ns, content, pdu.buffer_len())
}

/// Returns the length of the record of a PDU with a payload.
pub(super) fn record_len(payload_len: usize) -> usize {
    let pdu = aal5::Repr::new(payload_len);
    // No length depends on time and channel.
    record_header(0, 0, &pdu).buffer_len() + pdu.buffer_len()
}

impl CaptureFormat for Pdus {
    fn link_type(&self) -> LinkType {
        LinkType::ERF
    }

    fn write(&mut self, now: Time, packet: &Packet, out: &mut dyn Records) {
        if let Some(record) = self.record(now, &packet.to_vec()) {
            out.write(now, &record, 0);
        }
    }
}
