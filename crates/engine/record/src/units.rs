//! Accounts of units: bytes, calls, requests, bundles and packets of each flow.
//!
//! A metric declares the column that it is added to ([`Metric::units`](bentpipe_net::metric::Metric)). What no metric counts is from the
//! accounts of the flow's packets. Offered and copied units are refused, delivered, duplicates, dropped or remaining; what is left over has
//! a row of its own, with the reason "unaccounted".

use std::collections::HashSet;
use std::fmt;

use bentpipe_net::Observer;
use bentpipe_net::metric::{Counter, Gauge, Metric, Of, UnitColumn, UnitRest};
use bentpipe_sim::Network;
use indexmap::IndexMap;
use indexmap::map::Entry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ledger::{MORE as MORE_THAN_SENT, Shown};
use super::{LedgerColumn, LedgerRow, Subject};

/// Reason of units that are in no column. The account does not close.
const UNACCOUNTED: &str = "unaccounted";
/// Reason of units beyond those offered. The account does not close.
const TOO_MANY: &str = "more-than-offered";
/// Reason of units between the ends of a flow.
const IN_FLIGHT: &str = "in-flight";

/// Row of the account of a flow's units, over the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitRow {
    /// Flow: "flow.download", of copies with their number.
    pub flow: String,
    /// Unit: "B" of a stream, "packets", "requests", "calls", "bundles".
    pub unit: String,
    /// Column.
    pub column: UnitColumn,
    /// Element at which they were dropped or found, where it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Reason of refused, dropped and remaining units: "queue", "all-lines-busy", "waiting". "unaccounted" and "more-than-offered":
    /// the account does not close.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Number of units.
    pub count: u64,
}

/// Account in the making.
struct Account {
    unit: &'static str,
    rest: UnitRest,
    /// End of the flow that is over before the run.
    ended_at: String,
    counts: IndexMap<(UnitColumn, String, String), i64>,
}

impl Account {
    fn add(&mut self, column: UnitColumn, (place, reason): (&str, &str), count: i64) {
        *self.counts.entry((column, place.to_owned(), reason.to_owned())).or_default() += count;
    }

    /// Adds rows of the account of a sender's packets.
    fn add_packets<'a>(&mut self, rows: impl Iterator<Item = &'a LedgerRow>) {
        // What ended and was not sent is left over in the other direction.
        let rows = rows.filter(|row| row.reason != MORE_THAN_SENT);
        for LedgerRow { column, place, reason, packets, .. } in rows {
            let column = match column {
                LedgerColumn::Sent => UnitColumn::Offered,
                LedgerColumn::Copied => UnitColumn::Copied,
                LedgerColumn::Delivered => UnitColumn::Delivered,
                LedgerColumn::TakenOver | LedgerColumn::Dropped => UnitColumn::Dropped,
                LedgerColumn::Remaining => UnitColumn::Remaining,
            };
            self.add(column, (place, reason), *packets as i64);
        }
    }

    /// Returns the units offered and copied that are in no column.
    fn left_over(&self) -> i64 {
        let signed = |((column, ..), count): (&(UnitColumn, String, String), &i64)| match column {
            UnitColumn::Offered | UnitColumn::Copied => *count,
            _ => -count,
        };
        self.counts.iter().map(signed).sum()
    }

    /// Adds what no metric counts, from the accounts of packets.
    fn complete(&mut self, flow: &str, ledger: &[LedgerRow]) {
        let of = |end: &'static str| {
            let sender = format!("{flow}.{end}");
            ledger.iter().filter(move |row| row.sender == sender)
        };
        match self.rest {
            UnitRest::None | UnitRest::InFlight | UnitRest::Lost(_) => {}
            UnitRest::Packets => {
                self.add_packets(of("sender"));
                // A duplicate was delivered too.
                let duplicates =
                    self.counts.iter().filter(|((column, ..), _)| *column == UnitColumn::Duplicates);
                let duplicates = duplicates.map(|(_, count)| count).sum::<i64>();
                self.add(UnitColumn::Delivered, ("", ""), -duplicates);
            }
            UnitRest::RoundTrips => {
                // A request that was delivered goes on as its answer.
                self.add_packets(of("sender").filter(|row| !is_end(row)));
                self.add_packets(of("receiver").filter(|row| !is_end(row)));
            }
        }
        self.add(UnitColumn::Offered, ("", ""), 0);
        self.add(UnitColumn::Delivered, ("", ""), 0);
        let left_over = self.left_over();
        let ended_at = self.ended_at.clone();
        let (column, place, reason) = match (left_over, self.rest) {
            (..0, _) => (UnitColumn::Remaining, "", TOO_MANY),
            (_, UnitRest::InFlight) => (UnitColumn::Remaining, "", IN_FLIGHT),
            (_, UnitRest::Lost(reason)) => (UnitColumn::Dropped, &ended_at[..], reason),
            _ => (UnitColumn::Remaining, "", UNACCOUNTED),
        };
        self.add(column, (place, reason), left_over);
    }

    fn into_rows(self, flow: &str) -> Vec<UnitRow> {
        let Account { unit, counts, .. } = self;
        let is_shown = |((column, ..), count): &((UnitColumn, String, String), i64)| {
            *count != 0 || matches!(column, UnitColumn::Offered | UnitColumn::Delivered)
        };
        let row = |((column, place, reason), count): ((UnitColumn, String, String), i64)| UnitRow {
            flow: flow.to_owned(),
            unit: unit.to_owned(),
            column,
            place,
            reason,
            count: count.unsigned_abs(),
        };
        let mut rows: Vec<UnitRow> = counts.into_iter().filter(is_shown).map(row).collect();
        rows.sort_by_key(|row| row.column);
        rows
    }
}

