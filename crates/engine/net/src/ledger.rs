//! Accounts of packets from their sender to their end.
//!
//! A packet has a tag of its account from the node or gate that takes it on ([`Cx::offer`](crate::Cx::offer)) until it
//! is delivered ([`Cx::accept`](crate::Cx::accept)). A tag that is destroyed before is the end of its packet: it is
//! booked with the element that is called at that moment, and with the reason that the element declares
//! ([`Packet::lose`](crate::Packet::lose)), or [`Why::Undeclared`]. As no tag can be forgotten or copied,
//! sent + copied = delivered + taken over + dropped + remaining. Does not model: bytes of ended packets.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

mod accounts;
mod copies;
mod fragments;

use bentpipe_units::Time;

use crate::hash::Map;
pub use accounts::{Account, Accounts, FollowedPacket, MAX_FOLLOWED, SubAccount, Tallies, Tally};
use copies::Copies;
use fragments::{Fragment, Fragmented};

/// Reason for which a packet ends before its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Why {
    /// No room in a queue or buffer.
    Queue,
    /// Dropped early by active queue management.
    Aqm,
    /// Lost or damaged on the channel.
    Channel,
    /// No reception: a signal below the threshold of its modulation, or an outage.
    Fade,
    /// No route, no line or no tunnel leads on.
    NoRoute,
    /// Longer than the MTU.
    TooBig,
    /// Hop limit used up.
    HopLimit,
    /// Wrong checksum.
    Checksum,
    /// Malformed header.
    Malformed,
    /// No endpoint for its protocol and port.
    NoListener,
    /// No member of its group.
    NoMember,
    /// Fragment of a packet that was never complete.
    Reassembly,
    /// Attempts of a transmission exhausted.
    Retries,
    /// Too old.
    Lifetime,
    /// Not restored from the units that carried it: a part was lost, or its context.
    Restoration,
    /// Dropped by a rule: a filter, a translator, a program's element.
    Policy,
    /// Refused by the encapsulation.
    Refusal,
    /// No reason declared by the element.
    Undeclared,
}

impl Why {
    /// Reasons, in their order.
    pub const ALL: [Why; 18] = [
        Why::Queue,
        Why::Aqm,
        Why::Channel,
        Why::Fade,
        Why::NoRoute,
        Why::TooBig,
        Why::HopLimit,
        Why::Checksum,
        Why::Malformed,
        Why::NoListener,
        Why::NoMember,
        Why::Reassembly,
        Why::Retries,
        Why::Lifetime,
        Why::Restoration,
        Why::Policy,
        Why::Refusal,
        Why::Undeclared,
    ];

    /// Returns the name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Why::Queue => "queue",
            Why::Aqm => "aqm",
            Why::Channel => "channel",
            Why::Fade => "fade",
            Why::NoRoute => "no-route",
            Why::TooBig => "too-big",
            Why::HopLimit => "hop-limit",
            Why::Checksum => "checksum",
            Why::Malformed => "malformed",
            Why::NoListener => "no-listener",
            Why::NoMember => "no-member",
            Why::Reassembly => "reassembly",
            Why::Retries => "retries",
            Why::Lifetime => "lifetime",
            Why::Restoration => "restoration",
            Why::Policy => "policy",
            Why::Refusal => "refusal",
            Why::Undeclared => "undeclared",
        }
    }
}

/// Entry of an account, apart from what is sent and delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// Copies made, of duplication or for members of a group.
    Copied,
    /// Taken over by a role, which makes packets of its own of it.
    TakenOver,
    /// Dropped.
    Dropped(Why),
    /// Copies of a packet that were delivered or taken over behind the first.
    Again,
    /// Copies delivered where another one had been. Members of a group have each their first.
    Repeated,
    /// Copies dropped of a packet that is not lost with them.
    ///
    /// Another copy arrived, is on its way, or is the one with which it is lost.
    Spared,
    /// Found in a queue at the end.
    Waiting,
    /// Found elsewhere at the end: on a line, in a frame.
    InFlight,
}

