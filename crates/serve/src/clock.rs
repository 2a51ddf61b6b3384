//! Wall clock and randomness of the controller. No result of a run depends on them.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

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
    let (days, second) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000) / 1000);
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}

/// Returns the year of now, UTC.
pub(crate) fn year() -> i32 {
    i32::try_from(date(now_ms().div_euclid(86_400_000)).0).unwrap_or(1970)
}

/// Returns the instant of a date and time, UTC, such as "2026-11-25T14:30" or "2026-11-25T14:30:15".
pub(crate) fn parsed(text: &str) -> Option<i64> {
    let number = |text: &str, length: usize| -> Option<i64> {
        let is_number = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    let (day, clock) = text.trim().split_once('T')?;
    let [year, month, of_month] = day.split('-').collect::<Vec<_>>().try_into().ok()?;
    let (year, month, of_month) = (number(year, 4)?, number(month, 2)?, number(of_month, 2)?);
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |second| number(second, 2))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // As `date` counts, from 1 March.
    let (from_march, start) = ((month + 9) % 12, year - i64::from(month <= 2));
    let leap_days = start.div_euclid(4) - start.div_euclid(100) + start.div_euclid(400);
    let days = start * 365 + leap_days + (153 * from_march + 2) / 5 + of_month - 1 - 719_468;
    let is_date = date(days) == (year, month, of_month);
    is_date.then_some(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000)
}

/// Returns year, month and day of a number of days since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    // Days since 1 March of the year 0, so that the leap day ends a year of 400 x 365.2425 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
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
