//! `bentpipe ts inspect udp://ADDRESS:PORT`: a live stream, with alarms.
#![allow(clippy::disallowed_methods, reason = "a live stream is measured in real time")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bentpipe_emu::datagrams::{BATCH, Inbox, stamp_arrivals};
use bentpipe_emu::poll;
use bentpipe_gateway::{Listen, interfaces, listener};
use bentpipe_offline::capture::check_files;
use bentpipe_offline::ts::monitor::{Alarm, Limits, MAX_ALARMS, Monitors, Second};
use bentpipe_offline::{Select, Session};
use bentpipe_report::number;
use bentpipe_units::Span;
use bentpipe_wire::ts::Pid;
use time::{SignedDuration, UtcDateTime};

use crate::interrupt::INTERRUPTED;
use crate::session::Terminal;
use crate::show;

/// Start of the name of a live stream.
pub(super) const SCHEME: &str = "udp://";
/// Another one. Datagrams show by themselves if they are RTP.
const RTP_SCHEME: &str = "rtp://";

/// Returns the address of an input that is a live stream.
///
/// # Errors
/// Returns an error for other schemes, unless there is such a file.
pub(super) fn address(input: &Path) -> Result<Option<&str>, String> {
    let Some(text) = input.to_str() else { return Ok(None) };
    if let Some(address) = text.strip_prefix(SCHEME).or_else(|| text.strip_prefix(RTP_SCHEME)) {
        return Ok(Some(address));
    }
    match text.contains("://") && !input.exists() {
        true => Err(format!(
            "{text}: expected a file, or a live stream: {SCHEME}ADDRESS:PORT, {SCHEME}@GROUP:PORT or {RTP_SCHEME}ADDRESS:PORT"
        )),
        false => Ok(None),
    }
}

/// Longest datagram of UDP in bytes.
const LONGEST: usize = 65_535;

/// Longest wait for a datagram, so that timers and a stop are seen.
const LONGEST_WAIT: Span = Span::from_millis(20);

/// Batches taken before timers are looked at.
const MAX_BATCHES: usize = 16;

/// Observation of a live stream.
#[derive(Clone, Debug)]
pub(super) struct Live {
    /// Address behind [`SCHEME`].
    pub(super) address: String,
    /// Interface on which a multicast group is joined.
    pub(super) interface: Option<String>,
    /// Duration; until Ctrl-C without one.
    pub(super) lasts: Option<Span>,
    pub(super) limits: Limits,
    /// CSV file of rates over time, and its interval.
    pub(super) rates: Option<PathBuf>,
    pub(super) interval: Span,
    /// JSON file with the summary.
    pub(super) json: Option<PathBuf>,
    /// PIDs whose alarms are raised. Empty: all.
    pub(super) pids: Vec<Pid>,
    /// Choice of streams.
    pub(super) select: Select,
}

