//! Jobs by the schemes before ROHC: compression, decompression, and a round trip with losses.
//!
//! Compressed packets are frames of PPP behind an octet of direction (linktype 204), so that Wireshark restores those of
//! Van Jacobson's scheme. The link detects a lost frame by its check sequence, and reports it to the decompressor.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use bentpipe_hc as hc;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::pcap::LinkType;
use bentpipe_wire::udp;

use super::impairments::{ImpairmentConfig, Impairments};
use super::packet_log::{Entry, Outputs, PacketLog, entry};
use super::totals::{Form, Method, Sizes};
use crate::capture::{Capture, Output, Packet, Wanted};
use crate::{Error, Outcome, Session};

/// Octet of direction: sent by the capturing host.
const SENT: u8 = 1;

/// Compression of a capture by a scheme before ROHC.
#[derive(Clone, Debug)]
pub struct SchemeCompress {
    /// Capture of IP packets; "-" for standard input.
    pub input: PathBuf,
    /// Capture of frames of PPP to write; "-" for standard output.
    pub output: PathBuf,
    /// Settings of both ends.
    pub config: hc::Config,
    /// Enables decompression of each packet, which must restore it.
    pub verify: bool,
    /// Other files to write.
    pub outputs: Outputs,
}

/// Decompression of a capture of PPP by a scheme before ROHC.
#[derive(Clone, Debug)]
pub struct SchemeDecompress {
    /// Capture of frames of PPP; "-" for standard input.
    pub input: PathBuf,
    /// Capture of IP packets to write; "-" for standard output.
    pub output: PathBuf,
    /// Settings of both ends.
    pub config: hc::Config,
    /// Capture of CONTEXT_STATE to write; the seconds of its times are the packet's number.
    pub feedback: Option<PathBuf>,
    /// Other files to write.
    pub outputs: Outputs,
}

/// Compression and decompression by a scheme before ROHC, with losses between the ends.
#[derive(Clone, Debug)]
pub struct SchemeRoundTrip {
    /// Capture of IP packets; "-" for standard input.
    pub input: PathBuf,
    /// Capture of the restored packets to write.
    pub output: Option<PathBuf>,
    /// Settings of both ends.
    pub config: hc::Config,
    /// Impairments of the path between the ends. Feedback is CONTEXT_STATE, which Van Jacobson's scheme does not have.
    pub impairments: ImpairmentConfig,
    /// Other files to write.
    pub outputs: Outputs,
}

impl SchemeCompress {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        self.outputs.check_apart(&self.input, [Some(&*self.output), None])?;
        let mut input = Capture::open(&self.input, Wanted::Network, &self.outputs.intake, session)?;
        let mut compressor = hc::Compressor::new(self.config);
        let mut decompressor = self.verify.then(|| hc::Decompressor::new(self.config));
        let mut log = PacketLog::new(&self.outputs, &self.input, session)?;
        let mut output = Output::create(&self.output, LinkType::PPP_WITH_DIR, &self.input)?;
        let (mut frame, mut record, mut restored) = (Vec::new(), Vec::new(), Vec::new());
        input.for_each(|packet| {
            let sent = compressor.compress_cut(packet.at(), packet.bytes, packet.len, &mut frame);
            let sizes = sizes(self.config.scheme, &sent, packet.len);
            put_ppp(sent.kind, &frame, &mut record);
            output.write(packet.time_ns, &record, record.len() - frame.len() + sizes.rohc_len)?;
            let is_wrong = decompressor.as_mut().is_some_and(|decompressor| {
                let received = decompressor.decompress_cut(sent.kind, &frame, sizes.rohc_len, &mut restored);
                received.is_err() || restored != packet.bytes
            });
            let status = if is_wrong { "wrong" } else { "ok" };
            let number = Some(output.records);
            log.record(&Entry { record: number, ..sent_entry(packet, status, is_wrong, sizes) })?;
            Ok(!session.is_interrupted())
        })?;
        input.check_found()?;
        output.finish()?;
        log.finish(&input)
    }
}