/// Number of an account, which its network opens once it is complete.
#[derive(Clone, Debug, Default)]
pub struct AccountNumber(Arc<OnceLock<u32>>);

impl Entry {
    /// Returns `true` if packets end with it. Others say more of packets that ended.
    pub fn is_end(self) -> bool {
        !matches!(self, Entry::Copied | Entry::Again | Entry::Repeated | Entry::Spared)
    }
}

impl AccountNumber {
    /// Sets the number. The first one stays.
    pub(crate) fn open(&self, number: u32) {
        self.0.get_or_init(|| number);
    }

    /// Returns the number, once the account is open.
    pub fn get(&self) -> Option<u32> {
        self.0.get().copied()
    }

    /// Returns `true` if it is this number.
    pub(crate) fn is(&self, number: u32) -> bool {
        self.0.get() == Some(&number)
    }
}

/// Tag of a packet's account, or of those of several packets that travel as one. Its clone is empty.
///
/// To be copied changes it, as the copies are known as such then.
#[derive(Debug, Default)]
pub(crate) struct Tag(AtomicU32);

/// Bit of the tag of a packet that was delivered. Its end is booked; the rest is the number of its account.
const DELIVERED: u32 = 1 << 31;
/// Bit of a tag that stands for several. The rest is the number of the bundle.
const BUNDLE: u32 = 1 << 30;
/// Bit of a fragment's tag. The rest, but for [`LAST`], is the number of the fragment.
const FRAGMENT: u32 = 1 << 29;
/// Bit of the last fragment's tag, whose copies stand for copies of the packet.
const LAST: u32 = 1 << 28;
/// Bits of the number of a fragment.
const NUMBER: u32 = LAST - 1;
/// First tag of packets that have been copied. The rest is the number among [`Copies`].
const COPY: u32 = 3 << 27;

impl Tag {
    /// Returns the tag of a packet without an account.
    pub(crate) const fn none() -> Tag {
        Tag::of(0)
    }

    const fn of(number: u32) -> Tag {
        Tag(AtomicU32::new(number))
    }

