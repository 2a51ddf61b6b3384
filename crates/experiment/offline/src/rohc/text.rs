//! Text form of the settings of header compression, for all front ends.

use std::time::Duration;

use bentpipe_rohc::{Profile, Profiles, Refresh, RtpMatch, RtpRule};
use bentpipe_units::Span;

use super::Reservation;

/// Default UDP ports of RTP, as in the reference streams of the `rohc` project.
pub const RTP_PORTS: &str = "1234,36780,33238,5020,5002,5006";

/// Both refreshes of U-mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refreshes {
    /// Refresh by IR.
    pub ir: Refresh,
    /// Refresh by FO.
    pub fo: Refresh,
}

/// Parses a mean number of packets lost in a row.
///
/// # Errors
/// Returns the values expected.
pub fn burst(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(packets) if (1.0..=1e6).contains(&packets) => Ok(packets),
        _ => Err("expected a mean number of packets, at least 1".into()),
    }
}

/// Parses a segment length in bytes.
///
/// # Errors
/// Returns the values expected.
pub fn mtu(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&bytes| bytes >= 2).ok_or_else(|| "expected at least 2 bytes".into())
}

/// Parses "all", or a list of profiles by name or number.
///
/// # Errors
/// Returns the values expected.
pub fn profiles(list: &str) -> Result<Profiles, String> {
    match list.to_ascii_lowercase().as_str() {
        "all" | "v1" => return Ok(Profiles::V1),
        "v2" => return Ok(Profiles::V2),
        _ => {}
    }
    list.split(',').try_fold(Profiles::NONE, |set, word| profile(word.trim()).map(|found| set.with(found)))
}

fn profile(word: &str) -> Result<Profile, String> {
    let number = match word.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    };
    Profile::ALL
        .into_iter()
        .find(|&profile| number == Some(profile.id()) || word.eq_ignore_ascii_case(short_name(profile)))
        .ok_or_else(|| format!("no profile \"{word}\"; there are {}", names()))
}

fn names() -> String {
    Profile::ALL.map(short_name).join(", ")
}

/// Returns the short name of a profile.
pub fn short_name(profile: Profile) -> &'static str {
    match profile {
        Profile::Uncompressed => "uncompressed",
        Profile::Rtp => "rtp",
        Profile::Udp => "udp",
        Profile::Esp => "esp",
        Profile::Ip => "ip",
        Profile::Tcp => "tcp",
        Profile::RtpUdpLite => "rtp-udplite",
        Profile::UdpLite => "udplite",
        Profile::RtpV2 => "rtp-v2",
        Profile::UdpV2 => "udp-v2",
        Profile::EspV2 => "esp-v2",
        Profile::IpV2 => "ip-v2",
        Profile::RtpUdpLiteV2 => "rtp-udplite-v2",
        Profile::UdpLiteV2 => "udplite-v2",
    }
}

/// Parses the rule for RTP: "all", "none", "likely", or ports and ranges.
///
/// # Errors
/// Returns the values expected.
pub fn rtp_ports(list: &str) -> Result<RtpRule, String> {
    match list {
        "all" => Ok(RtpRule::Custom(|_| true)),
        "none" => Ok(RtpRule::Never),
        "likely" => Ok(RtpRule::Likely),
        _ if list.contains('-') => {
            list.split(',').map(rtp_range).collect::<Result<_, _>>().map(RtpRule::Matching)
        }
        _ => list.split(',').map(port).collect::<Result<_, _>>().map(RtpRule::Ports),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.trim().parse().map_err(|_| format!("\"{text}\" is not a port"))
}

fn rtp_range(text: &str) -> Result<RtpMatch, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    let ports = (first <= last).then_some(first..=last);
    let ports = ports.ok_or_else(|| format!("\"{text}\" ends before it begins"))?;
    Ok(RtpMatch { destination_ports: Some(ports), ..RtpMatch::default() })
}

