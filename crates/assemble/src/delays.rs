//! Changes of a line's delay: read from files, and spread into ramps.

use std::path::Path;
use std::str::FromStr;

use bentpipe_net::link::DelayChange;
use bentpipe_scenario::{Access, DelayChanges, MAX_DELAY};
use bentpipe_units::Span;

/// The longest file.
const MAX_BYTES: u64 = 64 << 20;

/// The most changes of one direction, steps of ramps counted.
const MAX_CHANGES: usize = 1_000_000;

/// Loads the changes of a line that has `delay` first.
///
/// # Errors
/// Returns the key of the changes, and the problem.
pub(super) fn load(
    changes: &DelayChanges,
    delay: Span,
    access: &Access,
) -> Result<Vec<DelayChange>, (&'static str, String)> {
    let (key, points) = match (&changes.file, &changes.points[..]) {
        (Some(file), []) => ("file", read(file, access).map_err(|problem| ("file", problem))?),
        (None, points @ [_, ..]) => ("points", points.to_vec()),
        (None, []) => return Err(("file", "expected one of `file` and `points`".into())),
        (Some(_), _) => return Err(("file", "expected one of `file` and `points`, not both".into())),
    };
    if let Some(wrong) = points.windows(2).find(|pair| pair[0].at >= pair[1].at) {
        return Err((key, format!("{} after {}: expected times that rise", wrong[1].at, wrong[0].at)));
    }
    if points.iter().any(|point| point.delay > MAX_DELAY) {
        return Err((key, format!("a delay longer than {MAX_DELAY}")));
    }
    if changes.ramp.is_some_and(Span::is_zero) {
        return Err(("ramp", "expected more than no time".into()));
    }
    let all = changes.ramp.map_or(Some(points.clone()), |step| ramps(delay, &points, step));
    match all {
        Some(all) if all.len() <= MAX_CHANGES => Ok(all),
        _ => Err(("ramp", format!("more than {MAX_CHANGES} steps: expected a longer time"))),
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
