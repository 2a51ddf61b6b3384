//! Checks on `bentpipe-offline`: whatever a live stream brings, its monitor reads it, and times, counts and alarms hold together.

use bentpipe_offline::Select;
use bentpipe_offline::ts::monitor::{Alarm, Limits, MAX_ALARMS, Monitors};
use bentpipe_units::{Rate, Span};

/// Decoder or machine under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("inspect", fuzz_inspect)];

/// Start of the stream in nanoseconds since 1970.
const START_NS: u64 = 1_700_000_000_000_000_000;

/// Takes two bytes as a number, if there are two.
fn number(data: &mut &[u8]) -> Option<u16> {
    let (first, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(u16::from_be_bytes(*first))
}

/// Passes datagrams to the monitor of `ts inspect udp://`: each has its time after the one before in milliseconds, in seconds with the
/// highest bit set, then its length and bytes. The first byte chooses the limits.
pub fn fuzz_inspect(data: &[u8]) {
    let Some((&flags, mut rest)) = data.split_first() else { return };
    let rate = [1, 2].map(|bit| (flags & bit > 0).then(|| Rate::from_bps(1_000_000 * u64::from(bit))));
    let silence = if flags & 4 > 0 { Span::from_millis(1) } else { Limits::default().silence };
    let limits = Limits { rate, silence, ..Limits::default() };
    let mut monitor = Monitors::new(limits, Select::default(), START_NS);
    let ends = (([127, 0, 0, 1], 9).into(), ([127, 0, 0, 1], 5004).into());
    let (mut now_ns, mut passed, mut last_ns, mut all, mut bytes) = (START_NS, 0_u64, START_NS, 0_u64, 0_u64);
    while let (Some(wait), Some(len)) = (number(&mut rest), number(&mut rest)) {
        let (datagram, behind) = rest.split_at(usize::from(len).min(rest.len()));
        rest = behind;
        let unit_ns = if wait & 0x8000 > 0 { 1_000_000_000 } else { 1_000_000 };
        now_ns += u64::from(wait & 0x7fff) * unit_ns;
        bytes += datagram.len() as u64;
        let mut sink = |_: usize, alarm: &Alarm| {
            assert!(alarm.at_ns >= last_ns && alarm.at_ns <= now_ns, "{alarm:?}");
            assert!(!alarm.to_owned().text.is_empty());
            last_ns = alarm.at_ns;
            passed += 1;
        };
        // Clocks may be set back: a time before the last one counts as that one.
        let at_ns = if flags & 8 > 0 { now_ns.saturating_sub(u64::from(len) * 1_000_000) } else { now_ns };
        monitor.push(at_ns, ends, datagram, &mut sink);
        // RTP of several sources is several streams.
        if monitor.all().len() > 1 {
            return;
        }
        let mut second = None;
        monitor.tick(now_ns, &mut sink, |_, of| second = Some(*of));
        assert!(passed <= MAX_ALARMS, "{passed} alarms in a second");
        if let Some(second) = second {
            all += second.packets;
            assert!(second.pids <= 1 << 13 && second.gaps <= second.packets);
            assert!(second.jitter_s.is_none_or(|jitter_s| jitter_s.is_finite() && jitter_s >= 0.0));
            passed = 0;
        }
    }
    // Each packet is of bytes that came; what a datagram ends within is completed by a later one.
    assert!(all * 188 <= bytes, "{all} packets of {bytes} bytes");
    monitor.finish(now_ns, &mut |_, _| {}).expect("no file is written");
    assert!(!monitor.summary(false).is_empty() && monitor.json("x").is_object());
}
