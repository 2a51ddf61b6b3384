//! `bentpipe serve`.

use std::io::{BufRead, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use bentpipe_emu::CapabilitySet;
use bentpipe_emu::privileges::{OVERFLOW_USER, User, has_capabilities, is_root};
use bentpipe_serve::{Address, Certificate, JobSettings, Listening, Logins, Lost, Network, Proof, Security};
use bentpipe_units::Bytes;
use clap::{Args, Subcommand};

use crate::confine::{Reach, confine};
use crate::show;

/// Arguments of `bentpipe serve`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServeArguments {
    #[command(subcommand)]
    command: Option<ServeCommand>,
    /// Data folder [default: ~/.local/share/bentpipe]
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Address to listen at; port 0 takes a free one. Without a certificate it is of this machine alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Further name by which browsers reach the server, with its port; repeatable
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Browsers reach the server through a proxy with TLS
    #[arg(long, conflicts_with_all = ["certificate", "self_signed"])]
    behind_tls: bool,
    /// Network of a proxy that is believed when it names its client (X-Forwarded-For); repeatable
    #[arg(long, value_name = "ADDRESS/PREFIX", value_parser = |text: &str| Network::try_from(text.to_owned()))]
    trusted_proxy: Vec<Network>,
    /// Administrators need a second factor: without one they have level 2
    #[arg(long)]
    second_factor: bool,
    /// Certificate of the server in PEM, followed by those of its issuers. It is read again when it changes
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "self_signed")]
    certificate: Option<PathBuf>,
    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// Make a certificate at the first start and keep it in the data folder
    #[arg(long)]
    self_signed: bool,
    /// Folder that holds the studies [default: "studies" here, or of the package]
    #[arg(long, value_name = "FOLDER")]
    studies: Option<PathBuf>,
    /// Number of jobs that run at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Number of runs of a campaign at a time; 0 for one per processor
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    campaign_runs: u16,
    /// Room on the disk that stays free: with less no job starts
    #[arg(long, value_name = "SIZE", default_value = "1 GB")]
    keep_free: Bytes,
    /// Limits of children by the level of their user [default: limits.toml in the data folder]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// Most room of a user: scenarios, files and results of jobs together
    #[arg(long, value_name = "SIZE", default_value = "20 GB")]
    quota: Bytes,
    /// User of processes of requests and jobs [default: 65534 for root, else its own]
    ///
    /// Only root can name one. Emulations have the user of the server.
    #[arg(long, value_name = "NAME")]
    job_user: Option<String>,
    /// Make a new key of the audit log if it is missing
    ///
    /// The log states that entries before it cannot be verified.
    #[arg(long)]
    new_audit_key: bool,
    /// End with the standard input, with all jobs, and remove the data folder
    #[arg(long, hide = true)]
    temporary: bool,
}

#[derive(Debug, Subcommand)]
enum ServeCommand {
    /// Make the data folder and the first administrator
    #[command(after_help = "\
Examples:
  bentpipe serve init
  bentpipe serve init --name ann --password-stdin < password

Without a password on standard input one is generated and printed once.")]
    Init {
        /// Data folder [default: ~/.local/share/bentpipe]
        #[arg(long, value_name = "FOLDER")]
        data: Option<PathBuf>,
        /// Name of the administrator
        #[arg(long, value_name = "NAME", default_value = "admin")]
        name: String,
        /// Read the password from standard input, one line
        #[arg(long)]
        password_stdin: bool,
    },
    /// Print how the processes of a server on this machine are confined
    #[command(after_help = "\
Examples:
  bentpipe serve doctor
  systemd-run --pipe -p User=bentpipe -p Delegate=yes -p DelegateSubgroup=server \\
      bentpipe serve doctor

Exit code 1 if anything is missing. It is about a server that is started in the same way, by the
same user.")]
    Doctor,
    /// Do a task on standard input, as a child of a server
    #[command(hide = true)]
    Work,
    /// Copy the database while it is in use, and verify the copy
    #[command(after_help = "\
Examples:
  bentpipe serve backup lab.sqlite

Its hash is at its end, and in FILE.sha256. `bentpipe serve restore` puts it back.")]
    Backup {
        /// File of the copy
        file: PathBuf,
        /// Data folder [default: ~/.local/share/bentpipe]
        #[arg(long, value_name = "FOLDER")]
        data: Option<PathBuf>,
    },
    /// Replace the database by a copy that is whole, while no server runs
    #[command(after_help = "\
Examples:
  bentpipe serve restore lab.sqlite

The former database stays in the data folder, and its new name is printed. Results stay.")]
    Restore {
        /// Copy that `bentpipe serve backup` or the server made
        file: PathBuf,
        /// Take a copy that has no hash, such as one of an older bentpipe
        #[arg(long)]
        without_hash: bool,
        /// Keep sessions, tokens and recovery codes of the copy, revoked ones too
        #[arg(long)]
        keep_logins: bool,
        /// Data folder [default: ~/.local/share/bentpipe]
        #[arg(long, value_name = "FOLDER")]
        data: Option<PathBuf>,
    },
}

