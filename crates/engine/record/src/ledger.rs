//! Accounts of packets: what each sender sent, and what became of it.

use std::collections::{HashMap, HashSet};
use std::fmt;

use bentpipe_net::ledger::Entry as Booked;
use bentpipe_sim::Statement;
use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Subject, pattern};

/// Column of an account. Sent and copied packets are delivered, taken over, dropped or remaining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LedgerColumn {
    /// Packets that the sender's node took on.
    Sent,
    /// Further copies made on the way: duplicates, and those for members of a group.
    Copied,
    /// Packets that an endpoint got.
    Delivered,
    /// Packets that a role took, such as a proxy. It sends packets of its own instead.
    TakenOver,
    /// Packets that ended on the way.
    Dropped,
    /// Packets that were on their way at the end of the run.
    Remaining,
}

impl LedgerColumn {
    pub(super) const ALL: [LedgerColumn; 6] = [
        LedgerColumn::Sent,
        LedgerColumn::Copied,
        LedgerColumn::Delivered,
        LedgerColumn::TakenOver,
        LedgerColumn::Dropped,
        LedgerColumn::Remaining,
    ];

    /// Returns the name in results.
    pub const fn name(self) -> &'static str {
        match self {
            LedgerColumn::TakenOver => "taken-over",
            other => other.label(),
        }
    }

    /// Returns the column of a name.
    pub fn of(name: &str) -> Option<LedgerColumn> {
        LedgerColumn::ALL.into_iter().find(|column| column.name() == name)
    }

    /// Returns the words for readers.
    pub const fn label(self) -> &'static str {
        match self {
            LedgerColumn::Sent => "sent",
            LedgerColumn::Copied => "copied",
            LedgerColumn::Delivered => "delivered",
            LedgerColumn::TakenOver => "taken over",
            LedgerColumn::Dropped => "dropped",
            LedgerColumn::Remaining => "remaining",
        }
    }
}

fn is_zero(packets: &u64) -> bool {
    *packets == 0
}

/// Reason of remaining packets of a network that goes on, whose places are not known.
const ON_THE_WAY: &str = "on-the-way";
/// Reason of packets that no element of a network had at its end. The account does not close.
const UNACCOUNTED: &str = "unaccounted";
/// Reason of packets that ended, and were not sent. The account does not close.
pub(super) const MORE: &str = "more-than-sent";

