//! `bentpipe dtn`: contact plans, and bundles on real sockets.

mod cfdp;
mod node;
mod operate;
mod perf;
mod ping;
mod plan;
mod proxy;
mod receive;
mod send;
mod tls;
mod trace;

use bentpipe_units::Bytes;
use clap::{Subcommand, ValueEnum};

use crate::interrupt;

/// Convergence layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layer {
    /// Datagrams of one bundle each (RFC 7122)
    Udp,
    /// Byte strings of one bundle each, without acknowledgements
    Mtcp,
    /// TCP convergence layer version 4 (RFC 9174)
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

/// Longest payload that is made, in bytes.
const MAX_PAYLOAD: u64 = 1_000_000_000;

/// Reads the length of a payload, which is in memory as a whole.
fn payload(text: &str) -> Result<Bytes, String> {
    let len: Bytes = text.parse().map_err(|error: bentpipe_units::ParseError| error.to_string())?;
    match len.get() <= MAX_PAYLOAD {
        true => Ok(len),
        false => Err(format!("expected at most {}, got {len}", Bytes::new(MAX_PAYLOAD))),
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
    /// Run a bundle node with a store that survives crashes
    #[command(after_help = NODE_EXAMPLES)]
    Node(node::NodeArgs),
    /// Show a running node: its counters and neighbours
    #[command(after_help = STATUS_EXAMPLES)]
    Status(operate::StatusArgs),
    /// List the bundles that a running node stores
    #[command(after_help = LIST_EXAMPLES)]
    List(operate::ListArgs),
    /// Delete bundles of a running node
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(operate::DeleteArgs),
    /// Show or change the contacts of a running node
    #[command(after_help = CONTACTS_EXAMPLES)]
    Contacts(operate::ContactsArgs),
    /// Show or change the static routes of a running node
    #[command(after_help = ROUTES_EXAMPLES)]
    Routes(operate::RoutesArgs),
    /// Show or change the neighbours of a running node
    #[command(after_help = NEIGHBOURS_EXAMPLES)]
    Neighbours(operate::NeighboursArgs),
    /// Measure round trips to the echo service of a node
    #[command(after_help = PING_EXAMPLES)]
    Ping(ping::PingArgs),
    /// List the nodes that a bundle passes, by their status reports
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(trace::TraceArgs),
    /// Carry TCP connections as bundles between two proxies
    #[command(after_help = PROXY_EXAMPLES)]
    Proxy(proxy::ProxyArgs),
    /// Measure goodput and round trips of a load by delivery reports
    #[command(after_help = PERF_EXAMPLES)]
    Perf(perf::PerfArgs),
    /// Send and receive files by the CCSDS File Delivery Protocol
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe dtn cfdp receive 4560 --entity 2 --out received
  bentpipe dtn cfdp send 127.0.0.1:4560 --entity 1 --to 2 picture.jpg"
    )]
    Cfdp(cfdp::Command),
    /// Make a certificate for a node's TLS, of an authority for tests
    #[command(after_help = CERTIFICATE_EXAMPLES)]
    Certificate(tls::CertificateArgs),
}

const CERTIFICATE_EXAMPLES: &str = "\
Examples:
  bentpipe dtn certificate pki ipn:1.0
  bentpipe dtn certificate pki ipn:2.0 --host gateway.example.org --address 10.0.0.2 --days 30

The output has the lines for [tls] of the node file. The authority's key stays in the folder
without a password, for tests.";

const NODE_EXAMPLES: &str = "\
Examples:
  bentpipe dtn node node.toml                     until Ctrl-C
  bentpipe dtn node node.toml --json figures.json
  bentpipe dtn node node.toml --prometheus 127.0.0.1:9100

The node file has `eid`, `store`, [[listen]], [[neighbour]], [routes] or `plan`, and [tls]:
docs/reference/dtn.md. Applications of this machine connect to its TCPCL listener: ping, perf,
receive --via and send.";

const STATUS_EXAMPLES: &str = "\
Examples:
  bentpipe dtn status node.toml
  bentpipe dtn status node.toml --json

The node is asked by the socket `control` in the folder of its store, as its own user or root.";

const LIST_EXAMPLES: &str = "\
Examples:
  bentpipe dtn list node.toml
  bentpipe dtn list node.toml --most 100000 --json

Numbers that begin with `a` are of bundles that wait for applications.";

const DELETE_EXAMPLES: &str = "\
Examples:
  bentpipe dtn delete node.toml 17 18 a4

A deletion is reported as \"transmission cancelled\" to bundles that ask for it. The exit status is
1 if a bundle was not there.";

const CONTACTS_EXAMPLES: &str = "\
Examples:
  bentpipe dtn contacts node.toml
  bentpipe dtn contacts node.toml --add 'a contact +3600 +7200 1 2 125000'
  bentpipe dtn contacts node.toml --remove 1,2            all contacts from 1 to 2
  bentpipe dtn contacts node.toml --remove 1,2 --at 5000  the one at that second

Times count from the start of the plan. Changes last until the node ends.";

const ROUTES_EXAMPLES: &str = "\
Examples:
  bentpipe dtn routes node.toml
  bentpipe dtn routes node.toml --add 7=2 --add default=dtn://two/
  bentpipe dtn routes node.toml --remove 7

