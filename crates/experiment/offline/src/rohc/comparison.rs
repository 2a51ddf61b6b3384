//! Compression of the same packets with other settings, to compare.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bentpipe_hc as hc;
use bentpipe_rohc::{Channel, CompressorConfig, DecompressorConfig, Profile, Profiles, RtpRule};

use super::ends::{Refusal, Sender, Sent};
use super::path::{PacketOutcome, Path};
use super::sending::{Sending, receiver, sizes_sent};
use super::totals::{Method, PacketTotals, Sizes, heading, row};
use super::uncompressed::{NO_PROFILE, reason};
use crate::capture::Packet;
use bentpipe_wire::ip::{self, Protocol};

/// Compression of the same packets with the rule `likely` for RTP, to compare.
#[derive(Debug)]
pub(super) struct LikelyRtp {
    /// Path with that rule. `None`: the job's own rule finds as much.
    path: Option<Path>,
    /// Bytes of packets before compression, after it, and after it with that rule.
    bytes: [u64; 3],
}

impl LikelyRtp {
    /// Smallest share of all bytes worth a remark, in percent.
    const MIN_PERCENT: u64 = 1;

    pub(super) fn new(sending: &Sending, decompressor: &DecompressorConfig) -> LikelyRtp {
        let config = &sending.compressor;
        let may_miss_rtp = matches!(config.rtp, RtpRule::Ports(_) | RtpRule::Matching(_) | RtpRule::Never)
            && config.channel.profiles.contains(Profile::Rtp);
        let config = CompressorConfig { rtp: RtpRule::Likely, ..config.clone() };
        let path = || Path::new(Sender::new(config, None), receiver(decompressor, false));
        LikelyRtp { path: may_miss_rtp.then(path), bytes: [0; 3] }
    }

    pub(super) fn compare(&mut self, packet: &Packet<'_>, carried: &Result<(Sent, PacketOutcome), Refusal>) {
        let Some(path) = &mut self.path else { return };
        let (Ok((own, _)), Ok((likely, _))) = (carried, path.carry(packet)) else { return };
        let lens = [packet.len, own.len, likely.len];
        self.bytes.iter_mut().zip(lens).for_each(|(sum, len)| *sum += len as u64);
    }

    /// Returns the remark that the rule would save more.
    pub(super) fn remark(&self) -> Option<String> {
        let [before, own, likely] = self.bytes;
        let saves = own.saturating_sub(likely) * 100 >= before * Self::MIN_PERCENT;
        let gain = |after: u64| 100.0 * (before as f64 - after as f64) / before as f64;
        (saves && own > likely).then(|| {
            let (own, likely) = (gain(own), gain(likely));
            format!("with --rtp-ports likely packets shrink by {likely:.1} % instead of {own:.1} %")
        })
    }
}

/// Compression of the same packets by both versions of ROHC.
#[derive(Debug)]
pub(super) struct Versions {
    /// Path of the other version, and its number. `None`: the job's profiles are not all of one version.
    other: Option<(Path, u8)>,
    own_sum: PacketTotals,
    other_sum: PacketTotals,
}

impl Versions {
    pub(super) fn new(sending: &Sending, decompressor: &DecompressorConfig) -> Versions {
        let other = match sending.compressor.channel.profiles {
            Profiles::V1 => Some((Profiles::V2, 2)),
            Profiles::V2 => Some((Profiles::V1, 1)),
            _ => None,
        };
        let path = |(profiles, version)| {
            let channel = Channel { profiles, ..sending.compressor.channel };
            let sender = Sender::new(CompressorConfig { channel, ..sending.compressor.clone() }, None);
            let receiver = receiver(&DecompressorConfig { channel, ..*decompressor }, false);
            (Path::new(sender, receiver), version)
        };
        Versions {
            other: other.map(path),
            own_sum: PacketTotals::default(),
            other_sum: PacketTotals::default(),
        }
    }

    /// Counts a packet that both versions carry.
    pub(super) fn compare(&mut self, packet: &Packet<'_>, carried: &Result<(Sent, PacketOutcome), Refusal>) {
        let Some((path, _)) = &mut self.other else { return };
        let (Ok((own, _)), Ok((other, _))) = (carried, path.carry(packet)) else { return };
        self.own_sum.add(&sizes_sent(own, packet));
        self.other_sum.add(&sizes_sent(&other, packet));
    }