/// Row of the account of a sender's packets, over the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerRow {
    /// Element that sent them: "flow.download.sender". Messages of its own, such as ICMP, a node sends itself.
    pub sender: String,
    /// Column.
    pub column: LedgerColumn,
    /// Element at which they are copied, taken over, dropped or found. Empty of other columns.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Reason for which they are dropped: "queue", "channel". Of those that remain, "waiting" in a queue or "in-flight";
    /// "on-the-way" where the network goes on. "unaccounted" and "more-than-sent": the account does not close.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
    /// Number of packets of it that were sent in the warm-up. They are in no measure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_warm_up: u64,
    /// Number of duplicates among the packets delivered that were sent in the window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duplicates: u64,
    /// Number of packets sent in the window of which a copy arrived. In rows of packets sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<u64>,
    /// Number of packets sent in the window that are lost. No copy arrived, and none is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// IP bytes, of packets sent and delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl LedgerRow {
    /// Returns the rows of all senders of a network that has ended, in its order.
    pub fn of(statements: &[Statement]) -> Vec<LedgerRow> {
        statements.iter().flat_map(|statement| LedgerRow::of_one(statement, UNACCOUNTED)).collect()
    }

    /// Returns the rows of a network that goes on.
    pub fn of_running(statements: &[Statement]) -> Vec<LedgerRow> {
        statements.iter().flat_map(|statement| LedgerRow::of_one(statement, ON_THE_WAY)).collect()
    }

    /// Returns the sums of rows of several runs, sender by sender.
    pub fn summed<'a>(rows: impl Iterator<Item = &'a LedgerRow>) -> Vec<LedgerRow> {
        let mut senders: IndexMap<&str, IndexMap<(LedgerColumn, &str, &str), LedgerRow>> = IndexMap::new();
        for row in rows {
            let of_sender = senders.entry(&row.sender).or_default();
            match of_sender.entry((row.column, &row.place, &row.reason)) {
                Entry::Vacant(new) => drop(new.insert(row.clone())),
                Entry::Occupied(mut sum) => sum.get_mut().add(row),
            }
        }
        senders.into_values().flat_map(IndexMap::into_values).collect()
    }

    /// Returns the rows of senders whose packets were dropped, or wait.
    ///
    /// They are ends of flows, and roles.
    ///
    /// Of more senders than have a line each, it returns those of all: the line of all is of what was asked.
    pub fn lossy(rows: &[LedgerRow]) -> Vec<LedgerRow> {
        let open = open_senders(rows);
        let of_flows = || rows.iter().filter(|row| row.is_of_traffic() || open.contains(&row.sender[..]));
        let mut sums: IndexMap<&str, Shown> = IndexMap::new();
        of_flows().for_each(|row| sums.entry(&row.sender).or_default().add(row));
        let shown: HashSet<&str> =
            sums.iter().filter(|(_, sum)| sum.is_notable()).map(|(sender, _)| *sender).collect();
        let is_all = shown.len() > MAX_LINES;
        of_flows().filter(|row| is_all || shown.contains(&row.sender[..])).cloned().collect()
    }

    /// Returns `true` for the account of an end of a flow.
    pub fn is_of_flow(&self) -> bool {
        matches!(Subject::of_name(&self.sender), Some((Subject::Flow(_), _)))
    }

    /// Returns `true` for the account of a flow's end or of a role.
    ///
    /// Accounts of other senders are of messages such as ICMP.
    pub fn is_of_traffic(&self) -> bool {
        match Subject::of_name(&self.sender) {
            Some((Subject::Flow(_), _)) => true,
            Some((Subject::Node(_), role)) => !role.is_empty(),
            _ => false,
        }
    }

    /// Returns `true` if the row says that the account does not close.
    pub fn is_open(&self) -> bool {
        self.reason == UNACCOUNTED || self.reason == MORE
    }

    fn add(&mut self, other: &LedgerRow) {
        self.packets += other.packets;
        self.in_warm_up += other.in_warm_up;
        self.duplicates += other.duplicates;
        self.arrived = self.arrived.zip(other.arrived).map(|(own, other)| own + other);
        self.lost = self.lost.zip(other.lost).map(|(own, other)| own + other);
        self.bytes = self.bytes.zip(other.bytes).map(|(own, other)| own + other);
    }

    fn of_one(statement: &Statement, rest: &str) -> Vec<LedgerRow> {
        let sender = statement.sender.replace('/', ".");
        let row = |column, place: &str, reason: &str, [packets, before]: [i64; 2], bytes| LedgerRow {
            sender: sender.clone(),
            column,
            place: place.replace('/', "."),
            reason: reason.to_owned(),
            packets: packets.unsigned_abs(),
            in_warm_up: before.unsigned_abs(),
            duplicates: 0,
            arrived: None,
            lost: None,
            bytes,
        };
        let (account, before) = (statement.account, statement.before_window);
        let whole = |column, packets: [u64; 2], bytes| {
            row(column, "", "", packets.map(|packets| packets as i64), Some(bytes))
        };
        let mut rows = vec![
            whole(LedgerColumn::Sent, [account.sent, before.sent], account.sent_bytes),
            whole(LedgerColumn::Delivered, [account.delivered, before.delivered], account.delivered_bytes),
        ];
        let [arrived, lost] = whole_packets(statement);
        (rows[0].arrived, rows[0].lost) = (Some(arrived), Some(lost));
        // Receivers know what came twice from another machine, and the book what they have no numbers for.
        let repeated = of_window(statement, &|entry| entry == Booked::Repeated);
        rows[1].duplicates = (account.duplicates - before.duplicates).max(repeated.max(0) as u64);
        let before: HashMap<(Booked, &str), i64> = statement
            .entries_before
            .iter()
            .map(|(entry, place, packets)| ((*entry, &place[..]), *packets))
            .collect();
        let known = statement.entries.iter().filter(|(_, _, packets)| *packets != 0);
        rows.extend(known.filter_map(|(entry, place, packets)| {
            let named = named(*entry)?;
            let (column, reason) = match (*packets < 0, named.0) {
                (false, _) => named,
                // Fewer than none were copied, or ended, there.
                (true, LedgerColumn::Copied) => (LedgerColumn::Remaining, UNACCOUNTED),
                (true, _) => (LedgerColumn::Remaining, MORE),
            };
            let before = before.get(&(*entry, &place[..])).copied().unwrap_or(0);
            Some(row(column, place, reason, [*packets, before], None))
        }));
        let elsewhere = [statement.elsewhere(), statement.elsewhere_before()];
        let rest = if elsewhere[0] < 0 { MORE } else { rest };
        rows.extend((elsewhere[0] != 0).then(|| row(LedgerColumn::Remaining, "", rest, elsewhere, None)));
        rows.sort_by_key(|row| row.column);
        rows
    }
}

