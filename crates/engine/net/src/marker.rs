//! DSCP marker of an edge router (RFC 2475, section 2.3.2).
//!
//! Models: packets that a node diverts to a port get the DSCP of the port's rule and go back where they came from. The ECN
//! codepoint stays (RFC 3168), and the IPv4 header checksum is updated. Does not model: meters and droppers.

use std::any::Any;

use bentpipe_units::Time;
use bentpipe_wire::ip;

use crate::{Cx, Element, InvalidConfig, Observer, Packet, Port};

pub mod metrics;

/// Highest differentiated services codepoint.
const MAX_DSCP: u8 = 63;

/// Marker that writes the DSCP of each rule.
#[derive(Clone, Debug)]
pub struct Marker {
    /// Rule of each port.
    rules: Vec<usize>,
    /// DSCP of each rule.
    dscps: Vec<u8>,
    matched: u64,
    changed: u64,
}

impl Marker {
    /// Creates a marker: the rule of each port, and the DSCP of each rule.
    ///
    /// # Errors
    /// Returns an error if a DSCP has more than 6 bits.
    pub fn new(rules: Vec<usize>, dscps: Vec<u8>) -> Result<Marker, InvalidConfig> {
        check(&dscps)?;
        Ok(Marker { rules, dscps, matched: 0, changed: 0 })
    }

    /// Sets the DSCPs of all rules for packets from now on.
    ///
    /// # Errors
    /// Returns an error if there is another number of rules, or a DSCP has more than 6 bits. Nothing is changed then.
    pub fn set(&mut self, dscps: Vec<u8>) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(dscps.len() == self.dscps.len(), "rules", "as many rules as at the start")?;
        check(&dscps)?;
        self.dscps = dscps;
        Ok(())
    }

    /// Returns the DSCP of the rule of a port.
    fn dscp(&self, port: Port) -> Option<u8> {
        self.rules.get(usize::from(port.0)).and_then(|rule| self.dscps.get(*rule)).copied()
    }

    /// Returns `true` if the packet had another DSCP than the one it gets.
    fn mark(packet: &mut Packet, dscp: u8) -> bool {
        let elided = packet.len() - packet.header().len();
        let Ok(mut ip) = ip::Packet::new_elided(packet.header_mut(), elided) else { return false };
        let had = ip.traffic_class();
        ip.set_traffic_class(had.with_dscp(dscp));
        had.dscp() != dscp
    }
}

fn check(dscps: &[u8]) -> Result<(), InvalidConfig> {
    InvalidConfig::ensure(dscps.iter().all(|dscp| *dscp <= MAX_DSCP), "mark", "a DSCP from 0 to 63")
}

impl Element for Marker {
    fn receive(&mut self, port: Port, mut packet: Packet, cx: &mut Cx<'_>) -> Time {
        if let Some(dscp) = self.dscp(port) {
            self.matched += 1;
            self.changed += u64::from(Marker::mark(&mut packet, dscp));
        }
        cx.emit(port, packet);
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        from == to
    }

    fn alike(&self, from: Port) -> Port {
        from
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::MATCHED, self.matched);
        observer.counter(&metrics::CHANGED, self.changed);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::ip::{Ecn, Protocol, TrafficClass};

    use super::*;
    use crate::testing::Harness;

    /// A packet of this class between two addresses.
    fn packet(from: &str, to: &str, class: TrafficClass) -> Packet {
        let [from, to] = [from, to].map(|address| address.parse().expect("an address"));
        let mut ip = ip::Repr::new(from, to, Protocol::UDP, 100);
        match &mut ip {
            ip::Repr::V4(repr) => repr.traffic_class = class,
            ip::Repr::V6(repr) => repr.traffic_class = class,
        }
        let mut packet = Packet::new(ip.buffer_len(), 100);
        ip.emit(packet.header_mut());
        packet
    }

    #[test]
    fn packets_get_the_dscp_of_their_rule_and_keep_the_rest() {
        for (from, to) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let mut marker = Harness::new(Marker::new(vec![0, 1], vec![46, 0]).expect("possible"));
            let before = packet(from, to, TrafficClass::new(8, Ecn::Ect0));
            marker.receive(0, 0, before.clone());
            marker.receive(0, 1, packet(from, to, TrafficClass::new(0, Ecn::Ce)));
            let classes: Vec<(u16, TrafficClass)> = marker
                .out
                .iter()
                .map(|(_, port, packet)| {
                    let bytes = packet.to_vec();
                    let ip = ip::Packet::new_checked(&bytes[..]).expect("IP");
                    if let ip::Packet::V4(ip) = &ip {
                        ip.verify_checksum().expect("a checksum");
                    }
                    (port.0, ip.traffic_class())
                })
                .collect();
            assert_eq!(classes, [(0, TrafficClass::new(46, Ecn::Ect0)), (1, TrafficClass::new(0, Ecn::Ce))]);
            assert_eq!(marker.out[0].2.to_vec()[12..], before.to_vec()[12..]);
            assert_eq!([marker.value("matched"), marker.value("changed")], [2.0, 1.0]);
        }
    }

    #[test]
    fn rules_change_in_number_never_and_dscps_have_six_bits() {
        let mut marker = Marker::new(vec![0, 0], vec![46]).expect("possible");
        assert!(Marker::new(vec![0], vec![64]).is_err());
        assert!(marker.set(vec![46, 0]).is_err() && marker.set(vec![64]).is_err());
        marker.set(vec![34]).expect("possible");
        let mut marker = Harness::new(marker);
        marker.receive(0, 1, packet("10.0.0.1", "10.0.0.2", TrafficClass(0)));
        let bytes = marker.out[0].2.to_vec();
        assert_eq!(ip::Packet::new_checked(&bytes[..]).expect("IP").traffic_class().dscp(), 34);
    }
}