    /// Returns a table of both. It is empty if there was nothing to compare.
    pub(super) fn text(&self) -> String {
        match self.other {
            Some(_) if self.own_sum != PacketTotals::default() => format!("{self}\n"),
            _ => String::new(),
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_other_first = self.other.as_ref().is_some_and(|(_, version)| *version == 1);
        let (first, second) = match is_other_first {
            true => (&self.other_sum, &self.own_sum),
            false => (&self.own_sum, &self.other_sum),
        };
        heading(f, "version", "")?;
        row(f, "ROHC, v1", "", first)?;
        row(f, "ROHCv2", "", second)
    }
}

/// Compression of the same packets by the schemes before ROHC.
#[derive(Debug)]
pub(super) struct Predecessors {
    schemes: [(Method, hc::Compressor, PacketTotals); 3],
    /// Packets that each scheme sends whole, by reason.
    whole: [BTreeMap<&'static str, u64>; 3],
    own_sum: PacketTotals,
    frame: Vec<u8>,
}

impl Predecessors {
    pub(super) fn new() -> Predecessors {
        let scheme = |scheme| {
            let config = hc::Config { tcp_contexts: 256, contexts: 256, ..hc::Config::new(scheme) };
            (Method::Scheme(scheme), hc::Compressor::new(config), PacketTotals::default())
        };
        Predecessors {
            schemes: hc::Scheme::ALL.map(scheme),
            whole: Default::default(),
            own_sum: PacketTotals::default(),
            frame: Vec::new(),
        }
    }

    /// Counts a packet that ROHC carries. Its headers are those that ROHC compresses, or the scheme if it knows more.
    pub(super) fn compare(&mut self, packet: &Packet<'_>, carried: &Result<(Sent, PacketOutcome), Refusal>) {
        let Ok((own, _)) = carried else { return };
        let own = sizes_sent(own, packet);
        self.own_sum.add(&own);
        for ((method, compressor, sum), whole) in self.schemes.iter_mut().zip(&mut self.whole) {
            let now = Duration::from_nanos(packet.time_ns);
            let sent = compressor.compress_cut(now, packet.bytes, packet.len, &mut self.frame);
            if matches!(sent.kind, hc::Kind::Ipv4 | hc::Kind::Ipv6) {
                let reason = match compressor.has_wrapped() {
                    true => WRAPPED,
                    false => whole_reason(*method, packet),
                };
                *whole.entry(reason).or_default() += 1;
            }
            let rohc_len = packet.len - sent.header_in + sent.header_out;
            let ip_header = (own.ip_header + own.kept).max(sent.header_in);
            let rohc_header = rohc_len - (packet.len - ip_header);
            sum.add(&Sizes { rohc_len, rohc_header, ip_header, kept: 0, ..own });
        }
    }

    /// Returns a table of all. It is empty if there was nothing to compare.
    pub(super) fn text(&self) -> String {
        if self.own_sum == PacketTotals::default() { String::new() } else { format!("\n{self}") }
    }
}

impl fmt::Display for Predecessors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        heading(f, "scheme", "")?;
        self.schemes.iter().try_for_each(|(method, _, sum)| row(f, method.name(), "", sum))?;
        row(f, "ROHC", "", &self.own_sum)?;
        for ((method, ..), whole) in self.schemes.iter().zip(&self.whole) {
            let parts: Vec<String> =
                whole.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            if !parts.is_empty() {
                writeln!(f, "{} sends whole: {}.", method.name(), parts.join("; "))?;
            }
        }
        Ok(())
    }
}

/// Reason of packets whose flow gets no context.
const WRAPPED: &str = "whose context had changed too often, as more flows than contexts alternate";

