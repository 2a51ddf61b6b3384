//! `bentpipe dtn perf`.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use bentpipe_bundles::perf::{Control, Load, perf};
use bentpipe_record::write_whole;
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::dtn::eid::Eid;
use clap::Args;

use super::payload;
use super::tls::TlsArgs;
use crate::show::out;

#[derive(Debug, Args)]
pub(crate) struct PerfArgs {
    /// Address of the own node: HOST:PORT
    node: String,
    /// Destination, such as the discard service ipn:NODE.9
    to: Eid,
    /// Endpoint of this program, at the own node
    #[arg(long, value_name = "EID")]
    from: Eid,
    /// Length of each payload
    #[arg(long, alias = "size", value_name = "BYTES", default_value = "50 kB", value_parser = payload)]
    payload: Bytes,
    /// Number of bundles without a delivery report
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    window: u32,
    /// Bundles per second, in place of a window
    #[arg(long, value_name = "N", value_parser = rate, conflicts_with = "window")]
    rate: Option<f64>,
    /// Number of bundles
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Duration of sending
    #[arg(long, value_name = "TIME", required_unless_present = "count")]
    duration: Option<Span>,
    /// Wait for reports after the last bundle
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    wait: Span,
    /// Lifetime of the bundles
    #[arg(long, value_name = "TIME", default_value = "1 h")]
    lifetime: Span,
    /// Write the figures as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (1e-6..=1e7).contains(rate));
    rate.ok_or_else(|| "expected 0.000001 to 10,000,000 bundles per second".into())
}

/// Sends the load, prints its figures, and returns the exit code.
pub(super) fn run(args: &PerfArgs, stop: &AtomicBool) -> Result<u8, String> {
    let load = Load {
        node: args.tls.access(&args.node)?,
        from: args.from.clone(),
        to: args.to.clone(),
        size: args.payload.get() as usize,
        control: args.rate.map_or(Control::Window(args.window as usize), Control::Rate),
        count: args.count,
        duration: args.duration,
        wait: args.wait,
        lifetime: args.lifetime,
    };
    let figures = perf(&load, stop)?;
    out(&figures.to_string());
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", figures.to_json());
        write_whole(path, |file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())?;
    }
    Ok(u8::from(figures.delivered < figures.sent))
}