/// Returns the packets of some entries that were sent in the window.
fn of_window(statement: &Statement, meant: &dyn Fn(Booked) -> bool) -> i64 {
    let of = |entries: &[(Booked, String, i64)]| {
        entries.iter().filter(|(entry, ..)| meant(*entry)).map(|(.., packets)| packets).sum::<i64>()
    };
    of(&statement.entries) - of(&statement.entries_before)
}

/// Returns the packets sent in the window that arrived, and those lost, each once.
fn whole_packets(statement: &Statement) -> [u64; 2] {
    let sum = |meant: &dyn Fn(Booked) -> bool| of_window(statement, meant);
    let delivered = statement.account.delivered as i64 - statement.before_window.delivered as i64;
    let arrived = delivered + sum(&|entry| entry == Booked::TakenOver) - sum(&|entry| entry == Booked::Again);
    let lost = sum(&|entry| matches!(entry, Booked::Dropped(_))) - sum(&|entry| entry == Booked::Spared);
    [arrived, lost].map(|packets| packets.max(0) as u64)
}

/// Returns the column and the reason of an entry. `None`: it says more of packets in others.
fn named(entry: Booked) -> Option<(LedgerColumn, &'static str)> {
    let named = match entry {
        Booked::Copied => (LedgerColumn::Copied, ""),
        Booked::TakenOver => (LedgerColumn::TakenOver, ""),
        Booked::Dropped(why) => (LedgerColumn::Dropped, why.name()),
        Booked::Waiting => (LedgerColumn::Remaining, "waiting"),
        Booked::InFlight => (LedgerColumn::Remaining, "in-flight"),
        Booked::Again | Booked::Repeated | Booked::Spared => return None,
    };
    Some(named)
}

/// Returns the senders whose accounts do not close.
fn open_senders(rows: &[LedgerRow]) -> HashSet<&str> {
    rows.iter().filter(|row| row.is_open()).map(|row| &row.sender[..]).collect()
}

/// Sums by which an account is shown where losses are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    /// Set if anything was dropped, refused or is unaccounted for.
    pub(crate) has_loss: bool,
    /// Number asked for.
    pub(crate) offered: u64,
    /// Number that came to its end.
    pub(crate) ended: u64,
    /// Number that waits.
    pub(crate) waiting: u64,
}

/// Divisor of what was asked: an account of which as many wait is shown.
const MANY_WAIT: u64 = 10;

impl Shown {
    fn add(&mut self, row: &LedgerRow) {
        match row.column {
            LedgerColumn::Sent => self.offered += row.packets,
            LedgerColumn::Copied => {}
            LedgerColumn::Delivered | LedgerColumn::TakenOver => self.ended += row.packets,
            LedgerColumn::Dropped => self.has_loss = true,
            LedgerColumn::Remaining if row.is_open() => self.has_loss = true,
            LedgerColumn::Remaining if row.reason == "waiting" => self.waiting += row.packets,
            LedgerColumn::Remaining => {}
        }
    }

    /// Returns `true` if figures alone would not show what became of it.
    pub(crate) fn is_notable(self) -> bool {
        let waits = self.waiting > 0 && self.waiting.saturating_mul(MANY_WAIT) >= self.offered;
        self.has_loss || waits || self.offered > 0 && self.ended == 0
    }
}