impl Live {
    /// Observes the stream, prints seconds and alarms, and returns the exit code.
    ///
    /// # Errors
    /// Returns an error if the address cannot be listened at, or a file cannot be written.
    pub(super) fn run(&self, session: &Terminal) -> Result<u8, String> {
        let at = place(&self.address)?;
        if at.ip().is_multicast() != self.interface.is_some() {
            return Err(match &self.interface {
                None => format!(
                    "{at} is a multicast group: expected --interface NAME, on which to join it; help: interfaces are {}",
                    interfaces().join(", ")
                ),
                Some(_) => format!("--interface: {at} is not a multicast group"),
            });
        }
        if let [Some(low), Some(high)] = self.limits.rate
            && low > high
        {
            return Err(format!("--min-rate: expected at most --max-rate, {high}, got {low}"));
        }
        let outputs = [&self.rates, &self.json].into_iter().filter_map(Option::as_deref);
        check_files(&[], outputs).map_err(|error| error.to_string())?;
        let failed = |error: std::io::Error| format!("{SCHEME}{at}: {error}");
        let listen = Listen { at, interface: self.interface.clone(), from: Vec::new() };
        let socket = listener(&listen).map_err(failed)?;
        stamp_arrivals(&socket).map_err(failed)?;
        let mut clock = Clock::new(wall_ns());
        let mut monitor =
            Monitors::new(self.limits, self.select.clone(), clock.now_ns(Span::ZERO)).only(&self.pids);
        if let Some(path) = &self.rates {
            monitor.log_rates(path, self.interval).map_err(|error| error.to_string())?;
        }
        let (started, mut inbox, mut drops) = (Instant::now(), Inbox::new(LONGEST), 0);
        let elapsed = || Span::from_nanos(started.elapsed().as_nanos() as u64);
        let is_over = || self.lasts.is_some_and(|lasts| elapsed() >= lasts);
        while !session.is_interrupted() && !is_over() {
            match poll::wait([socket.as_fd()], LONGEST_WAIT) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(failed(error)),
                _ => {}
            }
            for _ in 0..MAX_BATCHES {
                // An error is that of an earlier datagram, as from ICMP.
                let count = inbox.receive(&socket).unwrap_or(0);
                drops = inbox.drops().unwrap_or(drops);
                if let Some(step_s) = clock.set(elapsed(), wall_ns()) {
                    session.note(&stepped(step_s));
                }
                for datagram in inbox.iter() {
                    let at_ns = clock.arrival_ns(datagram.arrived_ns, elapsed());
                    let mut alarms = Vec::new();
                    let mut sink = |place, alarm: &Alarm| alarms.push((place, alarm.clone()));
                    let from = datagram.from.unwrap_or(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
                    monitor.push(at_ns, (from, at), datagram.bytes, &mut sink);
                    show_alarms(&monitor, &alarms, clock);
                }
                if count < BATCH {
                    break;
                }
            }
            let (mut alarms, mut seconds) = (Vec::new(), Vec::new());
            let mut sink = |place, alarm: &Alarm| alarms.push((place, alarm.clone()));
            monitor.tick(clock.now_ns(elapsed()), &mut sink, |place, second| seconds.push((place, *second)));
            show_alarms(&monitor, &alarms, clock);
            for (place, second) in &seconds {
                show::out(&format!("{}{}\n", second_line(second, clock), named(&monitor, *place)));
            }
            if let Some(error) = monitor.all().iter().find_map(|one| one.failure()) {
                return Err(error.to_string());
            }
        }
        if drops > 0 {
            session.note(&format!("{drops} datagrams dropped by this machine, which counts them as lost"));
        }
        self.end(monitor, (clock, elapsed()), session)
    }

    fn end(
        &self,
        mut monitor: Monitors,
        (clock, elapsed): (Clock, Span),
        session: &Terminal,
    ) -> Result<u8, String> {
        let mut alarms = Vec::new();
        let mut sink = |place, alarm: &Alarm| alarms.push((place, alarm.clone()));
        let finished = monitor.finish(clock.now_ns(elapsed), &mut sink);
        show_alarms(&monitor, &alarms, clock);
        finished.map_err(|error| error.to_string())?;
        monitor.all().iter().filter_map(|one| one.remark()).for_each(|remark| session.note(remark));
        let input = format!("{SCHEME}{}", self.address);
        session.note(&format!("{input}: {}", monitor.account()));
        show::out(&format!("\n{}", monitor.summary(show::coloured())));
        if self.rates.is_some() && monitor.all().len() > 1 {
            session.note("--rates has the first stream alone");
        }
        if let Some(path) = &self.json {
            bentpipe_record::write_json(path, &monitor.json(&input)).map_err(|error| error.to_string())?;
        }
        Ok(match (monitor.has_alarms(), session.is_interrupted() && self.lasts.is_some()) {
            (true, _) => 1,
            (false, true) => INTERRUPTED,
            (false, false) => 0,
        })
    }
}

