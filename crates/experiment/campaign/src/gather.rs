//! Gathering: one table of all runs, and the means of each point.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use bentpipe_record::stats::Estimate;
use bentpipe_record::{
    Frame, FrameColumn, FrameKind, FrameValues, FrameWriter, WholeFile, counted_with, quoted,
};
use indexmap::IndexMap;

use crate::campaign::Campaign;
use crate::part::{self, ERROR, FINGERPRINT, RUN};
use crate::{CampaignError, Result, at};

/// Most values of a row group of `runs.parquet`, which bounds the memory.
const MAX_VALUES: usize = 4 << 20;

/// Most frames of parts that are kept in memory.
const MAX_KEPT: usize = 64;

/// Name of the table of all runs.
pub(crate) const RUNS_FILE: &str = "runs.parquet";

/// Name of the table of means.
const SUMMARY_FILE: &str = "summary.csv";

/// Result of gathering.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The table of all runs.
    pub runs: PathBuf,
    /// The table of the means of each point.
    pub summary: PathBuf,
    /// Number of rows of the table.
    pub rows: u64,
    /// Number of columns of the table.
    pub columns: usize,
    /// Runs that several parts have.
    pub duplicates: u64,
}

/// Row of a part with the result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    run: u64,
    /// Set if the run has no result: any other row is better.
    has_failed: bool,
    part: u32,
    row: u32,
    fingerprint: u64,
}

/// Writes the tables of runs and of means.
///
/// `runs.parquet` has a row for each finished run in their order, and `summary.csv` the mean of each measure at each point with its 95 %
/// confidence interval over the seeds. Parts that cannot be read are left out; [`Campaign::status`] names them.
///
/// `progress` is called with the number of rows that are written and of all.
///
/// # Errors
/// Returns an error if a file cannot be written, or two parts have different results of a run.
pub fn gather(campaign: &Campaign, mut progress: impl FnMut(u64, u64)) -> Result<Gathered> {
    let index = Index::read(campaign)?;
    let (runs, summary) = (campaign.folder().join(RUNS_FILE), campaign.folder().join(SUMMARY_FILE));
    let mut file = WholeFile::create(&runs).map_err(at(&runs))?;
    let mut table = FrameWriter::new(&mut file, "runs", index.columns.clone()).map_err(at(&runs))?;
    let mut means = WholeFile::create(&summary).map_err(at(&summary))?;
    let mut points = Points::new(&campaign.manifest().keys, &index.columns);
    points.head(&mut means).map_err(at(&summary))?;
    let mut kept = Kept { parts: &index.parts, frames: BTreeMap::new() };
    let size = (MAX_VALUES / index.columns.len().max(1)).max(1);
    let (mut rows, total) = (0, index.places.len() as u64);
    for places in index.places.chunks(size) {
        let mut frame = index.frame(places, &mut kept)?;
        // Before the zeros: a count that all runs of a point lack has no mean, as in `run`.
        points.add(&frame, &mut means).map_err(at(&summary))?;
        points.add_zeros(&mut frame);
        table.write(&frame).map_err(at(&runs))?;
        rows += places.len() as u64;
        progress(rows, total);
    }
    points.end(&mut means).map_err(at(&summary))?;
    table.close().map_err(at(&runs))?;
    file.finish().map_err(at(&runs))?;
    means.finish().map_err(at(&summary))?;
    campaign.update_checksums(&[RUNS_FILE, SUMMARY_FILE])?;
    let columns = index.columns.len();
    Ok(Gathered { runs, summary, rows, columns, duplicates: index.duplicates })
}

/// Index of the parts: rows by run, and columns.
struct Index {
    parts: Vec<PathBuf>,
    /// A row for each run, in the order of the runs.
    places: Vec<Place>,
    columns: Vec<(String, FrameKind)>,
    duplicates: u64,
    /// Version of the definitions of the measures, of the first part.
    definitions: Option<u64>,
}

impl Index {
    fn read(campaign: &Campaign) -> Result<Index> {
        let mut index = Index {
            parts: Vec::new(),
            places: Vec::new(),
            columns: Vec::new(),
            duplicates: 0,
            definitions: None,
        };
        let mut columns: IndexMap<String, FrameKind> = IndexMap::new();
        let (mut front, keys) = (Vec::new(), campaign.manifest().keys.len());
        for path in part::list(&campaign.parts())? {
            // Only the heads of the other columns are kept, and a damaged part is left out.
            let Ok(frame) = part::read(&path, |_| true) else { continue };
            index.ensure_alike(&path, &frame)?;
            let number = index.parts.len() as u32;
            for (row, &run) in part::whole(&frame, RUN).iter().enumerate() {
                let fingerprint = u64::from_str_radix(part::text(&frame, FINGERPRINT, row), 16).unwrap_or(0);
                let has_failed = !part::text(&frame, ERROR, row).is_empty();
                if run < campaign.manifest().runs() {
                    index.places.push(Place { run, has_failed, part: number, row: row as u32, fingerprint });
                }
            }
            let titles = frame.columns.iter().map(|column| (column.title.clone(), column.values.kind()));
            let (first, rest): (Vec<_>, Vec<_>) =
                titles.enumerate().partition(|(number, _)| *number < part::front_of(&frame, keys));
            if front.is_empty() {
                front = first.into_iter().map(|(_, column)| column).collect();
            }
            for (_, (title, kind)) in rest {
                let known = *columns.entry(title.clone()).or_insert(kind);
                if known != kind {
                    return Err(at(&path)(format!("column \"{title}\": another type than in other parts")));
                }
            }
            index.parts.push(path);
        }
        if index.places.is_empty() {
            let problem = "no run is finished yet: expected parts, as `bentpipe campaign run` makes them";
            return Err(at(campaign.folder())(problem));
        }
        index.columns = front;
        index.columns.extend(columns);
        index.unite()?;
        Ok(index)
    }