/// Senders that have a line each; of more there is one line for all.
const MAX_LINES: usize = 8;
/// Reasons of remaining packets, and words for them.
const REMAINING: [(&str, &str); 3] =
    [("waiting", "waiting"), ("in-flight", "in flight"), (ON_THE_WAY, "on their way")];
/// Reasons of packets for which an account does not close, and words for them.
const OPEN: [(&str, &str); 2] = [(UNACCOUNTED, "UNACCOUNTED FOR"), (MORE, "MORE THAN SENT")];
/// Kinds of drops in a line: a reason, and places that differ by numbers.
const MAX_DROPS: usize = 6;

/// Text of the accounts of flows: a line for each sender, or one for all.
#[derive(Clone, Copy, Debug)]
pub struct LedgerText<'a> {
    /// Rows, by sender.
    pub rows: &'a [LedgerRow],
    /// Number of runs that they are sums of.
    pub runs: usize,
    /// Set if the measures next to it leave out a warm-up.
    pub has_warm_up: bool,
}

impl fmt::Display for LedgerText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = open_senders(self.rows);
        let is_shown = |row: &&LedgerRow| row.is_of_traffic() || open.contains(&row.sender[..]);
        let of_flows: Vec<&LedgerRow> = self.rows.iter().filter(is_shown).collect();
        let senders: Vec<&[&LedgerRow]> = of_flows.chunk_by(|a, b| a.sender == b.sender).collect();
        let runs = if self.runs > 1 { format!(" in {} runs", self.runs) } else { String::new() };
        let runs = runs + if self.has_warm_up { ", warm-up included" } else { "" };
        if senders.len() > MAX_LINES {
            let ends = senders.len();
            return writeln!(f, "packets of {ends} senders{runs}: {}", LedgerLine(&of_flows));
        }
        senders
            .iter()
            .try_for_each(|rows| writeln!(f, "packets of {}{runs}: {}", rows[0].sender, LedgerLine(rows)))
    }
}

/// Sums of rows in a line, with reasons and places.
#[derive(Clone, Copy, Debug)]
pub struct LedgerLine<'a>(pub &'a [&'a LedgerRow]);

impl LedgerLine<'_> {
    fn sum(&self, is_meant: impl Fn(&LedgerRow) -> bool) -> u64 {
        self.0.iter().filter(|row| is_meant(row)).map(|row| row.packets).sum()
    }

    /// Returns the drops by reason and places that differ by numbers alone, the most first.
    fn drops(&self) -> Vec<Dropped<'_>> {
        let mut drops: IndexMap<(&str, String), Dropped<'_>> = IndexMap::new();
        for row in self.0.iter().filter(|row| row.column == LedgerColumn::Dropped) {
            drops.entry((&row.reason, pattern(&row.place))).or_insert_with(|| Dropped::at(row)).add(row);
        }
        let mut drops: Vec<Dropped<'_>> = drops.into_values().collect();
        drops.sort_by_key(|dropped| std::cmp::Reverse(dropped.packets));
        drops
    }
}

/// Packets dropped for a reason, at places that differ by numbers alone.
struct Dropped<'a> {
    packets: u64,
    reason: &'a str,
    places: IndexSet<&'a str>,
}

impl<'a> Dropped<'a> {
    fn at(row: &'a LedgerRow) -> Dropped<'a> {
        Dropped { packets: 0, reason: &row.reason, places: IndexSet::new() }
    }

    fn add(&mut self, row: &'a LedgerRow) {
        self.packets += row.packets;
        self.places.insert(&row.place);
    }
}

impl fmt::Display for Dropped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dropped { packets, reason, places } = self;
        let first = places.first().copied().unwrap_or_default();
        match places.len() {
            // Measures have no places.
            1 if first.is_empty() => write!(f, "{packets} dropped ({reason})"),
            1 => write!(f, "{packets} dropped ({reason}, {first})"),
            several => write!(f, "{packets} dropped ({reason}, {}: {several} places)", pattern(first)),
        }
    }
}

