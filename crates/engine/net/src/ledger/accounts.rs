//! Numbers of packets sent and delivered, and packets that are followed or counted apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bentpipe_units::Time;

use super::{COPY, Entry, FRAGMENT};

/// Packets that a sender sent, and those that were delivered of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Number of packets sent.
    pub sent: u64,
    /// Bytes of packets sent, as the sender's node got them.
    pub sent_bytes: u64,
    /// Number of packets delivered, copies included.
    pub delivered: u64,
    /// Bytes of packets delivered, as the receiver's node got them.
    pub delivered_bytes: u64,
    /// Number of packets delivered of which another copy had been delivered, as their receiver says.
    pub duplicates: u64,
}

impl Account {
    /// Adds the packets of another account.
    pub fn add(&mut self, other: Account) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.duplicates += other.duplicates;
    }
}

/// Accounts of a network, by number from 1.
///
/// Each has two books: of packets sent before the window of measures starts, and in it. The tag of a packet has the number of
/// its book, or of the packet itself, if those of its account are followed.
#[derive(Debug, Default)]
pub struct Accounts {
    /// Books before the window, then those of the window.
    books: Vec<Account>,
    /// Number of accounts, which is that of the last.
    count: u32,
    /// Difference of a packet's tag to its account: zero before the window.
    shift: u32,
    followed: Option<Box<Followed>>,
    /// Parts of books whose packets are counted apart, by number from [`APART`].
    apart: Vec<Apart>,
    /// Accounts of packets that come from outside the network.
    outside: Vec<u32>,
}

/// First number of the parts of books that are counted apart. Packets that are followed have lower ones.
const APART: u32 = FRAGMENT >> 1;

/// Account within an account, of packets that are counted apart.
///
/// They are those of one of many calls or copies of a flow. Its sender and its receiver share it.
#[derive(Clone, Debug, Default)]
pub struct SubAccount(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    /// Numbers in both books; zero before the first packet.
    books: [AtomicU32; 2],
    /// Number that the sender gives to its first packet, plus one; zero: not known.
    first: AtomicU32,
}

impl SubAccount {
    /// Notes the number that the sender gives to its first packet.
    pub fn set_first(&self, first: u16) {
        self.0.first.store(u32::from(first) + 1, Ordering::Relaxed);
    }

    /// Returns the number that the sender gives to its first packet, if it is known.
    pub fn first(&self) -> Option<u16> {
        self.0.first.load(Ordering::Relaxed).checked_sub(1).map(|first| first as u16)
    }

    /// Returns `true` if its sender has begun, or has sent a packet. Otherwise that may be another machine's.
    pub fn has_begun(&self) -> bool {
        self.first().is_some() || !self.is_new()
    }

    /// Returns `true` before the first packet.
    pub fn is_new(&self) -> bool {
        self.number(0) + self.number(1) == 0
    }

    fn number(&self, book: usize) -> u32 {
        self.0.books[book].load(Ordering::Relaxed)
    }
}

/// Packets of a book that are counted apart.
#[derive(Debug)]
struct Apart {
    /// Number of the book.
    book: u32,
    of: SubAccount,
    tally: Tally,
}

/// Packets of an account within an account, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets sent.
    pub sent: u64,
    /// Copies made on the way.
    pub copied: u64,
    /// Packets delivered, copies included.
    pub delivered: u64,
    /// Packets taken over.
    pub taken_over: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets delivered of which another copy had been delivered, as their receiver says.
    pub duplicates: u64,
    /// Copies that arrived behind the first of their packet.
    pub again: u64,
    /// Copies dropped of packets that are not lost with them.
    pub spared: u64,
}

