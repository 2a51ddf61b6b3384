//! `bentpipe dtn node`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use bentpipe_bundles::node::{Daemon, NodeFile};
use bentpipe_record::write_whole;
use clap::Args;

use crate::show::log;

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// Node file
    file: PathBuf,
    /// Write the counters as JSON at the end; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Serve the counters to Prometheus at this address on loopback
    #[arg(long, value_name = "ADDRESS:PORT")]
    prometheus: Option<SocketAddr>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the node until the end and returns the exit code.
pub(super) fn run(args: &NodeArgs, stop: &AtomicBool) -> Result<u8, String> {
    let mut daemon = Daemon::open(NodeFile::read(&args.file)?)?;
    if let Some(address) = args.prometheus {
        daemon.export_at(address)?;
    }
    daemon.run(stop, &mut |line| {
        if !args.quiet {
            log(line);
        }
    })?;
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", daemon.counters().to_json());
        write_whole(path, |file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())?;
    }
    Ok(0)
}