Changes last until the node ends.";

const NEIGHBOURS_EXAMPLES: &str = "\
Examples:
  bentpipe dtn neighbours node.toml
  bentpipe dtn neighbours node.toml --add 'node = 3
    layer = \"tcpcl\"
    at = \"10.0.0.3:4556\"'
  bentpipe dtn neighbours node.toml --remove 3

The text of --add has the keys of [[neighbour]]. Changes last until the node ends.";

const PING_EXAMPLES: &str = "\
Examples:
  bentpipe dtn ping 127.0.0.1:4556 --from ipn:1.50 ipn:2.7
  bentpipe dtn ping 127.0.0.1:4556 --from ipn:1.50 ipn:2.7 --count 100 --interval '10 ms'

The exit status is 1 if an answer did not come.";

const TRACE_EXAMPLES: &str = "\
Examples:
  bentpipe dtn trace 127.0.0.1:4556 --from ipn:1.70 ipn:3.9
  bentpipe dtn trace 127.0.0.1:4556 --from ipn:1.70 ipn:3.9 --hops 1   ends at the second node

Each line is an event that a node reports: received, forwarded, delivered or deleted, with the
time since the creation by the clock of that node. Nodes without status reports are missing. The
exit status is 1 if no delivery was reported.";

const PROXY_EXAMPLES: &str = "\
Examples:
  bentpipe dtn proxy 127.0.0.1:4556 --from ipn:1.20 --to ipn:2.20 --listen 127.0.0.1:8080
  bentpipe dtn proxy 127.0.0.1:4557 --from ipn:2.20 --to ipn:1.20 --connect 127.0.0.1:80

A connection to the first proxy reaches the address of the second, for all delays between. The
exit status is 1 if a stream was reset.";

const PERF_EXAMPLES: &str = "\
Examples:
  bentpipe dtn perf 127.0.0.1:4556 --from ipn:1.60 ipn:2.9 --payload '1 kB' \\
      --window 1000 --duration '10 s'
  bentpipe dtn perf 127.0.0.1:4556 --from ipn:1.60 ipn:2.9 --payload '25 B' --rate 20 --count 2000

Service 9 of a bentpipe node drops what it gets. Goodput is the payload of the bundles reported as
delivered over the time to the last report; a round trip ends with the report. The exit status is
1 if a bundle was not delivered.";

const PLAN_EXAMPLES: &str = "\
Examples:
  bentpipe dtn plan mission.ionrc                               contacts and capacity of each pair
  bentpipe dtn plan mission.ionrc --from 1 --to 5 --size '1 MB'   routes, and when a bundle arrives
  bentpipe dtn plan mission.ionrc --write mission.json     in HDTN's form; other endings: ION's
  bentpipe dtn plan mission.ionrc --svg mission.svg             Gantt chart of the contacts

Times are seconds from the plan's start. The exit status is 1 if no route is left.";

const SEND_EXAMPLES: &str = "\
Examples:
  bentpipe dtn send 127.0.0.1:4556 --from ipn:1.1 --to ipn:2.1 picture.jpg
  bentpipe dtn send 127.0.0.1:4556 --layer mtcp --from dtn://a/x --to dtn://b/in \\
      --payload '1 kB' --count 1000
  bentpipe dtn send 10.0.0.2:4556 --from ipn:1.1 --to ipn:2.1 picture.jpg \\
      --certificate pki/ipn-1.0.pem --key pki/ipn-1.0-key.pem --trust pki/authority.pem

Without a file or --payload the payload is standard input. The exit status is 1 if a bundle was
not acknowledged.";

const RECEIVE_EXAMPLES: &str = "\
Examples:
  bentpipe dtn receive 4556 --layer udp                  until Ctrl-C
  bentpipe dtn receive 4556 --node ipn:2.0 --count 1 --out received
  bentpipe dtn receive --via 127.0.0.1:4556 --node ipn:2.5    as an application of a node

Of more than 16 connections the one that has brought nothing for longest gives way. A bundle that
breaks a rule is refused and counted; then the exit status is 1.";

/// Runs a command; the exit code, or what was wrong with what was asked.
pub(crate) fn run(command: &Command) -> Result<u8, String> {
    match command {
        Command::Plan(args) => plan::run(args),
        Command::Send(args) => send::run(args, &interrupt::flag()),
        Command::Receive(args) => receive::run(args, &interrupt::flag()),
        Command::Node(args) => node::run(args, &interrupt::flag()),
        Command::Status(args) => operate::status(args),
        Command::List(args) => operate::list(args),
        Command::Delete(args) => operate::delete(args),
        Command::Contacts(args) => operate::contacts(args),
        Command::Routes(args) => operate::routes(args),
        Command::Neighbours(args) => operate::neighbours(args),
        Command::Ping(args) => ping::run(args, &interrupt::flag()),
        Command::Trace(args) => trace::run(args, &interrupt::flag()),
        Command::Proxy(args) => proxy::run(args, &interrupt::flag()),
        Command::Perf(args) => perf::run(args, &interrupt::flag()),
        Command::Cfdp(command) => cfdp::run(command, &interrupt::flag()),
        Command::Certificate(args) => tls::run(args),
    }
}
