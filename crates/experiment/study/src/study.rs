//! Study files.

mod emulated;
mod figure;
mod kernel;
mod live;
mod row;

use std::path::{Path, PathBuf};

use bentpipe_paths::read_at_most;
use indexmap::IndexMap;
use serde::Deserialize;

pub use emulated::{EmulatedNetwork, Word};
pub use figure::{Column, Curves, Draw, EmbeddedImage, Figure, Instant, TableRow, Tabulated};
pub use kernel::{KernelPath, KernelTests};
pub use live::LiveStreams;
pub use row::{At, Row, Statistic, Value, Witness};

use row::RowFile;

/// Study: scenarios to run, and published values to compare them with.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Name of its folder.
    pub name: String,
    /// Path of its folder.
    pub folder: PathBuf,
    /// Title.
    pub title: String,
    /// Publication.
    pub source: String,
    /// Description of the experiment, and of the assumptions where the publication is silent; paragraphs.
    pub description: String,
    /// Published results by their names in rows ("K2"), in words.
    pub published: IndexMap<String, String>,
    /// Runs by name.
    pub runs: IndexMap<String, Run>,
    /// Published values.
    pub rows: Vec<Row>,
    /// Figures to draw.
    pub figures: Vec<Figure>,
    /// Transfers by the kernel's TCP.
    pub kernel: Option<KernelTests>,
    /// Voice streams of real programs, by name.
    pub live: IndexMap<String, LiveStreams>,
    /// Images that runs made.
    pub images: Vec<EmbeddedImage>,
    /// Published tables.
    pub tables: Vec<Tabulated>,
    /// Set if a test controller makes the runs: the study is of one.
    pub controller: bool,
    /// Networks that the test controller emulates too.
    pub emulated: Vec<EmulatedNetwork>,
}

/// Scenario to run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Scenario file in the study's folder.
    pub scenario: PathBuf,
    /// Keys to set, as `--set` does.
    #[serde(default)]
    pub set: Vec<String>,
    /// Number of seeds. Default: the scenario's.
    pub seeds: Option<u32>,
    /// Keys to set in addition for `--quick`.
    #[serde(default)]
    pub quick: Vec<String>,
    /// Number of seeds for `--quick`. Default: one.
    pub quick_seeds: Option<u32>,
}

impl Run {
    /// Returns the number of seeds; `None` for that of the scenario.
    pub(crate) fn seeds(&self, is_quick: bool) -> Option<u32> {
        if is_quick { self.quick_seeds.or(Some(1)) } else { self.seeds }
    }
}

/// Error returned when a study file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct StudyError {
    /// File.
    pub path: PathBuf,
    /// Problem, and the expected value.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyFile {
    title: String,
    source: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    published: IndexMap<String, String>,
    #[serde(default)]
    run: IndexMap<String, Run>,
    row: Vec<RowFile>,
    #[serde(default)]
    figure: Vec<Figure>,
    kernel: Option<KernelTests>,
    #[serde(default)]
    live: IndexMap<String, LiveStreams>,
    #[serde(default)]
    picture: Vec<EmbeddedImage>,
    #[serde(default)]
    table: Vec<Tabulated>,
    #[serde(default)]
    controller: bool,
    #[serde(default)]
    emulated: Vec<EmulatedNetwork>,
}

/// Maximum size of a study file in bytes.
const MAX_BYTES: u64 = 1 << 20;

