//! Requests of an operator to the running node.

use bentpipe_dtn::node::{Listed, State, priority};
use bentpipe_emu::Clock;
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::Bundle;
use serde_json::{Value, json};

use super::super::control::Request;
use super::super::file::NodeId;
use super::super::journal::Slot;
use super::super::peers::{Dial, Role};
use super::super::schedule::{Schedule, opening, routing};
use super::{Daemon, MtcpOutput, NodeLayer, layer_name};
use crate::clock::dtn_time;

/// Maximum number of bundles or contacts in an answer.
const MAX_ROWS: usize = 1000;
/// Mark in front of the numbers of bundles that wait for applications.
const LOCAL: &str = "a";

impl Daemon {
    /// Answers the clients of the control socket.
    pub(super) fn serve_operators(&mut self, now: Time) {
        let Some(mut control) = self.control.take() else { return };
        for (n, request) in control.receive(now) {
            control.answer(n, request.and_then(|request| self.operate(&request, now)));
        }
        self.control = Some(control);
    }

    fn operate(&mut self, request: &Request, now: Time) -> Result<Value, String> {
        match request {
            Request::Status => Ok(self.status(now)),
            Request::List { first, most, local } => {
                Ok(json!({ "bundles": self.rows((*first, (*most).min(MAX_ROWS)), *local, now) }))
            }
            Request::Delete { ids } => self.delete(ids, now),
            Request::Contacts => self.contacts(now),
            Request::AddContacts { lines } => self.change_plan(|plan, own| plan.with_lines(lines, own), now),
            Request::RemoveContacts { from, to, at } => {
                let at = at.map(|seconds| Time::ZERO + Span::from_secs_f64(seconds.clamp(0.0, 9e9)));
                self.change_plan(|plan, own| Ok(plan.without((*from, *to), at, own)), now)
            }
            Request::Routes => Ok(self.routes()),
            Request::AddRoute { to, via } => self.add_route(to, via, now),
            Request::RemoveRoute { to } => self.remove_route(to, now),
            Request::AddNeighbour { table } => self.add_neighbour(table, now),
            Request::RemoveNeighbour { node } => self.remove_neighbour(node, now),
        }
    }

    fn status(&mut self, now: Time) -> Value {
        let mut numbers: Vec<u64> =
            self.file.neighbour.iter().map(|neighbour| neighbour.node.number).collect();
        for peer in self.peers.values() {
            if let Role::Neighbour(number) = peer.role
                && !numbers.contains(&number)
            {
                numbers.push(number);
            }
        }
        let neighbours: Vec<Value> =
            numbers.into_iter().map(|number| self.neighbour_row(number, now)).collect();
        json!({
            "eid": self.file.eid.to_string(),
            "up_s": self.clock.now().since(Time::ZERO).as_secs_f64(),
            "storage_bytes": self.file.storage.get(),
            "disk_full": self.is_disk_full,
            "counters": self.counters().to_json(),
            "neighbours": neighbours,
        })
    }

    fn neighbour_row(&self, number: u64, now: Time) -> Value {
        let neighbour = self.file.neighbour(number);
        let layer = neighbour.map_or(NodeLayer::Tcpcl, |neighbour| neighbour.layer);
        let output = self.outputs.iter().find(|output| output.dial.number == number);
        let is_connected = match layer {
            NodeLayer::Tcpcl => Some(self.peers.values().any(|peer| peer.role == Role::Neighbour(number))),
            NodeLayer::Mtcp => output.map(|output| output.link.is_some()),
            NodeLayer::Udp | NodeLayer::Ltp => None,
        };
        let (waiting, bytes) = self.node.queued(number);
        json!({
            "node": self.name_of(number),
            "layer": layer_name(layer),
            "at": neighbour.and_then(|neighbour| neighbour.at).map(|at| at.to_string()),
            "connected": is_connected,
            "open": opening(&self.schedule, &self.file, number, now).is_some(),
            "waiting": waiting,
            "waiting_bytes": bytes,
        })
    }

