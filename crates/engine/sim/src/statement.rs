//! Statements of packets: what became of those that each sender sent.

use std::collections::BTreeMap;

use bentpipe_net::ledger::{Account, Accounts, Entry, Ledger};

/// Statement of a sender's packets over a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// Path of the element that sent them: "flow/download/sender". Packets of its own a node sent itself.
    pub sender: String,
    /// Packets sent and delivered.
    pub account: Account,
    /// Other entries: kind, path of the element, number of packets.
    pub entries: Vec<(Entry, String, i64)>,
    /// Packets of the account that were sent before the window of measures.
    pub before_window: Account,
    /// Entries of packets that were sent before the window of measures.
    pub entries_before: Vec<(Entry, String, i64)>,
}

impl Statement {
    /// Returns the number of copies made on the way.
    pub fn copied(&self) -> i64 {
        self.sum(|entry| entry == Entry::Copied)
    }

    /// Returns the number of packets whose end is not in the statement.
    ///
    /// They are on their way, or held outside of the network.
    pub fn elsewhere(&self) -> i64 {
        open(self.account, &self.entries)
    }

    /// Returns the number of those packets that were sent before the window of measures.
    pub fn elsewhere_before(&self) -> i64 {
        open(self.before_window, &self.entries_before)
    }

    /// Returns the sum of the entries of a kind.
    pub fn sum(&self, is_meant: impl Fn(Entry) -> bool) -> i64 {
        let meant = self.entries.iter().filter(|(entry, ..)| is_meant(*entry));
        meant.map(|(_, _, count)| count).sum()
    }
}

/// Returns the number of packets of an account that are in no entry.
fn open(account: Account, entries: &[(Entry, String, i64)]) -> i64 {
    let signed = entries.iter().map(|(entry, _, count)| match entry {
        Entry::Copied => *count,
        end if end.is_end() => -count,
        _ => 0,
    });
    account.sent as i64 - account.delivered as i64 + signed.sum::<i64>()
}

/// Adds packets to the entry of a kind and place.
fn enter(entries: &mut Vec<(Entry, String, i64)>, (entry, path, count): (Entry, &str, i64)) {
    match entries.iter_mut().find(|(kind, at, _)| *kind == entry && at == path) {
        Some((.., sum)) => *sum += count,
        None => entries.push((entry, path.to_owned(), count)),
    }
}

/// Returns the statements of accounts that have packets, in the order of their numbers.
///
/// Accounts of one sender are one statement.
pub(crate) fn statements(
    senders: impl Iterator<Item = (String, u32)>,
    accounts: &Accounts,
    ledger: &Ledger,
    paths: &[String],
) -> Vec<Statement> {
    let (mut statements, mut places, mut numbers) =
        (Vec::<Statement>::new(), BTreeMap::new(), BTreeMap::new());
    for (sender, number) in senders.filter(|(_, number)| accounts.get(*number) != Account::default()) {
        let place = *places.entry(sender.clone()).or_insert(statements.len());
        if place == statements.len() {
            statements.push(Statement { sender, ..Statement::default() });
        }
        statements[place].account.add(accounts.get(number));
        statements[place].before_window.add(accounts.before_window(number));
        numbers.insert(number, place);
    }
    for (number, element, entry, count) in ledger.entries().into_iter().filter(|(.., count)| *count != 0) {
        let account = accounts.account_of(number);
        let Some(statement) = numbers.get(&account).map(|place| &mut statements[*place]) else { continue };
        let path = paths.get(element as usize).map_or("", |path| path);
        enter(&mut statement.entries, (entry, path, count));
        if accounts.is_before_window(number) {
            enter(&mut statement.entries_before, (entry, path, count));
        }
    }
    statements
}

#[cfg(test)]
mod tests {
    use bentpipe_net::channel::{Channel, Config};
    use bentpipe_net::link::{self, Link};
    use bentpipe_net::queue::{Discipline, DropTailConfig};
    use bentpipe_net::{ExternalPort, Packet, Port, Why};
    use bentpipe_units::{Rate, Span, Time};

    use super::*;
    use crate::{Builder, ElementId, Network};

