//! Limits of children by the level of their user, and the file that sets them.

use std::path::{Path, PathBuf};

use bentpipe_agent::regular;
use bentpipe_units::{Bytes, Span};
use serde::Deserialize;

/// Name of the file in the data folder.
const NAME: &str = "limits.toml";
/// Largest size of the file.
const MAX_FILE: u64 = 1 << 20;
/// Number of levels of users.
const LEVELS: usize = 4;

/// Limits of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most memory in bytes.
    pub memory: u64,
    /// Most processor time in seconds.
    pub processor_s: u64,
    /// Most seconds on the clock of a request, and of a job in real time.
    pub real_s: u64,
    /// Largest file that is written, in bytes.
    pub file_size: u64,
    /// Most processes and threads, where the server may make control groups.
    pub processes: u32,
}

/// Processor time of work in a place for short work, in seconds.
const SHORT_S: u64 = 1;
/// Time on the clock of work in such a place, in seconds.
///
/// The machine may have much else to do.
const SHORT_REAL_S: u64 = 10;

impl Limits {
    /// Returns the limits in a place for short work.
    pub(crate) fn of_short_work(self) -> Limits {
        let (processor_s, real_s) = (self.processor_s.min(SHORT_S), self.real_s.min(SHORT_REAL_S));
        Limits { processor_s, real_s, ..self }
    }
}

/// Limits of the work on a request, and of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OfLevel {
    pub(crate) request: Limits,
    pub(crate) job: Limits,
    pub(crate) reservation: Reserving,
}

/// Limits of the reservations of a user, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserving {
    /// Longest reservation.
    pub(crate) length_ms: i64,
    /// Farthest end from now.
    pub(crate) ahead_ms: i64,
    /// Longest time of all that are not over.
    pub(crate) sum_ms: i64,
}

impl Reserving {
    const fn of_days(length: i64, ahead: i64, sum: i64) -> Reserving {
        Reserving { length_ms: length * DAY_MS, ahead_ms: ahead * DAY_MS, sum_ms: sum * DAY_MS }
    }
}

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// Farthest end of a reservation, in days.
///
/// One that is over is kept for as long.
pub(crate) const MAX_AHEAD: i64 = 366;

/// Number of children that work on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Places {
    /// Most at a time.
    pub(crate) at_once: usize,
    /// Most of a user at a time.
    pub(crate) per_user: usize,
    /// Most of a user that wait.
    pub(crate) waiting: usize,
}

impl Default for Places {
    fn default() -> Places {
        Places { at_once: 4, per_user: 2, waiting: 8 }
    }
}

/// Limits of all children of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsFile {
    pub(crate) places: Places,
    levels: [OfLevel; LEVELS],
}

/// Error returned when a file of limits cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct LimitsError {
    file: PathBuf,
    why: String,
}

const MB: u64 = 1_000_000;
const GB: u64 = 1000 * MB;
const HOUR_S: u64 = 3600;

/// Limits of work on a request: checks of shipped scenarios take up to a tenth.
///
/// The limit is reported before 60 s of waiting end the request.
const REQUEST: Limits =
    Limits { memory: GB, processor_s: 20, real_s: 50, file_size: GB + GB / 4, processes: 64 };
/// Limits of a job at level 1.
///
/// Runs of shipped scenarios and studies take up to a tenth of the memory.
const JOB: Limits =
    Limits { memory: 4 * GB, processor_s: 24 * HOUR_S, real_s: 4 * HOUR_S, file_size: GB, processes: 512 };

impl Default for LimitsFile {
    fn default() -> LimitsFile {
        let visitor = Limits { memory: GB / 2, processor_s: 10, ..REQUEST };
        let of = |request, job, (length, ahead, sum)| {
            let reservation = Reserving::of_days(length, ahead, sum);
            OfLevel { request, job, reservation }
        };
        let few = (1, 14, 2);
        let trusted = Limits {
            memory: 8 * GB,
            processor_s: 72 * HOUR_S,
            real_s: 24 * HOUR_S,
            file_size: 2 * GB,
            ..JOB
        };
        LimitsFile {
            places: Places::default(),
            levels: [
                of(visitor, JOB, few),
                of(REQUEST, JOB, few),
                of(REQUEST, trusted, (7, 90, 21)),
                of(REQUEST, trusted, (7, MAX_AHEAD, MAX_AHEAD)),
            ],
        }
    }
}

