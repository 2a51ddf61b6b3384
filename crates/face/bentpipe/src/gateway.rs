//! `bentpipe gateway`: one site of a satellite mesh on real packets.

use std::io::IsTerminal;
use std::path::PathBuf;

use bentpipe_gateway::{Console, Privileges, changes_text, control, forecast, settings};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::show;

/// `bentpipe gateway`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Site file
    #[arg(required = true)]
    site: Option<PathBuf>,
    /// Show no tables each second; they are shown on a terminal only
    #[arg(long, short)]
    quiet: bool,
    /// User to change to once devices and sockets are open
    ///
    /// A name or a number. Capabilities go as well, and the process can open few files and make few system calls: see
    /// the page "Gateway" of the book. Default: user 65534, who owns no files.
    #[arg(long, value_name = "NAME", conflicts_with = "keep_privileges")]
    user: Option<String>,
    /// Keep root and all capabilities while it runs
    #[arg(long)]
    keep_privileges: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what a site would make, and what its carrier carries; change nothing
    #[command(after_help = "\
Examples:
  bentpipe gateway check site-a.toml")]
    Check {
        /// Site file
        site: PathBuf,
    },
    /// Reload the site file in the running gateway; remaining sites keep their ROHC contexts
    #[command(after_help = "\
Examples:
  bentpipe gateway reload site-a.toml
  kill -HUP PID                          the same")]
    Reload {
        /// Site file
        site: PathBuf,
    },
    /// Print the statistics of the gateway that runs for a site file, as JSON
    #[command(after_help = "\
Examples:
  bentpipe gateway statistics site-a.toml")]
    Statistics {
        /// Site file
        site: PathBuf,
    },
}

/// Runs a command, and returns the exit code.
///
/// # Errors
/// Returns what is wrong with the site file, cannot be opened, or is not allowed.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    match (&arguments.command, &arguments.site) {
        (Some(Command::Check { site }), _) => {
            let (settings, config) = settings::read(site).map_err(|error| error.to_string())?;
            show::out(&forecast(&settings.value().title, &config));
        }
        (Some(Command::Reload { site }), _) => {
            let answer = control::ask(site, "reload")?;
            let changes: Vec<&str> =
                answer["changes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            show::out(&changes_text(&changes));
        }
        (Some(Command::Statistics { site }), _) => {
            let answer = control::ask(site, "statistics")?;
            show::out(&format!("{answer:#}\n"));
        }
        (None, Some(site)) => {
            bentpipe_gateway::run(site, &privileges(arguments), console(arguments.quiet))
                .map_err(|error| error.to_string())?;
        }
        (None, None) => return Err("expected a site file".to_owned()),
    }
    Ok(0)
}

fn privileges(arguments: &Arguments) -> Privileges {
    match arguments.keep_privileges {
        true => Privileges::Kept,
        false => Privileges::Dropped(arguments.user.clone()),
    }
}

fn console(quiet: bool) -> Console {
    Console {
        output: Box::new(std::io::stdout()),
        messages: Box::new(std::io::stderr()),
        draws: !quiet && std::io::stderr().is_terminal(),
    }
}
