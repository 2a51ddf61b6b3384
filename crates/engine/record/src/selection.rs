//! Series of all runs of a folder of results, chosen by pattern, as one table.
//!
//! Rows have the point, its settings and the seed in front. The long form has a row for each sample of each metric, the wide form one
//! for each instant of a run with a column for each metric. Columns that have one value in all runs are left out unless asked for.

use std::io::{self, Write};
use std::path::Path;

use indexmap::{IndexMap, IndexSet};

use super::results_folder::{RunFolder, runs};
use super::stats::{jain, quantile};
use super::{Column, Data, Frame, FrameColumn, Series, quoted, read_series};

/// Form of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Row for each sample of each metric.
    Long,
    /// Row for each instant of a run.
    Wide,
}

/// Selection of columns by patterns.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Patterns of "SUBJECT.METRIC", of which one has to match. `*` stands for any characters. Empty: all.
    pub patterns: Vec<String>,
    /// Set to keep columns that have one value in all runs.
    pub keeps_constant: bool,
}

/// Error returned when series cannot be selected.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// Files of the folder cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// No column is left.
    #[error("no series matches {0}")]
    NoMatch(String),
    /// Columns that match have one value in all runs.
    #[error("all {0} series that match have one value; `--constant` keeps them")]
    OnlyConstant(usize),
}

/// Series of a run with the identity of the run.
#[derive(Debug)]
struct Of {
    run: RunFolder,
    series: Series,
}

impl Of {
    fn seconds(&self, row: usize) -> f64 {
        self.series.times[row].as_secs_f64()
    }

    fn by_title(&self) -> IndexMap<String, &Column> {
        self.series.columns.iter().map(|column| (column.title(), column)).collect()
    }
}

/// Selected series of all runs of a folder.
#[derive(Debug)]
pub struct Selected {
    runs: Vec<Of>,
    /// Titles of the columns that are kept: "flow.cubic.sender.cwnd [B]".
    titles: IndexSet<String>,
}

impl Selection {
    /// Returns `true` if the selection has this column.
    fn has(&self, subject: &str, metric: &str) -> bool {
        let name = format!("{subject}.{metric}");
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| matches(pattern, &name))
    }

    /// Reads the selected series of all runs in a folder of results.
    ///
    /// # Errors
    /// Returns an error if the folder has no readable results, or nothing matches.
    pub fn read(&self, folder: &Path) -> Result<Selected, SelectionError> {
        let found = runs(folder).map_err(SelectionError::Unreadable)?;
        let read = |run: RunFolder| {
            let series = read_series(&run.path, |subject, metric| self.has(subject, &metric.name));
            let series = series
                .map_err(|error| SelectionError::Unreadable(format!("{}: {error}", run.path.display())))?;
            Ok(Of { run, series })
        };
        let runs = found.into_iter().map(read).collect::<Result<Vec<Of>, SelectionError>>()?;
        let all = values(&runs);
        if all.is_empty() {
            return Err(SelectionError::NoMatch(self.patterns.join(", ")));
        }
        let count = all.len();
        let kept = all.into_iter().filter(|(_, value)| self.keeps_constant || value.is_none());
        let titles: IndexSet<String> = kept.map(|(title, _)| title).collect();
        if titles.is_empty() {
            Err(SelectionError::OnlyConstant(count))
        } else {
            Ok(Selected { runs, titles })
        }
    }
}

/// Returns the titles of all columns, with the values of constant ones.
fn values(runs: &[Of]) -> IndexMap<String, Option<u64>> {
    let mut values: IndexMap<String, Option<u64>> = IndexMap::new();
    for column in runs.iter().flat_map(|of| &of.series.columns) {
        let first = (!column.data.is_empty()).then(|| column.data.at(0).as_f64().to_bits());
        let own = first.filter(|_| column.data.is_constant());
        let known = values.entry(column.title()).or_insert(own);
        if *known != own {
            *known = None;
        }
    }
    values
}