    #[inline]
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns `true` if the end of its packet is not booked.
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        // The highest bit is that of delivered packets.
        self.get() as i32 > 0
    }

    /// Returns the number of the account; zero without one.
    #[inline]
    pub(crate) fn account(&self) -> u32 {
        if self.is_set() { self.get() } else { 0 }
    }

    /// Returns the number, of a delivered packet too.
    pub(crate) fn known(&self) -> u32 {
        self.get() & !DELIVERED
    }

    /// Returns `true` if its packet neither is nor was in an account.
    pub(crate) fn is_empty(&self) -> bool {
        self.get() == 0
    }

    /// Returns `true` if its packet was delivered.
    #[inline]
    pub(crate) fn is_delivered(&self) -> bool {
        self.get() > DELIVERED
    }

    /// Forgets the account of a delivered packet.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.set(0);
    }

    /// Removes and returns the number; zero of a delivered packet.
    fn take_number(&mut self) -> u32 {
        Some(std::mem::take(self.0.get_mut())).filter(|number| *number < DELIVERED).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn set(&mut self, account: u32) {
        *self.0.get_mut() = account;
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Tag {
        Tag::of(std::mem::take(self.0.get_mut()))
    }

    /// Notes that the packet is delivered, and returns the number of its account.
    ///
    /// It is zero without one. Of fragments that are not reassembled the last one has it.
    #[inline]
    pub(crate) fn deliver(&mut self) -> u32 {
        if self.get() >= FRAGMENT {
            self.take_whole();
        }
        let account = self.get();
        self.set(account | DELIVERED);
        account
    }

    /// Reverts [`Tag::deliver`], and returns the number of the account.
    ///
    /// It is zero if the packet was not delivered.
    pub(crate) fn take_back(&mut self) -> u32 {
        let account = self.get().saturating_sub(DELIVERED);
        self.set(self.known());
        account
    }

    /// Becomes the account of a fragment's packet. Of packets that travel as one, all are taken over.
    #[cold]
    #[inline(never)]
    fn take_whole(&mut self) {
        if self.get() >= DELIVERED {
            self.set(0);
        } else if self.get() < BUNDLE {
            let tag = self.take_number();
            self.set(with_book(|book, _| book.accept_fragment(tag)).unwrap_or(0));
        }
        if self.get() >= BUNDLE {
            with_mode(Mode::Book(Entry::TakenOver), || self.end());
        }
    }

    /// Returns the tags of the fragments of the tag's packet. The loss of any is the end of the packet.
    pub(crate) fn fragments(mut self, count: usize) -> Vec<Tag> {
        let number = self.take_number();
        let numbers = with_book(|book, _| book.fragments(number, count));
        numbers.unwrap_or_else(|| vec![0; count]).into_iter().map(Tag::of).collect()
    }

    /// Returns the tag of the packet whose fragments had these. What is more than one packet's ends here.
    ///
    /// Duplicated fragments may complete a packet again, which is a copy.
    pub(crate) fn joined(tags: impl Iterator<Item = Tag>) -> Tag {
        let tags: Vec<Tag> = tags.collect();
        let again =
            tags.iter().find_map(|tag| with_book(|book, place| book.again(tag.get(), place)).flatten());
        let mut whole = Tag::none();
        for mut tag in tags {
            let number = tag.take_number();
            let of = Tag::of(with_book(|book, _| book.packet_of(number)).unwrap_or(number));
            if of.is_set() {
                whole = of;
            }
        }
        if let Some((mut of, place)) = again.filter(|_| !whole.is_set()) {
            whole = Tag::of(with_book(|book, _| book.copy(&mut of, place)).unwrap_or(0));
        }
        whole
    }

    /// Returns the tags of all packets that travel as one, with the times of [`Tag::know_times`].
    pub(crate) fn split(mut self) -> (Vec<Tag>, Vec<Time>) {
        let number = self.take_number();
        let split = |book: &mut Book, _| {
            let times = number.checked_sub(BUNDLE).and_then(|bundle| book.times.remove(&bundle));
            (book.unbundle(number), times.unwrap_or_default())
        };
        let (accounts, times) = with_book(split).unwrap_or_default();
        (accounts.into_iter().map(Tag::of).collect(), times)
    }

    /// Keeps the times at which packets that travel as one were created.
    ///
    /// There is one for each, or they are left out.
    pub(crate) fn know_times(&self, times: Vec<Time>) {
        if let Some(bundle) = self.get().checked_sub(BUNDLE).filter(|_| !times.is_empty()) {
            with_book(|book, _| book.know_times(bundle, times));
        }
    }

    /// Returns another tag of the account, which is counted as a copy.
    ///
    /// A copy of a fragment may complete its packet in the other one's place: the packet is not copied.
    pub(crate) fn copy(&self) -> Tag {
        if !self.is_set() {
            return Tag::none();
        }
        let mut own = self.get();
        let copy = with_book(|book, place| book.copy(&mut own, place));
        self.0.store(own, Ordering::Relaxed);
        Tag::of(copy.unwrap_or(0))
    }

    /// Returns the tag of a copy for a branch of a group, as [`Tag::copy`] does.
    ///
    /// The copies of a packet's fragments for one branch are a copy of the packet. Branches come in one order, until
    /// [`Tag::replace`].
    pub(crate) fn branch(&self) -> Tag {
        if !self.is_fragment() {
            return self.copy();
        }
        Tag::of(with_book(|book, place| book.branch(self.get(), place)).unwrap_or(0))
    }

    /// Becomes the tag of an answer to what `request` was delivered with.
    ///
    /// Answers to copies of one request are copies of one answer.
    pub(crate) fn answers(&mut self, request: &Tag) {
        let (known, own) = (request.known(), self.get());
        if own != 0 && copies::is_copied(known) {
            self.set(with_book(|book, _| book.answer(known, own)).unwrap_or(own));
        }
    }

    /// Removes the tag of a packet that copies have replaced.
    pub(crate) fn replace(&mut self) {
        if self.is_fragment() {
            let number = self.take_number();
            with_book(|book, place| book.replace(number, place));
        }
        self.end_as(Entry::Copied, -1);
    }

    fn is_fragment(&self) -> bool {
        (FRAGMENT..BUNDLE).contains(&self.get())
    }

    /// Books the end of the packet.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&mut self) {
        match MODE.get() {
            Mode::Book(entry) => self.end_as(entry, 1),
            Mode::Gather => {
                GATHERED.with_borrow_mut(|gathered| gathered.push(std::mem::take(self.0.get_mut())));
            }
        }
    }

    fn end_as(&mut self, entry: Entry, count: i64) {
        let number = self.take_number();
        if number != 0 {
            with_book(|book, place| book.end(number, place, entry, count));
        }
    }
}