impl SchemeDecompress {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        self.outputs.check_apart(&self.input, [Some(&*self.output), self.feedback.as_deref()])?;
        let mut input = Capture::open(&self.input, Wanted::Schemes, &self.outputs.intake, session)?;
        let mut decompressor = hc::Decompressor::new(self.config);
        let mut log = PacketLog::new(&self.outputs, &self.input, session)?.with_hint(OTHER_SCHEME);
        let mut output = Output::create(&self.output, LinkType::RAW, &self.input)?;
        let back = |path: &PathBuf| Output::create(path, LinkType::PPP_WITH_DIR, &self.input);
        let mut back = self.feedback.as_ref().map(back).transpose()?;
        let (mut ip, mut record) = (Vec::new(), Vec::new());
        input.for_each(|packet| {
            let Some(kind) = hc::Kind::of_ppp(packet.protocol) else { return Ok(true) };
            let received = decompressor.decompress_cut(kind, packet.bytes, packet.len, &mut ip);
            let (status, sizes) = match received {
                Ok(restored) => {
                    let ip_len = packet.len - restored.header_in + restored.header_out;
                    output.write(packet.time_ns, &ip, ip_len)?;
                    ("ok".to_owned(), Some(sizes_received(self.config.scheme, kind, &restored, packet.len)))
                }
                Err(error) => (format!("refused: {error}"), None),
            };
            log.record(&Entry {
                record: Some(packet.number),
                frame: sizes.map(|_| output.records),
                ip: sizes.map(|_| ip.as_slice()),
                ip_len: sizes.map_or(0, |sizes| sizes.ip_len),
                rohc_len: packet.len,
                flow: sizes.map(|sizes| (None, sizes)),
                ..entry(packet, &status, sizes.is_none())
            })?;
            for state in decompressor.take_context_states(packet.at()) {
                let Some(back) = &mut back else { continue };
                put_ppp(hc::Kind::ContextState, &state, &mut record);
                back.write(packet.number * 1_000_000_000, &record, record.len())?;
            }
            Ok(!session.is_interrupted())
        })?;
        input.check_found()?;
        output.finish()?;
        back.map_or(Ok(()), Output::finish)?;
        log.finish(&input)
    }
}

const OTHER_SCHEME: &str =
    "no packet could be decompressed: are --scheme and --contexts those of the compressor?";

impl SchemeRoundTrip {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        self.outputs.check_apart(&self.input, [self.output.as_deref(), None])?;
        let mut input = Capture::open(&self.input, Wanted::Network, &self.outputs.intake, session)?;
        let mut path = Path::new(self);
        let mut log = PacketLog::new(&self.outputs, &self.input, session)?;
        let create = |path: &PathBuf| Output::create(path, LinkType::RAW, &self.input);
        let mut output = self.output.as_ref().map(create).transpose()?;
        let is_ideal = self.impairments.is_ideal();
        input.for_each(|packet| {
            let (sizes, outcome) = path.carry(packet);
            if let (Some(output), true) = (&mut output, outcome.is_restored()) {
                let missing = packet.len - packet.bytes.len();
                output.write(packet.time_ns, &path.restored, path.restored.len() + missing)?;
            }
            let (status, is_failure) = match outcome {
                PathOutcome::Right => ("ok".to_owned(), false),
                PathOutcome::Lost => ("lost".to_owned(), false),
                PathOutcome::Refused(error) => (format!("refused: {error}"), is_ideal),
                PathOutcome::WrongChecksum => ("with a wrong checksum".to_owned(), is_ideal),
                PathOutcome::Wrong => ("wrong".to_owned(), true),
            };
            log.record(&sent_entry(packet, &status, is_failure, sizes))?;
            Ok(!session.is_interrupted())
        })?;
        input.check_found()?;
        output.map_or(Ok(()), Output::finish)?;
        log.finish(&input)
    }
}

/// Outcome of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathOutcome {
    /// Restored exactly.
    Right,
    /// Lost on the path.
    Lost,
    /// Refused by the decompressor.
    Refused(hc::Error),
    /// Restored differently, with a checksum that its host finds wrong.
    WrongChecksum,
    /// Restored differently, so that no checksum shows it.
    Wrong,
}

impl PathOutcome {
    fn is_restored(self) -> bool {
        matches!(self, PathOutcome::Right | PathOutcome::WrongChecksum | PathOutcome::Wrong)
    }
}

/// Both ends of a link and the path between them.
struct Path {
    scheme: hc::Scheme,
    compressor: hc::Compressor,
    decompressor: hc::Decompressor,
    forward: Impairments,
    back: Impairments,
    delay: Duration,
    /// CONTEXT_STATE on its way, each with its time of arrival.
    returning: VecDeque<(Duration, Vec<u8>)>,
    frame: Vec<u8>,
    restored: Vec<u8>,
}

