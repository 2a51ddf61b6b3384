//! `bentpipe dtn receive`.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use bentpipe_bundles::{Arrival, Receiving, dtn_time};
use bentpipe_record::write_whole;
use bentpipe_units::Bytes;
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::dtn::eid::Eid;
use clap::Args;

use super::Layer;
use super::tls::TlsArgs;
use crate::show::{log, note, out};

#[derive(Debug, Args)]
pub(crate) struct ReceiveArgs {
    /// Local address: PORT for all IPv4 addresses, or ADDRESS:PORT
    #[arg(value_parser = place, required_unless_present = "via")]
    at: Option<SocketAddr>,
    /// Receive as an application of the node at this address, at the endpoint --node
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "at")]
    via: Option<String>,
    /// Convergence layer
    #[arg(long, value_enum, default_value_t = Layer::Tcpcl)]
    layer: Layer,
    /// Endpoint of this node, for TCPCL
    #[arg(long, value_name = "EID", default_value = "ipn:2.0")]
    node: Eid,
    /// End after this number of bundles
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Longest bundle that is accepted
    #[arg(long, value_name = "BYTES", default_value = "64 MB")]
    longest: Bytes,
    /// Write each payload to a file in this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    tls: TlsArgs,
}

fn place(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((IpAddr::V4(Ipv4Addr::UNSPECIFIED), port).into());
    }
    text.parse().map_err(|_| "expected PORT, as 4556, or ADDRESS:PORT, as 10.0.0.1:4556".to_owned())
}

/// Receives until the end and returns the exit code.
pub(super) fn run(args: &ReceiveArgs, stop: &AtomicBool) -> Result<u8, String> {
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut received = 0;
    let mut take = |arrival: Arrival<'_>| match arrival {
        Arrival::Bundle(bundle, len) => {
            received += 1;
            args.keep(received, bundle, len)
        }
        Arrival::Refused(problem) => {
            log(problem);
            Ok(())
        }
    };
    let refused = match (&args.via, args.at) {
        (Some(via), _) => {
            let via = args.tls.access(via)?;
            let bounds = (args.count, args.longest.get());
            bentpipe_bundles::receive_via(&via, &args.node, bounds, stop, &mut take).map(|()| 0)?
        }
        (None, Some(at)) => {
            let (node, layer, security) = (args.node.clone(), args.layer.into(), args.tls.security()?);
            let (count, longest) = (args.count, args.longest.get());
            let receiving = Receiving { at, layer, node, security, count, longest };
            bentpipe_bundles::receive(&receiving, stop, &mut take)?
        }
        (None, None) => 0,
    };
    if refused > 0 {
        note(&format!("{refused} bundles refused"));
    }
    Ok(u8::from(refused > 0))
}

impl ReceiveArgs {
    /// Prints a bundle and writes its payload.
    fn keep(&self, number: u64, bundle: &Bundle, len: usize) -> Result<(), String> {
        if !self.quiet {
            let (source, destination) = (&bundle.primary.source, &bundle.primary.destination);
            let payload = bundle.payload.len();
            out(&format!(
                "{number} {source} -> {destination} payload {payload} B of {len} B, {}\n",
                age(bundle, dtn_time())
            ));
        }
        let Some(folder) = &self.out else { return Ok(()) };
        let path = folder.join(format!("{number:06}.bin"));
        write_whole(&path, |file| file.write_all(&bundle.payload.to_vec())).map_err(|error| error.to_string())
    }
}

/// Returns the age of a bundle in words. Without a clock at its source that is in its age block.
fn age(bundle: &Bundle, now: u64) -> String {
    let since = |start: u64| format!("{} ms after its creation", now.saturating_sub(start));
    match (bundle.primary.timestamp.time, bundle.age()) {
        (0, age) => format!("{} ms old by its age block", age.unwrap_or(0)),
        // The clock of the source is ahead of this one.
        (created, _) if created > now => format!("created {} ms ahead of this clock", created - now),
        (created, _) => since(created),
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::dtn::bundle::{Content, Payload, Primary, Timestamp};

    use super::*;

    #[test]
    fn an_age_is_shown_as_an_age() {
        let bundle = |time: u64, age: Option<u64>| {
            let stamp = Timestamp { time, sequence: 1 };
            let primary = Primary::new(Eid::ipn(1, 1), Eid::ipn(2, 1), stamp, 1000);
            let mut bundle = Bundle { primary, blocks: vec![], payload: Payload::new(vec![1]) };
            age.into_iter().for_each(|age| bundle.set(Content::Age(age)));
            bundle
        };
        assert_eq!(age(&bundle(0, Some(1500)), 900_000), "1500 ms old by its age block");
        assert_eq!(age(&bundle(899_000, Some(7)), 900_000), "1000 ms after its creation");
        assert_eq!(age(&bundle(900_020, None), 900_000), "created 20 ms ahead of this clock");
    }
}