    /// Refuses a part whose measures have other definitions than those of the first.
    fn ensure_alike(&mut self, path: &Path, frame: &Frame) -> Result<()> {
        let found = part::definitions(frame);
        let first = *self.definitions.get_or_insert(found);
        if found == first {
            return Ok(());
        }
        let first_part = self.parts.first().map(|path| path.display().to_string()).unwrap_or_default();
        Err(at(path)(format!(
            "expected measures of definitions {first}, as in {first_part}, got {found}; run those of one part again"
        )))
    }

    /// Keeps one row of each run.
    fn unite(&mut self) -> Result<()> {
        self.places.sort_unstable();
        let mut kept: Vec<Place> = Vec::with_capacity(self.places.len());
        for &place in &self.places {
            let Some(last) = kept.last().filter(|last| last.run == place.run) else {
                kept.push(place);
                continue;
            };
            self.duplicates += 1;
            if !place.has_failed && place.fingerprint != last.fingerprint {
                let [one, other] = [last, &place].map(|it| self.parts[it.part as usize].display());
                return Err(CampaignError::Changed(format!(
                    "run {}: other results in {one} and {other}: one of the machines or programs is at fault",
                    place.run
                )));
            }
        }
        self.places = kept;
        Ok(())
    }

    /// Returns the rows at places, with all columns.
    fn frame(&self, places: &[Place], kept: &mut Kept<'_>) -> Result<Frame> {
        let mut columns: Vec<FrameColumn> =
            self.columns.iter().map(|(title, kind)| empty(title, *kind, places.len())).collect();
        for (row, place) in places.iter().enumerate() {
            let (frame, of) = kept.part(place.part, &self.columns)?;
            for (column, from) in columns.iter_mut().zip(of) {
                if let Some(from) = from {
                    copy(&frame.columns[*from].values, place.row as usize, &mut column.values, row);
                }
            }
        }
        Ok(Frame { columns })
    }
}

/// Returns a column without values in `rows` rows.
fn empty(title: &str, kind: FrameKind, rows: usize) -> FrameColumn {
    let none = || std::iter::repeat_n((), rows);
    match kind {
        FrameKind::Texts => FrameColumn::texts(title, none().map(|()| "")),
        FrameKind::Integers => FrameColumn::integers(title, none().map(|()| 0)),
        FrameKind::Numbers => FrameColumn::numbers(title, "", none().map(|()| f64::NAN)),
    }
}

fn copy(from: &FrameValues, at: usize, to: &mut FrameValues, row: usize) {
    match (from, to) {
        (FrameValues::Texts(from), FrameValues::Texts(to)) => to[row] = from[at].clone(),
        (FrameValues::Integers(from), FrameValues::Integers(to)) => to[row] = from[at],
        (FrameValues::Numbers(from), FrameValues::Numbers(to)) => to[row] = from[at],
        // The types were compared when the parts were read.
        _ => {}
    }
}

/// Parts in memory: neighbouring runs are in few of them.
struct Kept<'a> {
    parts: &'a [PathBuf],
    /// Frames, with the number of their column for each of the table.
    frames: BTreeMap<u32, (Frame, Vec<Option<usize>>)>,
}

impl Kept<'_> {
    fn part(&mut self, number: u32, columns: &[(String, FrameKind)]) -> Result<&(Frame, Vec<Option<usize>>)> {
        if !self.frames.contains_key(&number) {
            if self.frames.len() >= MAX_KEPT {
                self.frames.clear();
            }
            let path = &self.parts[number as usize];
            let frame = part::read(path, |_| true).map_err(at(path))?;
            let titles: IndexMap<&str, usize> = frame
                .columns
                .iter()
                .enumerate()
                .map(|(number, column)| (&column.title[..], number))
                .collect();
            let of = columns.iter().map(|(title, _)| titles.get(&title[..]).copied()).collect();
            self.frames.insert(number, (frame, of));
        }
        Ok(&self.frames[&number])
    }
}

/// Means of the measures of each point, as its rows pass.
struct Points {
    keys: Vec<String>,
    /// Titles of the measures and their units.
    measures: Vec<(String, String)>,
    /// Places of the measures that counts without zeros come with.
    with: Vec<Option<usize>>,
    /// The present point, the values of its keys, and those of its measures.
    point: Option<(u64, Vec<String>, Vec<Vec<f64>>)>,
}

