//! Messages between a site and its controller: JSON of bounded size.
//!
//! They are bodies of HTTP requests of the site.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /site/enrol` | [`Enrol`] | [`Enrolled`] |
//! | `POST /site/login` | [`Hello`] | [`Welcome`] |
//! | `POST /site/poll` | [`Poll`] | [`Turn`] |
//! | `POST /site/chunk?task=T&file=F&chunk=C` | bytes of a chunk | nothing |
//! | `POST /site/live` | [`Samples`] | [`Held`] |
//!
//! The controller may hold the answer to a poll until it has commands. A login holds for its connection.

use std::net::{IpAddr, SocketAddr};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::manifest::Entry;

/// Version of the protocol.
pub const VERSION: u32 = 2;
/// Most bytes of a message.
pub const MAX_MESSAGE: usize = 1 << 20;
/// Most commands of an answer, and most results of a request.
pub const MAX_BATCH: usize = 64;
/// Longest time for which the controller holds a poll, in milliseconds.
pub const MAX_WAIT_MS: u32 = 20_000;
/// Bytes of a piece of a file that a site asks for.
pub const PIECE: u64 = 1 << 19;
/// Most bytes of live samples in a message.
pub const MAX_SAMPLES: usize = 1 << 18;
/// Most bytes of the name of a site.
pub const MAX_NAME: usize = 40;
/// Longest time of a task, in seconds: a day.
pub const MAX_TASK_S: u32 = 86_400;

/// Request to become a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrol {
    /// Version of the protocol.
    pub version: u32,
    /// Secret of the invitation, for one use.
    pub secret: String,
    /// Public Ed25519 key in hexadecimal digits.
    pub key: String,
}

/// Answer to an enrolment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolled {
    /// Name that the administrator gave the site.
    pub name: String,
}

/// Login of a site, for the rest of the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// Version of the protocol.
    pub version: u32,
    /// Name.
    pub name: String,
    /// Version of bentpipe.
    pub program: String,
    /// Highest number of a command that it executed.
    pub last: u64,
    /// Signature over the TLS session and the name, in hexadecimal digits.
    pub signature: String,
}

/// Answer to a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// Version of the protocol.
    pub version: u32,
    /// Version of bentpipe.
    pub program: String,
    /// Number after which commands go on.
    ///
    /// It is there if the site has had a number that no controller reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// Request for commands, with what happened since the last one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// Time for which an answer without commands may wait, in milliseconds.
    pub wait_ms: u32,
    /// Results of commands.
    pub results: Vec<CommandResult>,
    /// Tasks of the site.
    pub tasks: Vec<TaskReport>,
    /// Clock of the site.
    pub clock: Clock,
    /// State of the machine, at times.
    pub doctor: Option<Doctor>,
}

/// Answer to a poll.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Arrival of the request at the controller, in microseconds since 1970.
    pub received_us: i64,
    /// Departure of this answer, in microseconds since 1970.
    pub sent_us: i64,
    /// Commands, ascending by number.
    pub commands: Vec<Command>,
}

/// Live samples of an emulation: whole lines of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    /// Number of the task.
    pub task: u64,
    /// Place of the first line in the file, in bytes.
    pub offset: u64,
    /// Lines, each a [`SampleLine`].
    pub text: String,
}

/// Answer to live samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Bytes of the file that the controller has. It takes what begins there.
    pub bytes: u64,
    /// Set if it wants more.
    pub wanted: bool,
}

/// Line of live samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase", deny_unknown_fields)]
pub enum SampleLine {
    /// Columns of the lines that follow.
    Columns {
        /// Run.
        run: String,
        /// Columns.
        columns: Vec<SampleColumn>,
    },
    /// Values at some instants.
    Samples {
        /// Instants in seconds.
        t: Vec<f64>,
        /// Values of each column at them.
        v: Vec<Vec<Option<f64>>>,
    },
}

/// Column of live samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleColumn {
    /// Element.
    pub name: String,
    /// Quantity in words.
    pub label: String,
    /// Title of the diagram.
    pub diagram: String,
    /// Symbol of the unit.
    pub unit: String,
    /// Set if the change in time is drawn.
    pub rate: bool,
    /// Factor of a rate.
    pub factor: f64,
}

