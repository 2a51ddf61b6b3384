//! Events that an operator is to know, and figures for Prometheus.

use std::net::SocketAddr;

use bentpipe_dtn::node::Problem;
use bentpipe_emu::exporter::{self, Pages};
use bentpipe_units::Time;
use bentpipe_wire::dtn::admin::reason;

use super::super::counters::prometheus;
use super::super::names::shown;
use super::super::peers::Role;
use super::super::rare::OF_HOST;
use super::Daemon;
use crate::host::host_key;

impl Daemon {
    /// Serves the counters to Prometheus at an address on loopback.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub fn export_at(&mut self, address: SocketAddr) -> Result<(), String> {
        let pages = exporter::Shared::default();
        exporter::start(address, pages.clone())
            .map_err(|error| format!("--prometheus: {address}: {error}"))?;
        self.pages = Some(pages);
        self.publish();
        Ok(())
    }

    /// Publishes the counters.
    pub(super) fn publish(&self) {
        let Some(pages) = &self.pages else { return };
        let sent_to = |number: u64| self.peers.values().any(|peer| peer.role == Role::Neighbour(number));
        let rows = self.file.neighbour.iter().map(|neighbour| {
            let number = neighbour.node.number;
            (self.name_of(number), self.node.queued_bytes(number), sent_to(number))
        });
        let metrics = prometheus(&self.file.eid.to_string(), &self.counters(), &rows.collect::<Vec<_>>());
        let page = exporter::page(&format!("bentpipe dtn {}", self.file.eid), &metrics);
        exporter::publish(pages, Pages { metrics, page });
    }

    /// Logs what cannot leave or was refused.
    pub(super) fn watch(&mut self, now: Time) {
        while let Some(problem) = self.node.poll_problem() {
            let (matter, line) = self.describe(&problem);
            self.rare.say(&matter, line, now);
        }
        for number in std::mem::take(&mut self.radio.unserved) {
            let name = self.name_of(number);
            let line = format!(
                "neighbour {name}: a block of LTP for a client service that nothing serves, cancelled"
            );
            self.rare.say(&format!("service {number}"), line, now);
        }
        for host in std::mem::take(&mut self.radio.unknown_hosts) {
            let line = format!("{host}: a segment of LTP refused, as no neighbour on LTP has this address");
            self.rare.say(&format!("LTP of {}", host_key(host.ip())), line, now);
        }
    }

    fn describe(&self, problem: &Problem) -> (String, String) {
        let node = shown(&problem.destination.node().to_string());
        let what = match problem.reason {
            reason::UNAVAILABLE => "no node has this endpoint",
            reason::NO_CONTACT => "the contact plan has no contact on the way any more",
            _ => "no route",
        };
        let end = match problem.is_deleted {
            true => "a bundle was deleted".to_owned(),
            false => format!("a bundle waits {} for one", self.file.no_route),
        };
        (format!("{node} {} {}", problem.reason, problem.is_deleted), format!("{node}: {what}, {end}"))
    }

    /// Logs the reason for which a neighbour gets nothing.
    pub(super) fn complain(&mut self, number: u64, problem: &str, now: Time) {
        let name = self.name_of(number);
        self.complaints.say(
            &format!("neighbour {number}"),
            format!("neighbour {name}: {problem}; tried again"),
            now,
        );
    }

    /// Ends the session of a peer that is neither a neighbour nor an application.
    pub(super) fn refuse_peer(&mut self, id: u64, node: &str, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let (address, line) =
            (peer.address, format!("{}: refused a peer that is {:?}", peer.address, shown(node)));
        peer.connection.session.end(4);
        self.say_of(address, line, now);
    }

    /// Logs a line about a connection. Those of a host are bounded in time.
    pub(super) fn say_of(&mut self, address: SocketAddr, line: String, now: Time) {
        self.rare.say_some(&format!("host {}", host_key(address.ip())), OF_HOST, line, now);
    }

    /// Writes the lines that wait.
    pub(super) fn write_log(&mut self, log: &mut dyn FnMut(&str)) {
        let now = self.now();
        let others = self.complaints.take(now).into_iter().chain(self.rare.take(now));
        self.log.drain(..).chain(others).for_each(|line| log(&line));
    }

    /// Writes all lines at the end of the program.
    pub(super) fn finish_log(&mut self, log: &mut dyn FnMut(&str)) {
        let others = self.complaints.finish().into_iter().chain(self.rare.finish());
        self.log.drain(..).chain(others).for_each(|line| log(&line));
    }
}
