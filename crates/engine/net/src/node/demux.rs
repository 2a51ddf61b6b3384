//! Demultiplexing of packets to the endpoints of a node.

use bentpipe_wire::ip::Protocol;

use super::routes::Key;
use crate::Port;
use crate::hash::Map;
use crate::ledger::AccountNumber;

/// A protocol and a port at this node; protocols without ports have port 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Service(u32);

impl Service {
    #[inline]
    pub(super) fn new(protocol: Protocol, port: u16) -> Service {
        Service(u32::from(protocol.0) << 16 | u32::from(port))
    }

    /// Returns `true` for ICMP of either version.
    pub(super) fn is_icmp(self) -> bool {
        [Protocol::ICMP, Protocol::ICMPV6].iter().any(|icmp| u32::from(icmp.0) == self.0 >> 16)
    }
}

/// Ports of a block.
const BLOCK: u32 = 16;
/// Endpoints of consecutive ports.
type Block = [Option<Port>; BLOCK as usize];

/// Endpoints by what they listen to. Only looked up, never gone through, so the order in the tables does not matter.
#[derive(Debug, Default)]
pub(super) struct Demux {
    connections: Map<(u64, Key), Port>,
    /// Neighbouring ports together, as a flow of many calls has thousands of them.
    services: Map<u32, Block>,
    /// Endpoints of long rows of ports, with the first and the last port.
    rows: Vec<(Service, Service, Port)>,
    rest: Option<Port>,
    /// Endpoints by the account of packets.
    accounts: Vec<(AccountNumber, Port)>,
}

impl Demux {
    pub(super) fn bind(&mut self, service: Service, endpoint: Port) {
        let block = self.services.entry(service.0 / BLOCK).or_default();
        block[(service.0 % BLOCK) as usize] = Some(endpoint);
    }

    /// Binds an endpoint to `count` ports from a first one on. Those that are bound alone come first.
    pub(super) fn bind_row(&mut self, first: Service, count: u16, endpoint: Port) {
        let Some(more) = count.checked_sub(1) else { return };
        self.rows.push((first, Service(first.0 + u32::from(more)), endpoint));
    }

    pub(super) fn bind_connection(&mut self, service: Service, remote: (Key, u16), endpoint: Port) {
        self.connections.insert((connection(service, remote.1), remote.0), endpoint);
    }

    /// Returns `true` if an endpoint gets all packets that no other endpoint is bound to.
    pub(super) fn has_rest(&self) -> bool {
        self.rest.is_some()
    }

    pub(super) fn bind_account(&mut self, number: AccountNumber, endpoint: Port) {
        self.accounts.push((number, endpoint));
    }

    /// Returns `true` if endpoints are bound to accounts.
    #[inline]
    pub(super) fn has_accounts(&self) -> bool {
        !self.accounts.is_empty()
    }

    /// Returns the endpoint that is bound to an account.
    pub(super) fn of_account(&self, account: u32) -> Option<Port> {
        self.accounts.iter().find(|(number, _)| number.is(account)).map(|(_, endpoint)| *endpoint)
    }

    /// Returns the endpoint of what no other endpoint is bound to.
    pub(super) fn rest(&self) -> Option<Port> {
        self.rest
    }

    pub(super) fn bind_rest(&mut self, endpoint: Port) {
        self.rest = Some(endpoint);
    }

    /// Returns the endpoint that is bound to a service itself.
    #[inline]
    pub(super) fn find_service(&self, service: Service) -> Option<Port> {
        let of_block = self.services.get(&(service.0 / BLOCK));
        of_block.and_then(|block| block[(service.0 % BLOCK) as usize]).or_else(|| self.find_row(service))
    }

    #[inline]
    fn find_row(&self, service: Service) -> Option<Port> {
        let of_row = self.rows.iter().find(|(first, last, _)| (first.0..=last.0).contains(&service.0));
        of_row.map(|(.., endpoint)| *endpoint)
    }

    /// Returns the endpoint of packets from a port of `source`. It is the connection's, else the port's.
    #[inline]
    pub(super) fn find(&self, service: Service, from: u16, source: impl FnOnce() -> Key) -> Option<Port> {
        if !self.connections.is_empty() {
            let found = self.connections.get(&(connection(service, from), source()));
            if found.is_some() {
                return found.copied();
            }
        }
        self.find_service(service)
    }
}

#[inline]
fn connection(service: Service, remote_port: u16) -> u64 {
    u64::from(service.0) << 16 | u64::from(remote_port)
}

/// Returns the source and destination port of an IP payload. They are zeros for other protocols and `later` fragments.
/// UDP, TCP, DCCP, SCTP and UDP-Lite have them at the same place.
#[inline]
pub(crate) fn ports(protocol: Protocol, bytes: &[u8], later: bool) -> (u16, u16) {
    const DCCP: Protocol = Protocol(33);
    const SCTP: Protocol = Protocol(132);
    let has_ports = matches!(protocol, Protocol::UDP | Protocol::TCP | DCCP | SCTP | Protocol::UDP_LITE);
    match bytes {
        [a, b, c, d, ..] if has_ports && !later => {
            (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]))
        }
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_ports_takes_the_room_of_one() {
        let (mut demux, of) = (Demux::default(), |port| Service::new(Protocol::UDP, port));
        demux.bind_row(of(1000), 500, Port(3));
        demux.bind(of(1100), Port(4));
        let found = [999, 1000, 1100, 1101, 1499, 1500].map(|port| demux.find_service(of(port)));
        let expected = [None, Some(3), Some(4), Some(3), Some(3), None].map(|port| port.map(Port));
        assert_eq!(found, expected);
        assert_eq!(demux.find_service(Service::new(Protocol::TCP, 1000)), None);
        assert_eq!((demux.services.len(), demux.rows.len()), (1, 1));
    }
}
