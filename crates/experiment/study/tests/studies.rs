//! The studies of `studies/`: what their figures show exists.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use bentpipe_assemble::Built;
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_record::Recorder;
use bentpipe_study::{Kind, Recorded, RecordedRow, Row, Statistic, Study, Verdict};
use bentpipe_units::Span;

fn studies() -> Vec<Study> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
    let entries =
        std::fs::read_dir(folder).expect("the studies").map(|entry| entry.expect("readable").path());
    let read = |path: PathBuf| Study::read(&path).unwrap_or_else(|error| panic!("{error}"));
    entries.filter(|path| path.is_dir()).map(read).collect()
}

/// What a run of a study records over time, as figures name it.
fn series(folder: &Path, run: &bentpipe_study::Run) -> BTreeSet<String> {
    let mut document =
        bentpipe_paths::document(&folder.join(&run.scenario)).unwrap_or_else(|error| panic!("{error}"));
    for assignment in &run.set {
        document.set(assignment).unwrap_or_else(|refusal| panic!("{refusal}"));
    }
    let plan = Plan::new(&document, Seeds::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
    let point = &plan.points[0];
    let mut built = Built::new(&point.scenario, point.seeds[0], document.access()).expect("possible");
    let recorder = Recorder {
        elements: built.network.ids().collect(),
        interval: Span::from_millis(1),
        warm_up: Span::ZERO,
        duration: Span::from_millis(1),
    };
    let recording = recorder.run(&mut built.network, |_| ControlFlow::Continue(())).expect("short");
    let name =
        |column: &bentpipe_record::Column| format!("{}.{}", column.element.replace('/', "."), column.name());
    recording.series.columns.iter().map(name).collect()
}

#[test]
fn every_curve_over_time_has_its_series() {
    let mut curves = 0;
    for study in studies() {
        let over_time = study.figures.iter().filter(|figure| figure.x.is_none());
        let wanted: Vec<_> = over_time
            .flat_map(|figure| &figure.curve)
            .filter_map(|curve| Some((curve.run.clone()?, curve.measure.clone())))
            .collect();
        let runs: BTreeSet<&String> = wanted.iter().map(|(run, _)| run).collect();
        for run in runs {
            let there = series(&study.folder, &study.runs[run]);
            for (_, measure) in wanted.iter().filter(|(of, _)| of == run) {
                assert!(there.contains(measure), "{}, run {run}: nothing is called {measure}", study.name);
                curves += 1;
            }
        }
    }
    assert!(curves > 30, "{curves}");
}

/// Returns the kept result of a row.
fn kept<'a>(study: &Study, rows: &'a [RecordedRow], row: &Row) -> &'a RecordedRow {
    let is_it = |kept: &&RecordedRow| kept.id == row.id && kept.what == row.what && kept.kind == row.kind;
    let lacking =
        || panic!("{}: no kept result of {} \"{}\": run it with --write", study.name, row.id, row.what);
    rows.iter().find(is_it).unwrap_or_else(lacking)
}

/// A run in which nothing was sent meets no row of code either.
#[test]
fn rows_of_code_have_their_witness() {
    for study in studies() {
        for row in &study.rows {
            assert!(!bentpipe_study::lacks_witness(row), "{}: {}: expected `witness`", study.name, row.what);
        }
    }
}

/// The pages show kept results: of all rows of a study, and of no others.
#[test]
fn kept_results_are_of_the_rows_that_there_are() {
    for study in studies() {
        let recorded = Recorded::read(&study.folder).expect("readable").expect("kept results");
        assert_eq!(recorded.rows.len(), study.rows.len(), "{}: run it with --write", study.name);
        for row in &study.rows {
            assert_eq!(kept(&study, &recorded.rows, row).known, row.missed, "{}: {}", study.name, row.what);
        }
    }
}

/// What is named as the cause of a miss is shown by a run; what is missed has a cause or says that none is known.
#[test]
fn causes_of_misses_are_met() {
    for study in studies() {
        let recorded = Recorded::read(&study.folder).expect("readable").expect("kept results");
        for row in &study.rows {
            let result = kept(&study, &recorded.rows, row);
            let is_bare = row.missed.is_empty() && result.verdict == Verdict::Missed;
            assert!(
                !is_bare || row.kind == Kind::Own,
                "{}: {}: missed without a cause",
                study.name,
                row.what
            );
            for key in &row.cause {
                let cause = study.rows.iter().find(|other| other.key == *key).expect("checked on reading");
                let shown = kept(&study, &recorded.rows, cause).verdict;
                assert_eq!(shown, Verdict::Met, "{}: {}: cause \"{}\"", study.name, row.what, cause.what);
            }
        }
    }
}

/// A quick reproduction guards a study only if it judges enough of what was published.
#[test]
fn quick_runs_judge_at_least_half_of_what_is_published() {
    for study in studies() {
        let is_published = |kind| matches!(kind, Kind::Predicted | Kind::Claim);
        let rows = study.rows.iter().filter(|row| is_published(row.kind));
        // Those of real programs need `--emulate`.
        let rows: Vec<_> = rows.filter(|row| !matches!(row.statistic, Statistic::Live(..))).collect();
        let quick = rows.iter().filter(|row| row.quick).count();
        assert!(2 * quick >= rows.len(), "{}: {quick} of {} rows", study.name, rows.len());
    }
}
