//! The folder of a campaign.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bentpipe_lab::plan::{Hash, Seeds};
use bentpipe_record::{CHECKSUMS_FILE, update_checksums, verify};
use bentpipe_scenario::{Access, Document};

use crate::manifest::{FORMAT, MANIFEST_FILE, Manifest, SCENARIO_FILE};
use crate::missing::Missing;
use crate::part::{self, ERROR, Row};
use crate::{CampaignError, Result, at, named};

/// Campaign in a folder.
#[derive(Clone, Debug)]
pub struct Campaign {
    folder: PathBuf,
    manifest: Manifest,
    /// Set if the scenario may name only the files of the folder.
    is_confined: bool,
}

/// State of a campaign.
#[derive(Clone, Debug)]
pub struct Status {
    /// Runs that are finished, and those that are missing.
    pub missing: Missing,
    /// Finished runs without a result, and why; the first hundred.
    pub failed: Vec<(u64, String)>,
    /// Number of finished runs without a result.
    pub failures: u64,
    /// Parts that cannot be read, and why. Their runs are missing.
    pub damaged: Vec<(PathBuf, String)>,
    /// Number of parts.
    pub parts: usize,
}

/// Most failures that are listed.
const MAX_LISTED: usize = 100;

impl Campaign {
    /// Opens the folder of a campaign.
    ///
    /// # Errors
    /// Returns an error if it has no manifest that can be read.
    pub fn open(folder: &Path) -> Result<Campaign> {
        let path = folder.join(MANIFEST_FILE);
        verify(&path).map_err(CampaignError::File)?;
        let bytes = fs::read(&path).map_err(at(&path))?;
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(at(&path))?;
        if manifest.format != FORMAT {
            let problem =
                format!("format {}: expected {FORMAT}, or the version that planned it", manifest.format);
            return Err(at(&path)(problem));
        }
        if manifest.seeds == 0 || manifest.points.checked_mul(manifest.seeds.into()).is_none() {
            return Err(at(&path)("points and seeds: expected at least one of each"));
        }
        Ok(Campaign { folder: folder.to_owned(), manifest, is_confined: false })
    }

    /// Returns the campaign with a scenario that may name only files of its folder.
    #[must_use]
    pub fn confined(self) -> Campaign {
        Campaign { is_confined: true, ..self }
    }

    /// Returns `true` if the scenario may name only the files of the folder.
    pub(crate) fn is_confined(&self) -> bool {
        self.is_confined
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the contents of the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Writes the checksums of the folder's files, unless an older version planned it.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn update_checksums(&self, names: &[&str]) -> Result<()> {
        match self.folder.join(CHECKSUMS_FILE).exists() {
            true => update_checksums(&self.folder, names).map_err(named),
            false => Ok(()),
        }
    }

    /// Returns the folder of the parts.
    pub(crate) fn parts(&self) -> PathBuf {
        self.folder.join("parts")
    }

    /// Returns the scenario with the settings of the plan.
    ///
    /// # Errors
    /// Returns an error if the scenario or a file that it names is not as planned, or the build is another one.
    pub fn document(&self, build: &str) -> Result<Document> {
        if build != self.manifest.build {
            return Err(CampaignError::Changed(format!(
                "{}: planned by build {}, and this program is build {build}: its results may be others",
                self.folder.display(),
                self.manifest.build
            )));
        }
        let path = self.folder.join(SCENARIO_FILE);
        let read = match self.is_confined {
            true => bentpipe_paths::document_with_inputs(&path, &self.folder),
            false => bentpipe_paths::document(&path),
        };
        let mut document = read.map_err(|error| CampaignError::File(error.to_string()))?;
        self.check_inputs(document.access())?;
        for setting in &self.manifest.settings {
            document.set(setting).map_err(|error| CampaignError::File(error.to_string()))?;
        }
        let points: u64 = document.axes().map(|(_, length)| length as u64).product();
        if points != self.manifest.points {
            let problem = format!("{points} points, and the manifest has {}", self.manifest.points);
            return Err(CampaignError::Changed(format!("{}: {problem}", path.display())));
        }
        Ok(document)
    }

    /// Checks that the scenario and the files that it names are as planned.
    fn check_inputs(&self, access: &Access) -> Result<()> {
        for (name, hash) in &self.manifest.inputs {
            let name = Path::new(name);
            if Hash::of_file(access, name).to_hex() != *hash {
                let shown = access.shown(name);
                let problem = format!("{shown}: missing, or not as it was when the campaign was planned");
                return Err(CampaignError::Changed(problem));
            }
        }
        Ok(())
    }

    /// Returns the seeds of every point.
    pub(crate) fn seeds(&self) -> Seeds {
        Seeds { first: Some(self.manifest.first_seed), count: Some(self.manifest.seeds) }
    }

    /// Notes that a run has no result, as it ends the process that runs it. It then counts as finished.
    ///
    /// # Errors
    /// Returns an error if the part cannot be written.
    pub fn note_failure(&self, run: u64, reason: String, (build, host): (&str, &str)) -> Result<()> {
        let (point, seed) = self.manifest.place(run);
        let (hash, settings) = (String::new(), Vec::new());
        let row = Row { run, point, seed, hash, settings, outcome: Err(reason), wall_s: 0.0 };
        let frame = part::frame(&[row], &self.manifest.keys, build, host);
        part::write(&self.parts(), &frame).map(drop)
    }

    /// Reads which runs are finished. With `retry` those without a result count as missing.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read. A damaged part gives no error: its runs are missing.
    pub fn status(&self, retry: bool) -> Result<Status> {
        self.status_within(0..self.manifest.runs(), retry)
    }

    /// Reads which runs of a range are finished, as [`Campaign::status`] does of all.
    ///
    /// Only parts with runs in the range are read; their names have them. So a process that runs a short range reads as much late in a
    /// campaign as early.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub(crate) fn status_within(&self, range: Range<u64>, retry: bool) -> Result<Status> {
        let mut status = Status {
            missing: Missing::all(self.manifest.runs()),
            failed: Vec::new(),
            failures: 0,
            damaged: Vec::new(),
            parts: 0,
        };
        let mut failed: std::collections::BTreeMap<u64, String> = Default::default();
        let overlaps = |path: &PathBuf| {
            part::runs_of(path).is_none_or(|runs| runs.start < range.end && range.start < runs.end)
        };
        for path in part::list(&self.parts())?.into_iter().filter(overlaps) {
            match part::read(&path, |title| title == ERROR) {
                Ok(frame) => {
                    status.parts += 1;
                    for (row, &run) in part::whole(&frame, part::RUN).iter().enumerate() {
                        match part::text(&frame, ERROR, row) {
                            "" => {
                                status.missing.finish(run);
                                failed.remove(&run);
                            }
                            error if status.missing.is_missing(run) => {
                                failed.insert(run, error.to_owned());
                            }
                            _ => {}
                        }
                    }
                }
                Err(problem) => status.damaged.push((path, problem)),
            }
        }
        failed.retain(|run, _| status.missing.is_missing(*run));
        if !retry {
            failed.keys().for_each(|run| status.missing.finish(*run));
        }
        status.failures = failed.len() as u64;
        status.failed = failed.into_iter().take(MAX_LISTED).collect();
        Ok(status)
    }
}
