//! Compression gain by profile and packet type.

use std::collections::BTreeMap;
use std::fmt;

use bentpipe_hc as hc;
use bentpipe_rohc::{PacketType, Profile};
use serde_json::{Value, json};

/// Compression of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Method {
    /// Profile of ROHC.
    Rohc(Profile),
    /// Scheme before ROHC.
    Scheme(hc::Scheme),
}

/// Kind of a compressed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// Packet of ROHC.
    Rohc(PacketType),
    /// Frame of a scheme before ROHC.
    Scheme(hc::Kind),
}

impl Method {
    /// Every method, in the order of tables.
    fn all() -> impl Iterator<Item = Method> {
        Profile::ALL.into_iter().map(Method::Rohc).chain(hc::Scheme::ALL.map(Method::Scheme))
    }

    /// Returns the name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Rohc(profile) => name(profile),
            Method::Scheme(hc::Scheme::VanJacobson) => "VJ, RFC 1144",
            Method::Scheme(hc::Scheme::Iphc) => "IPHC, RFC 2507",
            Method::Scheme(hc::Scheme::Crtp) => "CRTP, RFC 2508",
        }
    }

    /// Returns the text of a cell of CSV.
    pub(crate) fn cell(self) -> String {
        match self {
            Method::Rohc(profile) => format!("{:#06x}", profile.id()),
            Method::Scheme(hc::Scheme::VanJacobson) => "vj".to_owned(),
            Method::Scheme(hc::Scheme::Iphc) => "iphc".to_owned(),
            Method::Scheme(hc::Scheme::Crtp) => "crtp".to_owned(),
        }
    }
}

impl Form {
    /// Returns the name in tables.
    fn name(self) -> &'static str {
        match self {
            Form::Rohc(packet_type) => packet_type.name(),
            Form::Scheme(kind) => match kind {
                hc::Kind::VjUncompressed => "VJ whole",
                hc::Kind::VjCompressed => "VJ",
                hc::Kind::FullHeader => "full",
                hc::Kind::CompressedTcp => "TCP",
                hc::Kind::CompressedTcpNodelta => "TCP whole",
                hc::Kind::CompressedNonTcp => "non-TCP",
                hc::Kind::CompressedUdp { .. } => "UDP",
                hc::Kind::CompressedRtp { .. } => "RTP",
                hc::Kind::Ipv4 | hc::Kind::Ipv6 | hc::Kind::ContextState => kind.name(),
            },
        }
    }

    /// Returns the text of a cell of CSV.
    pub(crate) fn cell(self) -> String {
        match self {
            Form::Rohc(packet_type) => packet_type.to_string(),
            Form::Scheme(kind) => kind.name().to_owned(),
        }
    }
}

/// Sizes of a packet and of its compressed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) method: Method,
    pub(crate) form: Form,
    /// Bytes of the IP packet, and of its compressed header chain.
    pub(crate) ip_len: usize,
    pub(crate) ip_header: usize,
    /// Bytes of headers behind those that are compressed, sent as they are.
    pub(crate) kept: usize,
    /// Bytes of the ROHC packet, and of its header.
    pub(crate) rohc_len: usize,
    pub(crate) rohc_header: usize,
}

/// Sums of the sizes of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketTotals {
    packets: u64,
    ip_len: u64,
    pub(crate) ip_header: u64,
    rohc_len: u64,
    rohc_header: u64,
}

impl PacketTotals {
    pub(crate) fn add(&mut self, sizes: &Sizes) {
        self.packets += 1;
        self.ip_len += sizes.ip_len as u64;
        self.ip_header += (sizes.ip_header + sizes.kept) as u64;
        self.rohc_len += sizes.rohc_len as u64;
        self.rohc_header += (sizes.rohc_header + sizes.kept) as u64;
    }

    fn plus(mut self, other: &PacketTotals) -> PacketTotals {
        self.packets += other.packets;
        self.ip_len += other.ip_len;
        self.ip_header += other.ip_header;
        self.rohc_len += other.rohc_len;
        self.rohc_header += other.rohc_header;
        self
    }

    fn json(&self) -> Value {
        json!({
            "packets": self.packets,
            "bytes_in": self.ip_len,
            "bytes_out": self.rohc_len,
            "header_bytes_in": self.ip_header,
            "header_bytes_out": self.rohc_header,
        })
    }

    fn mean(&self, bytes: u64) -> f64 {
        bytes as f64 / self.packets.max(1) as f64
    }

    /// Returns the header bytes saved, in percent.
    fn gain(&self) -> Option<f64> {
        percent_less(self.ip_header, self.rohc_header)
    }
}

fn percent_less(before: u64, after: u64) -> Option<f64> {
    (before > 0).then(|| 100.0 * (before as f64 - after as f64) / before as f64)
}

/// Sums of the sizes of packets by profile and packet type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    sums: BTreeMap<(Method, Form), PacketTotals>,
}

impl Totals {
    pub(crate) fn add(&mut self, sizes: &Sizes) {
        self.sums.entry((sizes.method, sizes.form)).or_default().add(sizes);
    }

    fn total(&self) -> PacketTotals {
        self.sums.values().fold(PacketTotals::default(), PacketTotals::plus)
    }

    fn of(&self, method: Method) -> impl Iterator<Item = (Form, &PacketTotals)> {
        self.sums.iter().filter(move |(key, _)| key.0 == method).map(|(key, sum)| (key.1, sum))
    }

