//! Files of finished runs.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bentpipe_record::{
    DEFINITIONS, Frame, FrameColumn, FrameValues, FrameWriter, Outcome, file_hash, read_frame, write_whole,
};
use sha2::{Digest, Sha256};

use crate::plan::hex;
use crate::{Result, at, named};

/// Columns in front of the measures, but for the keys of the sweep.
pub(crate) const RUN: &str = "run";
pub(crate) const POINT: &str = "point";
pub(crate) const SEED: &str = "seed";
pub(crate) const HASH: &str = "hash";
pub(crate) const FINGERPRINT: &str = "fingerprint";
pub(crate) const EVENTS: &str = "events";
pub(crate) const ERROR: &str = "error";
/// Columns of circumstances, which no result depends on.
pub(crate) const WALL: &str = "wall [s]";
pub(crate) const BUILD: &str = "build";
pub(crate) const HOST: &str = "host";
/// Column of the version of the definitions of the measures. Parts without it are of version 1.
pub(crate) const DEFINED: &str = "definitions";

/// A finished run.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) run: u64,
    pub(crate) point: u64,
    pub(crate) seed: u64,
    /// Hash of everything that the result depends on.
    pub(crate) hash: String,
    /// Values of the swept keys, in the order of the manifest.
    pub(crate) settings: Vec<String>,
    /// Outcome of the run, or the reason why it has none.
    pub(crate) outcome: std::result::Result<Outcome, String>,
    /// The time it took, in seconds.
    pub(crate) wall_s: f64,
}

/// Returns the frame of rows.
pub(crate) fn frame(rows: &[Row], keys: &[String], build: &str, host: &str) -> Frame {
    let text = |title: &str, of: &dyn Fn(&Row) -> String| FrameColumn::texts(title, rows.iter().map(of));
    let whole = |title: &str, of: &dyn Fn(&Row) -> u64| FrameColumn::integers(title, rows.iter().map(of));
    let mut columns =
        vec![whole(RUN, &|row| row.run), whole(POINT, &|row| row.point), whole(SEED, &|row| row.seed)];
    columns.extend(
        keys.iter()
            .enumerate()
            .map(|(number, key)| text(key, &|row| row.settings.get(number).cloned().unwrap_or_default())),
    );
    let outcome = |row: &Row| row.outcome.as_ref().ok().cloned();
    columns.extend([
        text(HASH, &|row| row.hash.clone()),
        text(FINGERPRINT, &|row| outcome(row).map_or_else(String::new, |outcome| outcome.fingerprint)),
        whole(EVENTS, &|row| outcome(row).map_or(0, |outcome| outcome.events())),
        text(ERROR, &|row| row.outcome.as_ref().err().cloned().unwrap_or_default()),
        FrameColumn::numbers(WALL, "s", rows.iter().map(|row| row.wall_s)),
        text(BUILD, &|_| build.to_owned()),
        text(HOST, &|_| host.to_owned()),
        whole(DEFINED, &|_| DEFINITIONS.into()),
    ]);
    columns.extend(measures(rows));
    Frame { columns }
}

/// Returns a column for each measure, in the order of their first appearance.
fn measures(rows: &[Row]) -> Vec<FrameColumn> {
    let mut found: indexmap::IndexMap<(String, String), Vec<f64>> = indexmap::IndexMap::new();
    for (number, row) in rows.iter().enumerate() {
        for measure in row.outcome.iter().flat_map(Outcome::figures) {
            let key = (measure.name.clone(), measure.unit.clone());
            let values = found.entry(key).or_default();
            values.resize(number, f64::NAN);
            values.push(measure.value);
        }
    }
    let column = |((name, unit), mut values): ((String, String), Vec<f64>)| {
        values.resize(rows.len(), f64::NAN);
        let title = if unit.is_empty() { name } else { format!("{name} [{unit}]") };
        FrameColumn::numbers(&title, &unit, values)
    };
    found.into_iter().map(column).collect()
}

/// Returns the name and the unit of a measure by the title of its column.
pub(crate) fn name_and_unit(title: &str) -> (String, String) {
    let split = title.strip_suffix(']').and_then(|title| title.rsplit_once(" ["));
    split.map_or((title.to_owned(), String::new()), |(name, unit)| (name.to_owned(), unit.to_owned()))
}

/// Returns how many columns are in front of the measures.
pub(crate) fn front<'a>(mut titles: impl Iterator<Item = &'a String>, keys: usize) -> usize {
    10 + keys + usize::from(titles.any(|title| title == DEFINED))
}

/// Returns how many columns of a frame are in front of the measures.
pub(crate) fn front_of(frame: &Frame, keys: usize) -> usize {
    front(frame.columns.iter().map(|column| &column.title), keys)
}

/// Returns the version of the definitions of the measures.
pub(crate) fn definitions(frame: &Frame) -> u64 {
    whole(frame, DEFINED).first().copied().unwrap_or(1)
}