/// Refuses live samples that are not whole lines of the file.
///
/// # Errors
/// Returns an error for too long a text, or a line of another form.
pub fn check_samples(text: &str) -> Result<(), String> {
    if text.len() > MAX_SAMPLES || !(text.is_empty() || text.ends_with('\n')) {
        return Err(format!("samples: expected whole lines of at most {MAX_SAMPLES} bytes together"));
    }
    for line in text.lines() {
        match serde_json::from_str(line).map_err(|error| format!("samples: {error}"))? {
            SampleLine::Samples { t, v } if v.iter().any(|column| column.len() != t.len()) => {
                return Err("samples: expected a value for each instant".to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Command with its number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Number, ascending over all commands of the controller.
    pub id: u64,
    /// Action.
    pub act: Act,
}

/// Action of a command: everything that a controller can ask of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// Checks a program against the site's own list, and keeps it for the start.
    Prepare {
        /// Number of the task.
        task: u64,
        /// Program.
        program: Program,
        /// Longest time that it may run, in seconds.
        most_s: u32,
    },
    /// Starts a task at an instant of the controller's clock.
    Start {
        /// Number of the task.
        task: u64,
        /// Instant in microseconds since 1970.
        at_us: i64,
    },
    /// Changes a key of an emulation that runs.
    Set {
        /// Number of the task.
        task: u64,
        /// Change as KEY=VALUE.
        assignment: String,
    },
    /// Ends a task as Ctrl-C does.
    Stop {
        /// Number of the task.
        task: u64,
    },
    /// Lists the files that a task left.
    List {
        /// Number of the task.
        task: u64,
    },
    /// Sends a chunk of a file.
    Fetch {
        /// Number of the task.
        task: u64,
        /// Number of the file in the list.
        file: u32,
        /// Number of the chunk in the file.
        chunk: u32,
    },
    /// Removes a task with its files.
    Drop {
        /// Number of the task.
        task: u64,
    },
}

impl Act {
    /// Returns the number of the task.
    pub fn task(&self) -> u64 {
        match self {
            Act::Prepare { task, .. }
            | Act::Start { task, .. }
            | Act::Set { task, .. }
            | Act::Stop { task }
            | Act::List { task }
            | Act::Fetch { task, .. }
            | Act::Drop { task } => *task,
        }
    }

    /// Returns `true` if the action changes nothing at the site.
    pub fn is_reading(&self) -> bool {
        matches!(self, Act::List { .. } | Act::Fetch { .. })
    }
}

/// Program of a task, with typed arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "program", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Program {
    /// Emulation of a scenario, for its duration.
    Emulate {
        /// Text of the scenario.
        scenario: String,
        /// Interfaces in the places of hosts.
        attach: Vec<Attach>,
        /// Duration with its unit, if the scenario's is overridden.
        duration: Option<String>,
        /// Files that the scenario names. The site asks the controller for them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<GivenFile>,
        /// Site that emulates the other part, if this one emulates a part.
        join: Option<Join>,
    },
    /// Gateway, by its name in the site's list.
    Gateway {
        /// Name.
        name: String,
    },
    /// Server of iperf3, until it is stopped.
    Iperf3Server {
        /// TCP and UDP port.
        port: u16,
    },
    /// Transfer by iperf3.
    Iperf3 {
        /// Address of the server.
        host: IpAddr,
        /// Port of the server.
        port: u16,
        /// Duration in seconds.
        seconds: u32,
        /// Rate in bit/s; as fast as it goes if not given.
        rate: Option<u64>,
        /// Set for UDP.
        udp: bool,
        /// Set if the server sends.
        reverse: bool,
    },
    /// Bundle node, by its name in the site's list. It runs until it is stopped.
    DtnNode {
        /// Name.
        name: String,
    },
    /// Load of bundles from a node of the site, with delivery reports.
    DtnPerf {
        /// Address of the own node.
        node: SocketAddr,
        /// Endpoint of the load, at the own node.
        from: String,
        /// Destination.
        to: String,
        /// Length of each payload in bytes.
        payload: u64,
        /// Duration in seconds.
        seconds: u32,
        /// Bundles without a report, unless there is a rate.
        window: u32,
        /// Bundles per second.
        rate: Option<u32>,
    },
    /// Echo requests.
    Ping {
        /// Address.
        host: IpAddr,
        /// Number of requests.
        count: u32,
        /// Interval in milliseconds.
        interval_ms: u32,
    },
}

impl Program {
    /// Names of all programs, as lists of sites have them.
    pub const NAMES: [&str; 6] = ["emulate", "gateway", "iperf3", "ping", "dtn-node", "dtn-perf"];

    /// Returns the name by which a site's list permits it.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Emulate { .. } => "emulate",
            Program::Gateway { .. } => "gateway",
            Program::Iperf3Server { .. } | Program::Iperf3 { .. } => "iperf3",
            Program::Ping { .. } => "ping",
            Program::DtnNode { .. } => "dtn-node",
            Program::DtnPerf { .. } => "dtn-perf",
        }
    }

    /// Returns `true` if it runs until it is stopped.
    pub fn is_service(&self) -> bool {
        matches!(self, Program::Gateway { .. } | Program::Iperf3Server { .. } | Program::DtnNode { .. })
    }
}