/// Folders of studies that are looked for.
const STUDIES: [&str; 2] = ["studies", "/usr/share/doc/bentpipe/examples/studies"];

pub(crate) fn run(arguments: ServeArguments) -> Result<u8, String> {
    match arguments.command {
        Some(ServeCommand::Init { data, name, password_stdin }) => {
            init(&folder(data)?, &name, password_stdin)
        }
        Some(ServeCommand::Doctor) => Ok(doctor()),
        Some(ServeCommand::Work) => bentpipe_serve::work(confined).map(|()| 0),
        Some(ServeCommand::Backup { file, data }) => {
            bentpipe_serve::back_up(&folder(data)?, &file).map_err(|error| error.to_string())?;
            show::out(&format!("{}\n", file.display()));
            Ok(0)
        }
        Some(ServeCommand::Restore { file, without_hash, keep_logins, data }) => {
            let proof = if without_hash { Proof::Waived } else { Proof::Required };
            let logins = if keep_logins { Logins::Keep } else { Logins::End };
            let restored = bentpipe_serve::restore(&folder(data)?, &file, proof, logins)
                .map_err(|error| error.to_string())?;
            if restored.is_unproven {
                show::note("the copy has no hash: a flipped bit of it is not found");
            }
            if let Some(before) = &restored.before {
                show::out(&format!("the database before: {}\n", before.display()));
            }
            show_lost(&restored.lost);
            if !keep_logins {
                show::out(&format!("ended sessions, tokens and recovery codes: {}\n", restored.ended));
            }
            show::note("passwords, levels, locked accounts and sites are those of the copy");
            Ok(0)
        }
        None => serve(arguments),
    }
}

/// Prints the entries of the audit log that a backup lacks.
fn show_lost(lost: &Lost) {
    let Lost { last, before, broken } = lost;
    match (before, lost.entries()) {
        (Some(before), Some(1..)) => {
            show::out(&format!(
                "audit log: it ends at entry {last} of {before}: {} entries are lost\n",
                before - last
            ));
        }
        (None, _) => show::note(&format!(
            "the audit log ends at entry {last}, and it is not known how many came after it: its key or its end was missing"
        )),
        _ => {}
    }
    if let Some(entry) = broken {
        show::note(&format!("entry {entry} of the copy's audit log was changed, or has another key"));
    }
}

/// Confines a child to its working folder, and to what its task reads.
fn confined(readable: &[PathBuf]) -> Result<(), String> {
    confine(readable, Reach::Work)
}

fn folder(given: Option<PathBuf>) -> Result<PathBuf, String> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/share/bentpipe"));
    given.or_else(home).ok_or_else(|| "no home folder: name one with --data".to_owned())
}

fn init(folder: &Path, name: &str, reads_password: bool) -> Result<u8, String> {
    let password = match reads_password {
        true => {
            if std::io::stdin().is_terminal() {
                show::note("the password is shown while you type it");
            }
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
            Some(line.trim_end_matches(['\r', '\n']).to_owned())
        }
        false => None,
    };
    let generated = bentpipe_serve::init(folder, name, password).map_err(|error| error.to_string())?;
    show::out(&format!("data: {}\nadministrator: {name}\n", folder.display()));
    if let Some(password) = generated {
        show::out(&format!("password: {password}\n"));
        show::note("it is stored nowhere in this form; change it on the page \"Account\"");
    }
    Ok(0)
}

