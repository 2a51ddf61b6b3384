//! Arguments that several commands have.

use std::path::{Path, PathBuf};

use bentpipe_scenario::{Document, Error};
use clap::Args;

use crate::confine::{self, Reach};

/// The most runs at a time: each has a thread of its own.
const MAX_JOBS: i64 = 1024;

/// Returns an error if the folder of a file to be written is not there. Known after a measurement it would be lost.
#[cfg(feature = "tools")]
pub(crate) fn check_folders<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<(), String> {
    let folder = |file: &'a Path| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match files.into_iter().find(|file| !folder(file).is_dir()) {
        None => Ok(()),
        Some(file) => Err(format!("{}: no folder {}", file.display(), folder(file).display())),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Changes {
    /// Set a key of the scenario, as KEY=VALUE; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// First seed, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Number of seeds, in place of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: Option<u32>,
}

/// Files that a scenario may name.
#[derive(Debug, Default, Args)]
pub(crate) struct Inputs {
    /// Open only files of a folder for the scenario [default: any file]
    ///
    /// A file is known by its name there.
    ///
    /// For the scenarios of others. No link leads out of the folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) inputs: Option<PathBuf>,
    /// Confine the process to writing below its working folder
    ///
    /// It changes nothing of the system.
    ///
    /// It reads the system's programs and libraries, and the folder of --inputs (Landlock, seccomp). Root becomes the owner of the
    /// working folder.
    #[arg(long, requires = "inputs")]
    pub(crate) confine: bool,
}

impl Inputs {
    /// Confines the process if that is asked for. No other thread may run yet.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses.
    pub(crate) fn enforce(&self) -> Result<(), String> {
        match &self.inputs {
            Some(inputs) if self.confine => confine::confine(std::slice::from_ref(inputs), Reach::Work),
            _ => Ok(()),
        }
    }

    /// Reads a scenario file, which may name any file, or those of the folder.
    ///
    /// # Errors
    /// Returns the errors of the file, or an error if the folder is missing.
    pub(crate) fn read(&self, scenario: &Path) -> Result<Document, Error> {
        match &self.inputs {
            Some(inputs) => bentpipe_paths::document_with_inputs(scenario, inputs),
            None => bentpipe_paths::document(scenario),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    pub(crate) out: PathBuf,
    /// Number of concurrent runs [default: number of processors]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
          value_parser = clap::value_parser!(u16).range(0..=MAX_JOBS))]
    pub(crate) jobs: u16,
    /// Repeat finished runs
    #[arg(long)]
    pub(crate) force: bool,
    /// Print only the path of the report
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Parses a share: from 0 to 1, or a percentage such as "5 %".
///
/// # Errors
/// Returns the values expected.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = text.strip_suffix('%').map_or_else(|| number(text), |percent| Some(number(percent)? / 100.0));
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1, or a percentage such as 5 %".to_owned())
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_numbers_or_percentages() {
        assert_eq!(
            (share("0.2"), share("20 %"), share("20%"), share("1")),
            (Ok(0.2), Ok(0.2), Ok(0.2), Ok(1.0))
        );
        for wrong in ["20", "101 %", "-1 %", "NaN", "", "%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