impl Path {
    fn new(job: &SchemeRoundTrip) -> Path {
        Path {
            scheme: job.config.scheme,
            compressor: hc::Compressor::new(job.config),
            decompressor: hc::Decompressor::new(job.config),
            forward: Impairments::forward(&job.impairments),
            back: Impairments::feedback(&job.impairments),
            delay: job.impairments.feedback_delay,
            returning: VecDeque::new(),
            frame: Vec::new(),
            restored: Vec::new(),
        }
    }

    /// Carries a packet.
    fn carry(&mut self, packet: &Packet<'_>) -> (Sizes, PathOutcome) {
        let now = packet.at();
        while self.returning.front().is_some_and(|(due, _)| *due <= now) {
            let state = self.returning.pop_front();
            state.iter().for_each(|(_, state)| self.compressor.context_state(state));
        }
        let sent = self.compressor.compress_cut(now, packet.bytes, packet.len, &mut self.frame);
        let sizes = sizes(self.scheme, &sent, packet.len);
        let outcome = self.deliver(packet, &sent, sizes.rohc_len);
        for state in self.decompressor.take_context_states(now) {
            if !self.back.loses() {
                self.returning.push_back((now + self.delay, state));
            }
        }
        (sizes, outcome)
    }

    fn deliver(&mut self, packet: &Packet<'_>, sent: &hc::Sent, len: usize) -> PathOutcome {
        if self.forward.loses() {
            self.decompressor.frame_lost();
            return PathOutcome::Lost;
        }
        self.forward.corrupts(&mut self.frame, sent.header_out);
        match self.decompressor.decompress_cut(sent.kind, &self.frame, len, &mut self.restored) {
            Ok(_) if self.restored == packet.bytes => PathOutcome::Right,
            Ok(_) if !packet.is_cut() && has_wrong_checksum(&self.restored) => PathOutcome::WrongChecksum,
            Ok(_) => PathOutcome::Wrong,
            Err(error) => PathOutcome::Refused(error),
        }
    }
}

/// Returns `true` if the host that gets a packet of TCP or UDP discards it.
fn has_wrong_checksum(packet: &[u8]) -> bool {
    let Ok(packet) = ip::Packet::new_checked(packet) else { return true };
    let Ok(upper) = packet.upper() else { return true };
    let has_checksum = match upper.protocol {
        Protocol::TCP => true,
        Protocol::UDP => udp::Datagram::new_checked(upper.bytes).map_or(true, |udp| udp.checksum() != 0),
        _ => false,
    };
    has_checksum && !upper.pseudo.datagram(upper.bytes, 0).is_valid()
}

fn sent_entry<'a>(packet: &Packet<'a>, status: &'a str, is_failure: bool, sizes: Sizes) -> Entry<'a> {
    Entry { rohc_len: sizes.rohc_len, flow: Some((None, sizes)), ..entry(packet, status, is_failure) }
}

/// Writes a frame of PPP behind its octet of direction.
fn put_ppp(kind: hc::Kind, frame: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[SENT, 0xff, 3]);
    out.extend_from_slice(&kind.ppp().to_be_bytes());
    out.extend_from_slice(frame);
}

fn sizes(scheme: hc::Scheme, sent: &hc::Sent, ip_len: usize) -> Sizes {
    Sizes {
        method: Method::Scheme(scheme),
        form: Form::Scheme(sent.kind),
        ip_len,
        ip_header: sent.header_in,
        kept: 0,
        rohc_len: ip_len - sent.header_in + sent.header_out,
        rohc_header: sent.header_out,
    }
}