impl Clone for Tag {
    fn clone(&self) -> Tag {
        Tag::none()
    }
}

/// Tags make no difference between packets.
impl PartialEq for Tag {
    fn eq(&self, _: &Tag) -> bool {
        true
    }
}

impl Eq for Tag {}

impl Drop for Tag {
    #[inline]
    fn drop(&mut self) {
        if self.is_set() {
            self.end();
        }
    }
}

/// Entries by account, place and kind.
type Entries = Map<(u32, u32, Entry), i64>;

/// Entries of a network, and its bundles of accounts.
#[derive(Debug, Default)]
struct Book {
    entries: Entries,
    bundles: Vec<Vec<u32>>,
    /// Times at which the packets of bundles were created, where they are known.
    times: Map<u32, Vec<Time>>,
    /// Numbers of bundles that are not in use.
    free: Vec<u32>,
    fragmented: Vec<Fragmented>,
    /// Numbers of packets in fragments that are not in use.
    free_fragmented: Vec<u32>,
    fragments: Vec<Fragment>,
    /// Numbers of fragments that are not in use.
    free_fragments: Vec<u32>,
    copies: Copies,
    /// Entries of packets that may be counted apart, until [`Accounts::settle`].
    ended_apart: Vec<(u32, Entry, i64)>,
    /// Set once an account has another within it.
    counts_apart: bool,
}

impl Book {
    fn add(&mut self, account: u32, place: u32, entry: Entry, count: i64) {
        if matches!(entry, Entry::Dropped(_)) {
            DROPS.set(DROPS.get() + count.unsigned_abs());
        }
        if self.counts_apart {
            self.ended_apart.push((account, entry, count));
        }
        *self.entries.entry((account, place, entry)).or_default() += count;
    }

    /// Books the end of what a tag stands for.
    fn end(&mut self, tag: u32, place: u32, entry: Entry, count: i64) {
        match tag {
            0 => {}
            BUNDLE.. => {
                let tags = self.unbundle(tag);
                tags.into_iter().for_each(|tag| self.end(tag, place, entry, count));
            }
            FRAGMENT.. => self.end_fragment(tag, place, entry, count),
            COPY.. => self.end_copy(tag, place, entry, count),
            account => self.add(account, place, entry, count),
        }
    }

    /// Books a copy of what a tag stands for, and returns its tag. The tag itself is that of another copy then.
    fn copy(&mut self, tag: &mut u32, place: u32) -> u32 {
        match *tag {
            0 => 0,
            BUNDLE.. => {
                let mut tags = self.accounts_of(*tag);
                let copies: Vec<u32> = tags.iter_mut().map(|tag| self.copy(tag, place)).collect();
                self.bundles[(*tag - BUNDLE) as usize] = tags;
                let times = self.times.get(&(*tag - BUNDLE)).cloned();
                let copy = self.bundle(copies.into_iter().filter(|tag| *tag != 0).collect());
                if let Some((bundle, times)) = copy.checked_sub(BUNDLE).zip(times) {
                    self.know_times(bundle, times);
                }
                copy
            }
            FRAGMENT.. => self.copy_fragment(*tag, place),
            account => {
                *tag = self.known_as_copied(account);
                self.add_copy(*tag, place);
                *tag
            }
        }
    }