/// File that a scenario names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenFile {
    /// Name, without folders.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// Part of a cut scenario, and the machine with the other part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Name of the link.
    pub link: String,
    /// Name of a node of this part.
    pub part: String,
    /// UDP address of the other machine.
    pub to: SocketAddr,
    /// Key of both, 64 hexadecimal digits. The controller makes one for each job.
    pub key: String,
}

/// Interface in the place of a host of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Name of the host.
    pub host: String,
    /// Name of the interface.
    pub interface: String,
}

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandResult {
    /// Number of the command.
    pub id: u64,
    /// Outcome.
    pub outcome: Outcome,
}

/// Outcome of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Outcome {
    /// Command was executed.
    Done {},
    /// Key was changed.
    Set {
        /// Time of the run in seconds.
        at_s: f64,
    },
    /// Files of a task.
    Files {
        /// Files.
        files: Vec<Entry>,
    },
    /// The site refuses it.
    Refused {
        /// Reason.
        why: String,
    },
}

/// State of a task at its site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskReport {
    /// Number.
    pub task: u64,
    /// State.
    pub state: TaskState,
}

/// State of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TaskState {
    /// Task can be started.
    Prepared {},
    /// Task waits for its instant.
    Waiting {},
    /// Task runs.
    Running {
        /// Start in microseconds since 1970, by the site's clock.
        started_us: i64,
    },
    /// Task ended.
    Ended {
        /// Start in microseconds since 1970, by the site's clock.
        started_us: Option<i64>,
        /// End in microseconds since 1970, by the site's clock.
        ended_us: i64,
        /// Exit code, unless it was killed.
        code: Option<i32>,
        /// Reason of the end: "ended", "stopped", "deadline" or "disk" with the limit, or what failed.
        why: String,
    },
}

/// Clock of a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Site's clock minus the controller's in microseconds, as measured over the connection.
    pub offset_us: Option<f64>,
    /// Bound of that measurement's error, in microseconds.
    pub error_us: Option<f64>,
    /// Source that disciplines the clock: "chrony" with its stated error, or empty.
    pub source: String,
    /// Error bound that the source states, in microseconds.
    pub source_error_us: Option<f64>,
}

/// State of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doctor {
    /// Programs of the site's list.
    pub programs: Vec<String>,
    /// Reasons for which a task would fail, such as programs that the machine lacks.
    pub problems: Vec<String>,
    /// Free bytes where tasks write.
    pub free_bytes: u64,
    /// Number of processors that tasks may use.
    #[serde(default)]
    pub processors: u32,
}

/// Reads a message.
///
/// # Errors
/// Returns an error for messages that are too long, or of another form.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    if bytes.len() > MAX_MESSAGE {
        return Err(format!("message of {} bytes: expected at most {MAX_MESSAGE}", bytes.len()));
    }
    // `serde` reads the fields of an object from a list too.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err("expected an object".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Refuses polls that are longer than a batch.
///
/// # Errors
/// Returns an error if there are too many results or tasks.
pub fn check_poll(poll: &Poll) -> Result<(), String> {
    match poll.results.len() <= MAX_BATCH && poll.tasks.len() <= MAX_TASKS {
        true => Ok(()),
        false => Err(format!("expected at most {MAX_BATCH} results and {MAX_TASKS} tasks")),
    }
}

/// Refuses answers to polls that are longer than a batch.
///
/// # Errors
/// Returns an error if there are too many commands.
pub fn check_turn(turn: &Turn) -> Result<(), String> {
    match turn.commands.len() {
        0..=MAX_BATCH => Ok(()),
        count => Err(format!("{count} commands: expected at most {MAX_BATCH}")),
    }
}

/// Most tasks of a site.
pub const MAX_TASKS: usize = 100;

