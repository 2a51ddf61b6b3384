//! `bentpipe pep`: a proxy that splits TCP connections of real hosts.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use bentpipe_pep::{Config, Mode, OwnTcp, Proxy, rules};
use bentpipe_record::write_whole;
use bentpipe_units::{Bytes, Rate, Span};
use clap::{Args, ValueEnum};

use crate::interrupt;
use crate::show::{note, out};

/// TCP of the proxy.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// Own TCP on packets of a TUN device
    Tun,
    /// The kernel's TCP on diverted connections
    Tproxy,
}

/// Answer to a client's SYN.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum AnswerArg {
    /// SYN-ACK before the server has answered
    AtOnce,
    /// SYN-ACK once the server has answered; not split while 256 are half open
    AfterServer,
}

/// Arguments of `bentpipe pep`.
#[derive(Debug, Args)]
pub(crate) struct PepArgs {
    /// TCP of the proxy
    #[arg(long, value_enum, default_value_t = ModeArg::Tun)]
    mode: ModeArg,
    /// Interface of the ground; repeatable
    #[arg(long, value_name = "INTERFACE", required = true)]
    ground: Vec<String>,
    /// Interface of the satellite; repeatable
    #[arg(long, value_name = "INTERFACE", required = true)]
    satellite: Vec<String>,
    /// Congestion controller over the satellite. Default: hybla; by TPROXY that of the system
    #[arg(long, value_name = "NAME")]
    controller: Option<String>,
    /// Fixed rate of each connection to the satellite, without headers. By TPROXY the maximum, with headers
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Initial window over the satellite. Default: 10
    #[arg(long, value_name = "SEGMENTS")]
    initial_window: Option<u32>,
    /// Number of segments per ACK over the satellite. Default: 2
    #[arg(long, value_name = "SEGMENTS")]
    ack_every: Option<u32>,
    /// Answer to a client
    #[arg(long, value_enum, default_value_t = AnswerArg::AtOnce)]
    answer: AnswerArg,
    /// Memory for data of all connections. Above it stalled ones are reset. Default: 1 GB
    #[arg(long, value_name = "BYTES")]
    memory: Option<Bytes>,
    /// Send and receive buffer of each connection over the satellite. Default: 4 MB; by TPROXY adapted
    #[arg(long, value_name = "BYTES")]
    buffer: Option<Bytes>,
    /// Send and receive buffer of each connection on the ground. Default: 1 MB; by TPROXY adapted
    #[arg(long, value_name = "BYTES")]
    ground_buffer: Option<Bytes>,
    /// Maximum number of split connections; more are forwarded as they are
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// Reset connections without data for this time
    #[arg(long, value_name = "TIME", default_value = "7440 s")]
    idle: Span,
    /// Wait at the end for split connections to finish; the rest is reset
    #[arg(long, value_name = "TIME", default_value = "0 s")]
    drain: Span,
    /// Number of the routing table. By TPROXY also mark and local port; the next port is for the satellite
    #[arg(long, value_name = "PORT", default_value_t = 9040)]
    port: u16,
    /// Print the commands that divert connections and those that undo it, and exit
    #[arg(long)]
    print_rules: bool,
    /// Set up no rules: they are there already
    #[arg(long)]
    own_rules: bool,
    /// Serve metrics for Prometheus. The address is on loopback: 127.0.0.1:9190
    #[arg(long, value_name = "ADDRESS")]
    prometheus: Option<SocketAddr>,
    /// Write the figures as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl PepArgs {
    fn config(&self) -> Config {
        Config {
            mode: match self.mode {
                ModeArg::Tun => Mode::Tun,
                ModeArg::Tproxy => Mode::Tproxy,
            },
            own: OwnTcp {
                initial_window: self.initial_window,
                ack_every: self.ack_every,
                answers_after_server: self.answer == AnswerArg::AfterServer,
            },
            memory: self.memory,
            ground: self.ground.clone(),
            satellite: self.satellite.clone(),
            port: self.port,
            controller: self.controller.clone(),
            rate: self.rate,
            satellite_buffer: self.buffer,
            ground_buffer: self.ground_buffer,
            connections: self.connections as usize,
            idle: self.idle,
            drain: self.drain,
            sets_rules: !self.own_rules,
            prometheus: self.prometheus,
        }
    }
}

/// Runs the proxy until Ctrl-C, and returns the exit code.
///
/// # Errors
/// Returns the option or right that is wrong, or the command that failed.
pub(crate) fn run(args: &PepArgs) -> Result<u8, String> {
    let config = args.config();
    config.check()?;
    if args.print_rules {
        let rules = rules::rules(&config);
        out(&format!("# before the proxy\n{}# after it\n{}", rules.set_up, rules.remove));
        return Ok(0);
    }
    let stop = interrupt::flag();
    let proxy = Proxy::open(config)?;
    if proxy.limit() < args.connections as usize {
        let limit = proxy.limit();
        note(&format!("the limit of open files allows {limit} connections; help: `ulimit -n` shows it"));
    }
    warn_of_forwarding();
    if args.config().mode == Mode::Tproxy {
        cookie_note(sysctl).iter().for_each(|text| note(text));
    }
    note("connections are split; press Ctrl-C to stop");
    let figures = proxy.run(&stop, &note)?;
    if let Some(path) = &args.json {
        let json = figures.to_json();
        write_whole(path, |out| writeln!(out, "{json:#}")).map_err(|error| error.to_string())?;
    }
    out(&figures.to_string());
    Ok(0)
}

/// Notes that the kernel forwards no packets: only split connections would cross this machine.
fn warn_of_forwarding() {
    forwarding_notes(sysctl).iter().for_each(|text| note(text));
}

/// Returns the value of a sysctl.
fn sysctl(key: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/{}", key.replace('.', "/"))).ok()
}

/// Returns a note if the kernel sends no SYN cookies. `read` returns the value of a sysctl.
fn cookie_note(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let key = "net.ipv4.tcp_syncookies";
    read(key).filter(|value| value.trim() == "0").map(|_| {
        format!("without SYN cookies a flood of SYNs stops new connections; help: sysctl -w {key}=1")
    })
}

/// Returns a note for each IP version that is not forwarded. `read` returns the value of a sysctl.
fn forwarding_notes(read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let keys = [("IPv4", "net.ipv4.ip_forward"), ("IPv6", "net.ipv6.conf.all.forwarding")];
    let is_off = |key: &str| read(key).is_some_and(|value| value.trim() == "0");
    let off = keys.into_iter().filter(|(_, key)| is_off(key));
    off.map(|(version, key)| {
        format!("this machine does not forward {version} packets; help: sysctl -w {key}=1")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_cookies_that_are_off() {
        assert!(
            cookie_note(|_| Some("0\n".to_owned())).is_some_and(|note| note.contains("tcp_syncookies=1"))
        );
        assert_eq!(cookie_note(|_| Some("1\n".to_owned())), None);
        assert_eq!(cookie_note(|_| None), None);
    }

    #[test]
    fn a_note_names_the_ip_version_that_is_not_forwarded() {
        let only_v4 = |key: &str| Some(if key.contains("ipv4") { "1\n" } else { "0\n" }.to_owned());
        let help = "help: sysctl -w net.ipv6.conf.all.forwarding=1";
        assert_eq!(
            forwarding_notes(only_v4),
            [format!("this machine does not forward IPv6 packets; {help}")]
        );
        // A kernel without IPv6 has no such value.
        let no_v6 = |key: &str| key.contains("ipv4").then(|| "1".to_owned());
        assert!(forwarding_notes(no_v6).is_empty());
    }
}
