//! Changes of a line's delay: read from files, and spread into ramps.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::link::DelayChange;
use bentpipe_scenario::{Access, DelayChanges, MAX_DELAY};
use bentpipe_units::Span;

/// The longest file.
const MAX_BYTES: u64 = 64 << 20;

/// The most changes of one direction, steps of ramps counted.
const MAX_CHANGES: usize = 1_000_000;

/// The most changes of all lines of a scenario. Those that lines have in common count once.
const MAX_ALL: usize = 4_000_000;

/// Key of the changes, and their problem.
type Wrong = (&'static str, String);

/// Changes of the delays of a scenario's lines. Each file is read once.
///
/// Equal changes are one table.
#[derive(Clone, Debug, Default)]
pub struct DelayTables(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    /// Changes in files.
    files: HashMap<PathBuf, Arc<[DelayChange]>>,
    /// Changes of lines by a hash of their settings.
    of: HashMap<u64, Vec<Table>>,
    /// Number of changes in all tables.
    rows: usize,
}

/// Changes of lines with their settings.
#[derive(Debug)]
struct Table {
    of: DelayChanges,
    /// First delay, where there is a ramp.
    first: Option<Span>,
    all: Arc<[DelayChange]>,
}

impl DelayTables {
    /// Returns the changes of a line that has `delay` first.
    ///
    /// # Errors
    /// Returns the key of the changes, and the problem.
    pub fn of(
        &self,
        changes: &DelayChanges,
        delay: Span,
        access: &Access,
    ) -> Result<Arc<[DelayChange]>, (&'static str, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).of(changes, delay, access)
    }
}

impl Tables {
    fn of(
        &mut self,
        changes: &DelayChanges,
        delay: Span,
        access: &Access,
    ) -> Result<Arc<[DelayChange]>, Wrong> {
        let first = changes.ramp.map(|_| delay);
        let mut hasher = DefaultHasher::new();
        (&changes.file, changes.ramp, first).hash(&mut hasher);
        changes.points.iter().for_each(|point| (point.at, point.delay).hash(&mut hasher));
        let key = hasher.finish();
        let is_same = |known: &&Table| known.first == first && known.of == *changes;
        if let Some(known) = self.of.get(&key).and_then(|all| all.iter().find(is_same)) {
            return Ok(Arc::clone(&known.all));
        }
        let all = self.load(changes, delay, access)?;
        let table = Table { of: changes.clone(), first, all: Arc::clone(&all) };
        self.of.entry(key).or_default().push(table);
        Ok(all)
    }

    fn load(
        &mut self,
        changes: &DelayChanges,
        delay: Span,
        access: &Access,
    ) -> Result<Arc<[DelayChange]>, Wrong> {
        let (key, points) = match (&changes.file, &changes.points[..]) {
            (Some(file), []) => ("file", self.file(file, access)?),
            (None, points @ [_, ..]) => ("points", self.counted(points.to_vec(), "points")?),
            (None, []) => return Err(("file", "expected one of `file` and `points`".into())),
            (Some(_), _) => return Err(("file", "expected one of `file` and `points`, not both".into())),
        };
        if let Some(wrong) = points.windows(2).find(|pair| pair[0].at >= pair[1].at) {
            return Err((key, format!("{} after {}: expected times that rise", wrong[1].at, wrong[0].at)));
        }
        if points.iter().any(|point| point.delay > MAX_DELAY) {
            return Err((key, format!("a delay longer than {MAX_DELAY}")));
        }
        let Some(step) = changes.ramp else { return Ok(points) };
        if step.is_zero() {
            return Err(("ramp", "expected more than no time".into()));
        }
        let steps = ramps(delay, &points, step);
        let steps = steps
            .ok_or_else(|| ("ramp", format!("more than {MAX_CHANGES} steps: expected a longer time")))?;
        self.counted(steps, "ramp")
    }

    /// Returns the changes of a file, which is read once.
    fn file(&mut self, file: &Path, access: &Access) -> Result<Arc<[DelayChange]>, Wrong> {
        if let Some(known) = self.files.get(file) {
            return Ok(Arc::clone(known));
        }
        let read = self.counted(read(file, access).map_err(|problem| ("file", problem))?, "file")?;
        self.files.insert(file.to_owned(), Arc::clone(&read));
        Ok(read)
    }

    /// Returns changes as a table, unless all are too many.
    fn counted(&mut self, changes: Vec<DelayChange>, key: &'static str) -> Result<Arc<[DelayChange]>, Wrong> {
        self.rows += changes.len();
        if self.rows > MAX_ALL {
            let problem = format!(
                "the changes of all lines are more than {MAX_ALL}, equal ones counted once: expected fewer, or files in common"
            );
            return Err((key, problem));
        }
        Ok(changes.into())
    }
}

/// Returns steps from each value to the next; `None` if there are too many.
fn ramps(delay: Span, points: &[DelayChange], step: Span) -> Option<Vec<DelayChange>> {
    let mut from = DelayChange { at: Span::ZERO, delay };
    let mut all = Vec::new();
    for to in points {
        let steps = (to.at - from.at).as_nanos().div_ceil(step.as_nanos());
        if all.len() as u64 + steps > MAX_CHANGES as u64 {
            return None;
        }
        let between = (1..steps).map(|n| at(from, *to, from.at + step * n));
        all.extend(between.chain([*to]));
        from = *to;
    }
    Some(all)
}

/// Returns the linearly interpolated value at `at`.
fn at(from: DelayChange, to: DelayChange, at: Span) -> DelayChange {
    let (part, whole) = ((at - from.at).as_nanos(), (to.at - from.at).as_nanos().max(1));
    let (low, high) = (from.delay.as_nanos(), to.delay.as_nanos());
    let way = (u128::from(low.abs_diff(high)) * u128::from(part) / u128::from(whole)) as u64;
    let delay = Span::from_nanos(if high >= low { low + way } else { low - way });
    DelayChange { at, delay }
}

/// Reads a file of changes.
fn read(file: &Path, access: &Access) -> Result<Vec<DelayChange>, String> {
    let shown = access.shown(file);
    let said = |error: std::io::Error| format!("{shown}: {error}");
    let text = access.read_at_most(file, MAX_BYTES).map_err(said)?;
    let text = String::from_utf8(text).map_err(|_| format!("{shown}: expected text in UTF-8"))?;
    parse(&text).map_err(|(line, problem)| format!("{shown}:{line}: {problem}"))
}

/// A column by its place and the unit that the head gives it.
#[derive(Clone, Copy)]
struct Column<'a> {
    name: &'a str,
    place: usize,
    unit: Option<&'a str>,
}

