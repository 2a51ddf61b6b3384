//! Remote site: the stream towards it, and the streams from it.

use bentpipe_dvb::multiplex::{PduSource, TsSource};
use bentpipe_dvb::{self as dvb, DataPid, Decapsulator, Encapsulator, Event, Pdu, RohcMode};
use bentpipe_net::InvalidConfig;
use bentpipe_units::Time;
use bentpipe_wire::ethernet;
use bentpipe_wire::gse::InputStream;
use bentpipe_wire::ts::PACKET_LEN;

use super::config::Remote as Config;
use super::place::OpenError;
use super::udlr::Tunnel;

/// Streams of a remote site.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) config: Config,
    encapsulator: Encapsulator,
    decapsulators: Vec<Decapsulator>,
    feedback: Vec<u8>,
    /// End of the tunnel of a one-way carrier.
    pub(crate) tunnel: Option<Tunnel>,
    queue_bytes: usize,
    /// Packets dropped because the backlog was at its limit.
    pub(crate) overflowed: u64,
    /// Packets dropped because they came back to their origin.
    pub(crate) looped: u64,
}

/// Received unit: a TS packet, or the data field of a BBFRAME.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece<'a> {
    Packet(&'a [u8; PACKET_LEN]),
    Field(&'a [u8]),
}

impl Remote {
    pub(crate) fn new(config: &Config, queue_bytes: usize) -> Result<Remote, InvalidConfig> {
        let stream = |pid: u16| {
            let pid = DataPid::new(pid).unwrap_or(config.stream.pid);
            dvb::Config { pid, ..config.stream.clone() }
        };
        let addresses = if config.own_addresses.is_empty() {
            ethernet::Filter::All
        } else {
            ethernet::Filter::Only(config.own_addresses.clone())
        };
        let decapsulator = |(n, &pid): (usize, &u16)| {
            let mut stream = stream(pid);
            // There is one return channel, so only one decompressor can use it.
            if let Some(rohc) = stream.rohc.as_mut().filter(|_| n > 0) {
                rohc.mode = RohcMode::Unidirectional;
            }
            Decapsulator::new(&stream, addresses.clone())
        };
        Ok(Remote {
            encapsulator: Encapsulator::new(&stream(config.send))?,
            decapsulators: config.receive.iter().enumerate().map(decapsulator).collect::<Result<_, _>>()?,
            config: config.clone(),
            feedback: Vec::new(),
            tunnel: None,
            queue_bytes,
            overflowed: 0,
            looped: 0,
        })
    }

    /// Opens the end of its tunnel, if it has one.
    pub(crate) fn open_tunnel(&mut self) -> Result<(), OpenError> {
        let Some(config) = &self.config.udlr else { return Ok(()) };
        let key = || format!("remote.{}.udlr.address", self.config.name);
        let tunnel = Tunnel::open(config);
        self.tunnel = Some(tunnel.map_err(|error| OpenError::new(key(), config.address.to_string(), error))?);
        Ok(())
    }

    /// Changes the settings that keep the contexts.
    pub(crate) fn change(&mut self, config: &Config, queue_bytes: usize) {
        // A configuration with an impossible value was refused when it was read.
        let _ = self.encapsulator.set(&config.stream);
        self.config = config.clone();
        self.queue_bytes = queue_bytes;
    }

    /// Sends a packet unless the backlog is at its limit. Only packets that are sent are compressed.
    ///
    /// A receiver of a one-way carrier sends it into the tunnel.
    pub(crate) fn push(&mut self, now: Time, pdu: &Pdu<'_>) {
        if let Some(tunnel) = self.tunnel.as_mut().filter(|tunnel| tunnel.is_receiver()) {
            return tunnel.send(now, pdu);
        }
        if self.waiting_bytes() >= self.queue_bytes {
            self.overflowed += 1;
        } else {
            // Why it was refused is counted there.
            let _ = self.encapsulator.push(now, pdu);
        }
    }

    /// Returns the backlog in bytes, in whole TS packets or GSE packets.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let packets = self.encapsulator.filled() - self.encapsulator.sent().frames;
        packets as usize * PACKET_LEN + self.encapsulator.waiting_len()
    }

    /// Returns the time of the next TS packet. A full one counts from `full` on.
    pub(crate) fn due(&self, full: Time) -> Time {
        if self.encapsulator.is_full(usize::MAX) {
            full
        } else {
            self.encapsulator.due().unwrap_or(Time::NEVER)
        }
    }

    /// Processes a unit of the `n`-th of its PIDs. Calls `sink` with the result and exchanges feedback.
    pub(crate) fn receive(&mut self, now: Time, n: usize, piece: Piece<'_>, mut sink: impl FnMut(Event<'_>)) {
        let tunnel = &mut self.tunnel;
        let sink = |event: Event<'_>| {
            if !tunnel.as_mut().is_some_and(|tunnel| tunnel.accepts_hello(now, &event)) {
                sink(event);
            }
        };
        let Some(decapsulator) = self.decapsulators.get_mut(n) else { return };
        match piece {
            Piece::Packet(packet) => decapsulator.push(now, packet, sink),
            Piece::Field(field) => decapsulator.push_field(now, field, sink),
        }
        if self.config.stream.rohc.is_none() {
            return;
        }
        self.feedback.clear();
        if decapsulator.take_received_feedback(&mut self.feedback) {
            self.encapsulator.feedback(&self.feedback);
            self.feedback.clear();
        }
        if n == 0 && decapsulator.take_feedback(&mut self.feedback) {
            self.encapsulator.send_feedback(now, &self.feedback);
        }
    }

    pub(crate) fn encapsulator(&self) -> &Encapsulator {
        &self.encapsulator
    }

    /// Receiving ends with their PIDs.
    pub(crate) fn decapsulators(&self) -> impl Iterator<Item = (u16, &Decapsulator)> {
        self.config.receive.iter().copied().zip(&self.decapsulators)
    }
}

