//! Wall clock and randomness of the controller. No result of a run depends on them.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use time::{Date, SignedDuration, UtcDateTime};
use tokio::time::Instant;

/// Returns the milliseconds since 1970, UTC.
#[expect(clippy::disallowed_methods, reason = "sessions and jobs have dates")]
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the microseconds since 1970, UTC.
#[expect(clippy::disallowed_methods, reason = "sites start at an instant of the wall clock")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the milliseconds since the first call, by a clock that is never set.
pub(crate) fn since_start_ms() -> i64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(START.elapsed().as_millis()).unwrap_or(i64::MAX)
}

/// Returns a secret of 256 random bits in hexadecimal digits.
///
/// # Panics
/// Panics if the operating system has no random numbers.
pub(crate) fn secret() -> String {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    hex(&bytes)
}

/// Returns bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns an instant as date and time, UTC: "2026-11-25 08:36:27".
pub(crate) fn shown(ms: i64) -> String {
    let at = date_time(ms);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second) = at.as_hms();
    format!("{year:04}-{:02}-{day:02} {hour:02}:{minute:02}:{second:02}", u8::from(month))
}

/// Returns the year of now, UTC.
pub(crate) fn year() -> i32 {
    date_time(now_ms()).year()
}

/// Returns the instant of a date and time, UTC, such as "2026-11-25T14:30" or "2026-11-25T14:30:15".
pub(crate) fn parsed(text: &str) -> Option<i64> {
    let number = |text: &str, length: usize| -> Option<u16> {
        let is_number = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    let of_two = |text: &str| number(text, 2).and_then(|value| u8::try_from(value).ok());
    let (day, clock) = text.trim().split_once('T')?;
    let [year, month, day] = day.split('-').collect::<Vec<_>>().try_into().ok()?;
    let month = of_two(month)?.try_into().ok()?;
    let date = Date::from_calendar_date(number(year, 4)?.into(), month, of_two(day)?).ok()?;
    let mut parts = clock.split(':');
    let (hour, minute) = (of_two(parts.next()?)?, of_two(parts.next()?)?);
    let second = parts.next().map_or(Some(0), of_two)?;
    if parts.next().is_some() {
        return None;
    }
    Some(date.with_hms(hour, minute, second).ok()?.as_utc().unix_timestamp() * 1000)
}

/// Returns the date and time of an instant. One beyond the calendar is its end.
fn date_time(ms: i64) -> UtcDateTime {
    UtcDateTime::UNIX_EPOCH.saturating_add(SignedDuration::milliseconds(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_instants() {
        for ms in [0, 951_782_400_000, 1_795_595_787_000, 4_107_542_399_000] {
            assert_eq!(parsed(&shown(ms).replace(' ', "T")), Some(ms));
        }
        assert_eq!(parsed("2026-11-25T14:30"), parsed("2026-11-25T14:30:00"));
        for bad in [
            "",
            "soon",
            "2026-02-30T10:00",
            "2026-13-01T10:00",
            "2026-11-25 10:00",
            "2026-11-25T24:00",
            "26-1-1T1:1",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn instants_are_shown_as_dates() {
        assert_eq!(shown(0), "1970-01-01 00:00:00");
        assert_eq!(shown(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(shown(1_795_595_787_123), "2026-11-25 08:36:27");
    }
}