impl Study {
    /// Reads the study in a folder.
    ///
    /// # Errors
    /// Returns an error if the file is missing or invalid.
    pub fn read(folder: &Path) -> Result<Study, StudyError> {
        let path = folder.join("study.toml");
        let error_of = |problem: String| StudyError { path: path.clone(), problem };
        let bytes = read_at_most(&path, MAX_BYTES).map_err(|error| error_of(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| error_of(format!("not UTF-8: {error}")))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Study::parse(&name, folder, &text).map_err(error_of)
    }

    fn parse(name: &str, folder: &Path, text: &str) -> Result<Study, String> {
        let file: StudyFile =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let rows = file.row.into_iter().map(|row| {
            let id = row.id.clone();
            row.check().map_err(|problem| format!("row {id}: {problem}"))
        });
        let study = Study {
            name: name.to_owned(),
            folder: folder.to_owned(),
            title: file.title,
            source: file.source,
            description: file.description,
            published: file.published,
            runs: file.run,
            rows: rows.collect::<Result<_, _>>()?,
            figures: file.figure,
            kernel: file.kernel,
            live: file.live,
            images: file.picture,
            tables: file.table,
            controller: file.controller,
            emulated: file.emulated,
        };
        study.check_runs()?;
        study.check_published()?;
        study.check_causes()?;
        study.check_live()?;
        for network in &study.emulated {
            network.check().map_err(|problem| format!("emulated {}: {problem}", network.flow))?;
        }
        study.tables.iter().try_for_each(Tabulated::check)?;
        Ok(study)
    }

    /// Checks that every published row names one of the results, where a study lists them.
    fn check_published(&self) -> Result<(), String> {
        let is_named = |row: &&Row| self.published.contains_key(&row.id) || !row.kind.is_published();
        let unnamed = self.rows.iter().find(|row| !self.published.is_empty() && !is_named(row));
        unnamed.map_or(Ok(()), |row| {
            Err(format!("row {}: expected `{} = \"...\"` in [published]", row.id, row.id))
        })
    }

    /// Checks that every row named as a cause exists.
    fn check_causes(&self) -> Result<(), String> {
        let is_known = |key: &String| self.rows.iter().any(|row| row.key == *key);
        let causes = self.rows.iter().flat_map(|row| row.cause.iter().map(move |key| (&row.id, key)));
        match causes.into_iter().find(|(_, key)| !is_known(key)) {
            Some((id, key)) => Err(format!("row {id}: cause \"{key}\": expected the `key` of another row")),
            None => Ok(()),
        }
    }

    /// Checks live streams, and that every one that a row names exists.
    fn check_live(&self) -> Result<(), String> {
        for (name, live) in &self.live {
            live.check().map_err(|problem| format!("live {name}: {problem}"))?;
        }
        let names = self.rows.iter().filter_map(|row| match &row.statistic {
            Statistic::Live(name, _) => Some((&row.id, name)),
            _ => None,
        });
        let unknown = names.into_iter().find(|(_, name)| !self.live.contains_key(*name));
        unknown.map_or(Ok(()), |(id, name)| {
            Err(format!("row {id}: unknown live \"{name}\": expected [live.{name}]"))
        })
    }

    /// Checks that every run named by a row, figure, image or table exists.
    fn check_runs(&self) -> Result<(), String> {
        let of_rows = self.rows.iter().flat_map(|row| row.runs().into_iter().map(|run| (&row.id, run)));
        let of_figures = self.figures.iter().flat_map(|figure| {
            figure.curve.iter().filter_map(|c| Some((&figure.title, &c.run.as_ref()?[..])))
        });
        let of_images = self.images.iter().map(|image| (&image.title, &image.run[..]));
        let of_tables =
            self.tables.iter().flat_map(|table| table.row.iter().map(|row| (&table.title, &row.run[..])));
        let of_tables = of_tables.filter(|(_, run)| !run.is_empty());
        let mut all = of_rows.chain(of_figures).chain(of_images).chain(of_tables);
        let unknown = all.find(|(_, run)| !self.runs.contains_key(*run));
        let names = || self.runs.keys().cloned().collect::<Vec<_>>().join(", ");
        unknown.map_or(Ok(()), |(what, run)| {
            Err(format!("{what}: unknown run \"{run}\": expected one of {}", names()))
        })
    }
}

#[cfg(test)]
pub(super) fn parsed(text: &str) -> Result<Study, String> {
    Study::parse("test", Path::new("."), text)
}