fn sizes_received(scheme: hc::Scheme, kind: hc::Kind, restored: &hc::Restored, len: usize) -> Sizes {
    Sizes {
        method: Method::Scheme(scheme),
        form: Form::Scheme(kind),
        ip_len: len - restored.header_in + restored.header_out,
        ip_header: restored.header_out,
        kept: 0,
        rohc_len: len,
        rohc_header: restored.header_in,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packet of 10.0.0.1 for 10.0.0.2, with checksums.
    fn packet(n: u16, protocol: u8, checksum_at: usize, upper: &[u8]) -> Vec<u8> {
        let len = 20 + upper.len() as u16;
        let mut packet =
            vec![0x45, 0, (len >> 8) as u8, len as u8, (n >> 8) as u8, n as u8, 0, 0, 64, protocol];
        packet.extend([0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend(upper);
        let sum = bentpipe_wire::ip::checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let whole = ip::Packet::new_checked(&packet[..]).unwrap();
        let sum = whole.upper().unwrap().pseudo.datagram(upper, 0).checksum();
        packet[20 + checksum_at..22 + checksum_at].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    /// Packet of a call.
    fn call(n: u16) -> Vec<u8> {
        let mut udp = vec![0x13, 0x8c, 0x13, 0x8c, 0, 40, 0, 0, 0x80, 0];
        udp.extend(n.to_be_bytes());
        udp.extend((u32::from(n) * 160).to_be_bytes());
        udp.extend([7; 24]);
        packet(n, 17, 6, &udp)
    }

    /// Segment of a transfer.
    fn transfer(n: u16) -> Vec<u8> {
        let mut tcp = vec![0x13, 0x8c, 0, 80];
        tcp.extend((u32::from(n) * 100).to_be_bytes());
        tcp.extend([0, 0, 0, 1, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
        tcp.extend([n as u8; 100]);
        packet(n, 6, 16, &tcp)
    }

    /// Counts the outcomes of 4000 packets: right, refused, with a wrong checksum, wrong.
    fn outcomes(scheme: hc::Scheme, of: fn(u16) -> Vec<u8>, loss: f64, feedback_loss: f64) -> [u32; 4] {
        let impairments = ImpairmentConfig {
            loss,
            feedback_loss,
            feedback_delay: Duration::from_millis(540),
            burst_packets: None,
            corruption: 0.0,
            seed: 1,
        };
        let mut path = Path::new(&SchemeRoundTrip {
            input: PathBuf::new(),
            output: None,
            config: hc::Config::new(scheme),
            impairments,
            outputs: Outputs::default(),
        });
        let mut counts = [0; 4];
        for n in 0..4000 {
            let (bytes, time_ns) = (of(n), u64::from(n) * 20_000_000);
            let packet = Packet { number: 1, time_ns, len: bytes.len(), bytes: &bytes, ..Packet::default() };
            match path.carry(&packet).1 {
                PathOutcome::Right => counts[0] += 1,
                PathOutcome::Lost => {}
                PathOutcome::Refused(_) => counts[1] += 1,
                PathOutcome::WrongChecksum => counts[2] += 1,
                PathOutcome::Wrong => counts[3] += 1,
            }
        }
        counts
    }

    #[test]
    fn nothing_is_refused_without_losses() {
        for scheme in hc::Scheme::ALL {
            assert_eq!(outcomes(scheme, call, 0.0, 0.0), [4000, 0, 0, 0], "{scheme:?}");
            assert_eq!(outcomes(scheme, transfer, 0.0, 0.0), [4000, 0, 0, 0], "{scheme:?}");
        }
    }

    /// A context of CRTP that lost a frame waits a round trip with a request, and otherwise for the next full header.
    #[test]
    fn a_request_ends_what_a_loss_began() {
        let [right, refused, ..] = outcomes(hc::Scheme::Crtp, call, 0.005, 0.0);
        // Each of 20 losses costs the 27 packets of 540 ms and some.
        assert!((300..800).contains(&refused) && right > 3000, "{right} {refused}");
        let [without, more, ..] = outcomes(hc::Scheme::Crtp, call, 0.005, 1.0);
        // A full header comes every 257 packets.
        assert!(more > 2 * refused && without < right, "{without} {more}");
        // A context of IPHC's other flows needs no packet before it.
        assert_eq!(outcomes(hc::Scheme::Iphc, call, 0.005, 1.0)[1..], [0, 0, 0]);
    }

    /// Nobody asks for a whole segment with Van Jacobson's scheme: its host discards all that follow a loss.
    #[test]
    fn a_loss_makes_the_segments_of_van_jacobson_wrong() {
        let [right, refused, discarded, wrong] = outcomes(hc::Scheme::VanJacobson, transfer, 0.005, 0.0);
        assert!(discarded + refused > 3000 && right < 900, "{right} {refused} {discarded}");
        assert_eq!(wrong, 0);
        // IPHC applies the difference of a segment again.
        let [right, refused, discarded, _] = outcomes(hc::Scheme::Iphc, transfer, 0.005, 0.0);
        assert!(right > 3950 && refused + discarded < 20, "{right} {refused} {discarded}");
    }

    #[test]
    fn checksums_are_those_of_hosts() {
        let mut segment = transfer(3);
        assert!(!has_wrong_checksum(&segment) && !has_wrong_checksum(&call(3)));
        segment[50] ^= 1;
        assert!(has_wrong_checksum(&segment) && has_wrong_checksum(&[0x45]));
        let mut without = call(3);
        without[26..28].fill(0);
        without[50] ^= 1;
        assert!(!has_wrong_checksum(&without), "UDP without a checksum");
    }
}