    /// Returns the number of a tag of these accounts.
    fn bundle(&mut self, accounts: Vec<u32>) -> u32 {
        match accounts[..] {
            [] => 0,
            [account] => account,
            _ => {
                let number = self.free.pop().unwrap_or_else(|| {
                    self.bundles.push(Vec::new());
                    self.bundles.len() as u32 - 1
                });
                self.bundles[number as usize] = accounts;
                number | BUNDLE
            }
        }
    }

    fn know_times(&mut self, bundle: u32, times: Vec<Time>) {
        if self.bundles.get(bundle as usize).is_some_and(|accounts| accounts.len() == times.len()) {
            self.times.insert(bundle, times);
        }
    }

    /// Returns the accounts of a tag.
    fn accounts_of(&self, tag: u32) -> Vec<u32> {
        match tag {
            0 => Vec::new(),
            BUNDLE.. => self.bundles.get((tag - BUNDLE) as usize).cloned().unwrap_or_default(),
            account => vec![account],
        }
    }

    /// Returns the accounts of a tag that ends.
    fn unbundle(&mut self, tag: u32) -> Vec<u32> {
        let accounts = self.accounts_of(tag);
        if let Some(bundle) = tag.checked_sub(BUNDLE) {
            self.bundles[bundle as usize].clear();
            self.times.remove(&bundle);
            self.free.push(bundle);
        }
        accounts
    }
}

/// Treatment of tags that are destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// End of their packets.
    Book(Entry),
    /// Gathering, as their packets go on in another form.
    Gather,
}

/// Place while no element of a network is called. Nothing is booked then.
const NOWHERE: u32 = u32::MAX;

