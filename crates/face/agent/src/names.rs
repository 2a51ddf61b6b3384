//! Names of the files of a task: those of the agent, and those of programs.

/// Program, arguments and limits of a task.
pub(crate) const TASK: &str = "task.json";
/// Lock of the supervisor, and its errors.
pub(crate) const SUPERVISOR: &str = "supervisor.lock";
pub(crate) const SUPERVISOR_ERRORS: &str = "supervisor.txt";
/// Lock of the program.
pub(crate) const PROGRAM: &str = "program.lock";
/// Instant of the start, the start, and the end.
pub(crate) const START: &str = "start.json";
pub(crate) const STARTED: &str = "started.json";
pub(crate) const END: &str = "end.json";
/// Requests: to end, and to be removed after the end.
pub(crate) const STOP: &str = "stop";
pub(crate) const DROP: &str = "drop";
/// Working folder of the program: its files are the results.
pub(crate) const WORK: &str = "work";
/// File of the key of an emulation's parts, above the working folder: no result.
pub(crate) const KEY: &str = "join.key";
/// Files of an emulation's progress and live samples, in the folder of its task.
pub(crate) const PROGRESS: &str = "progress.jsonl";
pub(crate) const LIVE: &str = "live.jsonl";
/// File of the scenario in the working folder.
pub const SCENARIO: &str = "scenario.toml";
/// Folder of an emulation's results in the working folder.
pub const RESULTS: &str = "results";
/// Output and errors of the program among its results.
pub(crate) const OUTPUT: [&str; 2] = ["output.txt", "errors.txt"];
/// Figures of bundles.
pub(crate) const FIGURES: &str = "figures.json";

/// Names that files of a scenario cannot have.
const ALL: [&str; 18] = [
    TASK,
    SUPERVISOR,
    SUPERVISOR_ERRORS,
    PROGRAM,
    START,
    STARTED,
    END,
    STOP,
    DROP,
    WORK,
    KEY,
    PROGRESS,
    LIVE,
    SCENARIO,
    RESULTS,
    OUTPUT[0],
    OUTPUT[1],
    FIGURES,
];

/// Ending under which a file is written before it replaces another (`folder::write`).
const NEW: &str = ".new";

/// Returns `true` for a name that the site or a program uses itself.
///
/// Letters of both cases are one, as on some disks.
pub(crate) fn is_reserved(name: &str) -> bool {
    let whole = name.to_ascii_lowercase();
    let stem = |own: &str| own.split_once('.').map_or(own.len(), |(stem, _)| stem.len());
    ALL.iter().any(|own| whole == *own || whole.strip_suffix(NEW).is_some_and(|new| new == &own[..stem(own)]))
}
