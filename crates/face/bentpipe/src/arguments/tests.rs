use clap::{Command, CommandFactory};

use super::Arguments;

/// Columns of a help that is not printed to a wider or narrower terminal.
const COLUMNS: usize = 100;

/// Calls a function for a command and all below it, with their names.
fn walk(command: &Command, name: &str, each: &mut impl FnMut(&str, &str)) {
    let help = command.get_after_help().or(command.get_after_long_help());
    each(name, &help.map(ToString::to_string).unwrap_or_default());
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        walk(below, &format!("{name} {}", below.get_name()), each);
    }
}

/// Returns the words of a line as a shell has them, as far as examples need.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quote, mut is_open) = (vec![String::new()], None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => (quote, is_open) = (Some(c), true),
            (None, ' ') if is_open || words.last().is_some_and(|word| !word.is_empty()) => {
                words.push(String::new());
                is_open = false;
            }
            (None, ' ') => {}
            (_, c) => words.last_mut().expect("a word").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the commands of this program in the examples of a help.
fn examples(help: &str) -> Vec<String> {
    let (_, rest) = help.split_once("Examples:\n").unwrap_or_default();
    let rest = rest.split("\n\n").next().unwrap_or_default();
    // A command goes on in the next line behind a backslash.
    let lines = rest.split("\\\n").map(str::trim).collect::<Vec<_>>().join(" ");
    let commands = lines.lines().flat_map(|line| {
        // A remark stands two spaces or more behind the command.
        let command = line.trim_start().split("  ").next().unwrap_or_default();
        let parts = command.split(" | ").map(|part| part.split(['<', '>']).next().unwrap_or_default());
        parts.map(|part| part.trim().to_owned()).collect::<Vec<_>>()
    });
    commands.filter(|command| command.starts_with("bentpipe ")).collect()
}

#[test]
fn every_command_has_examples_that_parse_and_fit() {
    let mut faults = Vec::new();
    let mut found = 0;
    walk(&Arguments::command(), "bentpipe", &mut |name, help| {
        let examples = examples(help);
        if examples.is_empty() {
            faults.push(format!("{name}: no example"));
        }
        found += examples.len();
        for example in &examples {
            if let Err(error) = Arguments::command().try_get_matches_from(words(example)) {
                faults.push(format!("{name}: {example}: {error}"));
            }
        }
        for line in help.lines().filter(|line| line.len() > COLUMNS) {
            faults.push(format!("{name}: over {COLUMNS} columns, and would be broken: {line}"));
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let least = if cfg!(feature = "serve") { 200 } else { 15 };
    assert!(found > least, "{found}");
}
