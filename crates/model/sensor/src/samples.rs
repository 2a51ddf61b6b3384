//! Samples of motes from a CSV file.
//!
//! The first row has the names of the columns: `time` in seconds, `node`, and one or more sensors. A value holds from its time until
//! the next one of its mote; before its first time a mote has its first value. An empty field leaves the value as it was.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use bentpipe_units::Time;

use crate::query::Sensor;

/// Maximum number of values of a file.
const MAX_VALUES: usize = 10_000_000;
/// Maximum length of a row in bytes.
const MAX_ROW: u64 = 10_000;
/// Latest time in seconds: 100 years.
const MAX_TIME: f64 = 3.2e9;

/// Values of a mote's sensor with their times, in order.
type Series = Vec<(Time, f32)>;

/// Samples of motes and sensors. Those of others come from elsewhere.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Arc<HashMap<(u16, Sensor), Series>>);

/// Mote, time and values of a row.
type Row = (u16, Time, Vec<(Sensor, f32)>);

/// Column of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Time,
    Node,
    Of(Sensor),
}

impl Samples {
    /// Reads a file of up to `motes` motes. `shown` is its name in errors.
    ///
    /// # Errors
    /// Returns an error with the line, and what would be right.
    pub fn read(bytes: impl Read, shown: &str, motes: usize) -> Result<Samples, String> {
        let mut input = BufReader::new(bytes);
        let (mut line, mut number, mut count) = (String::new(), 0_u64, 0);
        let mut columns: Option<Vec<Field>> = None;
        let mut all: HashMap<(u16, Sensor), Series> = HashMap::new();
        loop {
            line.clear();
            number += 1;
            let wrong = |problem: String| format!("{shown}: line {number}: {problem}");
            let len =
                (&mut input).take(MAX_ROW).read_line(&mut line).map_err(|error| wrong(error.to_string()))?;
            if len as u64 == MAX_ROW {
                return Err(wrong(format!("expected a row of less than {MAX_ROW} B")));
            }
            if len == 0 {
                break;
            }
            let text = line.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let Some(columns) = &columns else {
                columns = Some(header(text).map_err(wrong)?);
                continue;
            };
            let (node, time, values) = row(text, columns, motes).map_err(wrong)?;
            count += values.len();
            if count > MAX_VALUES {
                return Err(wrong(format!("expected at most {MAX_VALUES} values")));
            }
            for (sensor, value) in values {
                let series = all.entry((node, sensor)).or_default();
                if series.last().is_some_and(|(last, _)| *last >= time) {
                    let problem = format!("time of mote {node} is not after that of its row before");
                    return Err(wrong(problem));
                }
                series.push((time, value));
            }
        }
        if all.is_empty() {
            return Err(format!(
                "{shown}: no samples: expected columns `time`, `node` and sensors, and rows"
            ));
        }
        Ok(Samples(Arc::new(all)))
    }

    /// Returns the value of a sensor at an instant, if the file has it.
    pub(crate) fn value(&self, mote: u16, sensor: Sensor, at: Time) -> Option<f32> {
        let series = self.0.get(&(mote, sensor))?;
        let after = series.partition_point(|(time, _)| *time <= at);
        series.get(after.saturating_sub(1)).map(|(_, value)| *value)
    }
}

fn header(text: &str) -> Result<Vec<Field>, String> {
    let known = |word: &str| match word {
        "time" => Some(Field::Time),
        "node" => Some(Field::Node),
        _ => Sensor::ALL.into_iter().find(|sensor| sensor.name() == word).map(Field::Of),
    };
    let names = || Sensor::ALL.map(Sensor::name).join(", ");
    let mut columns = Vec::new();
    for word in text.split(',').map(str::trim) {
        let column = known(word).ok_or_else(|| format!("expected time, node, {}, got {word:?}", names()))?;
        if columns.contains(&column) {
            return Err(format!("column {word:?} is there twice"));
        }
        columns.push(column);
    }
    let has_both = columns.contains(&Field::Time) && columns.contains(&Field::Node);
    if !has_both || columns.len() < 3 {
        return Err(format!("expected the columns time, node, and one or more of {}", names()));
    }
    Ok(columns)
}

/// Returns the mote, time and values of a row.
fn row(text: &str, columns: &[Field], motes: usize) -> Result<Row, String> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    if fields.len() != columns.len() {
        return Err(format!("expected {} fields, got {}", columns.len(), fields.len()));
    }
    let (mut node, mut time, mut values) = (0, Time::ZERO, Vec::new());
    for (column, field) in columns.iter().zip(fields) {
        match column {
            Field::Node => {
                let number = field.parse().ok().filter(|number| (1..=motes).contains(&usize::from(*number)));
                node = number.ok_or_else(|| format!("expected a mote of 1 to {motes}, got {field:?}"))?;
            }
            Field::Time => {
                let seconds = field.parse().ok().filter(|seconds| (0.0..=MAX_TIME).contains(seconds));
                let seconds: f64 =
                    seconds.ok_or_else(|| format!("expected a time in seconds, got {field:?}"))?;
                time = Time::from_nanos((seconds * 1e9).round() as u64);
            }
            Field::Of(_) if field.is_empty() => {}
            Field::Of(sensor) => {
                let value: Option<f32> = field.parse().ok().filter(|value: &f32| value.is_finite());
                let value = value.ok_or_else(|| format!("expected a number, got {field:?}"))?;
                values.push((*sensor, value));
            }
        }
    }
    Ok((node, time, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Samples, String> {
        Samples::read(text.as_bytes(), "motes.csv", 3)
    }

    #[test]
    fn values_hold_until_the_next() {
        let text = "# measured\ntime, node, light, sound\n10,1,5,\n20.5,1,6,33\n10,3,-7e1,\n";
        let samples = read(text).expect("samples");
        let at = |mote, sensor, seconds: f64| {
            samples.value(mote, sensor, Time::from_nanos((seconds * 1e9) as u64))
        };
        assert_eq!(at(1, Sensor::Light, 0.0), Some(5.0));
        assert_eq!(at(1, Sensor::Light, 20.4), Some(5.0));
        assert_eq!(at(1, Sensor::Light, 20.5), Some(6.0));
        assert_eq!(at(1, Sensor::Sound, 0.0), Some(33.0));
        assert_eq!((at(3, Sensor::Light, 99.0), at(3, Sensor::Sound, 99.0)), (Some(-70.0), None));
        assert_eq!(at(2, Sensor::Light, 99.0), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, problem) in [
            ("", "motes.csv: no samples"),
            ("time,node,light\n", "motes.csv: no samples"),
            ("time,node,lihgt\n", "line 1: expected time, node, light, temperature"),
            ("time,light\n", "line 1: expected the columns time, node"),
            ("time,node,time\n", "line 1: column \"time\" is there twice"),
            ("time,node,light\n1,2\n", "line 2: expected 3 fields, got 2"),
            ("time,node,light\n1,4,5\n", "line 2: expected a mote of 1 to 3, got \"4\""),
            ("time,node,light\n-1,2,5\n", "line 2: expected a time in seconds, got \"-1\""),
            ("time,node,light\n1,2,inf\n", "line 2: expected a number, got \"inf\""),
            ("time,node,light\n1,2,3\n\n1,2,4\n", "line 4: time of mote 2 is not after"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(problem), "{error}");
        }
        let long = format!("time,node,light\n{}", "1".repeat(20_000));
        assert!(read(&long).expect_err("long").contains("line 2: expected a row of less than"));
    }
}
