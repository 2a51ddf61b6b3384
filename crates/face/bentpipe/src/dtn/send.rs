//! `bentpipe dtn send`.

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use bentpipe_bundles::Sending;
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::dtn::bundle::Payload;
use bentpipe_wire::dtn::eid::Eid;
use clap::Args;

use super::tls::TlsArgs;
use super::{Layer, payload};
use crate::show::out;

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Address of the next node: HOST:PORT
    to_node: String,
    /// File whose bytes are the payload
    file: Option<PathBuf>,
    /// Convergence layer
    #[arg(long, value_enum, default_value_t = Layer::Tcpcl)]
    layer: Layer,
    /// Source endpoint
    #[arg(long, value_name = "EID")]
    from: Eid,
    /// Destination endpoint
    #[arg(long, value_name = "EID")]
    to: Eid,
    /// Length of a payload of zeros, in place of a file
    #[arg(long, alias = "size", value_name = "BYTES", conflicts_with = "file", value_parser = payload)]
    payload: Option<Bytes>,
    /// Number of bundles
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Lifetime
    #[arg(long, value_name = "TIME", default_value = "1 h")]
    lifetime: Span,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    tls: TlsArgs,
}

impl SendArgs {
    fn payload(&self) -> Result<Payload, String> {
        let bytes = match (&self.file, self.payload) {
            (_, Some(payload)) => return Ok(Payload::elided(payload.get())),
            (Some(path), None) => {
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?
            }
            (None, None) => {
                let mut bytes = Vec::new();
                std::io::stdin().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
                bytes
            }
        };
        Ok(Payload::new(bytes))
    }
}

/// Sends all bundles and returns the exit code.
pub(super) fn run(args: &SendArgs, stop: &AtomicBool) -> Result<u8, String> {
    let sending = Sending {
        to_node: args.to_node.clone(),
        layer: args.layer.into(),
        from: args.from.clone(),
        to: args.to.clone(),
        payload: args.payload()?,
        count: args.count,
        lifetime: args.lifetime,
        security: args.tls.security()?,
    };
    let sent = bentpipe_bundles::send(&sending, stop)?;
    if !args.quiet {
        let word = if args.layer == Layer::Tcpcl { "acknowledged" } else { "sent" };
        out(&format!("{sent} of {} bundles {word}\n", args.count));
    }
    Ok(u8::from(sent < args.count))
}