impl TsSource for Remote {
    fn pop(&mut self, at: Time) -> Option<[u8; PACKET_LEN]> {
        self.encapsulator.pop(at)
    }
}

impl PduSource for Remote {
    fn waiting_len(&self) -> usize {
        self.encapsulator.waiting_len()
    }

    fn due(&self) -> Option<Time> {
        self.encapsulator.due()
    }

    fn is_fragmented(&self) -> bool {
        self.encapsulator.is_fragmented()
    }

    fn fill_packet(&mut self, _: Time, stream: &mut InputStream, room: usize, out: &mut Vec<u8>) -> usize {
        self.encapsulator.fill_packet(stream, room, out)
    }

    fn end_field(&mut self, at: Time, is_full: bool) {
        self.encapsulator.end_field(at, is_full);
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::ip::{self, Protocol};
    use bentpipe_wire::udp;

    use super::*;

    /// PID of what goes to groups.
    const GROUPS: u16 = 0x1f0;
    const PACKETS: u16 = 600;

    fn remote(receive: Vec<u16>, mode: RohcMode) -> Remote {
        let rohc = dvb::Rohc { mode, refresh: 100, confirm: 0, ..dvb::Rohc::default() };
        let config = Config {
            name: "a".to_owned(),
            send: GROUPS,
            receive,
            networks: Vec::new(),
            stream: dvb::Config { rohc: Some(rohc), ..dvb::Config::default() },
            own_addresses: Vec::new(),
            udlr: None,
            device: None,
        };
        Remote::new(&config, usize::MAX).expect("possible")
    }

    fn packet(number: u16) -> Vec<u8> {
        let (source, group) = ([192, 0, 2, 1].into(), [239, 0, 0, 7].into());
        let repr = ip::Repr::new(source, group, Protocol::UDP, udp::HEADER_LEN + 20);
        let mut packet = vec![0; repr.buffer_len() + udp::HEADER_LEN + 20];
        repr.emit(&mut packet);
        let datagram = &mut packet[repr.buffer_len()..];
        udp::Repr { src_port: 4000, dst_port: 4001, payload_len: 20 }.emit(datagram);
        datagram[udp::HEADER_LEN..][..2].copy_from_slice(&number.to_be_bytes());
        packet
    }

    /// One PID to two sites, of which one loses each tenth TS packet. Both have another PID before it, with feedback.
    #[test]
    fn sites_that_hear_one_pid_decompress_apart() {
        let mut sender = remote(Vec::new(), RohcMode::Unidirectional);
        let mut sites = [0x112, 0x113].map(|pid| remote(vec![pid, GROUPS], RohcMode::Optimistic));
        let mut received = [0; 2];
        for number in 0..PACKETS {
            let (now, packet) = (Time::from_nanos(u64::from(number) * 20_000_000), packet(number));
            sender.push(now, &Pdu::ip(&packet));
            while let Some(unit) = sender.pop(now) {
                for (site, remote) in sites.iter_mut().enumerate() {
                    let is_lost = site == 1 && number % 10 == 9;
                    let piece = Piece::Packet(&unit);
                    let sink = |event: Event<'_>| match event {
                        Event::Ip(bytes) if bytes == packet => received[site] += 1,
                        Event::Ip(bytes) => panic!("{bytes:?} for {packet:?}"),
                        _ => {}
                    };
                    if !is_lost {
                        remote.receive(now, 1, piece, sink);
                    }
                }
            }
        }
        assert_eq!(received[0], PACKETS);
        assert!((PACKETS * 4 / 5..=PACKETS * 9 / 10).contains(&received[1]), "{received:?}");
        let no_feedback = sites.iter().all(|site| site.encapsulator().sent().feedback == 0);
        assert!(no_feedback, "of a PID that others hear");
    }
}
