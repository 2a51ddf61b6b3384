//! A reader at a terminal, who saves the files of a page and types its commands.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use bentpipe_testkit::{Apart, Folder, Process, Turn, able_live, has, has_sockets, text, until};

use super::page::{Action, Mark, Page, Shown, Step};

/// Follows a page from top to bottom.
pub(crate) fn run(page: &Page) {
    let mut session = Session::new(&page.name);
    let is_last = |step: &&Step| step.marks.contains(&Mark::Last);
    page.steps.iter().filter(|step| !is_last(step)).for_each(|step| session.follow(step));
    session.close_terminals();
    page.steps.iter().filter(is_last).for_each(|step| session.follow(step));
}

/// Beginnings of commands that build the program and run it, in place of which the program of the test runs.
const RUNS: [&str; 2] = ["cargo run --release -- ", "cargo run --release --no-default-features -- "];

/// Folder and terminals of a reader.
pub(crate) struct Session {
    page: String,
    folder: Folder,
    terminals: Vec<Process>,
    /// Where commands run, so that pages can have the same ports and namespaces; none without the right to make it.
    apart: Option<Apart>,
    /// Turn of a live test, once a command needs it; none if this machine is not able. Pages that are apart take none.
    live: Option<Option<Option<Turn>>>,
}

impl Session {
    /// Opens a folder that has the repository's examples, and the program on the path.
    pub(crate) fn new(page: &str) -> Session {
        let folder = Folder::new();
        for name in ["scenarios", "studies", "gateway", "contrib"] {
            symlink(super::root().join(name), folder.file(name)).expect("a link");
        }
        std::fs::create_dir(folder.file("bin")).expect("a folder");
        symlink(env!("CARGO_BIN_EXE_bentpipe"), folder.file("bin/bentpipe")).expect("a link");
        Session { page: page.to_owned(), folder, terminals: Vec::new(), apart: Apart::make(), live: None }
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns `true` if commands don't meet those of other pages.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart.is_some()
    }

    fn follow(&mut self, step: &Step) {
        match &step.action {
            Action::Save(text) => self.save(step, text),
            Action::Type(_) if step.marks.contains(&Mark::Skip) => {}
            Action::Type(commands) => commands.iter().for_each(|shown| self.enter(step, shown)),
        }
    }

    fn save(&self, step: &Step, text: &str) {
        for mark in &step.marks {
            let (name, before) = match mark {
                Mark::File(name) => (name, String::new()),
                Mark::Append(name) => {
                    (name, std::fs::read_to_string(self.folder.file(name)).expect("a file") + "\n")
                }
                _ => continue,
            };
            self.folder.write(name, before + text);
        }
    }

    fn enter(&mut self, step: &Step, shown: &Shown) {
        let is_live = shown.is_root || step.marks.contains(&Mark::Live);
        if is_build(&shown.command) || !has_tools(&shown.command) || is_live && !self.is_able() {
            return;
        }
        let place = format!("{}:{}: `{}`", self.page, step.line, shown.command);
        if step.marks.contains(&Mark::Terminal) {
            return self.open_terminal(&shown.command);
        }
        let code =
            step.marks.iter().find_map(|mark| if let Mark::Exit(code) = mark { Some(*code) } else { None });
        let printed = self.type_in(&place, &shown.command, code.unwrap_or(0));
        let masked = |text: &str| if is_live { masked(text) } else { text.to_owned() };
        contains_in_order(
            &place,
            &masked(&printed),
            &shown.output.iter().map(|line| masked(line)).collect::<Vec<_>>(),
        );
    }

    fn is_able(&mut self) -> bool {
        let is_apart = self.apart.is_some();
        let able = || able_live(&["ip", "ping"]).map(|turn| (!is_apart).then_some(turn));
        self.live.get_or_insert_with(able).is_some()
    }

