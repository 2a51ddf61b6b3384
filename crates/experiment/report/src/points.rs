//! Tables of all points of a sweep.

use std::collections::HashSet;

use bentpipe_record::{
    Averaged, Cell, MeasureName, PointSummary, Subject, SubjectKind, Table, group_of, subject_and_metric,
};

use super::page::Block;
use super::swept::SWEPT;
use super::tables::text;
use super::timed::without_kind;

/// Most measures in the table of those that matter.
const MAX_CHOSEN: usize = 12;

/// Most cells of the table of all measures: half a megabyte of page.
const MAX_CELLS: usize = 10_000;

/// Returns a row for each point: its settings, and the measures that matter.
///
/// Those are the measures that sweeps plot, of groups in place of their copies, if they differ between points.
pub(super) fn chosen(points: &[PointSummary]) -> Table {
    let measures: Vec<&str> =
        shown(&names(points)).into_iter().filter(|name| differs(name, points)).take(MAX_CHOSEN).collect();
    table(points, &measures)
}

/// Returns the measures that sweeps plot, of groups in place of their copies.
pub(super) fn shown<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let of = |measure: &'static str| names.iter().copied().filter(move |name| is_of(name, measure));
    let known: HashSet<&str> = names.iter().copied().collect();
    SWEPT.iter().flat_map(|(measure, _)| of(measure)).filter(|name| !is_of_copy(name, &known)).collect()
}

/// Returns all measures of all points, folded. Of more than fit the files have them.
pub(super) fn all(points: &[PointSummary]) -> Vec<Block> {
    let names = names(points);
    let content = if names.len() * points.len() <= MAX_CELLS {
        Block::Table(transposed(table(points, &names)))
    } else {
        let count = names.len();
        Block::Paragraph(format!(
            "{} points have {count} measures each, which are too many for a page: summary.csv has their means and intervals, \
             measures.csv each run's.",
            points.len()
        ))
    };
    vec![Block::Folded("All measures of all points".into(), vec![content])]
}

/// Returns the measures of all points, in the order of their first appearance.
fn names(points: &[PointSummary]) -> Vec<&str> {
    let all = points.iter().flat_map(|point| point.measures.keys().map(String::as_str));
    all.collect::<indexmap::IndexSet<&str>>().into_iter().collect()
}

/// Returns `true` if a measure has this name, also as the mean of a group.
fn is_of(name: &str, measure: &str) -> bool {
    let is_of_group = matches!(SubjectKind::of_name(name), Some((SubjectKind::Group, _)));
    let found = if is_of_group { MeasureName::of_mean(name) } else { subject_and_metric(name) };
    found.is_some_and(|(_, last)| last == measure)
}

/// Returns `true` if a measure is of a copy whose group has it too.
fn is_of_copy(name: &str, names: &HashSet<&str>) -> bool {
    let group = SubjectKind::of_name(name).and_then(|(_, thing)| group_of(thing));
    group.is_some_and(|group| names.contains(&*format!("{}.mean", Subject::Group(&group))))
}

/// Returns `true` if a measure is missing at some point, or not the same everywhere.
fn differs(name: &str, points: &[PointSummary]) -> bool {
    let mean = |point: &PointSummary| point.measures.get(name).map(|averaged| averaged.estimate.mean);
    points.iter().any(|point| mean(point) != mean(&points[0]))
}

/// Returns a row for each point: its settings and the measures.
fn table(points: &[PointSummary], measures: &[&str]) -> Table {
    let row = |point: &PointSummary| {
        let set = point.settings.values().map(|value| Cell::Text(value.clone()));
        let value = |name: &&str| point.measures.get(*name).map(|averaged: &Averaged| text(averaged));
        set.chain(measures.iter().map(|name| Cell::Number(value(name).unwrap_or_default()))).collect()
    };
    let settings = points.first().into_iter().flat_map(|point| point.settings.keys().cloned());
    let head = settings.chain(measures.iter().map(|name| short(name))).collect();
    Table { caption: String::new(), head, rows: points.iter().map(row).collect() }
}

/// Returns the title of a measure's column: "download: goodput".
pub(super) fn short(name: &str) -> String {
    let own = || subject_and_metric(without_kind(name)).map(|(of, what)| format!("{of}: {what}"));
    let of_group = MeasureName::of_mean(name).map(|(of, what)| format!("{of}, mean: {what}"));
    of_group.or_else(own).unwrap_or_else(|| name.to_owned())
}

/// Returns the table with rows as columns: points are few, measures are many.
fn transposed(table: Table) -> Table {
    let first = |row: &Vec<Cell>| row.first().map_or("", Cell::text).to_owned();
    let head = table.head.first().into_iter().cloned().chain(table.rows.iter().map(first)).collect();
    let row = |(column, title): (usize, &String)| {
        let cells = table.rows.iter().map(|row| row[column].clone());
        [Cell::Text(title.clone())].into_iter().chain(cells).collect()
    };
    Table { caption: table.caption, head, rows: table.head.iter().enumerate().skip(1).map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(rate: &str, values: &[(&str, f64)]) -> PointSummary {
        let measures = values.iter().map(|(name, value)| {
            format!("\"{name}\": {{\"unit\": \"count\", \"n\": 1, \"mean\": {value:?}, \"ci95\": null}}")
        });
        let json = format!(
            "{{\"settings\": {{\"rate\": \"{rate}\"}}, \"seeds\": [1], \"fingerprints\": [\"\"], \"measures\": {{{}}}}}",
            measures.collect::<Vec<_>>().join(",")
        );
        serde_json::from_str(&json).expect("a point")
    }

    #[test]
    fn measures_that_differ_are_shown_and_all_on_request() {
        let of = |rate, mos, r| {
            point(
                rate,
                &[
                    ("flow.calls.mos", mos),
                    ("flow.calls.r", r),
                    ("flow.calls.late", mos),
                    ("flow.web.1.goodput", mos),
                    ("group.web.goodput.mean", mos),
                    ("group.web.goodput.p5", mos),
                    ("link.a.forward.utilisation", 0.5),
                ],
            )
        };
        let points = [of("1 Mbit/s", 4.0, 80.0), of("2 Mbit/s", 3.0, 60.0)];
        assert_eq!(chosen(&points).head, ["rate", "web, mean: goodput", "calls: mos", "calls: r"]);
        let [Block::Folded(_, content)] = &all(&points)[..] else { panic!("folded") };
        let [Block::Table(table)] = &content[..] else { panic!("a table") };
        assert_eq!(table.head, ["rate", "1 Mbit/s", "2 Mbit/s"]);
        assert_eq!((table.rows.len(), table.rows[2][0].text()), (7, "calls: late"));
        assert!(table.rows[6][1].text().starts_with("0.5") && table.rows[1][2].text().starts_with("60"));
    }
}
