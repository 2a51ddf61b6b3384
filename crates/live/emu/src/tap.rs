//! TAP device: an Ethernet interface whose IP packets this program carries.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use bentpipe_wire::ethernet::{self, MacAddr};

use crate::Port;
use crate::attached;
use crate::neighbours::{Inbound, Neighbours, NextHop, header};
use crate::offload::{self, Joiner, Splitter};
use crate::tun;

/// Maximum number of frames taken for one packet. A storm of frames without packets must not hold up the rest.
const MAX_FRAMES: usize = 64;

/// A TAP device without blocking, with segmentation offload. Behind it is the network, with a MAC address of its own that
/// answers for the addresses there. It goes with the value.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    neighbours: Neighbours,
    splitter: Splitter,
    joiner: Joiner,
    train: Vec<u8>,
    frame: Vec<u8>,
}

/// Offset of an IP packet in what the kernel gives.
const IP: usize = offload::HEADER_LEN + ethernet::HEADER_LEN;

/// The longest read: the largest IP packet in its frame behind an offload header.
const MAX_READ: usize = 65_535 + IP;

impl Tap {
    /// Creates the device `name` in the network namespace of the calling thread. The addresses `behind` are reached
    /// through it.
    ///
    /// # Errors
    /// If there is no `/dev/net/tun`, no right to use it, or the name is taken or too long.
    pub fn create(name: &str, behind: Vec<IpAddr>) -> io::Result<Tap> {
        let file = tun::open(name, libc::IFF_TAP | libc::IFF_VNET_HDR)?;
        let joiner = Joiner::with_datagrams(tun::offer_segmentation(&file)?);
        Ok(Tap { joiner, ..Tap::of(file, name, behind) })
    }

    /// Opens an existing interface: physical, veth, VLAN, or the TAP of a virtual machine. The addresses `behind` are reached through it.
    ///
    /// # Errors
    /// If the interface or the right to read its frames (CAP_NET_RAW) is missing.
    pub fn open(name: &str, behind: Vec<IpAddr>) -> io::Result<Tap> {
        Ok(Tap::of(attached::open(name)?, name, behind))
    }

    fn of(file: File, name: &str, behind: Vec<IpAddr>) -> Tap {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let [_, a, b, c] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        // Locally administered.
        let mac = MacAddr([0x02, 0x62, 0x70, a, b, c]);
        Tap {
            file,
            name: name.to_owned(),
            neighbours: Neighbours::new(mac, behind),
            splitter: Splitter::default(),
            joiner: Joiner::default(),
            train: vec![0; MAX_READ],
            frame: Vec::with_capacity(MAX_READ),
        }
    }

    /// Leases `address` to the machine behind the interface by DHCP.
    pub fn serve_address(&mut self, address: Ipv4Addr, mtu_bytes: u16) {
        self.neighbours.serve(address, mtu_bytes);
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends what waited for a neighbour that is known now.
    fn release(&mut self) {
        while let Some((mac, held)) = self.neighbours.released() {
            let own = self.neighbours.mac();
            let _ = write_packet(&mut self.file, &mut self.frame, (own, mac), &held);
        }
    }
}

/// Writes a frame without offloads.
fn write_frame(file: &mut File, scratch: &mut Vec<u8>, frame: &[u8]) -> io::Result<()> {
    scratch.clear();
    scratch.resize(offload::HEADER_LEN, 0);
    scratch.extend_from_slice(frame);
    file.write(scratch).map(|_| ())
}

/// Writes an offload header and an IP packet as a frame.
fn write_packet(
    file: &mut File,
    scratch: &mut Vec<u8>,
    (own, to): (MacAddr, MacAddr),
    bytes: &[u8],
) -> io::Result<()> {
    let Some((offloads, packet)) = bytes.split_first_chunk::<{ offload::HEADER_LEN }>() else {
        return Ok(());
    };
    scratch.clear();
    scratch.extend_from_slice(&offload::moved(offloads, ethernet::HEADER_LEN as i16));
    scratch.extend_from_slice(&header(own, to, packet));
    scratch.extend_from_slice(packet);
    file.write(scratch).map(|_| ())
}

/// Sends an offload header and an IP packet to its neighbour, or asks for that.
fn send(file: &mut File, scratch: &mut Vec<u8>, neighbours: &mut Neighbours, bytes: &[u8]) -> io::Result<()> {
    let packet = bytes.get(offload::HEADER_LEN..).unwrap_or_default();
    match neighbours.towards(packet, bytes) {
        NextHop::Neighbour(mac) => write_packet(file, scratch, (neighbours.mac(), mac), bytes),
        NextHop::Unresolved(question) => write_frame(file, scratch, &question),
        NextHop::Unreachable => Err(io::Error::new(io::ErrorKind::InvalidData, "no neighbour for it")),
    }
}

impl Port for Tap {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.splitter.is_empty() {
            return Ok(self.splitter.next(buffer));
        }
        for _ in 0..MAX_FRAMES {
            let len = match self.file.read(&mut self.train) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let inbound =
                self.neighbours.receive(self.train.get(offload::HEADER_LEN..len).unwrap_or_default());
            self.release();
            match inbound {
                Inbound::Packet(packet_len) => {
                    let start = IP - offload::HEADER_LEN;
                    let offloads = *self.train.first_chunk().unwrap_or(&[0; offload::HEADER_LEN]);
                    let offloads = offload::moved(&offloads, -(ethernet::HEADER_LEN as i16));
                    self.train[start..IP].copy_from_slice(&offloads);
                    let end = (IP + packet_len).min(len);
                    if let Some(len) = self.splitter.take(&self.train[start..end], buffer) {
                        return Ok(Some(len));
                    }
                }
                // An answer that the kernel has no room for is lost, as any frame: who asked asks again.
                Inbound::Solicitation(answer) => drop(write_frame(&mut self.file, &mut self.frame, &answer)),
                Inbound::Ignored => {}
            }
        }
        Ok(None)
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let Tap { file, frame, neighbours, joiner, .. } = self;
        joiner.push(packet, |bytes| send(file, frame, neighbours, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Tap { file, frame, neighbours, joiner, .. } = self;
        joiner.flush(|bytes| send(file, frame, neighbours, bytes))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