    /// Types a command, which has to end with `code`, and returns what it prints.
    pub(crate) fn type_in(&self, place: &str, command: &str, code: i32) -> String {
        let output = self.shell(command).output().expect("a shell");
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(code), "{place} ends with:\n{printed}");
        printed
    }

    /// Types a command, and returns what it prints, however it ends.
    pub(crate) fn printed(&self, command: &str) -> String {
        text(&self.shell(command).output().expect("a shell"))
    }

    fn shell(&self, command: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let command = RUNS.iter().fold(command.to_owned(), |command, run| command.replace(run, "bentpipe "));
        let mut shell = match &self.apart {
            Some(apart) => apart.command("sh", &self.folder),
            None => Command::new("sh"),
        };
        shell.args(["-c", &command]).current_dir(&self.folder).stdin(Stdio::null()).env("NO_COLOR", "1");
        shell.env("PATH", format!("{}:{path}", self.folder.file("bin").display()));
        shell.env("HOME", self.folder.path());
        shell
    }

    /// Starts a command in a terminal of its own, and waits until it says that it is ready. Those that say nothing have a socket.
    pub(crate) fn open_terminal(&mut self, command: &str) {
        let log = self.folder.file(format!("terminal-{}", self.terminals.len()));
        let file = File::create(&log).expect("a file");
        // A runner in the background of a shell ignores SIGINT, which would be inherited.
        let mut shell = self.shell(&format!("exec env --default-signal=INT {command}"));
        shell.stdout(file.try_clone().expect("a file")).stderr(file);
        let mut terminal = Process::start(&mut shell);
        until(&format!("start of `{command}`"), || {
            is_ready(&log) || !says_so(command) && has_sockets(terminal.id()) || !terminal.is_running()
        });
        self.terminals.push(terminal);
    }

    /// Ends what runs in terminals, the last first.
    pub(crate) fn close_terminals(&mut self) {
        while let Some(mut terminal) = self.terminals.pop() {
            if terminal.is_running() {
                terminal.end();
            }
        }
    }
}

/// Returns `true` for commands that have sockets before they are ready, and say when they are.
fn says_so(command: &str) -> bool {
    let is_any =
        ["emulate", "gateway", "pep"].iter().any(|word| command.contains(&format!("bentpipe {word} ")));
    is_any && !command.contains("--join")
}

fn is_ready(log: &Path) -> bool {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    ["end it:", " runs on ", " is running on ", "press Ctrl-C"].iter().any(|word| text.contains(word))
}

/// Returns `true` if a command builds or tests the project, which the test itself is part of.
fn is_build(command: &str) -> bool {
    command.starts_with("cargo ") && !RUNS.iter().any(|run| command.starts_with(run))
}

/// Returns `true` if the tools that a command calls are installed.
fn has_tools(command: &str) -> bool {
    let needs_ffmpeg =
        ["ffmpeg", "video card", "video test-card", "video quality", "--quality", "voice carry"];
    let mut tools: Vec<&str> = ["tshark", "tcpdump", "iperf3", "curl", "python3", "espeak-ng"]
        .into_iter()
        .filter(|tool| command.contains(tool))
        .collect();
    tools.extend(needs_ffmpeg.iter().any(|word| command.contains(word)).then_some("ffmpeg"));
    // The recordings of the book are espeak-ng's.
    tools.extend(command.contains("voice carry").then_some("espeak-ng"));
    tools.into_iter().all(has)
}

/// Replaces numbers, which differ in real time from run to run.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' | '.' if masked.ends_with('N') => {}
            '0'..='9' => masked.push('N'),
            _ => masked.push(letter),
        }
    }
    masked
}

/// Asserts that each line is in a text, in this order; `...` stands for any lines.
fn contains_in_order(place: &str, text: &str, lines: &[String]) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = text.lines().map(words);
    for line in lines.iter().map(|line| words(line)).filter(|line| !line.is_empty() && line != "...") {
        assert!(rest.any(|found| found == line), "{place} does not print\n{line}\nbut\n{text}");
    }
}
