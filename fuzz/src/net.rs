//! Checks on `bentpipe-net`: a trace file of any bytes is frames or an error with a place; any packet at a node is dropped and
//! counted, or leaves.

use bentpipe_net::channel::{Trace, TraceError};
use bentpipe_net::node::{Drop, Tunnel};
use bentpipe_net::{Cx, Element, Node, Outbox, Packet, Port, Wire};
use bentpipe_units::{RandomStream, Time};
use bentpipe_wire::ip::Protocol;

/// An element under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("trace", fuzz_trace), ("node", fuzz_node)];

/// Reads a trace, and writes and reads it again.
pub fn fuzz_trace(data: &[u8]) {
    match Trace::parse(data) {
        Ok(trace) => {
            let digits = data.iter().filter(|byte| matches!(byte, b'0' | b'1')).count() as u64;
            assert!((1..=digits).contains(&trace.frames()));
            assert_eq!(trace.losses(), trace.iter().filter(|lost| *lost).count() as u64);
            assert_eq!(Trace::parse(trace.to_text("again").as_bytes()), Ok(trace));
        }
        Err(TraceError::Character { byte, offset, line }) => {
            assert_eq!(data[offset], byte);
            assert_eq!(line, 1 + data[..offset].iter().filter(|byte| **byte == b'\n').count());
        }
        Err(TraceError::Empty) => {}
        Err(TraceError::TooLong) => assert!(data.len() as u64 > bentpipe_net::channel::MAX_FRAMES),
    }
}

/// Packets of two bytes of length, at a node with addresses, routes, a tunnel and a group: each is dropped and counted, or
/// goes somewhere, a packet of a group at most once to each of its branches.
pub fn fuzz_node(mut data: &[u8]) {
    let mut node = Node::new(2);
    let end = node.add_endpoint();
    node.set_mtu(Port(1), 1280);
    for own in ["10.0.0.1/32", "fd00::1/128"] {
        node.add_address(own.parse().expect("a prefix"));
    }
    for (prefix, port) in [("10.0.0.0/8", 0), ("fd00::/16", 0), ("0.0.0.0/0", 1)] {
        node.add_route(prefix.parse().expect("a prefix"), Port(port));
    }
    let tunnel = node.add_tunnel(Tunnel::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1500));
    node.add_tunnel_route("::/0".parse().expect("a prefix"), tunnel);
    let group = "ff0e::1".parse().expect("an address");
    node.add_group_interface(group, Port(1));
    node.add_group_tunnel(group, tunnel);
    node.join(end, group, Protocol::UDP, 1000);
    node.bind(end, Protocol::UDP, 1000);
    let (mut received, mut sent) = (0, 0);
    while let Some((&len, behind)) = data.split_first_chunk::<2>() {
        let (bytes, behind) = behind.split_at(behind.len().min(usize::from(u16::from_le_bytes(len))));
        let packets = forward(&mut node, Packet::from_bytes(bytes));
        assert!(packets <= 3, "{packets} packets for one");
        received += 1;
        sent += packets as u64;
        data = behind;
    }
    let dropped: u64 = Drop::ALL.into_iter().map(|cause| node.dropped(cause)).sum();
    assert!(received <= sent + dropped, "{received} in, {sent} out, {dropped} dropped");
}

/// Passes a packet to a node and returns the number of packets that it sends.
fn forward(node: &mut Node, packet: Packet) -> usize {
    let wires: Vec<Wire> = (0..4).map(|port| Wire::new(port, Port(0))).collect();
    let (mut outbox, mut stream) = (Outbox::default(), RandomStream::new(7, "fuzz-ends"));
    node.receive(Port(0), packet, &mut Cx::new(Time::ZERO, &wires, &mut outbox, &mut stream));
    std::iter::from_fn(|| outbox.pop()).count()
}