/// Parses the changes in a file's text.
///
/// # Errors
/// Returns the line number, from one, and the problem.
pub fn parse(text: &str) -> Result<Vec<DelayChange>, (usize, String)> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (number, head) = lines.next().ok_or((1, NO_HEAD.to_owned()))?;
    let (time, delay) = columns(head).ok_or((number, NO_HEAD.to_owned()))?;
    let mut changes: Vec<DelayChange> = Vec::new();
    for (number, line) in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let value = |column| cell(&cells, column).map_err(|problem| (number, problem));
        let change = DelayChange { at: value(time)?, delay: value(delay)? };
        if changes.last().is_some_and(|last| last.at >= change.at) {
            return Err((
                number,
                format!("{} is not after the line before: expected times that rise", change.at),
            ));
        }
        if changes.len() == MAX_CHANGES {
            return Err((number, format!("more than {MAX_CHANGES} changes")));
        }
        changes.push(change);
    }
    if changes.is_empty() { Err((number, "no change in it".into())) } else { Ok(changes) }
}

const NO_HEAD: &str =
    "expected a head with columns `time` and `delay`, or with units as in `time_s,delay_ms`";

fn columns(head: &str) -> Option<(Column<'_>, Column<'_>)> {
    let column = |name| {
        head.split(',').map(str::trim).enumerate().find_map(|(place, title)| {
            let rest = title.strip_prefix(name)?;
            let unit = if rest.is_empty() { None } else { Some(rest.strip_prefix('_')?) };
            let is_known = unit.is_none_or(|unit| ["s", "ms", "us", "ns"].contains(&unit));
            is_known.then_some(Column { name, place, unit })
        })
    };
    Some((column("time")?, column("delay")?))
}

