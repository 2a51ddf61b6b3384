//! `bentpipe dtn`: contact plans, and bundles on real sockets.

mod plan;
mod receive;
mod send;

use clap::{Subcommand, ValueEnum};

use crate::interrupt;

/// Convergence layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layer {
    /// Datagrams of one bundle each (RFC 7122)
    Udp,
    /// Byte strings of one bundle each, without acknowledgements
    Mtcp,
    /// TCP convergence layer version 4 (RFC 9174), without TLS
    Tcpcl,
}

impl From<Layer> for bentpipe_bundles::Layer {
    fn from(layer: Layer) -> bentpipe_bundles::Layer {
        match layer {
            Layer::Udp => bentpipe_bundles::Layer::Udp,
            Layer::Mtcp => bentpipe_bundles::Layer::Mtcp,
            Layer::Tcpcl => bentpipe_bundles::Layer::Tcpcl,
        }
    }
}

/// Delay-tolerant networking.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Analyse a contact plan: capacity of each pair, routes, arrival forecast; convert it
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Send bundles to a node over UDP, MTCP or TCPCLv4
    #[command(after_help = SEND_EXAMPLES)]
    Send(send::SendArgs),
    /// Receive bundles over UDP, MTCP or TCPCLv4 and list them
    #[command(after_help = RECEIVE_EXAMPLES)]
    Receive(receive::ReceiveArgs),
}

const PLAN_EXAMPLES: &str = "\
Examples:
  bentpipe dtn plan mission.ionrc                               contacts and capacity of each pair
  bentpipe dtn plan mission.ionrc --from 1 --to 5 --size '1 MB'   routes, and when a bundle arrives
  bentpipe dtn plan mission.ionrc --write mission.json          in HDTN's form; any other ending: ION's

Times are seconds from the plan's start. The exit status is 1 if no route is left.";

const SEND_EXAMPLES: &str = "\
Examples:
  bentpipe dtn send 127.0.0.1:4556 --from ipn:1.1 --to ipn:2.1 picture.jpg
  bentpipe dtn send 127.0.0.1:4556 --layer mtcp --from dtn://a/x --to dtn://b/in --size '1 kB' --count 1000

Without a file or --size the payload is standard input. The exit status is 1 if a bundle was not acknowledged.";

const RECEIVE_EXAMPLES: &str = "\
Examples:
  bentpipe dtn receive 4556 --layer udp                  until Ctrl-C
  bentpipe dtn receive 4556 --node ipn:2.0 --count 1 --out received

One connection is served at a time. A bundle that breaks a rule is refused and counted; then the exit status is 1.";

/// Runs a command; the exit code, or what was wrong with what was asked.
pub(crate) fn run(command: &Command) -> Result<u8, String> {
    match command {
        Command::Plan(args) => plan::run(args),
        Command::Send(args) => send::run(args, &interrupt::flag()),
        Command::Receive(args) => receive::run(args, &interrupt::flag()),
    }
}