    fn rows(&self, (first, most): (u64, usize), is_local: bool, now: Time) -> Vec<Value> {
        if is_local {
            let row = |(id, bundle, size, expiry): (u64, &Bundle, u64, u64)| {
                let left = expiry.saturating_sub(dtn_time());
                self.row(&format!("{LOCAL}{id}"), bundle, size, left, "for an application".to_owned())
            };
            return self.mailboxes.list(first, most).into_iter().map(row).collect();
        }
        let row = |listed: Listed<'_>| {
            let left = listed.expiry.since(now).as_nanos() / 1_000_000;
            let state = match listed.state {
                State::Stranded => "no route".to_owned(),
                State::Waiting(number) => format!("for {}", self.name_of(number)),
                State::Sending => "in transmission".to_owned(),
                State::Kept => "for neighbours that are met".to_owned(),
            };
            self.row(&listed.id.to_string(), listed.bundle, listed.size, left, state)
        };
        self.node.list(first, most).into_iter().map(row).collect()
    }

    fn row(&self, id: &str, bundle: &Bundle, size: u64, left_ms: u64, state: String) -> Value {
        let primary = &bundle.primary;
        json!({
            "id": id,
            "source": primary.source.to_string(),
            "destination": primary.destination.to_string(),
            "created_ms": primary.timestamp.time,
            "sequence": primary.timestamp.sequence,
            "fragment": primary.fragment.map(|fragment| json!([fragment.offset, fragment.total])),
            "size": size,
            "priority": priority(bundle),
            "left_s": left_ms as f64 / 1000.0,
            "state": state,
        })
    }

    fn delete(&mut self, ids: &[String], now: Time) -> Result<Value, String> {
        let mut deleted = Vec::new();
        for id in ids.iter().take(MAX_ROWS) {
            let number = |text: &str| {
                text.parse::<u64>()
                    .map_err(|_| format!("expected a number of the list, as 5 or {LOCAL}5, got \"{id}\""))
            };
            let is_gone = match id.strip_prefix(LOCAL) {
                None => self.node.cancel(number(id)?, now),
                Some(local) => {
                    let id = number(local)?;
                    let taken = self.mailboxes.take(id);
                    let node = &mut self.node;
                    taken.iter().for_each(|(bundle, share)| node.note_cancelled((bundle, *share), now));
                    self.journal.remove(Slot::Local(id));
                    taken.is_some()
                }
            };
            if is_gone {
                deleted.push(id);
            }
        }
        Ok(json!({ "deleted": deleted }))
    }

    fn contacts(&self, now: Time) -> Result<Value, String> {
        let schedule = self.plan()?;
        let state = |start: Time, end: Time| match (now < start, now < end) {
            (true, _) => "later",
            (false, true) => "open",
            (false, false) => "over",
        };
        let all = &schedule.plan.contacts;
        // Those that are over are of least interest.
        let present = all.iter().filter(|contact| contact.end > now);
        let rows = present.clone().chain(all.iter().filter(|contact| contact.end <= now)).take(MAX_ROWS);
        let rows: Vec<Value> = rows
            .map(|contact| {
                json!({
                    "from": contact.from,
                    "to": contact.to,
                    "start_s": contact.start.as_secs_f64(),
                    "end_s": contact.end.as_secs_f64(),
                    "bps": contact.rate.as_bps(),
                    "light_s": contact.light_time.map(Span::as_secs_f64),
                    "state": state(contact.start, contact.end),
                })
            })
            .collect();
        Ok(json!({ "now_s": now.as_secs_f64(), "count": all.len(), "contacts": rows }))
    }

    fn plan(&self) -> Result<&Schedule, String> {
        self.schedule.as_ref().ok_or_else(|| "the node has no contact plan: its file needs `plan`".to_owned())
    }

    fn change_plan(
        &mut self,
        change: impl FnOnce(&Schedule, u64) -> Result<Schedule, String>,
        now: Time,
    ) -> Result<Value, String> {
        let old = self.plan()?;
        let (before, new) = (old.plan.contacts.len(), change(old, self.own)?);
        let after = new.plan.contacts.len();
        // Neighbours that had no contacts are reached in their contacts only.
        let now_planned: Vec<u64> = new.contacts.keys().copied().collect();
        self.schedule = Some(new);
        now_planned.into_iter().for_each(|number| self.node.remove_direct(number, now));
        self.doubt_again();
        self.route_again(now);
        Ok(json!({ "added": after.saturating_sub(before), "removed": before.saturating_sub(after) }))
    }

    /// Routes all waiting bundles again after a change by the operator.
    fn route_again(&mut self, now: Time) {
        match self.node.makes_copies() {
            true => self.node.reroute(now),
            false => self.node.set_routing(routing(&self.file, self.schedule.as_ref(), self.own), now),
        }
    }

    fn routes(&self) -> Value {
        let routes: serde_json::Map<String, Value> =
            self.file.routes.iter().map(|(to, via)| (to.clone(), json!(via.to_string()))).collect();
        let direct: Vec<String> = self.node.direct().into_iter().map(|number| self.name_of(number)).collect();
        json!({ "routes": routes, "direct": direct })
    }

    fn add_route(&mut self, to: &str, via: &str, now: Time) -> Result<Value, String> {
        let via: NodeId = via.parse()?;
        let mut file = self.file.clone();
        file.routes.insert(to.to_owned(), via);
        file.verify()?;
        self.file = file;
        self.know_names();
        self.doubt_again();
        self.route_again(now);
        Ok(json!({ "routes": self.file.routes.len() }))
    }

    fn remove_route(&mut self, to: &str, now: Time) -> Result<Value, String> {
        self.file.routes.remove(to).ok_or_else(|| format!("no route to {to}"))?;
        self.route_again(now);
        Ok(json!({ "routes": self.file.routes.len() }))
    }

    fn add_neighbour(&mut self, table: &str, now: Time) -> Result<Value, String> {
        self.file.add_neighbour(table)?;
        let Some(neighbour) = self.file.neighbour.last().cloned() else { return Ok(json!({})) };
        if let Err(error) = self.radio.add(&neighbour) {
            self.file.neighbour.pop();
            self.radio.remove(neighbour.node.number);
            return Err(error.to_string());
        }
        self.know_names();
        self.know_neighbour(&neighbour, now);
        self.doubt_again();
        self.route_again(now);
        Ok(json!({ "neighbours": self.file.neighbour.len() }))
    }

    fn remove_neighbour(&mut self, node: &str, now: Time) -> Result<Value, String> {
        let NodeId { number, .. } = node.parse()?;
        if let Some((to, _)) = self.file.routes.iter().find(|(_, via)| via.number == number) {
            return Err(format!("the route to {to} leads by {node}: remove it first"));
        }
        if self.file.neighbour(number).is_none() {
            return Err(format!("{node} is not a neighbour in the node file, nor was it added"));
        }
        self.file.neighbour.retain(|neighbour| neighbour.node.number != number);
        self.dials.retain(|dial: &Dial| dial.number != number);
        let is_gone = |output: &mut MtcpOutput| output.dial.number == number;
        for output in self.outputs.extract_if(.., is_gone).collect::<Vec<_>>() {
            output.give_up(&mut self.node, now);
        }
        self.radio.remove(number);
        for peer in self.peers.values_mut() {
            if peer.role == Role::Neighbour(number) || peer.dialled == Some(number) {
                peer.connection.session.end(0);
            }
        }
        self.node.remove_direct(number, now);
        self.route_again(now);
        Ok(json!({ "neighbours": self.file.neighbour.len() }))
    }
}