/// Returns the name of a stream in a line, if there are several.
fn named(monitors: &Monitors, place: usize) -> String {
    monitors.name(place).map_or_else(String::new, |name| format!("  {name}"))
}

fn show_alarms(monitors: &Monitors, alarms: &[(usize, Alarm)], clock: Clock) {
    for (place, alarm) in alarms {
        show::out(&format!("{}{}\n", alarm_line(alarm, clock), named(monitors, *place)));
    }
}

/// Parses an address and port; without an address it is loopback.
///
/// Players write an address to listen at behind "@". Without an address that is any.
fn place(text: &str) -> Result<SocketAddr, String> {
    let (of_none, written) = match text.strip_prefix('@') {
        Some(written) => (Ipv4Addr::UNSPECIFIED, written),
        None => (Ipv4Addr::LOCALHOST, text),
    };
    let port = written.strip_prefix(':').unwrap_or(written).parse::<u16>();
    let at = match port {
        Ok(port) => Ok(SocketAddr::from((IpAddr::V4(of_none), port))),
        Err(_) => written.parse(),
    };
    let expected = || {
        format!(
            "{SCHEME}{text}: expected a local address and port, as {SCHEME}127.0.0.1:5004 or {SCHEME}[::1]:5004"
        )
    };
    at.ok().filter(|at| at.port() > 0).ok_or_else(expected)
}

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Change of the machine's clock from which a note says so, in nanoseconds.
const STEP_NS: i64 = 100_000_000;

/// Time of a live stream. The machine's clock may be set meanwhile.
///
/// It is the machine's at the start, and goes on by the monotonic clock. The kernel stamps arrivals by the machine's clock. So intervals over a step would be alarms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Clock {
    started_ns: u64,
    /// Nanoseconds by which the machine's clock was set since the start.
    ahead_ns: i64,
}

impl Clock {
    fn new(wall_ns: u64) -> Clock {
        Clock { started_ns: wall_ns, ahead_ns: 0 }
    }

    fn now_ns(self, elapsed: Span) -> u64 {
        self.started_ns.saturating_add(elapsed.as_nanos())
    }

    /// Follows the machine's clock, and returns the seconds of a step.
    fn set(&mut self, elapsed: Span, wall_ns: u64) -> Option<f64> {
        let ahead_ns = wall_ns.cast_signed().saturating_sub(self.now_ns(elapsed).cast_signed());
        let step_ns = ahead_ns.saturating_sub(self.ahead_ns);
        self.ahead_ns = ahead_ns;
        (step_ns.saturating_abs() > STEP_NS).then_some(step_ns as f64 / 1e9)
    }

    /// Returns the time of a datagram that has just been received, by the kernel's stamp.
    ///
    /// A stamp in front of a step back is in the future: the datagram arrives at present.
    fn arrival_ns(self, stamp_ns: Option<u64>, elapsed: Span) -> u64 {
        let now_ns = self.now_ns(elapsed);
        stamp_ns.map_or(now_ns, |stamp_ns| {
            stamp_ns.saturating_add_signed(self.ahead_ns.saturating_neg()).min(now_ns)
        })
    }

    /// Returns a time of the stream as the machine's clock has it.
    fn shown_ns(self, at_ns: u64) -> u64 {
        at_ns.saturating_add_signed(self.ahead_ns)
    }
}

/// Describes a step of the machine's clock.
fn stepped(by_s: f64) -> String {
    let way = if by_s < 0.0 { "back" } else { "forward" };
    format!(
        "the machine's clock was set {way} by {} s: no interval over the step is judged",
        number(by_s.abs())
    )
}

/// Formats a time as date and time of day, UTC, to the millisecond.
fn stamp(at_ns: u64) -> String {
    let since = SignedDuration::nanoseconds(i64::try_from(at_ns).unwrap_or(i64::MAX));
    let at = UtcDateTime::UNIX_EPOCH.saturating_add(since);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second, millis) = at.as_hms_milli();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", u8::from(month))
}

