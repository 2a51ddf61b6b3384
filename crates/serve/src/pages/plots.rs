//! Plots of what jobs left: of one, or of several overlaid on common axes.

use std::path::{Path, PathBuf};

use bentpipe_report::{Mark, Plot, run_plots};
use maud::{Markup, html};

use super::layout::encoded;
use crate::store::jobs::Artifact;

/// Most bytes of series that a page draws.
pub(super) const MAX_SERIES: i64 = 8 << 20;
/// Most jobs whose plots are overlaid, and most curves of a plot.
pub(super) const MAX_OVERLAID: usize = 8;
const MAX_CURVES: usize = 16;
/// File of a run's series.
const SERIES: &str = "series.parquet";

/// Run whose series are drawn: the first one of a job.
pub(super) struct Source {
    job: i64,
    folder: PathBuf,
    /// Size of the series in bytes.
    pub(super) bytes: i64,
}

impl Source {
    /// Returns the first run with series among the results of a job.
    pub(super) fn new(job: i64, results: &Path, files: &[Artifact]) -> Option<Source> {
        let is_series =
            |path: &str| path.strip_suffix(SERIES).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
        let file = files.iter().find(|file| is_series(&file.path))?;
        let folder = results.join(file.path.strip_suffix(SERIES)?);
        Some(Source { job, folder, bytes: file.bytes })
    }
}

/// Returns the plots of runs. Those of the same quantity are one, so that all have its axes.
pub(super) fn overlaid(sources: &[Source]) -> Vec<Plot> {
    let mut all: Vec<Plot> = Vec::new();
    for source in sources {
        for plot in run_plots(&source.folder).unwrap_or_default() {
            let is_same = |known: &&mut Plot| known.title == plot.title && known.y.unit == plot.y.unit;
            let place = match all.iter_mut().find(is_same) {
                Some(known) => known,
                None => {
                    all.push(Plot { curves: Vec::new(), ..plot.clone() });
                    let Some(last) = all.last_mut() else { continue };
                    last
                }
            };
            let first = place.curves.iter().map(|curve| curve.colour + 1).max().unwrap_or(0);
            for mut curve in plot.curves {
                if sources.len() > 1 {
                    curve.name = format!("#{} {}", source.job, curve.name);
                    curve.colour += first;
                }
                place.curves.push(curve);
            }
        }
    }
    for plot in &mut all {
        let count = plot.curves.len();
        plot.curves.truncate(MAX_CURVES);
        if count > MAX_CURVES {
            plot.note = format!("The first {MAX_CURVES} of {count} curves.");
        }
    }
    all
}

/// Returns plots as pictures, with what they show in words.
pub(super) fn drawn(plots: &[Plot]) -> Markup {
    let words = |plot: &Plot| {
        let names: Vec<&str> = plot
            .curves
            .iter()
            .filter(|curve| curve.mark != Mark::Instants)
            .map(|curve| &curve.name[..])
            .collect();
        format!("{}: {}", plot.title, names.join(", "))
    };
    html! {
        div.pictures {
            @for plot in plots {
                img.picture alt=(words(plot)) src={ "data:image/svg+xml," (encoded(&plot.to_svg())) };
            }
        }
    }
}
