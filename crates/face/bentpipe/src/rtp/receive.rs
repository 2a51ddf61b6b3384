//! `bentpipe rtp receive`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_offline::capture::check_files;
use bentpipe_rtp::{Limits, Receiver, report};
use bentpipe_units::Span;
use clap::Args;

use super::progress::Progress;
use super::{INTERRUPTED, write, write_json};
use crate::common::check_folders;
use crate::show::{note, out};

#[derive(Debug, Args)]
pub(crate) struct ReceiveArgs {
    /// Local address: PORT for all addresses, or ADDRESS:PORT; an IPv6 address goes in brackets
    #[arg(value_parser = place)]
    at: (Option<IpAddr>, u16),
    /// Number of ports, in steps of two
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    ports: u16,
    /// Maximum number of streams; more are refused, and counted
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    streams: u32,
    /// RTP clock rate in Hz, for the jitter of dynamic payload types (96 and up)
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..))]
    clock: Option<u32>,
    /// Bound of the error between the sender's clock and this machine's, for delays between machines. Default: they are not known
    #[arg(long, value_name = "TIME")]
    clock_error: Option<Span>,
    /// Duration of reception
    #[arg(long, value_name = "TIME")]
    duration: Option<Span>,
    /// End after N packets of all streams
    #[arg(long, value_name = "N")]
    packets: Option<u64>,
    /// End when nothing came for this time, after the first packet
    #[arg(long, value_name = "TIME")]
    idle: Option<Span>,
    /// Number of streams listed
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,
    /// Write a line for each stream, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write everything as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

fn place(text: &str) -> Result<(Option<IpAddr>, u16), String> {
    if let Ok(port) = text.parse() {
        return Ok((None, port));
    }
    let address: Result<SocketAddr, _> = text.parse();
    let wrong = |_| "expected PORT, as 5004, or ADDRESS:PORT, as 10.0.0.1:5004 or [fd00::1]:5004".to_owned();
    address.map(|address| (Some(address.ip()), address.port())).map_err(wrong)
}

/// Receives until the end, prints the figures, and returns the exit code.
pub(super) fn run(args: &ReceiveArgs, stop: &AtomicBool) -> Result<u8, String> {
    let outputs = [&args.csv, &args.json].into_iter().filter_map(Option::as_deref);
    check_files(&[], outputs.clone()).map_err(|error| error.to_string())?;
    check_folders(outputs)?;
    let receiver = Receiver::listen(args.at, args.ports, args.streams as usize, args.clock);
    let receiver = receiver.map_err(|error| error.to_string())?;
    let mut receiver = match args.clock_error {
        Some(error) => receiver.believing_others(error),
        None => receiver,
    };
    let (limits, bar) = (args.limits(), Progress::new(args.quiet, args.packets));
    receiver.run_until(limits, stop, |packets| bar.show(packets)).map_err(|error| error.to_string())?;
    bar.clear();
    print(args, &receiver)?;
    let overall = receiver.reception().overall();
    let is_cut = stop.load(Ordering::Relaxed) && limits.is_bounded();
    Ok(match (is_cut, overall.packets, overall.lost) {
        (true, ..) => INTERRUPTED,
        (false, 1.., 0) => 0,
        _ => 1,
    })
}

impl ReceiveArgs {
    fn limits(&self) -> Limits {
        Limits { duration: self.duration, packets: self.packets, idle: self.idle }
    }
}

fn print(args: &ReceiveArgs, receiver: &Receiver) -> Result<(), String> {
    if !args.quiet {
        out(&report::received_text(receiver, args.rows));
    }
    report::problems(receiver).iter().for_each(|problem| note(problem));
    if let Some(path) = &args.csv {
        write(path, &report::streams_csv(receiver.reception()))?;
    }
    match &args.json {
        Some(path) => write_json(path, &report::received_json(receiver)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_ports_or_addresses_with_ports() {
        assert_eq!(place("5004"), Ok((None, 5004)));
        assert_eq!(place("[fd00::1]:5004"), Ok((Some("fd00::1".parse().expect("an address")), 5004)));
        assert!(place("host:5004").is_err() && place("70000").is_err());
    }
}