impl Tally {
    /// Adds the packets of another one.
    #[must_use]
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            sent: self.sent + other.sent,
            copied: self.copied + other.copied,
            delivered: self.delivered + other.delivered,
            taken_over: self.taken_over + other.taken_over,
            dropped: self.dropped + other.dropped,
            duplicates: self.duplicates + other.duplicates,
            again: self.again + other.again,
            spared: self.spared + other.spared,
        }
    }

    /// Returns the packets that arrived, each once.
    pub fn arrived(&self) -> u64 {
        (self.delivered + self.taken_over).saturating_sub(self.again)
    }

    /// Returns the packets lost. One of which a duplicate arrived, or is on its way, is not.
    pub fn lost(&self) -> u64 {
        self.dropped.saturating_sub(self.spared)
    }

    /// Returns `true` if packets arrived or are lost: not all are on their way.
    pub fn has_ends(&self) -> bool {
        self.arrived() + self.lost() > 0
    }

    fn enter(&mut self, entry: Entry, count: i64) {
        let sum = match entry {
            Entry::Copied => &mut self.copied,
            Entry::TakenOver => &mut self.taken_over,
            Entry::Dropped(_) => &mut self.dropped,
            Entry::Again => &mut self.again,
            Entry::Spared => &mut self.spared,
            Entry::Waiting | Entry::InFlight | Entry::Repeated => return,
        };
        *sum = sum.saturating_add_signed(count);
    }
}

/// Tallies of an account within an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Packets sent before the window of measures.
    pub before: Tally,
    /// Packets sent in the window.
    pub window: Tally,
}

impl Tallies {
    /// Returns the packets of the whole run.
    pub fn all(&self) -> Tally {
        self.before.plus(self.window)
    }
}

/// Packets that are followed one by one.
#[derive(Debug, Default)]
struct Followed {
    /// Numbers of their accounts.
    accounts: Vec<u32>,
    packets: Vec<FollowedPacket>,
}

/// Packet that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowedPacket {
    /// Number of its book, or of the part of it that is counted apart.
    book: u32,
    /// Number of its copies that were delivered.
    pub delivered: u32,
    /// Time of the first delivery.
    pub at: Time,
}

/// Maximum number of packets of a run that are followed.
pub const MAX_FOLLOWED: usize = 4_000_000;

impl Accounts {
    /// Creates accounts up to the number `last`.
    pub fn up_to(last: u32) -> Accounts {
        let books = vec![Account::default(); 2 * last as usize + 1];
        Accounts { books, count: last, ..Accounts::default() }
    }

    /// Starts the window of measures: what is sent from now on is in other books.
    pub fn start_window(&mut self) {
        self.shift = self.count;
    }

    /// Returns the sums of an account; empty ones for other numbers.
    pub fn get(&self, number: u32) -> Account {
        let mut sum = self.book(number);
        sum.add(self.book(number + self.count));
        sum
    }

    /// Returns the packets of an account that were sent before the window.
    pub fn before_window(&self, number: u32) -> Account {
        if self.shift > 0 { self.book(number) } else { Account::default() }
    }

    fn book(&self, number: u32) -> Account {
        self.books.get(number as usize).copied().unwrap_or_default()
    }

    /// Follows the packets of these accounts from now on.
    pub fn follow(&mut self, accounts: Vec<u32>) {
        self.followed = Some(Box::new(Followed { accounts, packets: Vec::new() }));
    }

    /// Returns the packets that were followed, in the order of their sending.
    pub fn followed(&self) -> impl Iterator<Item = FollowedPacket> {
        self.followed.iter().flat_map(|followed| &followed.packets).copied()
    }

    /// Returns the place among packets that are followed, of the number of an entry.
    pub fn place_of_followed(&self, number: u32) -> Option<usize> {
        let number = super::without_copies(number);
        let place = number.checked_sub(self.first_followed()).filter(|_| number < APART);
        place.map(|place| place as usize)
    }

    /// Returns the place of an entering packet among those that are followed. `account` is its account.
    ///
    /// A packet that its sender has not entered into one becomes the next one there.
    pub fn place_at_entry(&self, account: Option<u32>) -> Option<usize> {
        match account {
            None => Some(self.followed.as_ref()?.packets.len()),
            Some(account) => self.place_of_followed(account),
        }
    }

    fn first_followed(&self) -> u32 {
        2 * self.count + 1
    }

    fn followed_packet(&mut self, number: u32) -> Option<&mut FollowedPacket> {
        let place = self.place_of_followed(number)?;
        self.followed.as_mut()?.packets.get_mut(place)
    }