fn alarm_line(alarm: &Alarm, clock: Clock) -> String {
    let Alarm { at_ns, indicator, pid, is_over, text } = alarm;
    let pid = pid.map_or_else(String::new, |pid| format!(" {pid}"));
    format!(
        "{}  {} {indicator}{pid}: {text}",
        stamp(clock.shown_ns(*at_ns)),
        if *is_over { "clear" } else { "ALARM" }
    )
}

fn second_line(second: &Second, clock: Clock) -> String {
    let rate = number(second.bit_per_s() as f64 / 1e6);
    let Second { at_ns, packets, pids, gaps, jitter_s, alarms } = second;
    let jitter =
        jitter_s.map_or_else(String::new, |jitter_s| format!(", PCR within {} ms", number(jitter_s * 1e3)));
    let more = alarms.saturating_sub(MAX_ALARMS);
    let more = if more > 0 { format!(", {more} more alarms not listed") } else { String::new() };
    let at = stamp(clock.shown_ns(*at_ns));
    format!("{at}  {rate} Mbit/s, {packets} packets, {pids} PIDs, {gaps} gaps{jitter}, {alarms} alarms{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_host_are_loopback() {
        for text in ["5004", ":5004", "127.0.0.1:5004"] {
            assert_eq!(place(text), Ok("127.0.0.1:5004".parse().expect("an address")), "{text}");
        }
        for text in ["239.1.1.1:5004", "@239.1.1.1:5004", "@[ff15::1]:5004"] {
            assert!(place(text).is_ok_and(|at| at.ip().is_multicast()), "{text}");
        }
        assert_eq!(place("@:5004"), Ok("0.0.0.0:5004".parse().expect("an address")));
        assert!(
            ["", "host:5004", "1.2.3.4", "70000", "0", "::1:5004x"].iter().all(|text| place(text).is_err())
        );
    }

    #[test]
    fn live_streams_have_the_schemes_of_players() {
        let found = |text: &str| address(Path::new(text)).map(|of| of.map(str::to_owned));
        assert_eq!(found("udp://@239.1.1.1:5004"), Ok(Some("@239.1.1.1:5004".to_owned())));
        assert_eq!(found("rtp://127.0.0.1:5004"), Ok(Some("127.0.0.1:5004".to_owned())));
        assert_eq!(found("stream.ts"), Ok(None));
        assert!(found("srt://127.0.0.1:5004").is_err_and(|error| error.contains("udp://@GROUP:PORT")));
    }

    #[test]
    fn a_clock_that_is_set_does_not_move_the_stream() {
        let (hour_ns, second) = (3_600_000_000_000, Span::from_secs(1));
        let mut clock = Clock::new(10 * hour_ns);
        assert_eq!(clock.set(second, 10 * hour_ns + 1_000_000_500), None);
        assert_eq!(clock.arrival_ns(Some(10 * hour_ns + 999_000_500), second), 10 * hour_ns + 999_000_000);
        for wall_ns in [9 * hour_ns, 12 * hour_ns] {
            let before = clock.ahead_ns;
            let step_s = clock.set(second, wall_ns).expect("a step");
            assert!((step_s - (clock.ahead_ns - before) as f64 / 1e9).abs() < 1e-9);
            assert_eq!(clock.arrival_ns(Some(wall_ns - 1000), second), clock.now_ns(second) - 1000);
            assert_eq!(clock.shown_ns(clock.now_ns(second)), wall_ns);
            // Stamped in front of the step.
            assert!(clock.arrival_ns(Some(10 * hour_ns), second) <= clock.now_ns(second));
        }
        assert!(stepped(-3600.0).contains("back by 3600 s"), "{}", stepped(-3600.0));
    }

    #[test]
    fn times_are_dates() {
        assert_eq!(stamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(951_782_400_123_000_000), "2000-02-29T00:00:00.123Z");
        assert_eq!(stamp(1_795_710_479_999_999_999), "2026-11-26T16:27:59.999Z");
    }
}