    /// Describes all sums as JSON, with those of each method and form.
    pub(crate) fn json(&self) -> Value {
        let rows = self.sums.iter().map(|((method, form), sum)| {
            let mut row = sum.json();
            row["profile"] = json!(method.cell());
            row["packet_type"] = json!(form.cell());
            row
        });
        let mut all = self.total().json();
        all["types"] = rows.collect();
        all
    }

    /// Describes the saving in a sentence.
    pub(crate) fn headline(&self) -> String {
        let total = self.total();
        let (Some(gain), Some(saved)) = (total.gain(), percent_less(total.ip_len, total.rohc_len)) else {
            return "No header was compressed.".into();
        };
        format!(
            "Headers {} from {:.1} to {:.2} bytes a packet, {}; with payload {} become {}, {}.",
            if gain < 0.0 { "grow" } else { "shrink" },
            total.mean(total.ip_header),
            total.mean(total.rohc_header),
            less(gain),
            size(total.ip_len),
            size(total.rohc_len),
            less(saved),
        )
    }
}

fn less(percent: f64) -> String {
    let word = if percent < 0.0 { "more" } else { "less" };
    format!("{:.1} % {word}", percent.abs())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Returns the name of a profile in tables.
fn name(profile: Profile) -> &'static str {
    match profile {
        Profile::Uncompressed => "Uncompressed",
        Profile::Rtp => "RTP/UDP/IP",
        Profile::Udp => "UDP/IP",
        Profile::Esp => "ESP/IP",
        Profile::Ip => "IP",
        Profile::Tcp => "TCP/IP",
        Profile::RtpUdpLite => "RTP/UDP-Lite/IP",
        Profile::UdpLite => "UDP-Lite/IP",
        Profile::RtpV2 => "RTP/UDP/IP v2",
        Profile::UdpV2 => "UDP/IP v2",
        Profile::EspV2 => "ESP/IP v2",
        Profile::IpV2 => "IP v2",
        Profile::RtpUdpLiteV2 => "RTP/UDP-Lite v2",
        Profile::UdpLiteV2 => "UDP-Lite/IP v2",
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        heading(f, "profile", "packet")?;
        for method in Method::all() {
            let rows: Vec<_> = self.of(method).collect();
            for (index, (form, sum)) in rows.iter().enumerate() {
                let name = if index == 0 { method.name() } else { "" };
                row(f, name, form.name(), sum)?;
            }
            if rows.len() > 1 {
                row(
                    f,
                    "",
                    "together",
                    &rows.iter().fold(PacketTotals::default(), |sum, row| sum.plus(row.1)),
                )?;
            }
        }
        row(f, "all", "", &self.total())
    }
}

/// Writes the heading of a table.
pub(crate) fn heading(f: &mut fmt::Formatter<'_>, first: &str, second: &str) -> fmt::Result {
    writeln!(
        f,
        "{first:<16} {second:<9} {:>9} {:>12} {:>12} {:>10} {:>10} {:>8}",
        "packets", "bytes in", "bytes out", "header in", "header out", "gain"
    )
}

/// Writes a row of a table.
pub(crate) fn row(
    f: &mut fmt::Formatter<'_>,
    profile: &str,
    packet: &str,
    sum: &PacketTotals,
) -> fmt::Result {
    let gain = sum.gain().map_or("-".into(), |gain| format!("{gain:.1} %"));
    writeln!(
        f,
        "{profile:<16} {packet:<9} {:>9} {:>12} {:>12} {:>10.1} {:>10.2} {gain:>8}",
        sum.packets,
        sum.ip_len,
        sum.rohc_len,
        sum.mean(sum.ip_header),
        sum.mean(sum.rohc_header),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals() -> Totals {
        let mut totals = Totals::default();
        let sizes = |packet_type, rohc_header| Sizes {
            method: Method::Rohc(Profile::Udp),
            form: Form::Rohc(packet_type),
            ip_len: 128,
            ip_header: 28,
            kept: 0,
            rohc_len: 100 + rohc_header,
            rohc_header,
        };
        totals.add(&sizes(PacketType::Ir, 30));
        (0..3).for_each(|_| totals.add(&sizes(PacketType::Uo0, 2)));
        totals
    }

    #[test]
    fn a_row_for_each_type_and_the_sums() {
        let text = totals().to_string();
        let cells: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(cells[1], ["UDP/IP", "IR", "1", "128", "130", "28.0", "30.00", "-7.1", "%"]);
        assert_eq!(cells[2], ["UO-0", "3", "384", "306", "28.0", "2.00", "92.9", "%"]);
        assert_eq!(cells[3], ["together", "4", "512", "436", "28.0", "9.00", "67.9", "%"]);
        assert_eq!(cells[4][..3], ["all", "4", "512"]);
        let widths: std::collections::BTreeSet<usize> = text.lines().map(|line| line.len()).collect();
        assert_eq!(widths.len(), 1, "columns are aligned:\n{text}");
    }

    #[test]
    fn the_sentence() {
        let expected = "Headers shrink from 28.0 to 9.00 bytes a packet, 67.9 % less; with payload 512 bytes \
                        become 436 bytes, 14.8 % less.";
        assert_eq!(totals().headline(), expected);
        assert_eq!(Totals::default().headline(), "No header was compressed.");
        let mut one = Totals::default();
        let key = (Method::Rohc(Profile::Udp), Form::Rohc(PacketType::Ir));
        one.sums.insert(key, totals().sums[&key]);
        let expected = "Headers grow from 28.0 to 30.00 bytes a packet, 7.1 % more; with payload 128 bytes become \
                        130 bytes, 1.6 % more.";
        assert_eq!(one.headline(), expected);
    }
}