impl fmt::Display for LedgerLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = |wanted: LedgerColumn| self.sum(|row| row.column == wanted);
        write!(f, "{} sent", column(LedgerColumn::Sent))?;
        for other in [LedgerColumn::Copied, LedgerColumn::Delivered, LedgerColumn::TakenOver] {
            let packets = column(other);
            if packets > 0 || other == LedgerColumn::Delivered {
                write!(f, ", {packets} {}", other.label())?;
            }
        }
        let drops = self.drops();
        drops.iter().take(MAX_DROPS).try_for_each(|dropped| write!(f, ", {dropped}"))?;
        write_others(&drops[drops.len().min(MAX_DROPS)..], f)?;
        for (reason, words) in REMAINING {
            let packets = self.sum(|row| row.column == LedgerColumn::Remaining && row.reason == reason);
            if packets > 0 {
                write!(f, ", {packets} {words}")?;
            }
        }
        for (reason, words) in OPEN {
            let rows = self.0.iter().filter(|row| row.reason == reason);
            let places: IndexSet<&str> = rows.clone().map(|row| &row.place[..]).collect();
            let places: Vec<&str> = places.into_iter().filter(|place| !place.is_empty()).collect();
            let at = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
            let packets: u64 = rows.map(|row| row.packets).sum();
            if packets > 0 {
                write!(f, ", {packets} {words}{at}: please report it")?;
            }
        }
        Ok(())
    }
}

