//! Commands that this build of the program leaves out.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Command that builds the whole program.
const WHOLE: &str = "cargo build --release";

/// Commands of a feature of this crate.
struct Feature {
    name: &'static str,
    is_built: bool,
    commands: &'static [&'static str],
}

const FEATURES: [Feature; 2] = [
    Feature {
        name: "tools",
        is_built: cfg!(feature = "tools"),
        commands: &[
            "emulate",
            "shell",
            "set",
            "campaign",
            "reproduce",
            "rohc",
            "channel",
            "traffic",
            "ts",
            "rtp",
            "dtn",
            "pep",
            "call",
            "answer",
            "video",
            "voice",
            "gateway",
            "completions",
            "man",
            "survive",
        ],
    },
    Feature { name: "serve", is_built: cfg!(feature = "serve"), commands: &["serve", "remote", "site"] },
];

/// Commands on a line of the help.
const A_LINE: usize = 11;

/// Returns examples of the program, and the commands that it lacks.
pub(crate) fn help(examples: &str) -> String {
    let missing = FEATURES.iter().filter(|feature| !feature.is_built);
    let missing: Vec<&str> = missing.flat_map(|feature| feature.commands.iter().copied()).collect();
    if missing.is_empty() {
        return examples.to_owned();
    }
    let lines: Vec<String> = missing.chunks(A_LINE).map(|names| names.join(", ")).collect();
    let lines = lines.join(",\n  ");
    format!("{examples}\n\n`{WHOLE}` in the sources builds the whole program, which also has\n  {lines}")
}

/// Returns the refusal of a command that another build has. `None` for any other error.
pub(crate) fn refusal(error: &Error) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(name))) => lacking(&FEATURES, name),
        _ => None,
    }
}

fn lacking(features: &[Feature], name: &str) -> Option<String> {
    let is_missing = |feature: &&Feature| !feature.is_built && feature.commands.contains(&name);
    let feature = features.iter().find(is_missing)?.name;
    Some(format!(
        "this program was built without `{name}`, a command of the feature \"{feature}\"\n\
         help: `{WHOLE}` in the sources builds the whole program, target/release/bentpipe"
    ))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn features_have_their_commands() {
        let program = Arguments::command();
        for feature in &FEATURES {
            for name in feature.commands {
                assert_eq!(program.find_subcommand(name).is_some(), feature.is_built, "{name}");
            }
        }
    }

    #[test]
    fn a_smaller_program_has_the_simulation() {
        let of_features = |name: &str| FEATURES.iter().any(|feature| feature.commands.contains(&name));
        let names: Vec<String> =
            Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let small: Vec<&String> = names.iter().filter(|name| !of_features(name)).collect();
        assert_eq!(
            small,
            ["run", "check", "compare", "series", "results", "search", "list", "describe", "schema"]
        );
    }

    #[test]
    fn a_command_that_is_left_out_is_refused_with_the_build_that_has_it() {
        let left_out = [Feature { name: "tools", is_built: false, commands: &["emulate"] }];
        let refusal = lacking(&left_out, "emulate").expect("a refusal");
        assert!(refusal.contains("the feature \"tools\"") && refusal.contains("`cargo build --release`"));
        assert_eq!(lacking(&left_out, "emulated"), None);
        let built = [Feature { is_built: true, ..left_out[0] }];
        assert_eq!(lacking(&built, "emulate"), None);
    }

    #[test]
    fn each_way_to_ask_for_a_missing_command_is_recognised() {
        for words in [&["bentpipe", "serve", "init"][..], &["bentpipe", "help", "serve"]] {
            let refusal = Arguments::try_parse_from(words).err().and_then(|error| refusal(&error));
            assert_eq!(refusal.is_some(), !cfg!(feature = "serve"), "{words:?}");
        }
    }
}
