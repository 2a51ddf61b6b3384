//! Results of a plan, with everything that a report says of them.

use std::path::{Path, PathBuf};

use bentpipe_units::Span;

use super::{
    Burst, ContactPlan, Declaration, FIRST_PACKETS_FILE, FirstPackets, NetworkMap, PointSummary, RealTime,
    RunResult, Series, SeriesError, Setting, Summary, plan_file, read_first_packets, read_plan, read_series,
};

/// Maximum number of pictures of a run, and bytes of each.
const MOST_PICTURES: usize = 16;
const LARGEST_PICTURE: u64 = 1_000_000;

/// Results of a plan: its runs, their summary, and texts that a report quotes.
#[derive(Clone, Debug)]
pub struct ResultSet<'a> {
    /// Title of the scenario.
    pub title: &'a str,
    /// Description of the scenario; may be empty.
    pub description: &'a str,
    /// Simulated time of a run.
    pub duration: Span,
    /// Command that makes the results.
    pub command: String,
    /// Text of the scenario file.
    pub scenario: &'a str,
    /// Nodes and links of the first point.
    pub network: NetworkMap,
    /// Contact plans of the first point's networks of bundles.
    pub contact_plans: Vec<ContactPlan>,
    /// Budget of the first point, if it has one.
    pub budget: Option<String>,
    /// Names of the sweep's axes; empty if nothing is swept.
    pub axes: &'a [String],
    /// Points, in the order of the plan; at least one.
    pub points: Vec<Point<'a>>,
    /// Runs, in the order of the plan.
    pub runs: &'a [RunResult],
    /// Means over the seeds.
    pub summary: &'a Summary,
}

/// A point of a plan and the files of its runs.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// Settings of the sweep in one line; empty if nothing is swept.
    pub label: String,
    /// Settings of the sweep.
    pub settings: &'a [Setting],
    /// Seeds.
    pub seeds: &'a [u64],
    /// Folders of the runs, in the order of the seeds.
    pub folders: Vec<PathBuf>,
    /// Names of the carriers whose burst time plans are there.
    pub carriers: Vec<&'a str>,
    /// Changes of settings during the run, in the order of their times.
    pub events: Vec<EventRow>,
    /// Starts and ends of events, in seconds.
    pub event_times_s: Vec<f64>,
}

/// Change of settings at a time of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// Time in seconds.
    pub at_s: f64,
    /// Changed keys and their new values.
    pub changes: Vec<(String, String)>,
}

impl ResultSet<'_> {
    /// Returns the accuracy of real time, if the results are of an emulation.
    pub fn real_time(&self) -> Option<&RealTime> {
        self.runs.first()?.timing.real_time.as_ref()
    }

    /// Returns the summaries of all points.
    pub fn summaries(&self) -> &[PointSummary] {
        &self.summary.points
    }
}

impl Point<'_> {
    /// Reads the columns of the first run that `wanted` returns `true` for.
    ///
    /// # Errors
    /// Returns an error if they are missing or unreadable.
    pub fn series(&self, wanted: impl Fn(&str, &Declaration) -> bool) -> Result<Series, SeriesError> {
        read_series(self.folder(), wanted)
    }

    /// Reads columns of the runs with the first `most` seeds.
    ///
    /// They are those that `wanted` returns `true` for. Unreadable runs are left out.
    pub fn all_series(
        &self,
        most: usize,
        wanted: impl Fn(&str, &Declaration) -> bool,
    ) -> impl Iterator<Item = Series> {
        self.folders.iter().take(most).filter_map(move |folder| read_series(folder, &wanted).ok())
    }

    /// Returns the folder of the run with the first seed.
    fn folder(&self) -> &Path {
        self.folders.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Reads the first packets of the flows of the first run whose packets were recorded.
    pub fn first_packets(&self) -> Vec<FirstPackets> {
        let file = std::fs::File::open(self.folder().join(FIRST_PACKETS_FILE));
        file.map_or_else(|_| Vec::new(), |file| read_first_packets(std::io::BufReader::new(file)))
    }

    /// Reads the pictures that the first run left: the name of each, and its SVG.
    ///
    /// There are at most 16 of at most 1 MB, in alphabetical order.
    pub fn pictures(&self) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| {
                entry.metadata().is_ok_and(|file| file.is_file() && file.len() <= LARGEST_PICTURE)
            })
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".svg")?.to_owned()))
            .collect();
        names.sort();
        names.truncate(MOST_PICTURES);
        let read = |name: String| {
            let file = std::fs::read(self.folder().join(format!("{name}.svg"))).ok()?;
            Some((name, file))
        };
        names.into_iter().filter_map(read).collect()
    }

    /// Reads the burst time plans of the first run: each carrier's name with its bursts.
    pub fn plans(&self) -> impl Iterator<Item = (&str, Vec<Burst>)> {
        self.carriers.iter().filter_map(|carrier| {
            let file = std::fs::File::open(self.folder().join(plan_file(carrier))).ok()?;
            Some((*carrier, read_plan(std::io::BufReader::new(file))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_of_the_first_run_are_read_in_order_and_large_ones_left_out() {
        let [folder, other] = [(), ()].map(|()| tempfile::tempdir().expect("a folder"));
        let write =
            |name: &str, file: &[u8]| std::fs::write(folder.path().join(name), file).expect("written");
        write("cell-hill.svg", b"<svg/>");
        write("average-field.svg", b"<svg></svg>");
        write("large.svg", &vec![b' '; LARGEST_PICTURE as usize + 1]);
        write("report.html", b"");
        std::fs::create_dir(folder.path().join("folder.svg")).expect("a folder");
        std::fs::write(other.path().join("z.svg"), b"").expect("written");
        let point = Point {
            label: String::new(),
            settings: &[],
            seeds: &[1, 2],
            folders: vec![folder.path().to_owned(), other.path().to_owned()],
            carriers: Vec::new(),
            events: Vec::new(),
            event_times_s: Vec::new(),
        };
        let expected = [("average-field", &b"<svg></svg>"[..]), ("cell-hill", b"<svg/>")];
        assert_eq!(point.pictures(), expected.map(|(name, file)| (name.to_owned(), file.to_vec())));
    }
}