fn serve(arguments: ServeArguments) -> Result<u8, String> {
    let folder = folder(arguments.data)?;
    let program = std::env::current_exe().map_err(|error| format!("this program's file: {error}"))?;
    let ServeArguments { listen, host: hosts, behind_tls, studies, jobs, campaign_runs, .. } = arguments;
    let security = match (arguments.certificate, arguments.key) {
        (Some(chain), Some(key)) => Security::Own(Certificate::Files { chain, key }),
        _ if arguments.self_signed => Security::Own(Certificate::SelfSigned),
        _ if behind_tls => Security::BehindProxy,
        _ => Security::Plain,
    };
    let address = Address {
        listen,
        hosts,
        security,
        needs_second_factor: arguments.second_factor,
        proxies: arguments.trusted_proxy,
    };
    let known = STUDIES.iter().map(PathBuf::from).find(|folder| folder.is_dir());
    let user = job_user(arguments.job_user.as_deref())?;
    let jobs = JobSettings {
        user,
        at_once: jobs.into(),
        campaign_runs: campaign_runs.into(),
        keep_free: arguments.keep_free.get(),
        quota: arguments.quota.get(),
        program,
        studies: studies.or(known),
        limits: arguments.limits,
        sweep: bentpipe_emu::clean_up_after_crash,
        makes_audit_key: arguments.new_audit_key,
        is_temporary: arguments.temporary,
    };
    let ready = |listening: &Listening| {
        show::out(&format!("bentpipe serve: {}\n", listening.url));
        if let Some(fingerprint) = &listening.fingerprint {
            show::out(&format!("certificate: SHA-256 {fingerprint}\n"));
        }
        if let Some(file) = &listening.trust {
            show::out(&format!("programs trust it by its file: {}\n", file.display()));
        }
    };
    for (what, state) in confinement(user) {
        if let Err(why) = state {
            show::note(&format!("{what}: {why}"));
        }
    }
    bentpipe_serve::run(&folder, &address, jobs, ready).map_err(|error| error.to_string())?;
    Ok(0)
}

/// Capabilities by which a server gives its children another user.
const OTHER_USER: CapabilitySet =
    CapabilitySet::SETUID.union(CapabilitySet::SETGID).union(CapabilitySet::CHOWN);
/// Capabilities of emulations.
const NAMESPACES: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::SYS_ADMIN);

/// Returns user and group of processes of requests and jobs.
///
/// `None` for those of the server.
fn job_user(name: Option<&str>) -> Result<Option<(u32, u32)>, String> {
    let may = is_root() && has_capabilities(OTHER_USER);
    match name {
        Some(_) if !may => Err("--job-user: only root can have jobs of another user".to_owned()),
        None if !may => Ok(None),
        name => {
            let user = User::find(name.unwrap_or(OVERFLOW_USER));
            user.map(|user| Some((user.uid, user.gid))).map_err(|error| format!("--job-user: {error}"))
        }
    }
}

/// Returns the parts of the confinement of children here.
///
/// Each has its state, or what is missing.
fn confinement(user: Option<(u32, u32)>) -> [(&'static str, Result<String, String>); 3] {
    let files = match bentpipe_emu::privileges::has_landlock() {
        true => Ok("limited by Landlock to inputs and working folder; not those of emulations".to_owned()),
        false => Err("this kernel has no Landlock: children open their own inputs alone, but are not confined to files".to_owned()),
    };
    let own_user = match user {
        Some((uid, _)) => Ok(format!("{uid}; emulations have that of the server")),
        None => Err("that of the server, as only root can give them another".to_owned()),
    };
    let emulations = match has_capabilities(NAMESPACES) {
        true => Ok("possible".to_owned()),
        false => Err("refused: they need CAP_NET_ADMIN and CAP_SYS_ADMIN".to_owned()),
    };
    [("files of jobs", files), ("user of jobs", own_user), ("emulations", emulations)]
}

/// Prints how a server's children are confined here; the exit code.
fn doctor() -> u8 {
    let groups = ("control groups", bentpipe_serve::may_make_groups());
    let user = job_user(None).unwrap_or_default();
    let all: Vec<_> = confinement(user).into_iter().chain([groups]).collect();
    for (what, state) in &all {
        let (mark, text) = match state {
            Ok(text) => ("", text),
            Err(text) => ("missing: ", text),
        };
        show::out(&format!("{what}: {mark}{text}\n"));
    }
    u8::from(all.iter().any(|(_, state)| state.is_err()))
}
