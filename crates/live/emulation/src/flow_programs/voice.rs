//! Voice packets between real hosts: `bentpipe rtp` at both ends.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use bentpipe_scenario::{Flow, RealTraffic};
use bentpipe_units::Span;

use super::{FlowProgram, Kind, Plan, nodes};
use crate::hosts::Hosts;

/// Most ports of one receiver.
const MAX_PORTS: u32 = 4096;
/// Least and greatest interval between packets.
const INTERVALS: [Span; 2] = [Span::from_micros(1), Span::from_secs(3600)];

/// Returns the number of ports that the receiver of a flow has.
pub(super) fn ports(flow: &Flow) -> u32 {
    match flow.traffic.kind().real(flow.ip) {
        Ok(RealTraffic::Voice { shares_port: false, .. }) => flow.count,
        _ => 1,
    }
}

/// Returns the sender's arguments but for the address, or why it cannot send this.
pub(super) fn planned(flow: &Flow, traffic: RealTraffic, time: Span) -> Result<Plan, String> {
    let RealTraffic::Voice { payload, interval, refresh, clock_hz, packets, dscp, is_spread, shares_port } =
        traffic
    else {
        return Err("it has other packets".to_owned());
    };
    if !shares_port && flow.count > MAX_PORTS {
        return Err(format!(
            "`bentpipe rtp` has at most {MAX_PORTS} ports; `shared_ports` gives all copies one"
        ));
    }
    if flow.count > 1 && !flow.starts_together() {
        return Err("`bentpipe rtp` starts all its streams at once".to_owned());
    }
    let [least, most] = INTERVALS;
    if interval < least || interval > most {
        return Err(format!("packets of `bentpipe rtp` are {least} to {most} apart"));
    }
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |key: &str, value: String| arguments.extend([key.to_owned(), value]);
    add("--streams", flow.count.to_string());
    add("--payload", payload.to_string());
    add("--interval", interval.to_string());
    add("--clock", clock_hz.to_string());
    add("--by", if shares_port { "ssrc" } else { "port" }.to_owned());
    add("--phases", if is_spread { "staggered" } else { "aligned" }.to_owned());
    if let Some((payload, every)) = refresh {
        add("--refresh", format!("{payload},{every}"));
    }
    if dscp != 0 {
        add("--dscp", dscp.to_string());
    }
    let fitting = time.as_nanos().div_ceil(interval.as_nanos());
    add("--packets", packets.unwrap_or(u64::MAX).min(fitting).to_string());
    Ok(Plan::new(Kind::Voice, arguments))
}

/// Returns the receiver and the sender of a planned flow at their hosts. Streams have the ports from `port` on.
pub(super) fn program(
    (name, start): (&str, Span),
    flow: &Flow,
    plan: Plan,
    hosts: &Hosts,
    port: u16,
) -> Result<FlowProgram, String> {
    let [from, to] = hosts.ends(flow)?;
    let address = SocketAddr::new(to.address(flow.ip), port).to_string();
    let at = |namespace, words: &[&str]| -> Result<Command, String> {
        let mut command = nodes::this_program(namespace).map_err(|error| error.to_string())?;
        command
            .arg("rtp")
            .args(words)
            .arg(&address)
            .arg("--quiet")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Ok(command)
    };
    let (ports, mut server) = (ports(flow), at(to.namespace, &["receive"])?);
    server.args(["--ports", &ports.to_string(), "--streams", &flow.count.to_string()]);
    if let Some(clock) = plan.arguments.iter().skip_while(|word| *word != "--clock").nth(1) {
        server.args(["--clock", clock]);
    }
    let mut client = at(from.namespace, &["send"])?;
    client.args(&plan.arguments);
    let start = Duration::from_nanos(start.as_nanos());
    let last = u32::from(port) + 2 * (ports - 1);
    let port = u16::try_from(last).map_err(|_| format!("{name}: no port is left for {ports} streams"))?;
    Ok(FlowProgram { flow: name.to_owned(), start, server: Some(server), client, kind: plan.kind, port })
}