thread_local! {
    /// Number of the element that is called.
    static PLACE: Cell<u32> = const { Cell::new(NOWHERE) };
    static MODE: Cell<Mode> = const { Cell::new(Mode::Book(Entry::Dropped(Why::Undeclared))) };
    /// Book of the network that is called.
    static BOOK: Cell<Option<Box<Book>>> = const { Cell::new(None) };
    /// Number of packets dropped on this thread.
    static DROPS: Cell<u64> = const { Cell::new(0) };
    static GATHERED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with the book and the place of the element that is called.
fn with_book<R>(work: impl FnOnce(&mut Book, u32) -> R) -> Option<R> {
    let place = Some(PLACE.get()).filter(|place| *place != NOWHERE)?;
    let mut book = BOOK.take().unwrap_or_default();
    let result = work(&mut book, place);
    BOOK.set(Some(book));
    Some(result)
}

/// Notes that a copy was delivered, and returns its number without copies.
fn deliver_copy(number: u32) -> u32 {
    with_book(|book, place| book.deliver_copy(number, place)).unwrap_or(0)
}

/// Reverts [`deliver_copy`].
fn take_back_copy(number: u32) -> u32 {
    with_book(|book, place| book.take_back_copy(number, place)).unwrap_or(0)
}

/// Returns a packet's number without its copies.
#[inline]
fn without_copies(number: u32) -> u32 {
    if number < COPY { number } else { with_book(|book, _| book.before_copies(number)).unwrap_or(0) }
}

/// Notes that packets are counted apart.
fn count_apart() {
    with_book(|book, _| book.counts_apart = true);
}

/// Removes and returns the entries since the last call.
///
/// They are those of all packets, once any are counted apart.
fn take_ended_apart() -> Vec<(u32, Entry, i64)> {
    with_book(|book, _| std::mem::take(&mut book.ended_apart)).unwrap_or_default()
}

/// Sets the element that is called, by its number.
#[inline]
pub fn set_place(element: u32) {
    PLACE.set(element);
}

/// Calls `work`, during which packets that are destroyed are dropped for a reason.
///
/// It is for receivers that restore packets from units.
#[inline]
pub fn dropping<R>(why: Why, work: impl FnOnce() -> R) -> R {
    with_entry(Entry::Dropped(why), work)
}

/// Does the same, and returns the number of packets that ended meanwhile as well.
#[inline]
pub fn dropping_counted<R>(why: Why, work: impl FnOnce() -> R) -> (R, u64) {
    let before = DROPS.get();
    let result = dropping(why, work);
    (result, DROPS.get() - before)
}

/// Calls `work` of a role, which takes over packets that it destroys.
#[inline]
pub fn taking_over<R>(work: impl FnOnce() -> R) -> R {
    with_entry(Entry::TakenOver, work)
}

/// Calls `work`, during which tags that are destroyed count as `entry`.
#[inline]
pub(crate) fn with_entry<R>(entry: Entry, work: impl FnOnce() -> R) -> R {
    with_mode(Mode::Book(entry), work)
}

#[inline]
fn with_mode<R>(mode: Mode, work: impl FnOnce() -> R) -> R {
    let before = MODE.replace(mode);
    let result = work();
    MODE.set(before);
    result
}

/// Calls `work`, and returns a tag in the place of those that it destroys.
pub(crate) fn gathered(work: impl FnOnce()) -> Tag {
    with_mode(Mode::Gather, work);
    let accounts = GATHERED.take();
    let bundle = |book: &mut Book, _| {
        let accounts = accounts.into_iter().flat_map(|tag| book.unbundle(tag)).collect();
        book.bundle(accounts)
    };
    Tag::of(with_book(bundle).unwrap_or(0))
}

/// Calls `work` of a queue that is destroyed. Its packets count as waiting, if others count as in flight.
pub(crate) fn as_waiting(work: impl FnOnce()) {
    let is_end = MODE.get() == Mode::Book(Entry::InFlight);
    if is_end { with_entry(Entry::Waiting, work) } else { work() }
}

/// Ledger of a network: what became of packets that were not delivered.
#[derive(Debug, Default)]
pub struct Ledger {
    book: Option<Box<Book>>,
    /// Set while the thread has the book.
    is_open: bool,
}

/// State of the thread before a network was called.
#[derive(Debug)]
pub struct Outer {
    place: u32,
    /// Another network's book; `None` inside of a call of the same network.
    book: Option<Option<Box<Book>>>,
}

impl Ledger {
    /// Books ends of packets from now on, at the element of this number.
    #[inline]
    pub fn open(&mut self, element: u32) -> Outer {
        let is_first = !std::mem::replace(&mut self.is_open, true);
        let book = is_first.then(|| BOOK.replace(self.book.take()));
        Outer { place: PLACE.replace(element), book }
    }

    /// Ends what [`Ledger::open`] began.
    #[inline]
    pub fn close(&mut self, outer: Outer) {
        PLACE.set(outer.place);
        if let Some(book) = outer.book {
            self.book = BOOK.replace(book);
            self.is_open = false;
        }
    }

    /// Calls `drop` for the number of each element, to destroy it. Packets in it are found there.
    pub fn take_stock(&mut self, elements: u32, mut drop: impl FnMut(u32)) {
        let outer = self.open(0);
        with_entry(Entry::InFlight, || {
            for element in 0..elements {
                set_place(element);
                drop(element);
            }
        });
        self.close(outer);
    }

    /// Returns the entries in order: number of the tag, element, kind and number of packets.
    ///
    /// The account of a tag is [`Accounts::account_of`].
    pub fn entries(&self) -> Vec<(u32, u32, Entry, i64)> {
        let entries = self.book.iter().flat_map(|book| book.entries.iter());
        let mut entries: Vec<_> =
            entries.map(|((account, place, entry), count)| (*account, *place, *entry, *count)).collect();
        entries.sort_unstable();
        entries
    }
}

#[cfg(test)]
mod tests;
