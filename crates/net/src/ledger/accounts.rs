//! Numbers of packets sent and delivered, and packets that are followed.

use bentpipe_units::Time;

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
}

impl Account {
    /// Adds the packets of another account.
    pub fn add(&mut self, other: Account) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
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
    /// Number of its book.
    book: u32,
    /// Number of its copies that were delivered.
    pub delivered: u32,
    /// Time of the last delivery.
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

    /// Returns the packets that were followed, each with the number of its account.
    pub fn followed(&self) -> impl Iterator<Item = (u32, FollowedPacket)> {
        let packets = self.followed.iter().flat_map(|followed| &followed.packets);
        packets.map(|packet| (self.account_of(packet.book), *packet))
    }

    /// Returns the place among packets that are followed, of the number of an entry.
    pub fn place_of_followed(&self, number: u32) -> Option<usize> {
        number.checked_sub(self.first_followed()).map(|place| place as usize)
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
        let followed = || Some(self.followed.as_ref()?.packets.get(self.place_of_followed(number)?)?.book);
        if number <= 2 * self.count { number } else { followed().unwrap_or(0) }
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
        if number.wrapping_sub(1) >= self.count {
            return 0;
        }
        let tag = number + self.shift;
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
        if let Some(packet) = self.followed_packet(number) {
            packet.delivered = packet.delivered.saturating_sub(1);
        }
        let book = self.book_of(number);
        if let Some(account) = self.books.get_mut(book as usize) {
            account.delivered -= 1;
            account.delivered_bytes = account.delivered_bytes.saturating_sub(len as u64);
        }
    }

    /// Counts a packet as delivered.
    #[inline]
    pub(crate) fn deliver(&mut self, number: u32, len: usize, now: Time) {
        if let Some(account) = self.books.get_mut(number as usize) {
            account.delivered += 1;
            account.delivered_bytes += len as u64;
        } else {
            self.deliver_followed(number, len, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn deliver_followed(&mut self, number: u32, len: usize, now: Time) {
        let Some(packet) = self.followed_packet(number) else { return };
        packet.delivered += 1;
        packet.at = now;
        let book = packet.book;
        self.deliver(book, len, now);
    }
}