/// Writes a part. Its name has the first and the last run, and a hash of its contents: the same rows give the same name.
pub(crate) fn write(folder: &Path, frame: &Frame) -> Result<PathBuf> {
    let columns = frame.columns.iter().map(|column| (column.title.clone(), column.values.kind())).collect();
    let mut bytes = Vec::new();
    let write = || {
        let mut writer = FrameWriter::new(&mut bytes, "runs", columns)?;
        writer.write(frame)?;
        writer.close()
    };
    write().map_err(at(folder))?;
    let runs = whole(frame, RUN);
    let name = format!(
        "{:09}-{:09}-{}.parquet",
        runs.iter().min().copied().unwrap_or(0),
        runs.iter().max().copied().unwrap_or(0),
        &hex(&Sha256::digest(&bytes))[..16]
    );
    let path = folder.join(name);
    write_whole(&path, |file| std::io::Write::write_all(file, &bytes)).map_err(named)?;
    Ok(path)
}

/// Returns the values of a column of whole numbers. It is empty for an unknown column.
pub(crate) fn whole<'a>(frame: &'a Frame, title: &str) -> &'a [u64] {
    match frame.column(title).map(|column| &column.values) {
        Some(FrameValues::Integers(values)) => values,
        _ => &[],
    }
}

/// Returns a text of a column. It is empty for an unknown column.
pub(crate) fn text<'a>(frame: &'a Frame, title: &str, row: usize) -> &'a str {
    match frame.column(title).map(|column| &column.values) {
        Some(FrameValues::Texts(values)) => values.get(row).map_or("", |text| text),
        _ => "",
    }
}

/// Parts of a folder, by their names.
pub(crate) fn list(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let mut found = BTreeSet::new();
    for entry in entries {
        let path = entry.map_err(at(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".parquet") && !name.starts_with('.') {
            found.insert(path);
        }
    }
    Ok(found)
}

/// Returns the range of runs in a part's name. `None` for another name.
pub(crate) fn runs_of(path: &Path) -> Option<Range<u64>> {
    let mut words = path.file_name()?.to_str()?.split('-');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (first, last) = (number()?, number()?);
    (first <= last).then_some(first..last.checked_add(1)?)
}

/// Returns the beginning of the hash in a part's name. `None` for another name.
fn hash_in(path: &Path) -> Option<&str> {
    runs_of(path)?;
    path.file_name()?.to_str()?.strip_suffix(".parquet")?.splitn(3, '-').nth(2)
}

/// Reads columns of a part, whose content must have the hash in its name.
///
/// # Errors
/// Returns the problem of a file that is not a part.
pub(crate) fn read(path: &Path, wanted: impl Fn(&str) -> bool) -> std::result::Result<Frame, String> {
    if let Some(expected) = hash_in(path) {
        let found = file_hash(path).map_err(|error| error.to_string())?;
        if !found.starts_with(expected) {
            return Err("its content is not that of the hash in its name".to_owned());
        }
    }
    let frame = read_frame(path, |title| title == RUN || wanted(title)).map_err(|error| error.to_string())?;
    if whole(&frame, RUN).len() == frame.rows() && frame.column(RUN).is_some() {
        Ok(frame)
    } else {
        Err(format!("no column \"{RUN}\""))
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_record::Measure;

    use super::*;

    fn row(run: u64, measures: &[(&str, f64)]) -> Row {
        let measure = |(name, value): &(&str, f64)| Measure::new(*name, "s", *value).expect("finite");
        let outcome = Outcome {
            hash: "h".into(),
            seed: 1,
            fingerprint: "f".into(),
            deliveries: 3,
            wakeups: 4,
            stray: 0,
            interval_asked: Default::default(),
            interval: Default::default(),
            captures: Vec::new(),
            definitions: DEFINITIONS,
            measures: measures.iter().map(measure).collect(),
            ledger: Vec::new(),
            units: Vec::new(),
            flow_notes: Vec::new(),
            warm_up: Default::default(),
            distributions: Vec::new(),
            totals: Default::default(),
        };
        Row {
            run,
            point: run,
            seed: 1,
            hash: "h".into(),
            settings: vec!["x".into()],
            outcome: Ok(outcome),
            wall_s: 0.5,
        }
    }

    #[test]
    fn rows_keep_their_measures_where_others_lack_them() {
        let failed = Row { outcome: Err("why".into()), ..row(6, &[]) };
        let rows = [row(4, &[("a", 1.0)]), failed, row(5, &[("b", 2.0), ("a", 3.0)])];
        let keys = ["key".to_owned()];
        let folder = tempfile::tempdir().expect("a folder");
        let path = write(folder.path(), &frame(&rows, &keys, "build", "host")).expect("written");
        assert!(
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("000000004-000000006-"))
        );
        assert_eq!(runs_of(&path), Some(4..7));
        assert!(
            ["runs.parquet", "7-6-x", "a-b", "1-18446744073709551615-x"]
                .iter()
                .all(|name| runs_of(Path::new(name)).is_none())
        );
        let read = read(&path, |_| true).expect("a part");
        assert_eq!((read.columns.len(), definitions(&read)), (front_of(&read, 1) + 2, DEFINITIONS.into()));
        let values = |title: &str| {
            let column = read.column(title).expect("a column");
            (0..3).map(|row| column.values.text(row)).collect::<Vec<_>>()
        };
        assert_eq!(
            (values("a [s]"), values("b [s]")),
            (vec!["1".into(), String::new(), "3".into()], vec![String::new(), String::new(), "2".into()])
        );
        assert_eq!(
            (values(ERROR)[1].as_str(), values("key")[0].as_str(), values(EVENTS)[0].as_str()),
            ("why", "x", "7")
        );
        assert_eq!(list(folder.path()).expect("it").len(), 1);
    }
}
