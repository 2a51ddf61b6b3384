//! Link of two TUN devices that compresses headers.
//!
//! Each of two hosts has a device; ROHC packets go between them in UDP datagrams.
//!
//! On each host, as root, with the addresses the other way round on the other:
//!
//! ```text
//! cargo run --release -p bentpipe-emu --example rohc -- rohc0 192.0.2.1:5795 192.0.2.2:5795 &
//! ip addr add 10.9.0.1 peer 10.9.0.2 dev rohc0
//! ip link set rohc0 up mtu 1400
//! ```
//!
//! Both directions are a ROHC channel in O-mode with the profiles of version 2; feedback goes back in datagrams of its own. Every 5 s
//! with traffic, a line says what was saved. Anyone who can send datagrams to the port can send packets: for a laboratory only.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program of real time")]

use std::error::Error;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use bentpipe_emu::{Port, Tun};
use bentpipe_rohc::{
    Channel, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profiles, ReorderRatio,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Time from one line of figures to the next.
const REPORT: Duration = Duration::from_secs(5);
/// Bytes of the largest packet.
const LARGEST: usize = 65_535;

struct Link {
    tun: Tun,
    socket: UdpSocket,
    compressor: Compressor,
    decompressor: Decompressor,
    started: Instant,
}

impl Link {
    fn new(name: &str, local: &str, peer: &str) -> Result<Self, Box<dyn Error>> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(peer)?;
        socket.set_nonblocking(true)?;
        let channel = Channel { profiles: Profiles::V2, ..Channel::default() };
        // UDP may reorder.
        let config =
            CompressorConfig { channel, reorder: ReorderRatio::Quarter, ..CompressorConfig::default() };
        let peer_confirms = config.confirms();
        let compressor = Compressor::new(config);
        let mode = Mode::Optimistic;
        let config = DecompressorConfig { channel, mode, peer_confirms, ..DecompressorConfig::default() };
        let decompressor = Decompressor::new(config);
        Ok(Self { tun: Tun::create(name)?, socket, compressor, decompressor, started: Instant::now() })
    }

    /// Sends the packets that the host wants carried.
    fn send(&mut self, buffer: &mut [u8]) -> Result<(), Box<dyn Error>> {
        while let Some(len) = self.tun.read(buffer)? {
            let mut rohc = Vec::new();
            self.compressor.compress(self.started.elapsed(), &buffer[..len], &mut rohc)?;
            // What a socket does not take is lost, as on any link.
            let _ = self.socket.send(&rohc);
        }
        Ok(())
    }

    /// Delivers the packets that arrive, and answers with feedback.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<(), Box<dyn Error>> {
        while let Ok(len) = self.socket.recv(buffer) {
            let (mut ip, mut feedback) = (Vec::new(), Vec::new());
            let result = self.decompressor.decompress(self.started.elapsed(), &buffer[..len], &mut ip);
            if let Ok(Some(_)) = result {
                // A device that is not up yet takes nothing, as on any link.
                let _ = self.tun.write(&ip).and_then(|_| self.tun.flush());
            }
            if self.decompressor.take_received_feedback(&mut feedback) {
                self.compressor.feedback(&feedback);
            }
            feedback.clear();
            if self.decompressor.take_feedback(&mut feedback) {
                let _ = self.socket.send(&feedback);
            }
        }
        Ok(())
    }

    fn wait(&self) -> Result<(), Box<dyn Error>> {
        let tun = self.tun.fd().ok_or("a device without a descriptor")?;
        let mut ready =
            [PollFd::from_borrowed_fd(tun, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }))?;
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, local, peer] = &arguments[..] else {
        return Err("usage: rohc DEVICE LOCAL:PORT PEER:PORT".into());
    };
    let mut link = Link::new(name, local, peer)?;
    let (mut buffer, mut reported, mut packets) = (vec![0; LARGEST], Instant::now(), 0);
    loop {
        link.wait()?;
        link.send(&mut buffer)?;
        link.receive(&mut buffer)?;
        let sent = link.compressor.stats();
        if reported.elapsed() >= REPORT && sent.packets > packets {
            let received = link.decompressor.stats();
            println!(
                "sent {} packets, headers of {} bytes as {}; received {}, refused {}",
                sent.packets, sent.header_in, sent.header_out, received.delivered, received.refused
            );
            (reported, packets) = (Instant::now(), sent.packets);
        }
    }
}
