//! Entity of the CCSDS File Delivery Protocol (CCSDS 727.0-B-5, from memory), without I/O.
//!
//! Models both classes: unacknowledged, with or without closure, and acknowledged with deferred requests for lost data; cancellation at
//! either end; checksums. PDUs go in by [`Entity::handle_pdu`] and come out by [`Entity::poll_transmit`].
//! Does not model suspension, immediate NAKs, filestore requests, messages to the user, nor relaying by other entities.
//!
//! Memory is bounded: by [`Config::transactions`], and by [`Config::memory`] for data received.
//!
//! A transaction is of the host that began it: PDUs of other hosts with its number are of another one. Answers to hosts take turns.
//!
//! Addresses can be forged: a receiver answers with at most three times the bytes that came of a transaction (`Credit`). Beyond that one short PDU
//! follows each timeout, so that a lost request is repeated.

mod receiving;
mod segments;
mod sending;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::cfdp::{ChecksumKind, Common, Condition, Content, Pdu, Status, Transaction};

use receiving::{Past, Receiving};
use sending::Sending;

/// Maximum length of a file's name.
pub const MAX_NAME: usize = 255;

/// Memory of a segment apart from its data.
const MARGIN: usize = 256;

/// Transactions of which the end is remembered.
const REMEMBERED: usize = 1024;

/// Maximum number of answers to a host on transactions that are over.
const REPLIES: usize = 16;

/// Transaction of the host that began it, or of its source.
type Key = (u64, Transaction);

/// Settings of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Identifier of this entity.
    pub entity: u64,
    /// Maximum number of bytes of a file in a PDU.
    pub segment: usize,
    /// Checksum of files that it sends.
    pub checksum: ChecksumKind,
    /// Set if a CRC ends each PDU of its transactions.
    pub has_crc: bool,
    /// Set if the receiver reports the end of unacknowledged transactions.
    pub closure: bool,
    /// Time after which what is not answered is repeated: more than a round trip.
    pub timeout: Span,
    /// Maximum number of repetitions without an answer.
    pub tries: u32,
    /// Time without a PDU after which a transaction ends.
    pub inactivity: Span,
    /// Enables files of others.
    pub receives: bool,
    /// Longest file that it accepts.
    pub file: u64,
    /// Memory for data received.
    pub memory: usize,
    /// Maximum number of transactions in each direction.
    pub transactions: usize,
}

impl Config {
    /// Creates the settings of an entity, with defaults elsewhere.
    pub fn new(entity: u64) -> Config {
        Config {
            entity,
            segment: 1024,
            checksum: ChecksumKind::Crc32,
            has_crc: false,
            closure: false,
            timeout: Span::from_secs(5),
            tries: 10,
            inactivity: Span::from_secs(600),
            receives: true,
            file: 1 << 30,
            memory: 1 << 30,
            transactions: 100,
        }
    }
}

/// File to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// Entity that receives it.
    pub destination: u64,
    /// Name here, at most [`MAX_NAME`] bytes.
    pub source_name: String,
    /// Name there, at most [`MAX_NAME`] bytes.
    pub destination_name: String,
    /// Content.
    pub file: Arc<[u8]>,
    /// Set if the transaction is acknowledged: class 2.
    pub is_acknowledged: bool,
}

/// File received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFile {
    /// Name at the source.
    pub source_name: Vec<u8>,
    /// Name for the destination. It is the sender's choice: a caller checks it.
    pub destination_name: Vec<u8>,
    /// Content.
    pub data: Vec<u8>,
}

/// Event of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A file was sent. Set if the receiver reported that it is complete.
    Sent(Transaction, bool),
    /// A file has arrived whole.
    Received(Transaction, ReceivedFile),
    /// A transaction failed: the condition, and bytes received or acknowledged.
    Failed(Transaction, Condition, u64),
    /// The number of a transaction that is over came again, with another file.
    Reused(Transaction),
    /// A transaction gave way to one of another host, with the bytes received.
    Displaced(Transaction, u64),
}

/// Error returned when a file cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There are too many transactions.
    #[error("too many transactions")]
    TooMany,
    /// A name is too long.
    #[error("a name of more than 255 bytes")]
    Name,
}

