//! Real time of jobs: emulations, and programs on sites.
//!
//! Others wait while one runs, so that its length is known and limited when it is launched, and again while it runs.

use bentpipe_units::Span;

use crate::children::Limits;
use crate::problem::{Problem, Result};

/// Time for set-up and report on top of a limit, in milliseconds.
const MARGIN_MS: i64 = 30_000;
/// Part of a limit that is added for longer ones.
const MARGIN_PART: i64 = 10;
/// Time for set-up and report that a site adds, in milliseconds.
pub(crate) const SITE_MARGIN_MS: i64 = 60_000;

/// Refuses a job that takes longer than its owner's limit. `what` is the key that asks for it.
///
/// # Errors
/// Returns an error with the limit.
pub(crate) fn check(what: &str, real_ms: Option<i64>, limits: &Limits, level: u8) -> Result<()> {
    let most_ms = most_ms(limits);
    match real_ms.filter(|real_ms| *real_ms > most_ms) {
        None => Ok(()),
        Some(real_ms) => Err(Problem::bad(format!(
            "{what}: it takes {} in real time: expected at most {} at level {level}; ask the administrator for another \
             `real_time` in limits.toml",
            shown(real_ms),
            shown(most_ms)
        ))),
    }
}

/// Returns why a job is ended, if it has run for too long.
///
/// The limit is that of its owner, with time for set-up and report.
pub(crate) fn overdue(passed_ms: i64, limits: &Limits) -> Option<String> {
    let most_ms = most_ms(limits);
    let end_ms = most_ms.saturating_add(most_ms / MARGIN_PART).saturating_add(MARGIN_MS);
    (passed_ms > end_ms).then(|| {
        let most = shown(most_ms);
        format!("stopped: over the limits of its owner's jobs: it ran for more than {most} of real time")
    })
}

/// Returns seconds in milliseconds.
pub(crate) fn milliseconds(seconds: f64) -> i64 {
    // Saturates: a year has 3e10.
    (seconds * 1e3).ceil() as i64
}

fn most_ms(limits: &Limits) -> i64 {
    i64::try_from(limits.real_s.saturating_mul(1000)).unwrap_or(i64::MAX)
}

fn shown(ms: i64) -> String {
    Span::from_secs_f64(ms as f64 / 1e3).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { memory: 1, processor_s: 1, real_s: 100, file_size: 1, processes: 1 };

    #[test]
    fn who_asks_for_too_much_real_time_is_told_the_limit() {
        assert!(check("emulate", Some(100_000), &LIMITS, 1).is_ok() && check("x", None, &LIMITS, 1).is_ok());
        let refused = check("emulate", Some(milliseconds(31_536_000.0)), &LIMITS, 1).expect_err("a year");
        assert!(
            refused
                .detail
                .starts_with("emulate: it takes 31536000 s in real time: expected at most 100 s at level 1"),
            "{}",
            refused.detail
        );
    }

    #[test]
    fn a_job_ends_that_goes_on_after_its_limit_and_some_time_for_its_report() {
        assert_eq!(overdue(140_000, &LIMITS), None);
        let why = overdue(140_001, &LIMITS).expect("over");
        assert!(why.contains("more than 100 s of real time"), "{why}");
        assert_eq!(overdue(i64::MAX - 1, &Limits { real_s: u64::MAX / 4, ..LIMITS }), None);
    }
}
