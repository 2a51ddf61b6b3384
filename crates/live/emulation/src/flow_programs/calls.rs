//! SIP calls between real hosts: `bentpipe call` and `bentpipe answer`.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use bentpipe_scenario::{Flow, RealTraffic};
use bentpipe_units::Span;

use super::{FlowProgram, Kind, Plan, nodes};
use crate::hosts::Hosts;

/// Most calls per second of `bentpipe call`.
const MOST_A_SECOND: f64 = 1e5;
/// Least calls per second of `bentpipe call`: one in 1000 s.
const LEAST_A_SECOND: f64 = 1e-3;

/// Returns the number of UDP ports of an end.
///
/// SIP has one with a gap, and each line two.
pub(super) fn ports(flow: &Flow) -> u32 {
    match flow.traffic.kind().real(flow.ip) {
        Ok(RealTraffic::Calls { voice, .. }) => 2 + 2 * voice.map_or(0, |(_, lines)| u32::from(lines)),
        _ => 2,
    }
}

/// Returns the caller's arguments and the callee's own, or why programs cannot make its calls.
pub(super) fn planned(traffic: RealTraffic, time: Span) -> Result<Plan, String> {
    let RealTraffic::Calls { interval, hold, ring, ring_limit, calls, timers: [t1, t2], dscp, voice } =
        traffic
    else {
        return Err("it has no calls".to_owned());
    };
    let rate = 1.0 / interval.as_secs_f64();
    let is_single = calls == Some(1);
    if rate > MOST_A_SECOND || (rate < LEAST_A_SECOND && !is_single) {
        return Err("calls of `bentpipe call` are 0.01 ms to 1000 s apart".to_owned());
    }
    let mut both = ["--t1", &t1.to_string(), "--t2", &t2.to_string(), "--dscp", &dscp.to_string()]
        .map(str::to_owned)
        .to_vec();
    if let Some((voice, _)) = voice {
        both.extend(["--voice".to_owned(), voice]);
    }
    let rate = format!("{:.9}", rate.clamp(LEAST_A_SECOND, MOST_A_SECOND));
    let (hold, limit, time) = (hold.to_string(), ring_limit.to_string(), time.to_string());
    let calls = calls.unwrap_or(100_000_000).clamp(1, 100_000_000).to_string();
    let words = ["--random", "--rate", &rate, "--calls", &calls, "--hold", &hold, "--ring-limit", &limit];
    let caller = words.map(str::to_owned).into_iter().chain(["--duration".to_owned(), time]);
    let arguments = caller.chain(both.iter().cloned()).collect();
    let at_server = ["--ring".to_owned(), ring.to_string()].into_iter().chain(both).collect();
    Ok(Plan { kind: Kind::Calls, arguments, at_server })
}

/// Returns the callee and the caller of a planned flow at their hosts. Ports are from `port` on.
pub(super) fn program(
    (name, start): (&str, Span),
    flow: &Flow,
    plan: Plan,
    hosts: &Hosts,
    port: u16,
) -> Result<FlowProgram, String> {
    let [from, to] = hosts.ends(flow)?;
    if u32::from(port) + ports(flow) > 65_536 {
        return Err(format!("{name}: no port is left"));
    }
    let [caller, callee] = [&from, &to].map(|host| SocketAddr::new(host.address(flow.ip), port).to_string());
    let media = (port + 2).to_string();
    let at = |namespace, word: &str, arguments: &[String]| -> Result<Command, String> {
        let mut command = nodes::this_program(namespace).map_err(|error| error.to_string())?;
        command.arg(word).args(arguments).args(["--media-port", &media, "--quiet"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    };
    let mut server = at(to.namespace, "answer", &plan.at_server)?;
    server.arg(&callee);
    let mut client = at(from.namespace, "call", &plan.arguments)?;
    client.arg(format!("sip:callee@{callee}")).args(["--local", &caller]);
    let start = Duration::from_nanos(start.as_nanos());
    Ok(FlowProgram { flow: name.to_owned(), start, server: Some(server), client, kind: plan.kind, port })
}