fn is_end(row: &LedgerRow) -> bool {
    matches!(row.column, LedgerColumn::Sent | LedgerColumn::Delivered)
}

/// Collects the accounts from what elements report.
struct Collector {
    path: String,
    accounts: IndexMap<String, Account>,
}

impl Collector {
    fn take(&mut self, metric: &'static Metric, value: f64) {
        self.take_at(metric, "", value);
    }

    fn take_at(&mut self, metric: &'static Metric, place: &str, value: f64) {
        let Some(units) = metric.units else { return };
        let Some((flow, end, _)) = Subject::part_of_flow(&self.path) else { return };
        let is_meant = units.entries.iter().any(|entry| entry.end == end);
        if !is_meant {
            return;
        }
        if matches!(units.rest, UnitRest::Lost(_)) && value == 0.0 {
            return;
        }
        let new = || Account {
            unit: units.unit,
            rest: units.rest,
            ended_at: String::new(),
            counts: IndexMap::new(),
        };
        let account = self.accounts.entry(Subject::Flow(flow).to_string()).or_insert_with(new);
        if matches!(units.rest, UnitRest::Lost(_)) {
            account.rest = units.rest;
            account.ended_at = self.path.replace('/', ".");
            return;
        }
        // Bundles of a stream that a proxy cuts: one of the flow's metrics knows that some are between its ends.
        if units.rest == UnitRest::InFlight && !matches!(account.rest, UnitRest::Lost(_)) {
            account.rest = UnitRest::InFlight;
        }
        if units.unit != account.unit {
            // Packets may carry other units, whose account is the flow's.
            if account.rest != UnitRest::Packets {
                return;
            }
            *account = new();
        }
        for entry in units.entries.iter().filter(|entry| entry.end == end) {
            account.add(
                entry.column,
                (place, entry.reason),
                if value.is_finite() { value as i64 } else { 0 },
            );
        }
    }
}

impl Observer for Collector {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.take(metric, total as f64);
    }

    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.take(metric, value);
    }

    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.path);
    }

    fn units_at(&mut self, metric: &'static Of<Gauge>, place: &str, units: u64) {
        self.take_at(metric, place, units as f64);
    }

    fn counts_units(&self) -> bool {
        true
    }
}

impl UnitRow {
    /// Returns the accounts of a network's flows, in the order of its elements.
    ///
    /// `ledger` has those of its packets.
    pub fn of(reported: &Reported, ledger: &[LedgerRow]) -> Vec<UnitRow> {
        let mut rows = Vec::new();
        for (flow, account) in &reported.0 {
            let mut account =
                Account { ended_at: account.ended_at.clone(), counts: account.counts.clone(), ..*account };
            account.complete(flow, ledger);
            rows.extend(account.into_rows(flow));
        }
        rows
    }

