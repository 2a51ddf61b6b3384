//! Commands, files and marks of a Markdown page.

use std::path::Path;

/// Page of the documentation.
pub(crate) struct Page {
    /// Path from the repository's root.
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
}

/// Block of a page that a reader acts on.
pub(crate) struct Step {
    /// Line of its first line, from 1.
    pub(crate) line: usize,
    pub(crate) marks: Vec<Mark>,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    /// Text that the reader saves.
    Save(String),
    /// Commands that the reader types.
    Type(Vec<Shown>),
}

/// Command as it is shown.
pub(crate) struct Shown {
    pub(crate) is_root: bool,
    pub(crate) command: String,
    /// Lines that its output has.
    pub(crate) output: Vec<String>,
}

/// Comment in front of a block: `<!-- exit: 2 -->`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mark {
    /// `file: NAME`: the block is saved under this name.
    File(String),
    /// `append: NAME`: the block is added to this file.
    Append(String),
    /// `exit: N`: the command ends with this code.
    Exit(i32),
    /// `skip: REASON`: the commands are not run.
    Skip,
    /// `terminal: ...`: the command runs until the end of the page.
    Terminal,
    /// `live`: the command takes part in real time on a machine that can.
    Live,
    /// `last`: the commands run after those of terminals have ended.
    Last,
}

impl Mark {
    fn parse(line: &str) -> Option<Mark> {
        let text = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        let (word, value) = text.split_once(": ").unwrap_or((text, ""));
        match word {
            "file" => Some(Mark::File(value.into())),
            "append" => Some(Mark::Append(value.into())),
            "exit" => Some(Mark::Exit(value.parse().expect("an exit code"))),
            "skip" => (!value.is_empty()).then_some(Mark::Skip),
            "terminal" => Some(Mark::Terminal),
            "live" => Some(Mark::Live),
            "last" => Some(Mark::Last),
            _ => None,
        }
    }
}

impl Page {
    pub(crate) fn read(path: &Path) -> Page {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.strip_prefix(super::root()).unwrap_or(path).display().to_string();
        Page { steps: steps(&name, &text), name }
    }
}

/// Splits a page into its steps.
fn steps(name: &str, text: &str) -> Vec<Step> {
    let mut lines = text.lines().enumerate();
    let (mut steps, mut marks) = (Vec::new(), Vec::new());
    while let Some((number, line)) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("```") else {
            refuse_loose_command(name, number, line);
            match Mark::parse(line) {
                Some(mark) => marks.push(mark),
                None if line.trim().is_empty() => {}
                None => marks.clear(),
            }
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let body =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !line.trim_start().starts_with("```"));
        let body: Vec<&str> = body.map(|line| line.get(indent..).unwrap_or("")).collect();
        let marks = std::mem::take(&mut marks);
        let is_file = marks.iter().any(|mark| matches!(mark, Mark::File(_) | Mark::Append(_)));
        let action = if kind == "console" {
            Action::Type(shown(name, number, &body))
        } else if is_file {
            Action::Save(body.join("\n") + "\n")
        } else {
            // Generated pages quote the program's help.
            let is_quoted = name.ends_with("cli.md");
            body.iter().filter(|_| !is_quoted).for_each(|line| refuse_loose_command(name, number, line));
            continue;
        };
        steps.push(Step { line: number + 1, marks, action });
    }
    steps
}

/// Panics at a command outside of a `console` block, where no test would run it.
fn refuse_loose_command(name: &str, number: usize, line: &str) {
    let text = line.trim_start().trim_start_matches(['$', '#']).trim_start();
    let is_code = line.starts_with("    ") || line.starts_with(['$']) || !line.starts_with(['#', '-', '|']);
    let is_command = ["bentpipe ", "cargo run "].iter().any(|start| text.starts_with(start));
    let is_prose = text.contains("` ") || !text.is_ascii() && !line.starts_with("    ");
    let is_loose = is_code && is_command && !is_prose && is_subcommand(text);
    assert!(!is_loose, "{name}:{}: a command outside of a `console` block: {text}", number + 1);
}

fn is_subcommand(text: &str) -> bool {
    let word = text.split_whitespace().nth(1).unwrap_or_default();
    let known = "run emulate shell set check reproduce rohc channel ts rtp video gateway list describe schema completions";
    text.starts_with("cargo ") || known.split(' ').any(|command| command == word)
}

/// Splits a `console` block into commands and their output. A command goes on after a backslash.
fn shown(name: &str, number: usize, body: &[&str]) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for line in body {
        let command = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
        match (command, found.last_mut()) {
            (Some(command), _) => {
                let is_root = line.starts_with('#');
                found.push(Shown { is_root, command: command.to_owned(), output: Vec::new() });
            }
            (None, Some(last)) if last.command.ends_with('\\') && last.output.is_empty() => {
                last.command.pop();
                last.command.push_str(line.trim_start());
            }
            (None, Some(last)) => last.output.push((*line).to_owned()),
            (None, None) => panic!("{name}:{}: a `console` block without a prompt", number + 1),
        }
    }
    found
}

#[test]
fn a_page_is_taken_apart() {
    let text = "Text.\n\n<!-- file: a.toml -->\n```toml\nx = 1\n```\n\n   <!-- exit: 2 -->\n   ```console\n   $ a \\\n     b\n   out\n   # c\n   ```\n```text\nno\n```\n";
    let steps = steps("page", text);
    let [
        Step { action: Action::Save(file), marks, .. },
        Step { action: Action::Type(shown), marks: exit, .. },
    ] = &steps[..]
    else {
        panic!("{} steps", steps.len())
    };
    assert_eq!(
        (&file[..], &marks[..], &exit[..]),
        ("x = 1\n", &[Mark::File("a.toml".into())][..], &[Mark::Exit(2)][..])
    );
    assert_eq!((&shown[0].command[..], &shown[0].output[..]), ("a b", &["out".to_owned()][..]));
    assert!(shown[1].is_root && !shown[0].is_root && shown.len() == 2);
}

#[test]
fn a_command_that_no_test_runs_is_refused() {
    for text in ["    $ bentpipe run a.toml", "```sh\nbentpipe check a.toml\n```"] {
        assert!(std::panic::catch_unwind(|| steps("page", text)).is_err(), "{text}");
    }
    assert!(steps("page", "`bentpipe run a.toml` runs it.\nbentpipe is a program.").is_empty());
}
