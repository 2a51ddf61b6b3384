//! `bentpipe site`: this machine runs tasks of a controller's jobs.

use std::path::{Path, PathBuf};

use bentpipe_agent::{Agent, Invitation, Settings};
use clap::{Args, Subcommand};

use crate::{interrupt, show};

/// Arguments of `bentpipe site`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SiteArguments {
    #[command(subcommand)]
    command: Option<SiteCommand>,
    /// Folder of the site: its key and its tasks [default: ~/.local/share/bentpipe-site]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// File of what the site permits
    #[arg(long, value_name = "FILE", default_value = "/etc/bentpipe/site.toml")]
    allow: PathBuf,
}

#[derive(Debug, Subcommand)]
enum SiteCommand {
    /// Make this machine a site of a controller, by the code of an invitation
    #[command(after_help = "\
Examples:
  bentpipe site enrol --controller https://lab.example.org:8443 bpe_..._...

The code has the hash of the controller's certificate: no other server is believed from then on.
With --authorities any certificate for the controller's name that they sign is believed, so that
it can be renewed.")]
    Enrol {
        /// Code of the invitation, from the controller's page "Sites"
        code: String,
        /// Address of the controller
        #[arg(long, value_name = "URL")]
        controller: String,
        /// Authorities that sign the controller's certificate, in PEM
        #[arg(long, value_name = "FILE")]
        authorities: Option<PathBuf>,
        /// Folder of the site [default: ~/.local/share/bentpipe-site]
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
    /// Supervise one task
    #[command(hide = true)]
    Task {
        /// Folder of the task
        task: PathBuf,
        /// Start in microseconds since 1970
        at: i64,
    },
}

pub(crate) fn run(arguments: SiteArguments) -> Result<u8, String> {
    let wrong = |error: bentpipe_agent::Error| error.to_string();
    match arguments.command {
        Some(SiteCommand::Enrol { code, controller, authorities, folder }) => {
            let invitation = Invitation::parse(&code).map_err(|why| format!("the code: {why}"))?;
            let folder = default_folder(folder)?;
            let enrolment = bentpipe_agent::enrol(&folder, &controller, &invitation, authorities.as_deref())
                .map_err(wrong)?;
            show::out(&format!("site: {}\nfolder: {}\n", enrolment.name, folder.display()));
            Ok(0)
        }
        Some(SiteCommand::Task { task, at }) => {
            bentpipe_agent::supervise(&task, at).map(|()| 0).map_err(wrong)
        }
        None => {
            let program = std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
            let settings = Settings {
                folder: default_folder(arguments.folder)?,
                allowed: arguments.allow,
                program,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            };
            let mut agent = Agent::open(settings).map_err(wrong)?;
            show::out(&format!("bentpipe site: {}\n", agent.enrolment().name));
            agent.run(&interrupt::flag(), &|text| show::log(text));
            Ok(0)
        }
    }
}

fn default_folder(given: Option<PathBuf>) -> Result<PathBuf, String> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/share/bentpipe-site"));
    given.or_else(home).ok_or_else(|| "no home folder: name one with --folder".to_owned())
}