impl Selected {
    /// Returns the table with typed columns.
    pub fn frame(&self, form: Form) -> Frame {
        match form {
            Form::Long => self.long_frame(),
            Form::Wide => self.wide_frame(),
        }
    }

    fn long_frame(&self) -> Frame {
        let kept = |of: &'_ Of| -> Vec<usize> {
            let columns = of.series.columns.iter().enumerate();
            columns.filter(|(_, column)| self.titles.contains(&column.title())).map(|(n, _)| n).collect()
        };
        let cells: Vec<(&Of, &Column, usize)> = self
            .runs
            .iter()
            .flat_map(|of| {
                let columns = kept(of).into_iter().map(move |n| &of.series.columns[n]);
                columns.flat_map(move |column| (0..of.series.times.len()).map(move |row| (of, column, row)))
            })
            .collect();
        let mut columns = self.front(cells.iter().map(|(of, ..)| *of));
        columns.extend([
            FrameColumn::numbers("time_s", "s", cells.iter().map(|(of, _, row)| of.seconds(*row))),
            FrameColumn::texts("subject", cells.iter().map(|(_, column, _)| &column.element)),
            FrameColumn::texts("metric", cells.iter().map(|(_, column, _)| column.name())),
            FrameColumn::texts("unit", cells.iter().map(|(_, column, _)| column.unit().symbol())),
            FrameColumn::numbers(
                "value",
                "",
                cells.iter().map(|(_, column, row)| column.data.at(*row).as_f64()),
            ),
        ]);
        Frame { columns }
    }

    fn wide_frame(&self) -> Frame {
        let rows = || self.runs.iter().flat_map(|of| (0..of.series.times.len()).map(move |row| (of, row)));
        let mut columns = self.front(rows().map(|(of, _)| of));
        columns.push(FrameColumn::numbers("time_s", "s", rows().map(|(of, row)| of.seconds(row))));
        let number = |column: Option<&Column>, row| column.map_or(f64::NAN, |it| it.data.at(row).as_f64());
        let own: Vec<IndexMap<String, &Column>> = self.runs.iter().map(Of::by_title).collect();
        for title in &self.titles {
            let of_runs = self.runs.iter().zip(&own).map(|(of, own)| (of, own.get(title).copied()));
            let unit = of_runs.clone().find_map(|(_, column)| Some(column?.unit().symbol()));
            let values = of_runs
                .flat_map(|(of, column)| (0..of.series.times.len()).map(move |row| number(column, row)));
            columns.push(FrameColumn::numbers(title, unit.unwrap_or_default(), values));
        }
        Frame { columns }
    }

    /// Returns quantiles of each series over the seeds of a point, at each common instant.
    ///
    /// A column is titled "p95 of flow.cubic.sender.cwnd [B]".
    pub fn quantiles(&self, shares: &[f64]) -> Frame {
        let mut points: IndexMap<usize, Vec<usize>> = IndexMap::new();
        for (number, of) in self.runs.iter().enumerate() {
            points.entry(of.run.point).or_default().push(number);
        }
        let rows: Vec<(&[usize], usize)> = points
            .values()
            .flat_map(|numbers| (0..self.common_rows(numbers)).map(move |row| (&numbers[..], row)))
            .collect();
        let first = |numbers: &[usize]| &self.runs[numbers[0]];
        let mut columns = self.front(rows.iter().map(|(numbers, _)| first(numbers)));
        columns.retain(|column| column.title != "seed");
        columns.extend([
            FrameColumn::integers("seeds", rows.iter().map(|(numbers, _)| numbers.len() as u64)),
            FrameColumn::numbers(
                "time_s",
                "s",
                rows.iter().map(|(numbers, row)| first(numbers).seconds(*row)),
            ),
        ]);
        let own: Vec<IndexMap<String, &Column>> = self.runs.iter().map(Of::by_title).collect();
        for title in &self.titles {
            let own: Vec<Option<&Column>> = own.iter().map(|columns| columns.get(title).copied()).collect();
            let unit =
                own.iter().find_map(|column| Some(column.as_ref()?.unit().symbol())).unwrap_or_default();
            let sorted: Vec<Vec<f64>> =
                rows.iter().map(|(numbers, row)| sorted(&own, numbers, *row)).collect();
            columns.extend(shares.iter().map(|&share| {
                let values = sorted.iter().map(|values| quantile(values, share).unwrap_or(f64::NAN));
                FrameColumn::numbers(&format!("p{} of {title}", share * 100.0), unit, values)
            }));
        }
        Frame { columns }
    }

    /// Returns Jain's index over the selected series at each instant of each run.
    ///
    /// `flows` is the number of flows with a share. The shares are the values of gauges, and what counters gained since the instant before.
    pub fn fairness(&self) -> Frame {
        let mut rows = Vec::new();
        for of in &self.runs {
            let kept: Vec<&Column> =
                of.series.columns.iter().filter(|column| self.titles.contains(&column.title())).collect();
            rows.extend((0..of.series.times.len()).map(|row| {
                let shares: Vec<f64> = kept.iter().map(|column| share(column, row)).collect();
                let flows = shares.iter().filter(|share| **share > 0.0).count() as u64;
                (of, of.seconds(row), flows, jain(shares.into_iter()).unwrap_or(f64::NAN))
            }));
        }
        let mut columns = self.front(rows.iter().map(|(of, ..)| *of));
        columns.extend([
            FrameColumn::numbers("time_s", "s", rows.iter().map(|row| row.1)),
            FrameColumn::integers("flows", rows.iter().map(|row| row.2)),
            FrameColumn::numbers("fairness", "", rows.iter().map(|row| row.3)),
        ]);
        Frame { columns }
    }

    /// Returns the number of instants from the start that these runs have in common.
    fn common_rows(&self, numbers: &[usize]) -> usize {
        let times = |number: &usize| &self.runs[*number].series.times;
        let Some(first) = numbers.first().map(times) else { return 0 };
        let is_common = |row: &usize| numbers.iter().all(|number| times(number).get(*row) == first.get(*row));
        (0..first.len()).take_while(is_common).count()
    }

    /// Returns the first columns of rows that belong to these runs: point, settings and seed.
    fn front<'a>(&self, runs: impl Iterator<Item = &'a Of> + Clone) -> Vec<FrameColumn> {
        let keys = self.runs.first().into_iter().flat_map(|of| of.run.settings.keys());
        let mut columns = vec![FrameColumn::integers("point", runs.clone().map(|of| of.run.point as u64))];
        columns.extend(keys.map(|key| {
            let value = |of: &'a Of| of.run.settings.get(key).map_or("", |value| value);
            FrameColumn::texts(key, runs.clone().map(value))
        }));
        columns.push(FrameColumn::integers("seed", runs.map(|of| of.run.seed)));
        columns
    }

    /// Writes the table as CSV. Numbers have all their digits; NaN is an empty field.
    ///
    /// # Errors
    /// As `out` gives.
    pub fn write_csv(&self, form: Form, out: &mut impl Write) -> io::Result<()> {
        let keys = self.runs.first().into_iter().flat_map(|of| of.run.settings.keys());
        let keys: String = keys.map(|key| quoted(key) + ",").collect();
        write!(out, "point,{keys}seed,time_s")?;
        match form {
            Form::Long => writeln!(out, ",subject,metric,unit,value")?,
            Form::Wide => {
                self.titles.iter().try_for_each(|title| write!(out, ",{}", quoted(title)))?;
                writeln!(out)?;
            }
        }
        for of in &self.runs {
            match form {
                Form::Long => self.write_long(of, out)?,
                Form::Wide => self.write_wide(of, out)?,
            }
        }
        Ok(())
    }

    fn write_long(&self, of: &Of, out: &mut impl Write) -> io::Result<()> {
        let front = of.run.front();
        for column in of.series.columns.iter().filter(|column| self.titles.contains(&column.title())) {
            let named =
                format!("{},{},{}", quoted(&column.element), quoted(column.name()), column.unit().symbol());
            for (row, time) in of.series.times.iter().enumerate() {
                writeln!(out, "{front}{},{named},{}", time.as_secs_f64(), cell(column, row))?;
            }
        }
        Ok(())
    }

    fn write_wide(&self, of: &Of, out: &mut impl Write) -> io::Result<()> {
        let own = of.by_title();
        let columns: Vec<Option<&Column>> = self.titles.iter().map(|title| own.get(title).copied()).collect();
        let front = of.run.front();
        for (row, time) in of.series.times.iter().enumerate() {
            write!(out, "{front}{}", time.as_secs_f64())?;
            for column in &columns {
                write!(out, ",{}", column.map(|column| cell(column, row)).unwrap_or_default())?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// Returns the value of a gauge, or the gain of a counter.
///
/// NaN at the first instant of a counter.
fn share(column: &Column, row: usize) -> f64 {
    let at = |row| column.data.at(row).as_f64();
    match &column.data {
        Data::Gauge(_) => at(row),
        Data::Counter(_) => row.checked_sub(1).map_or(f64::NAN, |before| at(row) - at(before)),
    }
}

/// Returns the values of some runs at a row in rising order, NaN left out.
fn sorted(columns: &[Option<&Column>], numbers: &[usize], row: usize) -> Vec<f64> {
    let values = numbers.iter().filter_map(|number| Some(columns[*number]?.data.at(row).as_f64()));
    let mut values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns a sample with all its digits.
fn cell(column: &Column, row: usize) -> String {
    let value = column.data.at(row).as_f64();
    if value.is_nan() { String::new() } else { value.to_string() }
}

/// Returns `true` if a pattern names a measure; `*` stands for any text.
///
/// The other direction of a call, `flow.NAME.back`, is matched by a pattern that names it.
pub fn is_measure_of(pattern: &str, measure: &str) -> bool {
    let names_back = |name: &str| name.split('.').any(|part| part == "back");
    matches(pattern, measure) && (names_back(pattern) || !names_back(measure))
}

/// Returns `true` if a text matches a pattern, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bentpipe_net::Unit;
    use bentpipe_net::metric::Kind;
    use bentpipe_units::Time;

    use super::*;
    use crate::{Declaration, Declared};

    #[test]
    fn a_star_does_not_stand_for_the_other_direction() {
        assert!(is_measure_of("flow.*.r", "flow.calls.12.r") && is_measure_of("*", "x"));
        assert!(!is_measure_of("flow.calls.*.r", "flow.calls.12.back.r"));
        assert!(is_measure_of("flow.calls.*.back.r", "flow.calls.12.back.r"));
        assert!(!is_measure_of("flow.*.loss", "flow.call.loss-p95") && !is_measure_of("a*b*c", "ab"));
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, text) in
            [("flow.*.cwnd", "flow.a.1.sender.cwnd"), ("*", ""), ("a*b*c", "abbc"), ("a", "a"), ("*x", "xx")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("flow.*.cwnd", "flow.a.cwnd-x"), ("a*b*c", "acb"), ("a", "ab"), ("a*a", "a")]
        {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    fn of(seed: u64, columns: &[(&str, [f64; 2])]) -> Of {
        let column = |(n, (element, values)): (usize, &(&str, [f64; 2]))| Column {
            part: n as u32,
            element: (*element).into(),
            metric: Declared::Read(Arc::new(Declaration {
                name: "cwnd".into(),
                unit: Unit::Bytes,
                kind: Kind::Gauge,
                label: String::new(),
                draw: None,
                measures: Vec::new(),
                once: Vec::new(),
                of: Vec::new(),
            })),
            data: Data::Gauge(values.to_vec()),
        };
        let settings = [("rate".to_owned(), "1 Mbit/s, or so".to_owned())].into_iter().collect();
        let run = RunFolder { path: "".into(), point: 0, settings, seed };
        let times = vec![Time::ZERO, Time::from_nanos(100_000_000)];
        Of {
            run,
            series: Series { times, columns: columns.iter().enumerate().map(column).collect(), starts: None },
        }
    }

    #[test]
    fn quantiles_are_over_the_seeds_of_a_point() {
        let runs = vec![of(1, &[("flow.a", [1.0, 0.0])]), of(2, &[("flow.a", [3.0, f64::NAN])])];
        let selected = Selected { titles: values(&runs).into_keys().collect(), runs };
        let mut csv = Vec::new();
        selected.quantiles(&[0.25, 1.0]).write_csv(&mut csv).expect("memory");
        let expected = "point,rate,seeds,time_s,p25 of flow.a.cwnd [B],p100 of flow.a.cwnd [B]\n\
                        0,\"1 Mbit/s, or so\",2,0,1.5,3\n0,\"1 Mbit/s, or so\",2,0.1,0,0\n";
        assert_eq!(String::from_utf8_lossy(&csv), expected);
    }

    #[test]
    fn fairness_is_over_the_flows_at_an_instant() {
        let runs =
            vec![of(4, &[("flow.a", [1.0, 2.0]), ("flow.b", [1.0, 0.0]), ("flow.c", [f64::NAN, 0.0])])];
        let mut selected = Selected { titles: values(&runs).into_keys().collect(), runs };
        let csv = |selected: &Selected| {
            let mut csv = Vec::new();
            selected.fairness().write_csv(&mut csv).expect("memory");
            String::from_utf8(csv).expect("text").lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let front = "0,\"1 Mbit/s, or so\",4";
        assert_eq!(csv(&selected), [format!("{front},0,2,1"), format!("{front},0.1,1,0.3333333333333333")]);
        for column in &mut selected.runs[0].series.columns {
            column.data = Data::Counter(vec![10, if column.element == "flow.a".into() { 40 } else { 30 }]);
        }
        let [first, second] = &csv(&selected)[..] else { panic!("two rows") };
        // 30, 20 and 20 of 70: 4900 / (3 * 1700).
        assert_eq!(*first, format!("{front},0,0,"));
        assert!(second.starts_with(&format!("{front},0.1,3,0.9607843")), "{second}");
    }

    #[test]
    fn rows_have_point_settings_and_seed_and_constant_columns_are_left_out() {
        let runs = vec![
            of(1, &[("flow.a", [1.0, 0.1 + 0.2]), ("flow.b", [5.0, 5.0]), ("flow.c", [7.0, 7.0])]),
            of(2, &[("flow.a", [1.0, f64::NAN]), ("flow.b", [5.0, 5.0]), ("flow.c", [8.0, 8.0])]),
        ];
        let titles = values(&runs).into_iter().filter(|(_, value)| value.is_none()).map(|(title, _)| title);
        let selected = Selected { titles: titles.collect(), runs };
        let csv = |form| {
            let mut out = Vec::new();
            selected.write_csv(form, &mut out).expect("memory");
            String::from_utf8(out).expect("text")
        };
        let wide = csv(Form::Wide);
        let lines: Vec<&str> = wide.lines().collect();
        assert_eq!(lines[0], "point,rate,seed,time_s,flow.a.cwnd [B],flow.c.cwnd [B]");
        assert_eq!(lines[2], "0,\"1 Mbit/s, or so\",1,0.1,0.30000000000000004,7");
        assert_eq!((lines[4], lines.len()), ("0,\"1 Mbit/s, or so\",2,0.1,,8", 5));
        let long = csv(Form::Long);
        let lines: Vec<&str> = long.lines().collect();
        assert_eq!(lines[0], "point,rate,seed,time_s,subject,metric,unit,value");
        assert_eq!((lines[3], lines.len()), ("0,\"1 Mbit/s, or so\",1,0,flow.c,cwnd,B,7", 9));
        for (form, csv) in [(Form::Wide, wide), (Form::Long, long)] {
            let mut same = Vec::new();
            selected.frame(form).write_csv(&mut same).expect("memory");
            assert_eq!(String::from_utf8_lossy(&same), csv);
        }
    }
}