impl LimitsFile {
    /// Reads a file, or the one of the data folder, if it is there.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or has a key or value that is not expected.
    pub fn read(file: Option<&Path>, data: &Path) -> Result<LimitsFile, LimitsError> {
        let path = file.map_or_else(|| data.join(NAME), Path::to_owned);
        if file.is_none() && !path.exists() {
            return Ok(LimitsFile::default());
        }
        let wrong = |why: String| LimitsError { file: path.clone(), why };
        let text = regular::text(&path, MAX_FILE).map_err(|error| wrong(error.to_string()))?;
        LimitsFile::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<LimitsFile, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())?;
        let mut limits = LimitsFile { places: written.requests, ..LimitsFile::default() };
        let Places { at_once, per_user, waiting } = limits.places;
        if [at_once, per_user].iter().any(|places| !(1..=1000).contains(places)) || waiting > 1000 {
            return Err(
                "requests: expected 1 to 1000 in `at_once` and `per_user`, and at most 1000 in `waiting`"
                    .to_owned(),
            );
        }
        let Levels { of_0, of_1, of_2, of_3 } = written.level;
        for (number, (level, changed)) in limits.levels.iter_mut().zip([of_0, of_1, of_2, of_3]).enumerate() {
            changed.request.apply(&mut level.request, &format!("level.{number}.request"))?;
            changed.job.apply(&mut level.job, &format!("level.{number}.job"))?;
            changed.reservation.apply(&mut level.reservation, &format!("level.{number}.reservation"))?;
        }
        Ok(limits)
    }

    /// Returns the limits of a level.
    pub(crate) fn of(&self, level: u8) -> OfLevel {
        self.levels[usize::from(level).min(LEVELS - 1)]
    }
}

/// File as it is written. Keys that are not there keep their defaults.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    requests: Places,
    level: Levels,
}

/// Levels, by their numbers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Levels {
    #[serde(rename = "0")]
    of_0: Changed,
    #[serde(rename = "1")]
    of_1: Changed,
    #[serde(rename = "2")]
    of_2: Changed,
    #[serde(rename = "3")]
    of_3: Changed,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Changed {
    request: ChangedLimits,
    job: ChangedLimits,
    reservation: ChangedReserving,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ChangedReserving {
    length: Option<Span>,
    ahead: Option<Span>,
    sum: Option<Span>,
}

impl ChangedReserving {
    fn apply(&self, limits: &mut Reserving, key: &str) -> Result<(), String> {
        let set = |ms: &mut i64, time: Option<Span>| {
            *ms = time.map_or(*ms, |time| (time.as_secs_f64() * 1e3).round() as i64);
        };
        set(&mut limits.length_ms, self.length);
        set(&mut limits.ahead_ms, self.ahead);
        set(&mut limits.sum_ms, self.sum);
        let Reserving { length_ms, ahead_ms, sum_ms } = *limits;
        let is_wrong = |ms: &i64| !(60_000..=MAX_AHEAD * DAY_MS).contains(ms);
        if [length_ms, ahead_ms, sum_ms].iter().any(is_wrong) || length_ms > ahead_ms {
            return Err(format!(
                "{key}: expected 1 min to {MAX_AHEAD} d of `length`, `ahead` and `sum`, and a `length` of at most `ahead`"
            ));
        }
        Ok(())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ChangedLimits {
    memory: Option<Bytes>,
    processor_time: Option<Span>,
    real_time: Option<Span>,
    file_size: Option<Bytes>,
    processes: Option<u32>,
}

/// Least memory with which the program starts.
const MIN_MEMORY: u64 = 32 * MB;

impl ChangedLimits {
    fn apply(&self, limits: &mut Limits, key: &str) -> Result<(), String> {
        limits.memory = self.memory.map_or(limits.memory, Bytes::get);
        limits.file_size = self.file_size.map_or(limits.file_size, Bytes::get);
        limits.processes = self.processes.unwrap_or(limits.processes);
        let seconds = |time: Span| time.as_secs_f64().ceil() as u64;
        limits.processor_s = self.processor_time.map_or(limits.processor_s, seconds);
        limits.real_s = self.real_time.map_or(limits.real_s, seconds);
        if limits.memory < MIN_MEMORY
            || [limits.processor_s, limits.real_s, limits.processes.into()].contains(&0)
        {
            return Err(format!(
                "{key}: expected at least {} MB of `memory`, 1 s of `processor_time` and `real_time`, and 1 in `processes`",
                MIN_MEMORY / MB
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_what_it_names() {
        let text = "[requests]\nper_user = 1\n[level.0.request]\nmemory = \"100 MB\"\n\
            [level.1.job]\nprocessor_time = \"1500 ms\"\nreal_time = \"2 min\"\n\
            [level.1.reservation]\nlength = \"4 h\"\n";
        let (read, default) = (LimitsFile::parse(text).expect("right"), LimitsFile::default());
        assert_eq!(read.places, Places { per_user: 1, ..Places::default() });
        assert_eq!(read.of(0).request, Limits { memory: 100 * MB, ..default.of(0).request });
        assert_eq!(read.of(1).job, Limits { processor_s: 2, real_s: 120, ..default.of(1).job });
        let reservation = read.of(1).reservation;
        assert_eq!(reservation, Reserving { length_ms: DAY_MS / 6, ..default.of(1).reservation });
        assert_eq!((read.of(2), read.of(9)), (default.of(2), default.of(3)));
        assert_eq!(LimitsFile::parse("").expect("right"), default);
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_key() {
        for (text, word) in [
            ("[level.4.job]", "4"),
            ("[level.1.reservation]\nlength = \"15 d\"", "level.1.reservation: expected 1 min to 366 d"),
            ("[level.1.job]\nmemory = 5", "unit"),
            ("[level.1.job]\nmemory = \"1 MB\"", "level.1.job"),
            ("[level.2.job]\nreal_time = \"0 s\"", "real_time"),
            ("[requests]\nat_once = 0", "at_once"),
            ("[request]", "request"),
        ] {
            let error = LimitsFile::parse(text).expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