/// Entity of the file delivery protocol.
#[derive(Debug)]
pub struct Entity {
    config: Config,
    next: u64,
    sending: BTreeMap<Transaction, Sending>,
    receiving: BTreeMap<Key, Receiving>,
    /// Memory of data received.
    used: usize,
    closed: VecDeque<Key>,
    /// Files of transactions that are over.
    past: HashMap<Key, Past>,
    /// Answers on transactions that are over, by host.
    replies: BTreeMap<u64, VecDeque<(u64, Vec<u8>)>>,
    /// Host that was answered last.
    answered: u64,
    events: VecDeque<Event>,
}

/// Report of a transaction to its entity.
#[derive(Debug)]
enum Outcome {
    /// Continuation without an event.
    Continues,
    /// An event; it may continue.
    Event(Event),
    /// End of the transaction.
    Over,
}

impl Entity {
    /// Creates an entity. `first` is the number of its first transaction.
    pub fn new(config: Config, first: u64) -> Entity {
        Entity {
            config,
            next: first,
            sending: BTreeMap::new(),
            receiving: BTreeMap::new(),
            used: 0,
            closed: VecDeque::new(),
            past: HashMap::new(),
            replies: BTreeMap::new(),
            answered: 0,
            events: VecDeque::new(),
        }
    }

    /// Starts to send a file.
    ///
    /// # Errors
    /// Returns an error if there are too many transactions, or a name is too long.
    pub fn put(&mut self, put: Put, now: Time) -> Result<Transaction, Refusal> {
        if self.sending.len() >= self.config.transactions {
            return Err(Refusal::TooMany);
        }
        if put.source_name.len().max(put.destination_name.len()) > MAX_NAME {
            return Err(Refusal::Name);
        }
        let transaction = Transaction { source: self.config.entity, number: self.next };
        self.next += 1;
        self.sending.insert(transaction, Sending::new(&self.config, transaction, put, now));
        Ok(transaction)
    }

    /// Cancels a transaction, at either end of it.
    pub fn cancel(&mut self, transaction: Transaction, now: Time) {
        if let Some(sending) = self.sending.get_mut(&transaction) {
            sending.cancel(Condition::Cancelled, now);
        }
        for (_, receiving) in self.receiving.iter_mut().filter(|((_, other), _)| *other == transaction) {
            receiving.cancel(Condition::Cancelled, now);
        }
        self.settle_sending(transaction);
        let keys: Vec<Key> = self.receiving.keys().copied().filter(|key| key.1 == transaction).collect();
        keys.into_iter().for_each(|key| self.settle(key));
    }

    /// Returns the number of transactions, sending and receiving.
    pub fn transactions(&self) -> (usize, usize) {
        (self.sending.len(), self.receiving.len())
    }

    /// Returns the memory of data received.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Accepts a PDU. Places of transactions are shared by their sources.
    ///
    /// # Errors
    /// Returns an error if it cannot be parsed.
    pub fn handle_pdu(&mut self, bytes: &[u8], now: Time) -> Result<(), bentpipe_wire::Error> {
        self.accept((&Pdu::parse(bytes)?, bytes.len()), None, now);
        Ok(())
    }

    /// Accepts a PDU of a host. Places of transactions are shared by hosts, as a host may name any source.
    ///
    /// # Errors
    /// Returns an error if it cannot be parsed.
    pub fn handle_pdu_of(&mut self, host: u64, bytes: &[u8], now: Time) -> Result<(), bentpipe_wire::Error> {
        self.accept((&Pdu::parse(bytes)?, bytes.len()), Some(host), now);
        Ok(())
    }

