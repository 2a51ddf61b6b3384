//! Counts and delays of calls.

use std::collections::BTreeMap;
use std::fmt;

use bentpipe_signalling::agent::Failure;
use bentpipe_units::Span;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Longest delay recorded, in microseconds.
const LONGEST_US: u64 = 600_000_000;

/// Counts and delays of the calls of one side.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Calls placed or received.
    pub calls: u64,
    /// Calls established: with ACK.
    pub established: u64,
    /// Established calls that are over.
    pub ended: u64,
    /// Failed calls by reason, those that were established before included.
    pub failed: BTreeMap<String, u64>,
    /// Failed calls that were established before.
    pub lost: u64,
    /// Largest number of calls established at a time.
    pub peak: u64,
    /// Requests sent again.
    pub repeated: u64,
    /// Repeated requests received.
    pub absorbed: u64,
    /// Requests refused with 503, as a limit was reached.
    pub turned_away: u64,
    /// Calls ended for one of a host with fewer.
    pub displaced: u64,
    /// Figures of voice, if calls have it.
    pub voice: Option<Value>,
    up: u64,
    post_dial: Histogram<u64>,
    set_up: Histogram<u64>,
}

impl Default for Figures {
    fn default() -> Figures {
        let histogram =
            || Histogram::new_with_bounds(1, LONGEST_US, 3).unwrap_or_else(|_| unreachable!("valid bounds"));
        Figures {
            calls: 0,
            established: 0,
            ended: 0,
            failed: BTreeMap::new(),
            lost: 0,
            peak: 0,
            repeated: 0,
            absorbed: 0,
            turned_away: 0,
            displaced: 0,
            voice: None,
            up: 0,
            post_dial: histogram(),
            set_up: histogram(),
        }
    }
}

impl Figures {
    /// Returns the number of calls that are established.
    pub fn up(&self) -> u64 {
        self.up
    }

    /// Returns the number of failed calls.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Returns the number of calls that were not established.
    ///
    /// At the end it is that of all calls less [`Figures::established`].
    pub fn not_established(&self) -> u64 {
        self.failures() - self.lost
    }

    /// Returns the number of calls that are over, established or not.
    pub fn over(&self) -> u64 {
        self.ended + self.failures()
    }

    pub(crate) fn note_ringing(&mut self, after: Span) {
        self.post_dial.saturating_record((after.as_nanos() / 1000).max(1));
    }

    pub(crate) fn note_established(&mut self, after: Span) {
        self.established += 1;
        self.up += 1;
        self.peak = self.peak.max(self.up);
        self.set_up.saturating_record((after.as_nanos() / 1000).max(1));
    }

    pub(crate) fn note_ended(&mut self) {
        self.ended += 1;
        self.up -= 1;
    }

    /// Counts a call that was not answered before the end.
    pub(crate) fn note_cut_off(&mut self) {
        *self.failed.entry("cut off at the end".into()).or_default() += 1;
    }

    /// Counts a call for which no line is free.
    pub(crate) fn note_busy(&mut self) {
        *self.failed.entry("no line is free".into()).or_default() += 1;
    }

    pub(crate) fn note_failed(&mut self, failure: Failure, was_up: bool) {
        self.up -= u64::from(was_up);
        self.lost += u64::from(was_up);
        *self.failed.entry(reason(failure)).or_default() += 1;
    }

    /// Returns the figures as JSON, delays in milliseconds.
    pub fn to_json(&self) -> Value {
        let mut figures = json!({
            "calls": self.calls, "established": self.established, "not-established": self.not_established(),
            "ended": self.ended, "lost": self.lost, "failed": self.failed, "peak": self.peak, "requests-repeated": self.repeated, "requests-absorbed": self.absorbed,
            "requests-turned-away": self.turned_away, "calls-displaced": self.displaced,
            "post-dial-delay-ms": delays(&self.post_dial), "set-up-time-ms": delays(&self.set_up),
        });
        if let Some(voice) = &self.voice {
            figures["voice"] = voice.clone();
        }
        figures
    }
}

fn reason(failure: Failure) -> String {
    match failure {
        Failure::Status(status) => format!("{status} {}", bentpipe_signalling::sip::reason(status)),
        Failure::TimedOut => "no response (timer B)".into(),
        Failure::Refused => "connection refused: no program at this port".into(),
        Failure::Unreachable => "not reachable: no route, or the connection broke".into(),
        Failure::NotAcknowledged => "no ACK".into(),
        Failure::NoCodec => "no codec in common".into(),
        Failure::Encrypted => "SRTP alone was offered".into(),
        Failure::NoPrack => "no PRACK".into(),
        Failure::Cancelled => "cancelled".into(),
    }
}

fn delays(histogram: &Histogram<u64>) -> Value {
    let at =
        |quantile| (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64 / 1000.0);
    json!({ "count": histogram.len(), "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": at(1.0) })
}