/// Writes the sums of drops that have no words of their own, by reason.
fn write_others(drops: &[Dropped<'_>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut reasons: IndexMap<&str, (u64, usize)> = IndexMap::new();
    for Dropped { packets, reason, places } in drops {
        let (sum, count) = reasons.entry(reason).or_default();
        *sum += packets;
        *count += places.len();
    }
    reasons.iter().try_for_each(|(reason, (packets, places))| {
        write!(f, ", {packets} dropped ({reason}, {places} other places)")
    })
}

#[cfg(test)]
mod tests {
    use bentpipe_net::Why;
    use bentpipe_net::ledger::Account;

    use super::LedgerColumn::{Copied, Delivered, Dropped, Remaining, Sent};
    use super::*;

    fn statement() -> Statement {
        Statement {
            sender: "flow/x/sender".into(),
            account: Account {
                sent: 100,
                sent_bytes: 9000,
                delivered: 90,
                delivered_bytes: 8100,
                ..Account::default()
            },
            entries: vec![
                (Booked::Copied, "link/l/forward/channel.1".into(), 1),
                (Booked::Dropped(Why::Queue), "link/l/forward".into(), 4),
                (Booked::Dropped(Why::Channel), "link/l/forward/channel.1".into(), 3),
                (Booked::InFlight, "link/l/forward".into(), 2),
                (Booked::Waiting, "link/l/forward".into(), 1),
            ],
            before_window: Account { sent: 9, delivered: 7, ..Account::default() },
            entries_before: vec![(Booked::Dropped(Why::Queue), "link/l/forward".into(), 2)],
        }
    }

    #[test]
    fn rows_add_up_and_what_is_missing_has_a_row() {
        let rows = LedgerRow::of(&[statement()]);
        let of =
            |column| rows.iter().filter(move |row| row.column == column).map(|row| row.packets).sum::<u64>();
        assert_eq!(of(Sent) + of(Copied), of(Delivered) + of(Dropped) + of(Remaining));
        assert_eq!(rows.last().map(|row| (&row.reason[..], row.packets)), Some(("unaccounted", 1)));
        let before = |row: &LedgerRow| (row.packets, row.in_warm_up);
        assert_eq!(rows.iter().find(|row| row.reason == "queue").map(before), Some((4, 2)));
        let text = serde_json::to_string(&rows).expect("text");
        assert_eq!(serde_json::from_str::<Vec<LedgerRow>>(&text).expect("rows"), rows);
    }

    #[test]
    fn copies_delivered_again_are_duplicates_whether_or_not_their_receiver_says_so() {
        let again = |path: &str, count| (Booked::Repeated, path.to_owned(), count);
        let duplicates = |statement: Statement| {
            let rows = LedgerRow::of(&[statement]);
            rows.iter().find(|row| row.column == Delivered).map(|row| row.duplicates)
        };
        let mut silent = statement();
        silent.entries.push(again("node/b", 20));
        // Those of another member of a group are no duplicates.
        silent.entries.push((Booked::Again, "node/c".into(), 9));
        silent.entries_before.push(again("node/b", 3));
        assert_eq!(duplicates(silent.clone()), Some(17));
        // On two machines the book has no copies of the other one.
        silent.account.duplicates = 30;
        silent.before_window.duplicates = 2;
        assert_eq!(duplicates(silent), Some(28));
    }

    #[test]
    fn rows_of_several_runs_are_added_by_sender() {
        let (one, mut other) = (LedgerRow::of(&[statement()]), LedgerRow::of(&[statement()]));
        other.retain(|row| row.reason != "queue");
        other.push(LedgerRow { sender: "node.a".to_owned(), ..other[0].clone() });
        let sum = LedgerRow::summed(one.iter().chain(&other));
        assert_eq!(sum.len(), one.len() + 1);
        assert_eq!((sum[0].packets, sum[0].in_warm_up, sum[0].bytes), (200, 18, Some(18_000)));
        let of = |reason| sum.iter().find(|row| row.reason == reason).map(|row| row.packets);
        assert_eq!((of("queue"), of("channel")), (Some(4), Some(6)));
        assert_eq!(sum.last().map(|row| &row.sender[..]), Some("node.a"));
    }

    #[test]
    fn senders_without_losses_are_left_out_where_losses_are_shown() {
        let mut rows = LedgerRow::of(&[statement()]);
        let of_both = rows.clone().into_iter().filter(|row| matches!(row.column, Sent | Delivered));
        rows.extend(of_both.map(|row| LedgerRow { sender: "flow.y.sender".to_owned(), ..row }));
        let lossy = LedgerRow::lossy(&rows);
        let text = LedgerText { rows: &lossy, runs: 3, has_warm_up: true }.to_string();
        assert!(
            text.starts_with("packets of flow.x.sender in 3 runs, warm-up included: 100 sent, "),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn roles_have_lines_and_messages_of_nodes_have_none() {
        let of = |sender: &str| LedgerRow {
            sender: sender.to_owned(),
            ..LedgerRow::of(&[statement()])[0].clone()
        };
        let dropped = |sender| LedgerRow { column: Dropped, ..of(sender) };
        let rows = ["node.edge", "node.edge.pep", "flow.v.sender.rtcp"].map(dropped);
        let shown: Vec<String> = LedgerRow::lossy(&rows).into_iter().map(|row| row.sender).collect();
        assert_eq!(shown, ["node.edge.pep", "flow.v.sender.rtcp"]);
        assert_eq!(rows.map(|row| row.is_of_flow()), [false, false, true]);
    }

    #[test]
    fn one_line_for_many_senders_is_of_all_that_was_asked() {
        let of = |n: usize, column, packets| LedgerRow {
            sender: format!("flow.x.{n}.sender"),
            column,
            place: String::new(),
            reason: String::new(),
            packets,
            in_warm_up: 0,
            duplicates: 0,
            arrived: None,
            lost: None,
            bytes: None,
        };
        let mut rows: Vec<LedgerRow> = (0..20).flat_map(|n| [of(n, Sent, 5), of(n, Delivered, 5)]).collect();
        assert!(LedgerRow::lossy(&rows).is_empty());
        rows.insert(1, of(0, Dropped, 2));
        assert_eq!(LedgerRow::lossy(&rows).len(), 3);
        let more = (1..10).map(|n| of(n, Dropped, 2));
        rows.extend(more);
        rows.sort_by(|a, b| a.sender.cmp(&b.sender));
        let text = LedgerText { rows: &LedgerRow::lossy(&rows), runs: 1, has_warm_up: false }.to_string();
        assert_eq!(text, "packets of 20 senders: 100 sent, 100 delivered, 20 dropped ()\n");
    }

    #[test]
    fn senders_whose_packets_wait_have_a_line() {
        let waiting = |packets| {
            let of = |column, reason: &str, packets| LedgerRow {
                sender: "flow.x.sender".to_owned(),
                column,
                place: String::new(),
                reason: reason.to_owned(),
                packets,
                in_warm_up: 0,
                duplicates: 0,
                arrived: None,
                lost: None,
                bytes: None,
            };
            let delivered = of(Delivered, "", 100 - packets);
            LedgerRow::lossy(&[of(Sent, "", 100), delivered, of(Remaining, "waiting", packets)]).len()
        };
        assert_eq!([1, 10, 100].map(waiting), [0, 3, 3], "a few may wait in any queue");
    }

    #[test]
    fn a_line_names_where_packets_were_lost() {
        let rows = LedgerRow::of(&[statement()]);
        assert_eq!(
            LedgerText { rows: &rows, runs: 1, has_warm_up: false }.to_string(),
            "packets of flow.x.sender: 100 sent, 1 copied, 90 delivered, 4 dropped (queue, link.l.forward), \
             3 dropped (channel, link.l.forward.channel.1), 1 waiting, 2 in flight, 1 UNACCOUNTED FOR: please report it\n"
        );
    }

    #[test]
    fn an_account_that_does_not_close_says_where_and_is_shown() {
        let text = |entries: Vec<(Booked, String, i64)>, sent: u64| {
            let account = Account { sent, delivered: 10, ..Account::default() };
            let statement = Statement { sender: "node/r".into(), account, entries, ..Statement::default() };
            let rows = LedgerRow::of(&[statement]);
            let of = |column| rows.iter().filter(move |row| row.column == column).map(|row| row.packets);
            let more: u64 = rows.iter().filter(|row| row.reason == MORE).map(|row| row.packets).sum();
            let known = [Sent, Copied].into_iter().flat_map(of).sum::<u64>();
            let ended = [Delivered, Dropped, Remaining].into_iter().flat_map(of).sum::<u64>();
            assert_eq!(known + 2 * more, ended, "{rows:#?}");
            LedgerText { rows: &LedgerRow::lossy(&rows), runs: 1, has_warm_up: false }.to_string()
        };
        // Copies of one place were taken back at another.
        let copied = |place: &str, count| (Booked::Copied, place.to_owned(), count);
        assert_eq!(
            text(vec![copied("node/r", 7), copied("node/z", -3)], 6),
            "packets of node.r: 6 sent, 7 copied, 10 delivered, 3 UNACCOUNTED FOR (node.z): please report it\n"
        );
        assert_eq!(
            text(vec![], 8),
            "packets of node.r: 8 sent, 10 delivered, 2 MORE THAN SENT: please report it\n"
        );
        let dropped = |count| (Booked::Dropped(Why::Queue), "link/l".to_owned(), count);
        assert_eq!(
            text(vec![dropped(-2)], 8),
            "packets of node.r: 8 sent, 10 delivered, 2 MORE THAN SENT (link.l): please report it\n"
        );
        assert_eq!(text(vec![], 10), "", "messages of a node are not shown otherwise");
    }

    #[test]
    fn drops_at_the_places_of_copies_have_one_place_with_their_number() {
        let dropped = |place: String, reason: &str| LedgerRow {
            sender: "flow.x.sender".to_owned(),
            column: Dropped,
            place,
            reason: reason.to_owned(),
            packets: 2,
            in_warm_up: 0,
            duplicates: 0,
            arrived: None,
            lost: None,
            bytes: None,
        };
        let mut rows: Vec<LedgerRow> =
            (1..=500).map(|n| dropped(format!("link.home.{n}.forward.channel"), "channel")).collect();
        rows.push(dropped("node.home.7".to_owned(), "no-listener"));
        rows.push(dropped("link.home.7.forward".to_owned(), "queue"));
        rows.extend(
            (0..6).map(|n| dropped(format!("node.{}", ["a", "b", "c", "d", "e", "f"][n]), "hop-limit")),
        );
        let line = LedgerLine(&rows.iter().collect::<Vec<_>>()).to_string();
        assert_eq!(
            line,
            "0 sent, 0 delivered, 1000 dropped (channel, link.home.*.forward.channel: 500 places), \
             2 dropped (no-listener, node.home.7), 2 dropped (queue, link.home.7.forward), \
             2 dropped (hop-limit, node.a), 2 dropped (hop-limit, node.b), 2 dropped (hop-limit, node.c), \
             6 dropped (hop-limit, 3 other places)"
        );
    }
}