    fn accept(&mut self, (pdu, len): (&Pdu<'_>, usize), host: Option<u64>, now: Time) {
        let transaction = pdu.common.transaction;
        let key = (host.unwrap_or(transaction.source), transaction);
        if pdu.content.is_to_sender() {
            self.handle_to_sender(pdu, key.0, now);
            self.settle_sending(transaction);
        } else if self.config.receives && pdu.common.destination == self.config.entity {
            self.handle_to_receiver((pdu, len), key, now);
            self.settle(key);
        }
    }

    fn handle_to_sender(&mut self, pdu: &Pdu<'_>, origin: u64, now: Time) {
        let transaction = pdu.common.transaction;
        if transaction.source != self.config.entity {
            return;
        }
        match (self.sending.get_mut(&transaction), &pdu.content) {
            (Some(sending), content) => sending.handle(content, now),
            // The acknowledgement was lost: the receiver repeats until it has one.
            (None, Content::Finished { condition, .. }) => {
                self.reply(
                    pdu.common,
                    (origin, pdu.common.destination),
                    Content::AckFinished(*condition, Status::Undefined),
                );
            }
            (None, _) => {}
        }
    }

    fn handle_to_receiver(&mut self, (pdu, len): (&Pdu<'_>, usize), key: Key, now: Time) {
        let (origin, transaction) = key;
        if let Some(past) = self.past.get(&key) {
            if !past.is_other(&pdu.content) {
                return self.answer_late(pdu, origin);
            }
            // A sender that began again counts from its first number: this is another file.
            self.past.remove(&key);
            self.closed.retain(|closed| *closed != key);
            self.events.push_back(Event::Reused(transaction));
        }
        let is_start =
            matches!(pdu.content, Content::Metadata(_) | Content::Data(..) | Content::EndOfFile { .. });
        if !self.receiving.contains_key(&key) {
            let is_full = self.receiving.len() >= self.config.transactions;
            if !is_start || is_full && !self.make_room(origin, |_| 1, now) {
                return;
            }
            self.receiving.insert(key, Receiving::new(&self.config, pdu.common, origin, now));
        }
        if let Content::Data(_, data) = pdu.content
            && data.len() + MARGIN > self.config.memory.saturating_sub(self.used)
        {
            self.make_room(origin, |receiving| receiving.counted, now);
        }
        let Some(receiving) = self.receiving.get_mut(&key) else { return };
        let room = self.config.memory.saturating_sub(self.used);
        receiving.credit.earn(len as u64);
        receiving.handle(&pdu.content, room, now);
    }

    /// Answers the repeated end of a file whose transaction is over.
    fn answer_late(&mut self, pdu: &Pdu<'_>, origin: u64) {
        let Content::EndOfFile { condition, .. } = pdu.content else { return };
        let past = self.past.get(&(origin, pdu.common.transaction));
        let Some(finished) = past.map(Past::finished) else { return };
        if pdu.common.is_acknowledged {
            let to = (origin, pdu.common.transaction.source);
            self.reply(pdu.common, to, Content::AckEndOfFile(condition, Status::Terminated));
            self.reply(pdu.common, to, finished);
        }
    }

    /// Returns `true` if a transaction of another host or source gave way.
    ///
    /// It is of one that has more, or has been silent for two timeouts. So none takes all transactions, or all memory. Of the one that has the most, it
    /// is the transaction that has been silent for longest. Addresses can be forged: each may then have one transaction, of which nothing more comes.
    fn make_room(&mut self, origin: u64, amount: fn(&Receiving) -> usize, now: Time) -> bool {
        let mut by_origin: BTreeMap<u64, usize> = BTreeMap::new();
        let receiving = self.receiving.values();
        receiving.for_each(|receiving| *by_origin.entry(receiving.origin).or_default() += amount(receiving));
        let own = by_origin.get(&origin).copied().unwrap_or(0);
        let greedy = by_origin.into_iter().max_by_key(|(_, amount)| *amount);
        let greedy =
            greedy.filter(|(other, most)| *other != origin && *most > own + 1).map(|(other, _)| other);
        let is_silent = |receiving: &Receiving| {
            receiving.quiet_at() + self.config.timeout * 2 <= now + self.config.inactivity
        };
        let gives_way = |(_, receiving): &(&Key, &Receiving)| match greedy {
            Some(greedy) => receiving.origin == greedy,
            None => receiving.origin != origin && is_silent(receiving),
        };
        let others = self.receiving.iter().filter(|(_, receiving)| amount(receiving) > 0).filter(gives_way);
        let longest = others.min_by_key(|(_, receiving)| receiving.quiet_at());
        let Some((key, bytes)) = longest.map(|(key, receiving)| (*key, receiving.used())) else {
            return false;
        };
        self.events.push_back(Event::Displaced(key.1, bytes as u64));
        self.close(key);
        true
    }

    /// Queues an answer to an entity at a host. A host that repeats itself has few at a time.
    fn reply(&mut self, common: Common, (origin, to): (u64, u64), content: Content<'_>) {
        if self.replies.len() < REMEMBERED || self.replies.contains_key(&origin) {
            let replies = self.replies.entry(origin).or_default();
            if replies.len() < REPLIES {
                replies.push_back((to, Pdu { common, content }.to_vec()));
            }
        }
    }

    /// Reports events of a transaction that sends, and removes it once it is over.
    fn settle_sending(&mut self, transaction: Transaction) {
        while let Some(sending) = self.sending.get_mut(&transaction) {
            match sending.outcome() {
                Outcome::Continues => break,
                Outcome::Event(event) => self.events.push_back(event),
                Outcome::Over => drop(self.sending.remove(&transaction)),
            }
        }
    }

    /// Reports events of a transaction that receives, and removes it once it is over.
    fn settle(&mut self, key: Key) {
        self.count_memory(key);
        while let Some(receiving) = self.receiving.get_mut(&key) {
            match receiving.outcome() {
                Outcome::Continues => break,
                Outcome::Event(event) => self.events.push_back(event),
                Outcome::Over => self.close(key),
            }
        }
    }

    /// Counts the memory that a transaction takes after an event.
    fn count_memory(&mut self, key: Key) {
        if let Some(receiving) = self.receiving.get_mut(&key) {
            let used = receiving.used();
            self.used = self.used + used - std::mem::replace(&mut receiving.counted, used);
        }
    }

    fn close(&mut self, key: Key) {
        let Some(receiving) = self.receiving.remove(&key) else { return };
        self.used -= receiving.counted;
        self.closed.push_back(key);
        self.past.insert(key, receiving.past());
        if self.closed.len() > REMEMBERED
            && let Some(oldest) = self.closed.pop_front()
        {
            self.past.remove(&oldest);
        }
    }

    /// Returns the next PDU and the entity that it goes to.
    pub fn poll_transmit(&mut self, now: Time) -> Option<(u64, Vec<u8>)> {
        self.poll_transmit_to(now).map(|(to, _, pdu)| (to, pdu))
    }

    /// Returns the next PDU, the entity that it goes to, and its host.
    ///
    /// Without a host it is the source of its transaction.
    /// Answers come first, to one host after the other: one that asks again and again keeps none waiting.
    pub fn poll_transmit_to(&mut self, now: Time) -> Option<(u64, u64, Vec<u8>)> {
        self.answer(now).or_else(|| {
            let (transaction, to, pdu) = self.sending.iter_mut().find_map(|(transaction, sending)| {
                let to = sending.destination();
                sending.poll(now).map(|pdu| (*transaction, to, pdu))
            })?;
            self.settle_sending(transaction);
            Some((to, transaction.source, pdu))
        })
    }

    /// Returns the next answer.
    fn answer(&mut self, now: Time) -> Option<(u64, u64, Vec<u8>)> {
        let hosts = self.receiving.keys().map(|(origin, _)| *origin).chain(self.replies.keys().copied());
        let mut hosts: Vec<u64> = hosts.collect();
        hosts.sort_unstable();
        hosts.dedup();
        let next = hosts.partition_point(|origin| *origin <= self.answered);
        hosts.rotate_left(next);
        let (origin, to, pdu) = hosts
            .into_iter()
            .find_map(|origin| self.answer_to(origin, now).map(|(to, pdu)| (origin, to, pdu)))?;
        self.answered = origin;
        Some((to, origin, pdu))
    }

    /// Returns the next answer to a host.
    fn answer_to(&mut self, origin: u64, now: Time) -> Option<(u64, Vec<u8>)> {
        if let Some(replies) = self.replies.get_mut(&origin) {
            let reply = replies.pop_front();
            if replies.is_empty() {
                self.replies.remove(&origin);
            }
            return reply;
        }
        let own = self.receiving.iter_mut().filter(|((other, _), _)| *other == origin);
        let mut own = own.map(|(key, receiving)| (*key, receiving));
        let (key, pdu) = own.find_map(|(key, receiving)| receiving.poll(now).map(|pdu| (key, pdu)))?;
        self.settle(key);
        Some((key.1.source, pdu))
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time of the next timeout.
    pub fn next_timeout(&self) -> Time {
        let sending = self.sending.values().map(Sending::deadline);
        let receiving = self.receiving.values().map(Receiving::deadline);
        sending.chain(receiving).min().unwrap_or(Time::NEVER)
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let due = |deadline: Time| deadline <= now;
        let sending = self.sending.iter().filter(|(_, sending)| due(sending.deadline()));
        let sending: Vec<Transaction> = sending.map(|(key, _)| *key).collect();
        for transaction in sending {
            self.sending.get_mut(&transaction).into_iter().for_each(|sending| sending.expire(now));
            self.settle_sending(transaction);
        }
        let receiving = self.receiving.iter().filter(|(_, receiving)| due(receiving.deadline()));
        let receiving: Vec<Key> = receiving.map(|(key, _)| *key).collect();
        for key in receiving {
            self.receiving.get_mut(&key).into_iter().for_each(|receiving| receiving.expire(now));
            self.settle(key);
        }
    }
}

#[cfg(test)]
mod tests;