/// Parses a threshold of K failures among N packets: "K,N".
///
/// # Errors
/// Returns the values expected.
pub fn threshold(text: &str) -> Result<(u8, u8), String> {
    let expected = "expected K,N with 1 <= K <= N <= 32, such as \"3,8\"";
    let (failures, packets) = text.split_once(',').ok_or(expected)?;
    match (failures.trim().parse(), packets.trim().parse()) {
        (Ok(failures), Ok(packets)) if (1..=packets).contains(&failures) && packets <= 32 => {
            Ok((failures, packets))
        }
        _ => Err(expected.into()),
    }
}

/// Parses a CID and the number of a packet: "CID=NUMBER".
///
/// # Errors
/// Returns the values expected.
pub fn reservation(text: &str) -> Result<Reservation, String> {
    let parsed = text.split_once('=').and_then(|(cid, number)| {
        Some(Reservation { cid: cid.trim().parse().ok()?, number: number.trim().parse().ok()? })
    });
    parsed
        .filter(|reservation| reservation.number > 0)
        .ok_or_else(|| "expected a CID and the number of a packet, from 1, such as \"3=17\"".into())
}

/// Parses a time such as "20 ms".
///
/// # Errors
/// Returns the values expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// Parses both refreshes of U-mode: "IR,FO", in packets or times.
///
/// # Errors
/// Returns the values expected.
pub fn refreshes(text: &str) -> Result<Refreshes, String> {
    let (ir, fo) = text.split_once(',').ok_or("expected two values, such as \"1700,700\"")?;
    Ok(Refreshes { ir: refresh(ir.trim())?, fo: refresh(fo.trim())? })
}

fn refresh(text: &str) -> Result<Refresh, String> {
    if let Ok(packets) = text.parse() {
        return Ok(Refresh::every_packets(packets));
    }
    duration(text).map(Refresh::every).map_err(|error| format!("neither packets nor a time: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_by_name_and_number() {
        let set = profiles("rtp, 0x0006,4").unwrap();
        let expected = Profiles::NONE.with(Profile::Rtp).with(Profile::Tcp).with(Profile::Ip);
        assert_eq!(set, expected);
        assert_eq!((profiles("all"), profiles("V2")), (Ok(Profiles::V1), Ok(Profiles::V2)));
        assert_eq!(profiles("rtp-v2,0x0102"), Ok(Profiles::NONE.with(Profile::RtpV2).with(Profile::UdpV2)));
        assert!(profiles("rtp,5").unwrap_err().contains("rtp-udplite"));
    }

    #[test]
    fn refreshes_in_packets_and_times() {
        let both = refreshes("5 s,700").unwrap();
        assert_eq!(both.ir, Refresh::every(Duration::from_secs(5)));
        assert_eq!(both.fo, Refresh::every_packets(700));
        assert_eq!(refreshes("0,0").unwrap().ir, Refresh::NEVER);
        assert!(refreshes("1700").is_err() && refreshes("a,b").is_err());
    }

    #[test]
    fn thresholds_and_reservations() {
        assert_eq!(threshold("3, 8"), Ok((3, 8)));
        assert!(["0,8", "9,8", "3,33", "3", "a,b"].iter().all(|text| threshold(text).is_err()));
        assert_eq!(reservation("3=17"), Ok(Reservation { cid: 3, number: 17 }));
        assert!(["3", "3=0", "=1", "70000=1"].iter().all(|text| reservation(text).is_err()));
    }

    #[test]
    fn ports_are_a_list_or_a_word() {
        assert!(matches!(rtp_ports(RTP_PORTS), Ok(RtpRule::Ports(ports)) if ports.len() == 6));
        assert!(matches!(rtp_ports("all"), Ok(RtpRule::Custom(_))));
        assert!(rtp_ports("70000").is_err());
        let Ok(RtpRule::Matching(ranges)) = rtp_ports("5004, 16384-32767") else { panic!("ranges") };
        assert_eq!(ranges[0].destination_ports, Some(5004..=5004));
        assert_eq!(ranges[1].destination_ports, Some(16384..=32767));
        assert!(["9-5", "5-", "a-b"].iter().all(|text| rtp_ports(text).is_err()));
    }
}