/// Returns the reason for which a scheme sends a packet whole.
fn whole_reason(method: Method, packet: &Packet<'_>) -> &'static str {
    let is_tcp = || {
        let found = ip::Packet::new_elided(packet.bytes, packet.len.saturating_sub(packet.bytes.len()));
        found.is_ok_and(|of| of.upper().is_ok_and(|upper| upper.protocol == Protocol::TCP))
    };
    if method == Method::Scheme(hc::Scheme::VanJacobson) && !is_tcp() {
        return "that are not TCP";
    }
    match reason(packet.bytes, packet.len) {
        NO_PROFILE => "with headers that it does not compress",
        reason => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_rohc::Channel;

    fn sending(profiles: Profiles) -> (Sending, DecompressorConfig) {
        let channel = Channel { profiles, ..Channel::default() };
        let compressor = CompressorConfig { channel, ..CompressorConfig::default() };
        let sending = Sending { compressor, mtu_bytes: None, reservations: Vec::new() };
        (sending, DecompressorConfig { channel, ..DecompressorConfig::default() })
    }

    #[test]
    fn schemes_before_rohc_have_a_row_each() {
        let (sending, _) = sending(Profiles::V1);
        let mut predecessors = Predecessors::new();
        assert!(predecessors.text().is_empty(), "nothing to compare");
        let mut own = Path::new(Sender::new(sending.compressor, None), None);
        let mut bytes = [&[0x60, 0, 0, 0, 0, 12, 17, 64][..], &[1; 32]].concat();
        bytes.extend([0x13, 0x8b, 0x13, 0x8d, 0, 12, 1, 1, b'd', b'a', b't', b'a']);
        for number in 1..=40u64 {
            let time_ns = number * 20_000_000;
            let packet = Packet { number, time_ns, len: bytes.len(), bytes: &bytes, ..Packet::default() };
            let carried = own.carry(&packet);
            predecessors.compare(&packet, &carried);
        }
        let text = predecessors.text();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        // 48 bytes as they are; six full headers and 34 of four bytes; one full header and 39 of four bytes.
        assert!(rows[0].starts_with("VJ, RFC 1144") && rows[0].contains(" 48.00 "), "{text}");
        assert!(rows[1].starts_with("IPHC, RFC 2507") && rows[1].contains(" 10.60 "), "{text}");
        assert!(rows[2].starts_with("CRTP, RFC 2508") && rows[2].contains(" 5.10 "), "{text}");
        assert!(rows[3].starts_with("ROHC "), "{text}");
    }

    #[test]
    fn flows_that_alternate_in_too_few_contexts_have_their_reason() {
        let (sending, _) = sending(Profiles::V1);
        let mut predecessors = Predecessors::new();
        let mut own = Path::new(Sender::new(sending.compressor, None), None);
        let mut bytes = [&[0x60, 0, 0, 0, 0, 12, 17, 64][..], &[1; 32]].concat();
        bytes.extend([0x13, 0x8b, 0x13, 0x8d, 0, 12, 1, 1, b'd', b'a', b't', b'a']);
        for number in 0..100_000u64 {
            let flow = (number % 300) as u16;
            bytes[38..40].copy_from_slice(&flow.to_be_bytes());
            let packet = Packet {
                number,
                time_ns: number * 1000,
                len: bytes.len(),
                bytes: &bytes,
                ..Packet::default()
            };
            let carried = own.carry(&packet);
            predecessors.compare(&packet, &carried);
        }
        let text = predecessors.text();
        let line = text.lines().find(|line| line.starts_with("IPHC, RFC 2507 sends whole")).expect("a line");
        assert!(line.contains("more flows than contexts") && !line.contains("does not compress"), "{line}");
    }

    /// Rows of the comparison of 50 UDP packets of IPv6.
    fn rows(profiles: Profiles) -> Vec<String> {
        let (sending, decompressor) = sending(profiles);
        let mut versions = Versions::new(&sending, &decompressor);
        let mut own = Path::new(Sender::new(sending.compressor.clone(), None), None);
        let mut bytes = [&[0x60, 0, 0, 0, 0, 12, 17, 64][..], &[1; 32]].concat();
        bytes.extend([0x13, 0x8a, 0x13, 0x8c, 0, 12, 1, 1, b'd', b'a', b't', b'a']);
        for number in 1..=50 {
            let packet = Packet { number, time_ns: 0, len: bytes.len(), bytes: &bytes, ..Packet::default() };
            let carried = own.carry(&packet);
            versions.compare(&packet, &carried);
        }
        versions.text().lines().map(str::to_owned).collect()
    }

    #[test]
    fn both_versions_are_in_the_table_whichever_is_asked_for() {
        let (v1, v2) = (rows(Profiles::V1), rows(Profiles::V2));
        assert_eq!(v1, v2);
        assert!(v1[1].starts_with("ROHC, v1") && v1[2].starts_with("ROHCv2"), "{v1:?}");
        assert!(v1[1..3].iter().all(|row| row.contains(" 50 ") && row.contains(" 48.0 ")), "{v1:?}");
        assert!(rows(Profiles::V1.without(Profile::Udp)).is_empty(), "nothing to compare with");
    }
}