/// Writes the figures of voice, of which delays and ratings need a clock in common.
fn write_voice(f: &mut fmt::Formatter<'_>, voice: &Value) -> fmt::Result {
    let number = |key: &str| voice[key].as_f64();
    let count = |key: &str| number(key).unwrap_or_default();
    writeln!(f, "voice: {} packets sent, {} received", count("sent"), count("received"))?;
    if let Some(loss) = number("loss") {
        let (lost, late) = (count("lost"), count("late"));
        writeln!(f, "lost or late: {:.2} % ({lost} lost, {late} late)", 100.0 * loss)?;
    }
    write_refused(f, &voice["refused"])?;
    write_silent(f, voice)?;
    write_digits(f, &voice["digits"])?;
    let back = &voice["sent-back"];
    let returned = back["packets"].as_u64().unwrap_or_default();
    if returned > 0 {
        write!(f, "sent back by the other side: {returned} of the packets sent, {} missing", back["lost"])?;
        match back["round-trip-ms"].as_f64() {
            Some(ms) => {
                writeln!(f, "; round trip p50 {} ms, half of it {} ms", digits(ms), digits(ms / 2.0))?
            }
            None => writeln!(f)?,
        }
    }
    match (number("mouth-to-ear-ms"), number("clock-error-ms")) {
        (Some(delay), Some(error)) => {
            let rating = number("r").zip(number("mos")).map(|(r, mos)| format!(", R {r:.1}, MOS {mos:.2}"));
            let rating = rating.unwrap_or_default();
            writeln!(f, "mouth to ear: {delay:.1} ms, by clocks {error} ms apart at most{rating}")
        }
        _ if count("received") > 0.0 && returned > 0 => {
            writeln!(f, "mouth to ear: not known, as the other side sends back what it gets")
        }
        _ if count("received") > 0.0 => {
            writeln!(f, "mouth to ear: not known, as the other side's clock is not (--clock-error)")
        }
        _ if returned > 0 => {
            writeln!(f, "mouth to ear: not known, as the other side only sends back what it gets")
        }
        _ => Ok(()),
    }
}

/// Writes the calls in which nothing came from the other side.
fn write_silent(f: &mut fmt::Formatter<'_>, voice: &Value) -> fmt::Result {
    let count = |key: &str| voice[key].as_u64().unwrap_or_default();
    let (silent, expected) = (count("calls-without-voice"), count("calls-with-voice-expected"));
    if silent > 0 {
        writeln!(f, "no voice came from the other side in {silent} of {}", calls(expected))?;
    }
    let closed = count("calls-ended-with-port-closed");
    let ended = count("calls-ended-without-consent").saturating_sub(closed);
    if ended > 0 {
        writeln!(f, "{} ended after 12 s: nothing came from the other side", calls(ended))?;
    }
    if closed > 0 {
        writeln!(f, "{} ended after 2 s: the other side's port of voice is closed", calls(closed))?;
    }
    Ok(())
}

/// Returns a number of calls in words.
fn calls(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

/// Returns a time in milliseconds with at least two digits.
fn digits(ms: f64) -> String {
    match ms {
        10.0.. => format!("{ms:.1}"),
        1.0.. => format!("{ms:.2}"),
        _ => format!("{ms:.3}"),
    }
}

/// Writes the datagrams that were not taken, by reason.
fn write_refused(f: &mut fmt::Formatter<'_>, refused: &Value) -> fmt::Result {
    let reasons: Vec<String> = refused
        .as_object()
        .into_iter()
        .flatten()
        .map(|(reason, count)| format!("{count} {}", reason.replace('-', " ")))
        .collect();
    if reasons.is_empty() { Ok(()) } else { writeln!(f, "packets refused: {}", reasons.join(", ")) }
}

/// Writes the digits sent and received.
fn write_digits(f: &mut fmt::Formatter<'_>, digits: &Value) -> fmt::Result {
    for way in ["sent", "received"] {
        if let Some(text) = digits[way].as_str().filter(|text| !text.is_empty()) {
            writeln!(f, "digits {way}: {text}")?;
        }
    }
    Ok(())
}

fn write_delays(f: &mut fmt::Formatter<'_>, name: &str, histogram: &Histogram<u64>) -> fmt::Result {
    if histogram.is_empty() {
        return Ok(());
    }
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    let [p50, p95, p99, max] = [0.5, 0.95, 0.99, 1.0].map(|quantile| digits(at(quantile)));
    writeln!(f, "{name}: p50 {p50} ms, p95 {p95}, p99 {p99}, max {max}")
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { established, lost, peak, repeated, absorbed, .. } = self;
        write!(f, "{}: {established} established, {} failed", calls(self.calls), self.not_established())?;
        writeln!(
            f,
            "{}",
            if *lost > 0 { format!("; {lost} established ones failed later") } else { String::new() }
        )?;
        writeln!(f, "most at a time: {peak}")?;
        self.failed.iter().try_for_each(|(reason, count)| writeln!(f, "  {count} failed: {reason}"))?;
        write_delays(f, "post-dial delay", &self.post_dial)?;
        write_delays(f, "set-up time", &self.set_up)?;
        if self.turned_away > 0 {
            writeln!(f, "{} requests refused with 503: no room", self.turned_away)?;
        }
        if self.displaced > 0 {
            writeln!(f, "{} ended for others: their hosts had more", calls(self.displaced))?;
        }
        if repeated + absorbed > 0 {
            writeln!(f, "{repeated} requests sent again, {absorbed} received again")?;
        }
        self.voice.as_ref().map_or(Ok(()), |voice| write_voice(f, voice))?;
        Ok(())
    }
}
