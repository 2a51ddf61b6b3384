//! `bentpipe dtn ping`.

use std::sync::atomic::AtomicBool;

use bentpipe_bundles::ping::{Pinging, ping};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::dtn::eid::Eid;
use clap::Args;

use super::payload;
use super::tls::TlsArgs;
use crate::show::out;

#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    /// Address of the own node: HOST:PORT
    node: String,
    /// Echo service: ipn:NODE.7, or ipn:NODE.2047 of HDTN
    to: Eid,
    /// Endpoint of this program, at the own node
    #[arg(long, value_name = "EID")]
    from: Eid,
    /// Number of bundles
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    count: u64,
    /// Interval between bundles
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    interval: Span,
    /// Length of the payload, 8 B or more
    #[arg(long, alias = "size", value_name = "BYTES", default_value = "64 B", value_parser = payload)]
    payload: Bytes,
    /// Wait for answers after the last bundle, and lifetime of the bundles
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    wait: Span,
    /// Print the summary only
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Sends all bundles, prints the answers, and returns the exit code.
pub(super) fn run(args: &PingArgs, stop: &AtomicBool) -> Result<u8, String> {
    let pinging = Pinging {
        node: args.tls.access(&args.node)?,
        from: args.from.clone(),
        to: args.to.clone(),
        count: args.count,
        interval: args.interval,
        size: args.payload.get() as usize,
        wait: args.wait,
    };
    let mut answered = |number: u64, time: Span| {
        if !args.quiet {
            out(&format!("{} {number} {:.3} ms\n", args.to, 1e3 * time.as_secs_f64()));
        }
    };
    let found = ping(&pinging, stop, &mut answered)?;
    out(&found.to_string());
    Ok(u8::from((found.times.len() as u64) < found.sent))
}
