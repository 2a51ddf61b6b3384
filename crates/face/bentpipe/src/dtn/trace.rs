//! `bentpipe dtn trace`.

use std::sync::atomic::AtomicBool;

use bentpipe_bundles::trace::{Sighting, Tracing, trace};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::dtn::eid::Eid;
use clap::Args;

use super::payload;
use super::tls::TlsArgs;
use crate::show::out;

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Address of the own node: HOST:PORT
    node: String,
    /// Destination, such as the discard service ipn:NODE.9
    to: Eid,
    /// Endpoint of this program, at the own node
    #[arg(long, value_name = "EID")]
    from: Eid,
    /// Length of the payload
    #[arg(long, value_name = "BYTES", default_value = "64 B", value_parser = payload)]
    payload: Bytes,
    /// Hop limit of the bundle
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..))]
    hops: u8,
    /// Wait for the report of the delivery
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    wait: Span,
    /// Lifetime of the bundle and of the reports
    #[arg(long, value_name = "TIME", default_value = "1 h")]
    lifetime: Span,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Sends the bundle, prints the events, and returns the exit code.
pub(super) fn run(args: &TraceArgs, stop: &AtomicBool) -> Result<u8, String> {
    let tracing = Tracing {
        node: args.tls.access(&args.node)?,
        from: args.from.clone(),
        to: args.to.clone(),
        size: args.payload.get() as usize,
        hops: args.hops,
        lifetime: args.lifetime,
        wait: args.wait,
    };
    let mut seen = |sighting: &Sighting| out(&format!("{sighting}\n"));
    let is_delivered = trace(&tracing, stop, &mut seen)?;
    if !is_delivered {
        out("no delivery was reported\n");
    }
    Ok(u8::from(!is_delivered))
}