fn cell(cells: &[&str], column: Column<'_>) -> Result<Span, String> {
    let Column { name, place, unit } = column;
    let text = cells.get(place).copied().unwrap_or_default();
    let parsed = match unit {
        Some(unit) => Span::from_str(&format!("{text} {unit}")),
        None => Span::from_str(text),
    };
    parsed.map_err(|error| {
        let expected = unit.map_or(r#"as in "31 ms""#.to_owned(), |unit| format!("a number of {unit}"));
        format!("{name} \"{}\": {error}; expected {expected}", text.chars().take(40).collect::<String>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(at: u64, delay: u64) -> DelayChange {
        DelayChange { at: Span::from_millis(at), delay: Span::from_millis(delay) }
    }

    #[test]
    fn columns_go_by_their_names_and_units() {
        let expected = vec![ms(0, 20), ms(1500, 31)];
        assert_eq!(parse("time,delay\n0 s,20 ms\n1.5 s, 31 ms\n"), Ok(expected.clone()));
        let other = "# a pass\n\nelevation,delay_ms,time_s\n10,20,0\n# later\n12,31.0,1.5";
        assert_eq!(parse(other), Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, word) in [
            ("", 1, "expected a head"),
            ("0,20\n", 1, "expected a head"),
            ("time,delay_km\n", 1, "expected a head"),
            ("time,delay\n", 1, "no change in it"),
            ("time,delay\n1 s\n", 2, "delay \"\""),
            ("time,delay\n0 s,20 ms\n\n1 s,20\n", 4, "expected as in \"31 ms\""),
            ("time_s,delay_ms\n0,20\n0,21\n", 3, "times that rise"),
            ("time_s,delay_ms\n-1,20\n", 2, "a number of s"),
        ] {
            let (at, problem) = parse(text).expect_err(text);
            assert!(at == line && problem.contains(word), "{text:?}: {at}: {problem}");
        }
    }

    #[test]
    fn ramps_are_straight_and_end_where_they_should() {
        let from = Span::from_millis(10);
        let up = ramps(from, &[ms(40, 50)], Span::from_millis(10)).expect("few");
        assert_eq!(up, [ms(10, 20), ms(20, 30), ms(30, 40), ms(40, 50)]);
        let down = ramps(from, &[ms(0, 50), ms(25, 0)], Span::from_millis(10)).expect("few");
        assert_eq!(down, [ms(0, 50), ms(10, 30), ms(20, 10), ms(25, 0)]);
        assert_eq!(ramps(from, &[ms(10_000_000, 1)], Span::from_nanos(1)), None);
    }

    #[test]
    fn a_file_or_points_and_not_both() {
        let load = |changes: &DelayChanges, delay, access: &Access| {
            DelayTables::default().of(changes, delay, access).map(|all| all.to_vec())
        };
        let access = &Access::default();
        let points = DelayChanges { points: vec![ms(1, 2)], ..DelayChanges::default() };
        assert_eq!(load(&points, Span::ZERO, access), Ok(vec![ms(1, 2)]));
        let both = DelayChanges { file: Some("a.csv".into()), ..points.clone() };
        assert_eq!(load(&both, Span::ZERO, access).expect_err("both").0, "file");
        assert_eq!(load(&DelayChanges::default(), Span::ZERO, access).expect_err("none").0, "file");
        let back = DelayChanges { points: vec![ms(2, 1), ms(1, 1)], ..DelayChanges::default() };
        let (key, problem) = load(&back, Span::ZERO, access).expect_err("back in time");
        assert_eq!((key, &problem[..]), ("points", "1 ms after 2 ms: expected times that rise"));
        for step in [Span::ZERO, Span::from_nanos(1)] {
            let points = vec![ms(1, 2), ms(2, 3)];
            let fine = DelayChanges { ramp: Some(step), points, ..DelayChanges::default() };
            assert_eq!(load(&fine, Span::ZERO, access).expect_err("too many").0, "ramp");
        }
    }

    #[test]
    fn a_file_is_read_once_and_lines_have_it_in_common() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "time_s,delay_ms\n0,20\n1,30\n").expect("written");
        let access = &Access::beneath(folder.path()).expect("a folder");
        let (tables, own) = (DelayTables::default(), DelayChanges::default());
        let file = DelayChanges { file: Some("a.csv".into()), ..own.clone() };
        let first = tables.of(&file, Span::ZERO, access).expect("two changes");
        std::fs::remove_file(&path).expect("removed");
        // Where there is no ramp, the first delay changes nothing.
        let again = tables.of(&file, Span::from_millis(3), access).expect("it is known");
        assert!(Arc::ptr_eq(&first, &again));
        let ramp = DelayChanges { ramp: Some(Span::from_millis(500)), ..file.clone() };
        let [one, other] = [10, 40].map(|ms| tables.of(&ramp, Span::from_millis(ms), access).expect("known"));
        assert!(one.len() == 3 && one[1].delay == Span::from_millis(25) && one == other);
        let points = DelayChanges { points: vec![ms(1, 2)], ..own };
        let [one, other] = [0, 1].map(|ms| tables.of(&points, Span::from_millis(ms), access).expect("one"));
        assert!(Arc::ptr_eq(&one, &other) && tables.of(&points, Span::ZERO, access).is_ok());
    }

    #[test]
    fn all_changes_together_are_bounded() {
        let (tables, access) = (DelayTables::default(), &Access::default());
        let last = MAX_CHANGES as u64 - 1;
        let of = |n: u64| {
            let points = vec![ms(0, n), DelayChange { at: Span::from_nanos(last), delay: Span::ZERO }];
            let changes = DelayChanges { points, ramp: Some(Span::from_nanos(1)), ..DelayChanges::default() };
            tables.of(&changes, Span::ZERO, access)
        };
        let few = (MAX_ALL / MAX_CHANGES) as u64;
        assert!((0..few - 1).all(|n| of(n).is_ok()), "those fit");
        assert!(of(0).is_ok(), "equal ones count once");
        let (key, problem) = [of(few), of(few + 1)].into_iter().find_map(Result::err).expect("too many");
        assert!(key == "ramp" && problem.contains("4000000"), "{problem}");
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,80}", rows in "[0-9 ,.smu\n#-]{0,200}") {
            let _ = parse(&text);
            if let Ok(changes) = parse(&format!("time_s,delay_ms\n{rows}")) {
                prop_assert!(changes.windows(2).all(|pair| pair[0].at < pair[1].at));
            }
        }
    }
}