/// Returns the reason why a text cannot name a site or task.
pub fn name_refusal(name: &str) -> Option<&'static str> {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_letter);
    (!is_name).then_some("expected at most 40 lower-case letters, digits and \"-\", a letter first")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_typed_and_take_nothing_else() {
        let text = |act: &str| format!(r#"{{"id": 7, "act": {act}}}"#);
        let read = |act: &str| parse::<Command>(text(act).as_bytes());
        assert_eq!(read(r#"{"do": "stop", "task": 3}"#), Ok(Command { id: 7, act: Act::Stop { task: 3 } }));
        for bad in [
            r#"{"do": "run", "task": 3}"#,
            r#"{"do": "stop", "task": 3, "shell": "x"}"#,
            r#"{"do": "stop", "task": -3}"#,
            r#"{"do": "prepare", "task": 3, "most_s": 9, "program": {"program": "sh"}}"#,
            r#"{"do": "prepare", "task": 3, "most_s": 9, "program": {"program": "gateway", "name": "a", "path": "/bin/sh"}}"#,
            r#"{"do": "prepare", "task": 3, "most_s": 9, "program": {"program": "ping", "host": "-f", "count": 1, "interval_ms": 1}}"#,
            r#"{"do": "prepare", "task": 3, "most_s": 9, "program": {"program": "ping", "host": "example.org", "count": 1, "interval_ms": 1}}"#,
            r#"{"do": "start", "task": 3}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(parse::<Command>(b"[7, {}]").is_err());
        assert!(parse::<Turn>(&vec![b' '; MAX_MESSAGE + 1]).expect_err("refused").contains("at most"));
    }

    #[test]
    fn an_answer_has_as_many_commands_as_a_batch() {
        let turn = |count: usize| {
            let commands = (0..count as u64).map(|id| Command { id, act: Act::Stop { task: 3 } }).collect();
            Turn { commands, ..Turn::default() }
        };
        assert_eq!((check_turn(&turn(0)), check_turn(&turn(MAX_BATCH))), (Ok(()), Ok(())));
        let why = check_turn(&turn(MAX_BATCH + 1)).expect_err("refused");
        assert_eq!(why, "65 commands: expected at most 64");
    }

    #[test]
    fn messages_come_back_as_they_were() {
        let poll = Poll {
            wait_ms: 5,
            results: vec![
                CommandResult { id: 1, outcome: Outcome::Done {} },
                CommandResult { id: 2, outcome: Outcome::Refused { why: "no".to_owned() } },
            ],
            tasks: vec![TaskReport { task: 3, state: TaskState::Running { started_us: 4 } }],
            clock: Clock { offset_us: Some(1.5), ..Clock::default() },
            doctor: Some(Doctor::default()),
        };
        let text = serde_json::to_vec(&poll).expect("JSON");
        assert_eq!(parse::<Poll>(&text), Ok(poll));
    }

    #[test]
    fn live_samples_are_whole_lines_of_one_form() {
        let column =
            r#"{"name":"flow.f","label":"Window","diagram":"Windows","unit":"B","rate":false,"factor":1.0}"#;
        let columns = format!("{{\"event\":\"columns\",\"run\":\"a\",\"columns\":[{column}]}}\n");
        let samples = "{\"event\":\"samples\",\"t\":[0.0,0.1],\"v\":[[1.0,null]]}\n";
        assert_eq!(check_samples(&format!("{columns}{samples}")), Ok(()));
        assert_eq!(check_samples(""), Ok(()));
        for bad in [
            samples.trim_end(),
            "{}\n",
            "{\"event\":\"samples\",\"t\":[0.0],\"v\":[[]]}\n",
            "{\"event\":\"samples\",\"t\":[0.0],\"v\":[[1.0]],\"x\":1}\n",
            "{\"event\":\"columns\",\"run\":\"a\",\"columns\":[{\"name\":1}]}\n",
        ] {
            assert!(check_samples(bad).is_err(), "{bad}");
        }
        assert!(check_samples(&"\n".repeat(MAX_SAMPLES + 1)).is_err());
    }

    #[test]
    fn names_are_plain() {
        for good in ["a", "east-2", "gateway"] {
            assert_eq!(name_refusal(good), None, "{good}");
        }
        let long = "a".repeat(41);
        for bad in ["", "-a", "2a", "A", "a_b", "../x", "a b", "ä", &long] {
            assert!(name_refusal(bad).is_some(), "{bad}");
        }
    }
}