    /// Returns the sums of rows of several runs, flow by flow.
    pub fn summed<'a>(rows: impl Iterator<Item = &'a UnitRow>) -> Vec<UnitRow> {
        let mut flows: IndexMap<&str, IndexMap<(UnitColumn, &str, &str), UnitRow>> = IndexMap::new();
        for row in rows {
            let of_flow = flows.entry(&row.flow).or_default();
            match of_flow.entry((row.column, &row.place, &row.reason)) {
                Entry::Vacant(new) => drop(new.insert(row.clone())),
                Entry::Occupied(mut sum) => sum.get_mut().count += row.count,
            }
        }
        flows.into_values().flat_map(IndexMap::into_values).collect()
    }

    /// Returns `true` if the row says that the account does not close.
    pub fn is_open(&self) -> bool {
        self.reason == UNACCOUNTED || self.reason == TOO_MANY
    }

    /// Returns the rows of flows with losses, unaccounted units, or many that wait.
    ///
    /// Of more flows than have a line each, it returns those of all with the same units: a line of all is of what was asked.
    pub fn with_losses(rows: &[UnitRow]) -> Vec<UnitRow> {
        let mut sums: IndexMap<&str, Shown> = IndexMap::new();
        rows.iter().for_each(|row| row.add_to(sums.entry(&row.flow).or_default()));
        let shown: HashSet<&str> =
            sums.iter().filter(|(_, sum)| sum.is_notable()).map(|(flow, _)| *flow).collect();
        let is_shown = |row: &&UnitRow| shown.contains(&row.flow[..]);
        let units: HashSet<&str> = rows.iter().filter(is_shown).map(|row| &row.unit[..]).collect();
        let is_all = shown.len() > MAX_LINES;
        rows.iter().filter(|row| is_shown(row) || is_all && units.contains(&row.unit[..])).cloned().collect()
    }

    fn add_to(&self, sum: &mut Shown) {
        sum.has_loss |= self.is_open() || matches!(self.column, UnitColumn::Refused | UnitColumn::Dropped);
        match self.column {
            UnitColumn::Offered => sum.offered += self.count,
            UnitColumn::Delivered => sum.ended += self.count,
            UnitColumn::Remaining if self.reason.starts_with("waiting") => sum.waiting += self.count,
            _ => {}
        }
    }
}

/// Reports of the elements of a network, for accounts of units.
pub struct Reported(IndexMap<String, Account>);

impl Reported {
    /// Asks the elements of a network.
    pub fn of(network: &mut Network) -> Reported {
        let mut collector = Collector { path: String::new(), accounts: IndexMap::new() };
        for id in network.ids() {
            network.path(id).clone_into(&mut collector.path);
            network.observe(id, &mut collector);
        }
        Reported(collector.accounts)
    }
}

/// Flows that have a line each; of more there is a line for each unit.
const MAX_LINES: usize = 8;

/// Text of accounts: a line for each flow, or one for all of a unit.
#[derive(Clone, Copy, Debug)]
pub struct UnitText<'a> {
    /// Rows, by flow.
    pub rows: &'a [UnitRow],
    /// Number of runs that they are sums of.
    pub runs: usize,
}

impl fmt::Display for UnitText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flows: Vec<&[UnitRow]> = self.rows.chunk_by(|a, b| a.flow == b.flow).collect();
        let runs = if self.runs > 1 { format!(" in {} runs", self.runs) } else { String::new() };
        if flows.len() <= MAX_LINES {
            return flows.iter().try_for_each(|rows| {
                let (flow, unit) = (&rows[0].flow, &rows[0].unit);
                writeln!(f, "{unit} of {flow}{runs}: {}", UnitLine(&rows.iter().collect::<Vec<_>>()))
            });
        }
        let mut by_unit: IndexMap<&str, Vec<&UnitRow>> = IndexMap::new();
        self.rows.iter().for_each(|row| by_unit.entry(&row.unit).or_default().push(row));
        by_unit.iter().try_for_each(|(unit, rows)| {
            let of = flows.iter().filter(|flow| flow[0].unit == *unit).count();
            writeln!(f, "{unit} of {of} flows{runs}: {}", UnitLine(rows))
        })
    }
}

/// Sums of rows in a line, by column and reason. Drops have their place, or the number of places.
#[derive(Clone, Copy, Debug)]
pub struct UnitLine<'a>(pub &'a [&'a UnitRow]);

impl fmt::Display for UnitLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sums: IndexMap<(UnitColumn, &str), (u64, HashSet<&str>)> = IndexMap::new();
        for row in self.0 {
            let (count, places) = sums.entry((row.column, &row.reason)).or_default();
            *count += row.count;
            places.extend(Some(&row.place[..]).filter(|place| !place.is_empty()));
        }
        sums.sort_by(|(a, _), _, (b, _), _| a.cmp(b));
        for (n, ((column, reason), (count, places))) in sums.iter().enumerate() {
            let separator = if n > 0 { ", " } else { "" };
            let (name, reason) = (column.name(), reason.replace('-', " "));
            let words = match (column, &reason[..]) {
                (_, "unaccounted") => format!("UNACCOUNTED FOR{}: please report it", in_brackets(places)),
                (_, "more than offered") => "MORE THAN OFFERED: please report it".to_owned(),
                (_, "") => name.to_owned(),
                (UnitColumn::Remaining, reason) => reason.to_owned(),
                _ => format!("{name} ({reason}{})", at(places)),
            };
            write!(f, "{separator}{count} {words}")?;
        }
        Ok(())
    }
}

