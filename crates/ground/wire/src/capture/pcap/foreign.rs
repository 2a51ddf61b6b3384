//! Capture files of other formats, by their first bytes.

/// Signatures of formats, with the programs that write them.
const SIGNATURES: [(&[u8], &str); 12] = [
    (b"RTSS", "Microsoft Network Monitor 1"),
    (b"TRSNIFF data    \x1a", "the DOS-based Sniffer"),
    (b"XCP\0", "NetXRay or the Windows-based Sniffer"),
    (b"TR\0d\0", "HP-UX nettl"),
    (b"ObserverPktBuffe", "Network Instruments Observer"),
    (b"\x05VNF", "Visual Networks Visual UpTime"),
    (b"\x7fver", "Savvius OmniPeek"),
    (&[0xaa, 0xaa, 0xaa, 0xaa, 0x20, 0, 0, 0], "Accellent 5Views"),
    (b"iptrace ", "AIX iptrace"),
    (b"btsnoop\0", "Symbian OS btsnoop"),
    (&[0x00, 0x00, 0x02, 0x00, 0x12, 0x05, 0x00, 0x10], "Tektronix K12xx"),
    (&[0x01, 0x10, 0x4c, 0], "Novell LANalyzer"),
];

/// Start of files of Network Monitor 2.
///
/// Its first byte may be a sync byte of MPEG.
const NETMON_2: &[u8] = b"GMBU";

/// Returns the program whose captures begin so, if they are not read.
///
/// ```
/// assert_eq!(bentpipe_wire::pcap::foreign(b"RTSS\x01\x01"), Some("Microsoft Network Monitor 1"));
/// assert_eq!(bentpipe_wire::pcap::foreign(&[0x47, 0x40, 0, 0x10]), None);
/// ```
pub fn foreign(start: &[u8]) -> Option<&'static str> {
    // Minor and major version follow.
    let is_netmon_2 = start.starts_with(NETMON_2) && start.get(5) == Some(&2);
    if is_netmon_2 {
        return Some("Microsoft Network Monitor 2");
    }
    SIGNATURES.into_iter().find(|(signature, _)| start.starts_with(signature)).map(|(_, program)| program)
}