    /// Returns the number of the book of a tag.
    fn book_of(&self, number: u32) -> u32 {
        if number <= 2 * self.count {
            return number;
        }
        let number = super::without_copies(number);
        if number <= 2 * self.count {
            return number;
        }
        let above = match number.checked_sub(APART) {
            Some(part) => self.apart.get(part as usize).map(|apart| apart.book),
            None => self.followed_book(number).map(|book| self.book_of(book)),
        };
        above.unwrap_or(0)
    }

    /// Returns the book of a packet that is followed, or its part.
    fn followed_book(&self, number: u32) -> Option<u32> {
        let packets = &self.followed.as_ref()?.packets;
        Some(packets.get(self.place_of_followed(number)?)?.book)
    }

    /// Returns the account within an account that a tag is of.
    pub(crate) fn sub_account_of(&self, number: u32) -> Option<SubAccount> {
        let number = super::without_copies(number);
        let number = if number < APART { self.followed_book(number)? } else { number };
        Some(self.apart.get(number.checked_sub(APART)? as usize)?.of.clone())
    }

    /// Returns what is known of an account within an account.
    ///
    /// [`Accounts::settle`] makes it known.
    pub fn tallies(&self, of: &SubAccount) -> Tallies {
        let tally = |book| {
            let part = of.number(book).checked_sub(APART).and_then(|part| self.apart.get(part as usize));
            part.map(|apart| apart.tally).unwrap_or_default()
        };
        let [first, second] = [0, 1].map(tally);
        // Without a warm-up all is of the window.
        if self.shift > 0 {
            Tallies { before: first, window: second }
        } else {
            Tallies { before: second, window: first }
        }
    }

    /// Enters what ended meanwhile into the accounts within accounts.
    pub fn settle(&mut self) {
        for (number, entry, count) in super::take_ended_apart() {
            let number = if number < APART { self.followed_book(number) } else { Some(number) };
            let part = number.and_then(|number| number.checked_sub(APART));
            let apart = part.and_then(|part| self.apart.get_mut(part as usize));
            apart.into_iter().for_each(|apart| apart.tally.enter(entry, count));
        }
    }

    /// Sets the accounts whose packets come from outside the network.
    pub fn set_outside(&mut self, accounts: Vec<u32>) {
        self.outside = accounts;
    }

    /// Returns `true` if packets of an account come from outside. So do those without one.
    pub(crate) fn is_outside(&self, account: u32) -> bool {
        account == 0 || self.outside.contains(&account)
    }

    /// Returns the number of the account of an entry; zero without one.
    #[inline]
    pub fn account_of(&self, number: u32) -> u32 {
        if number <= self.count { number } else { self.account_of_window(number) }
    }

    #[inline(never)]
    fn account_of_window(&self, number: u32) -> u32 {
        let book = self.book_of(number);
        if book > self.count { book - self.count } else { book }
    }

    /// Returns `true` if the packets of an entry were sent before the window.
    pub fn is_before_window(&self, number: u32) -> bool {
        self.shift > 0 && self.book_of(number) <= self.count
    }

    /// Counts a packet as sent, and returns its tag. It is zero without an account of this number.
    #[inline]
    pub(crate) fn send(&mut self, number: u32, len: usize) -> u32 {
        self.send_in(number, self.shift, len)
    }

    /// Counts a packet as sent, in the book of another one.
    pub(crate) fn send_with(&mut self, number: u32, other: u32, len: usize) -> u32 {
        let is_before = other != 0 && self.is_before_window(other);
        let shift = if is_before { 0 } else { self.shift };
        self.send_in(number, shift, len)
    }

    /// Counts a packet as sent, in its account and in one within it.
    #[inline]
    pub(crate) fn send_apart(&mut self, number: u32, of: &SubAccount, len: usize) -> u32 {
        let tag = self.send(number, len);
        if tag == 0 {
            return 0;
        }
        let known = of.number(usize::from(self.shift > 0));
        let part = if known > 0 { known } else { self.open_apart(number, of) };
        if let Some(apart) = self.apart.get_mut((part - APART) as usize) {
            apart.tally.sent += 1;
        }
        match self.followed_packet(tag) {
            Some(packet) => packet.book = part,
            None => return part,
        }
        tag
    }