impl Points {
    fn new(keys: &[String], columns: &[(String, FrameKind)]) -> Points {
        let front = part::front(columns.iter().map(|(title, _)| title), keys.len());
        let measures: Vec<(String, String)> =
            columns.iter().skip(front).map(|(title, _)| part::name_and_unit(title)).collect();
        let places: IndexMap<&str, usize> =
            measures.iter().enumerate().map(|(place, (name, _))| (&name[..], place)).collect();
        let with = measures.iter().map(|(name, _)| places.get(&counted_with(name)?[..]).copied()).collect();
        Points { keys: keys.to_vec(), with, measures, point: None }
    }

    fn head(&self, out: &mut impl Write) -> std::io::Result<()> {
        let keys: String = self.keys.iter().map(|key| quoted(key) + ",").collect();
        writeln!(out, "point,{keys}measure,unit,n,mean,ci95")
    }

    fn add(&mut self, frame: &Frame, out: &mut impl Write) -> std::io::Result<()> {
        let numbers: Vec<&[f64]> = frame.columns[part::front_of(frame, self.keys.len())..]
            .iter()
            .map(|column| match &column.values {
                FrameValues::Numbers(values) => &values[..],
                _ => &[],
            })
            .collect();
        for (row, &point) in part::whole(frame, part::POINT).iter().enumerate() {
            if self.point.as_ref().is_none_or(|(last, ..)| *last != point) {
                self.end(out)?;
                let values = self.keys.iter().map(|key| part::text(frame, key, row).to_owned()).collect();
                self.point = Some((point, values, vec![Vec::new(); self.measures.len()]));
            }
            let Some((_, _, samples)) = &mut self.point else { continue };
            for (samples, numbers) in samples.iter_mut().zip(&numbers) {
                samples.extend(numbers.get(row).filter(|number| !number.is_nan()));
            }
        }
        Ok(())
    }

    /// Adds the zeros of counts that runs lack.
    ///
    /// Such a run has the measure that the count comes with.
    fn add_zeros(&self, frame: &mut Frame) {
        let front = part::front_of(frame, self.keys.len());
        for (place, with) in self.with.iter().enumerate() {
            let Some(with) = with else { continue };
            let FrameValues::Numbers(with) = frame.columns[front + with].values.clone() else { continue };
            let FrameValues::Numbers(counts) = &mut frame.columns[front + place].values else { continue };
            let absent =
                counts.iter_mut().zip(&with).filter(|(count, with)| count.is_nan() && !with.is_nan());
            absent.for_each(|(count, _)| *count = 0.0);
        }
    }

    fn end(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        let Some((point, values, mut samples)) = self.point.take() else { return Ok(()) };
        // A count that some runs of the point lack is zero there. One that all lack has no row, as in `run`.
        for (place, with) in self.with.iter().enumerate() {
            let runs = with.map_or(0, |with| samples[with].len());
            if !samples[place].is_empty() && samples[place].len() < runs {
                samples[place].resize(runs, 0.0);
            }
        }
        let keys: String = values.iter().map(|value| quoted(value) + ",").collect();
        for ((name, unit), samples) in self.measures.iter().zip(&samples) {
            let Some(Estimate { n, mean, ci95 }) = Estimate::of(samples) else { continue };
            let ci95 = ci95.map_or_else(String::new, |half| half.to_string());
            writeln!(out, "{point},{keys}{},{},{n},{mean},{ci95}", quoted(name), quoted(unit))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three runs: one drops packets, one drops none, and one has no result.
    #[test]
    fn a_count_that_a_run_lacks_is_zero_in_the_table() {
        let sent = "flow.a.sent-packets [count]";
        let dropped = "flow.a.dropped-queue [count]";
        let numbers = |title: &str, values: [f64; 3]| FrameColumn::numbers(title, "", values);
        let measures = [
            numbers(sent, [9.0, 8.0, f64::NAN]),
            numbers(dropped, [2.0, f64::NAN, f64::NAN]),
            numbers("flow.a.goodput [bit/s]", [1e6, f64::NAN, f64::NAN]),
        ];
        let front = part::frame(&[], &[], "", "").columns;
        let none = |column: &FrameColumn| empty(&column.title, column.values.kind(), 3);
        let mut frame = Frame { columns: front.iter().map(none).chain(measures).collect() };
        let columns: Vec<_> =
            frame.columns.iter().map(|column| (column.title.clone(), column.values.kind())).collect();
        let (mut points, mut out) = (Points::new(&[], &columns), Vec::new());
        points.add(&frame, &mut out).expect("written");
        points.add_zeros(&mut frame);
        points.end(&mut out).expect("written");
        let of = |title: &str| match &frame
            .columns
            .iter()
            .find(|column| column.title == title)
            .expect("there")
            .values
        {
            FrameValues::Numbers(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(dropped)[..2], [2.0, 0.0]);
        assert!(of(dropped)[2].is_nan() && of("flow.a.goodput [bit/s]")[1].is_nan());
        // The mean is that of both runs.
        let means = String::from_utf8(out).expect("a text");
        assert!(means.contains("flow.a.dropped-queue,count,2,1,"), "{means}");
    }
}