/// Returns places of units that are in no column, if they are known.
fn in_brackets(places: &HashSet<&str>) -> String {
    let mut places: Vec<&str> = places.iter().copied().collect();
    places.sort_unstable();
    if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) }
}

/// Returns the words for places.
fn at(places: &HashSet<&str>) -> String {
    match places.iter().next() {
        None => String::new(),
        Some(place) if places.len() == 1 => format!(", {place}"),
        Some(_) => format!(", {} places", places.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(rest: UnitRest, counts: &[(UnitColumn, &str, i64)]) -> Account {
        let ended_at = "flow.f.sender".to_owned();
        let mut account = Account { unit: "packets", rest, ended_at, counts: IndexMap::new() };
        counts.iter().for_each(|(column, reason, count)| account.add(*column, ("", reason), *count));
        account
    }

    fn row(end: &str, column: LedgerColumn, place: &str, packets: u64) -> LedgerRow {
        let reason = if column == LedgerColumn::Dropped { "queue" } else { "" };
        let (sender, place) = (format!("flow.f.{end}"), place.to_owned());
        LedgerRow {
            sender,
            column,
            place,
            reason: reason.to_owned(),
            packets,
            in_warm_up: 0,
            duplicates: 0,
            arrived: None,
            lost: None,
            bytes: None,
        }
    }

    fn line(mut account: Account, ledger: &[LedgerRow]) -> String {
        account.complete("flow.f", ledger);
        let rows = account.into_rows("flow.f");
        UnitLine(&rows.iter().collect::<Vec<_>>()).to_string()
    }

    #[test]
    fn packets_are_those_of_the_ledger_and_what_was_not_sent() {
        let ledger = [
            row("sender", LedgerColumn::Sent, "", 10),
            row("sender", LedgerColumn::Copied, "link.l.forward.channel", 3),
            row("sender", LedgerColumn::Delivered, "", 11),
            row("sender", LedgerColumn::Dropped, "link.l.forward", 2),
        ];
        let counts = [
            (UnitColumn::Offered, "", 5),
            (UnitColumn::Remaining, "unsent", 5),
            (UnitColumn::Duplicates, "", 3),
        ];
        assert_eq!(
            line(account(UnitRest::Packets, &counts), &ledger),
            "15 offered, 3 copied, 8 delivered, 3 duplicates, 2 dropped (queue, link.l.forward), 5 unsent"
        );
    }

    #[test]
    fn a_request_may_be_lost_on_both_ways() {
        let ledger = [
            row("sender", LedgerColumn::Sent, "", 10),
            row("sender", LedgerColumn::Delivered, "", 8),
            row("sender", LedgerColumn::Dropped, "link.l.forward", 2),
            row("receiver", LedgerColumn::Sent, "", 8),
            row("receiver", LedgerColumn::Delivered, "", 7),
            row("receiver", LedgerColumn::Dropped, "link.l.return", 1),
        ];
        let counts = [(UnitColumn::Offered, "", 10), (UnitColumn::Delivered, "", 7)];
        assert_eq!(
            line(account(UnitRest::RoundTrips, &counts), &ledger),
            "10 offered, 7 delivered, 3 dropped (queue, 2 places)"
        );
    }

    #[test]
    fn what_is_in_no_column_is_in_flight_or_unaccounted_for() {
        let counts = [(UnitColumn::Offered, "", 10), (UnitColumn::Delivered, "", 7)];
        assert_eq!(line(account(UnitRest::InFlight, &counts), &[]), "10 offered, 7 delivered, 3 in flight");
        let given_up = "10 offered, 7 delivered, 3 dropped (given up, flow.f.sender)";
        assert_eq!(line(account(UnitRest::Lost("given-up"), &counts), &[]), given_up);
        let open = "10 offered, 7 delivered, 3 UNACCOUNTED FOR: please report it";
        assert_eq!(line(account(UnitRest::None, &counts), &[]), open);
        let more = [(UnitColumn::Offered, "", 1), (UnitColumn::Delivered, "", 7)];
        assert!(
            line(account(UnitRest::InFlight, &more), &[]).ends_with("6 MORE THAN OFFERED: please report it")
        );
    }
}
