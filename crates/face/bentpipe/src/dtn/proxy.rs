//! `bentpipe dtn proxy`.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use bentpipe_bundles::proxy::{MEMORY, Notice, Proxying, STALL, proxy};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::dtn::eid::Eid;
use clap::Args;

use super::tls::TlsArgs;
use crate::show::{note, out};

#[derive(Debug, Args)]
pub(crate) struct ProxyArgs {
    /// Address of the own node: HOST:PORT
    node: String,
    /// Endpoint of this proxy, at the own node
    #[arg(long, value_name = "EID")]
    from: Eid,
    /// Endpoint of the other proxy
    #[arg(long, value_name = "EID")]
    to: Eid,
    /// Accept connections at this address
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "connect")]
    listen: Option<SocketAddr>,
    /// Connect streams of the other proxy to this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    connect: Option<SocketAddr>,
    /// Longest data of a bundle
    #[arg(long, value_name = "BYTES", default_value = "16 kB", value_parser = segment)]
    segment: Bytes,
    /// Lifetime of the bundles
    #[arg(long, value_name = "TIME", default_value = "1 h")]
    lifetime: Span,
    /// Memory for data that connections have not taken. Beyond it the node keeps bundles
    #[arg(long, value_name = "BYTES", default_value_t = MEMORY)]
    memory: Bytes,
    #[command(flatten)]
    tls: TlsArgs,
}

fn segment(text: &str) -> Result<Bytes, String> {
    let len = text.parse().ok().filter(|len: &Bytes| (1..=1_000_000).contains(&len.get()));
    len.ok_or_else(|| "expected 1 B to 1 MB".into())
}

fn print(notice: Notice) {
    match notice {
        Notice::Ready => note("ready; press Ctrl-C to stop"),
        Notice::LeftOut(bundles, streams) => note(&format!(
            "bundles of unknown hosts left out: {bundles}, with {streams} streams. They have a quarter of all, and no say in others"
        )),
    }
}

/// Carries streams until the end and returns the exit code.
pub(super) fn run(args: &ProxyArgs, stop: &AtomicBool) -> Result<u8, String> {
    let proxying = Proxying {
        node: args.tls.access(&args.node)?,
        from: args.from.clone(),
        to: args.to.clone(),
        listen: args.listen,
        connect: args.connect,
        segment: args.segment.get() as usize,
        lifetime: args.lifetime,
        memory: args.memory,
        stall: STALL,
    };
    let totals = proxy(&proxying, stop, &mut print)?;
    out(&format!(
        "{} streams, {} B sent, {} B received, {} reset, {} of them stalled\n",
        totals.streams, totals.sent, totals.received, totals.resets, totals.stalled
    ));
    Ok(u8::from(totals.resets > 0))
}