    #[cold]
    #[inline(never)]
    fn open_apart(&mut self, number: u32, of: &SubAccount) -> u32 {
        let part = APART + self.apart.len() as u32;
        self.apart.push(Apart { book: number + self.shift, of: of.clone(), tally: Tally::default() });
        of.0.books[usize::from(self.shift > 0)].store(part, Ordering::Relaxed);
        super::count_apart();
        part
    }

    #[inline]
    fn send_in(&mut self, number: u32, shift: u32, len: usize) -> u32 {
        if number.wrapping_sub(1) >= self.count {
            return 0;
        }
        let tag = number + shift;
        let Some(book) = self.books.get_mut(tag as usize) else { return 0 };
        book.sent += 1;
        book.sent_bytes += len as u64;
        if self.followed.is_some() { self.follow_packet(number, tag) } else { tag }
    }

    #[cold]
    #[inline(never)]
    fn follow_packet(&mut self, number: u32, book: u32) -> u32 {
        let first = self.first_followed();
        let Some(followed) = &mut self.followed else { return book };
        if !followed.accounts.contains(&number) || followed.packets.len() >= MAX_FOLLOWED {
            return book;
        }
        followed.packets.push(FollowedPacket { book, delivered: 0, at: Time::ZERO });
        first + followed.packets.len() as u32 - 1
    }

    /// Removes a packet from those delivered.
    pub(crate) fn take_back(&mut self, number: u32, len: usize) {
        let number = if number < COPY { number } else { super::take_back_copy(number) };
        let mut part = number;
        if let Some(packet) = self.followed_packet(number) {
            packet.delivered = packet.delivered.saturating_sub(1);
            part = packet.book;
        }
        let place = part.checked_sub(APART).map(|place| place as usize);
        if let Some(apart) = place.and_then(|place| self.apart.get_mut(place)) {
            apart.tally.delivered = apart.tally.delivered.saturating_sub(1);
        }
        let book = self.book_of(number);
        if let Some(account) = self.books.get_mut(book as usize) {
            account.delivered -= 1;
            account.delivered_bytes = account.delivered_bytes.saturating_sub(len as u64);
        }
    }

    /// Counts a packet that was delivered as a duplicate.
    pub(crate) fn repeat(&mut self, number: u32) {
        let number = super::without_copies(number);
        let part = if number < APART { self.followed_book(number).unwrap_or(number) } else { number };
        let place = part.checked_sub(APART).map(|place| place as usize);
        if let Some(apart) = place.and_then(|place| self.apart.get_mut(place)) {
            apart.tally.duplicates += 1;
        }
        let book = self.book_of(number);
        if let Some(account) = self.books.get_mut(book as usize).filter(|_| book > 0) {
            account.duplicates += 1;
        }
    }

    /// Counts a packet as delivered.
    #[inline]
    pub(crate) fn deliver(&mut self, number: u32, len: usize, now: Time) {
        if let Some(account) = self.books.get_mut(number as usize) {
            account.delivered += 1;
            account.delivered_bytes += len as u64;
        } else {
            self.deliver_part(number, len, now);
        }
    }

    #[inline(never)]
    fn deliver_part(&mut self, number: u32, len: usize, now: Time) {
        if number >= COPY {
            return self.deliver(super::deliver_copy(number), len, now);
        }
        let Some(place) = number.checked_sub(APART) else {
            return self.deliver_followed(number, len, now);
        };
        let Some(apart) = self.apart.get_mut(place as usize) else { return };
        apart.tally.delivered += 1;
        if let Some(account) = self.books.get_mut(apart.book as usize) {
            account.delivered += 1;
            account.delivered_bytes += len as u64;
        }
    }

    #[cold]
    #[inline(never)]
    fn deliver_followed(&mut self, number: u32, len: usize, now: Time) {
        let Some(packet) = self.followed_packet(number) else { return };
        packet.delivered += 1;
        if packet.delivered == 1 {
            packet.at = now;
        }
        let book = packet.book;
        self.deliver(book, len, now);
    }
}