    /// Returns a network of two gates with a line and a channel between them, and the first gate.
    ///
    /// A packet takes 1 ms on the line; two may wait.
    fn network(channel: Config) -> (Network, ElementId) {
        let mut builder = Builder::new(1);
        let queue = Discipline::DropTail(DropTailConfig { packets: Some(2), bytes: None });
        let (rate, delay) = (Some(Rate::from_bps(1_000_000)), Span::from_millis(10));
        let line = link::Config { rate, delay, queue, ..link::Config::default() };
        let from = builder.add("real/a", ExternalPort::default());
        let line = builder.add("link/l/forward", Link::new(&line).expect("a line"));
        let channel = builder.add("link/l/forward/channel", Channel::new(channel).expect("a channel"));
        let to = builder.add("real/b", ExternalPort::default());
        builder.connect((from, ExternalPort::NETWORK), (line, Port(0)));
        builder.connect((line, Port(0)), (channel, Port(0)));
        builder.connect((channel, Port(0)), (to, ExternalPort::NETWORK));
        (builder.build().expect("a network"), from)
    }

    /// Returns the statement after five packets at once and another one 20 ms later, of which 1 ms is seen.
    fn after(channel: Config) -> Statement {
        let (mut network, from) = network(channel);
        let send = |network: &mut Network, count: usize| {
            (0..count).for_each(|_| network.inject(from, ExternalPort::OUTSIDE, Packet::new(25, 100)));
        };
        send(&mut network, 5);
        network.run_until(Time::ZERO + Span::from_millis(20));
        send(&mut network, 3);
        network.run_until(Time::ZERO + Span::from_millis(21));
        let open = network.statements().remove(0);
        let closed = network.close().remove(0);
        assert_eq!((open.account, open.elsewhere()), (closed.account, 3));
        assert_eq!(closed.before_window, Account::default());
        closed
    }

    #[test]
    fn what_is_sent_is_delivered_dropped_or_found() {
        let statement = after(Config::PacketErrors { loss: 0.0 });
        assert_eq!((&statement.sender[..], statement.elsewhere()), ("real/a", 0));
        assert_eq!((statement.account.sent, statement.account.delivered), (8, 3));
        assert_eq!((statement.account.sent_bytes, statement.account.delivered_bytes), (1000, 375));
        let path = || "link/l/forward".to_owned();
        let mut entries = statement.entries.clone();
        entries.sort();
        // At 21 ms the second of the later three is on the line, and the third waits.
        let expected = [
            (Entry::Dropped(Why::Queue), path(), 2),
            (Entry::Waiting, path(), 1),
            (Entry::InFlight, path(), 2),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn losses_and_copies_have_their_place() {
        let path = || "link/l/forward/channel".to_owned();
        let lost = after(Config::PacketErrors { loss: 1.0 });
        assert_eq!((lost.account.delivered, lost.elsewhere()), (0, 0));
        assert!(lost.entries.contains(&(Entry::Dropped(Why::Channel), path(), 3)), "{lost:?}");
        let twice = after(Config::Duplication { probability: 1.0 });
        assert_eq!((twice.account.delivered, twice.copied(), twice.elsewhere()), (6, 3, 0));
        assert!(twice.entries.contains(&(Entry::Copied, path(), 3)), "{twice:?}");
    }

    #[test]
    fn what_was_sent_before_the_window_stays_apart_whenever_it_ends() {
        let (mut network, from) = network(Config::PacketErrors { loss: 0.0 });
        let send = |network: &mut Network, count: usize| {
            (0..count).for_each(|_| network.inject(from, ExternalPort::OUTSIDE, Packet::new(25, 100)));
            network.run_until(network.now());
        };
        // Three are on the line or wait, and two are dropped.
        send(&mut network, 5);
        network.start_window();
        network.run_until(Time::ZERO + Span::from_millis(20));
        send(&mut network, 4);
        let statement = network.close().remove(0);
        let dropped = |entries: &[(Entry, String, i64)]| {
            let dropped = entries.iter().filter(|(entry, ..)| *entry == Entry::Dropped(Why::Queue));
            dropped.map(|(.., packets)| packets).sum::<i64>()
        };
        assert_eq!((statement.account.sent, statement.account.delivered), (9, 3));
        assert_eq!((statement.before_window.sent, statement.before_window.delivered), (5, 3));
        assert_eq!((dropped(&statement.entries), dropped(&statement.entries_before)), (3, 2));
        assert_eq!((statement.elsewhere(), statement.elsewhere_before()), (0, 0));
    }
}
