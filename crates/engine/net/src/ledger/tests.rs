//! Accounts of packets, whatever becomes of them.

use super::*;
use crate::{Body, Carried, Origin, Packet};

fn packet(account: u32) -> Packet {
    let mut packet = Packet::new(20, 80);
    packet.tag_mut().set(account);
    packet
}

/// Returns the entries of what `work` does at element 7, but for what they say of copies.
fn entries(work: impl FnOnce()) -> Vec<(u32, u32, Entry, i64)> {
    let mut entries = all_entries(work);
    entries.retain(|(.., entry, _)| entry.is_end() || *entry == Entry::Copied);
    entries
}

fn all_entries(work: impl FnOnce()) -> Vec<(u32, u32, Entry, i64)> {
    let mut ledger = Ledger::default();
    let outer = ledger.open(7);
    work();
    ledger.close(outer);
    assert_eq!(PLACE.get(), NOWHERE);
    ledger.entries()
}

/// Returns the packets that arrived, and those lost, of what `work` does with two or more copies of each.
fn whole_packets(work: impl FnOnce(&mut crate::Cx<'_>)) -> [i64; 2] {
    let mut delivered = 0;
    let entries = all_entries(|| delivered = with_context(work).delivered as i64);
    let sum = |meant: &dyn Fn(Entry) -> bool| {
        entries.iter().filter(|(.., entry, _)| meant(*entry)).map(|(.., count)| count).sum::<i64>()
    };
    let arrived = delivered + sum(&|entry| entry == Entry::TakenOver) - sum(&|entry| entry == Entry::Again);
    [arrived, sum(&|entry| matches!(entry, Entry::Dropped(_))) - sum(&|entry| entry == Entry::Spared)]
}

/// Content with packets in it.
#[derive(Debug, Clone, PartialEq)]
struct Frame(Vec<Packet>);

impl Carried for Frame {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn write_to(&self, _: &mut Vec<u8>) {}
    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }
    fn boxed_copy(&self) -> Box<dyn Carried> {
        Box::new(Frame(self.0.iter().map(Packet::copy).collect()))
    }
    fn times(&self) -> Vec<Time> {
        self.0.iter().map(Packet::created_at).collect()
    }
    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref() == Some(self)
    }
}

#[test]
fn however_a_packet_ends_it_is_booked_once() {
    let lost = |why| Entry::Dropped(why);
    assert_eq!(entries(|| drop(packet(1))), [(1, 7, lost(Why::Undeclared), 1)]);
    assert_eq!(entries(|| packet(1).recycle()), [(1, 7, lost(Why::Undeclared), 1)]);
    assert_eq!(entries(|| packet(2).lose(Why::Queue)), [(2, 7, lost(Why::Queue), 1)]);
    assert_eq!(entries(|| drop(packet(2).into_body())), [(2, 7, lost(Why::Undeclared), 1)]);
    let frame = || Packet::new(4, 0).with_body(Body::Carried(Box::new(Frame(vec![packet(1), packet(3)]))));
    let expected = [(1, 7, lost(Why::Channel), 1), (3, 7, lost(Why::Channel), 1)];
    assert_eq!(entries(|| frame().lose(Why::Channel)), expected);
    assert_eq!(entries(|| Packet::new(20, 80).lose(Why::Queue)), []);
    // Outside of a network nothing is booked.
    drop(packet(1));
}

#[test]
fn a_reused_packet_has_no_account() {
    let entries = entries(|| {
        packet(1).lose(Why::Queue);
        assert!(!Packet::new(20, 80).is_accounted());
    });
    assert_eq!(entries.len(), 1);
}

#[test]
fn a_clone_is_in_no_account_and_a_copy_is_counted() {
    let copied = |count| (1, 7, Entry::Copied, count);
    assert_eq!(
        entries(|| {
            let packet = packet(1);
            assert!(!packet.clone().is_accounted());
            let copies = [packet.copy(), packet.copy()];
            packet.replaced();
            copies.into_iter().for_each(|copy| copy.lose(Why::Channel));
        }),
        [copied(1), (1, 7, Entry::Dropped(Why::Channel), 2)]
    );
    let frame = || Packet::new(4, 0).with_body(Body::Carried(Box::new(Frame(vec![packet(1)]))));
    let both = || [frame().copy(), frame()].into_iter().for_each(|frame| frame.lose(Why::Queue));
    // The first frame, whose copy it is, ends undeclared.
    let ends = [(1, 7, Entry::Dropped(Why::Queue), 2), (1, 7, Entry::Dropped(Why::Undeclared), 1)];
    assert_eq!(entries(both), [&[copied(1)][..], &ends].concat());
}

#[test]
fn packets_that_travel_as_one_keep_their_times() {
    let at = |number: u64| Time::from_nanos(1000 * number);
    let aged = |account| {
        let mut packet = packet(account);
        packet.set_created_at(at(account.into()));
        packet
    };
    let frame = || {
        let mut frame = Packet::new(4, 0).with_body(Body::Carried(Box::new(Frame(vec![aged(1), aged(3)]))));
        frame.set_created_at(at(1));
        frame
    };
    entries(|| {
        let times = |origin: Origin| origin.split().iter().map(|one| one.created_at).collect::<Vec<_>>();
        let origin = frame().into_origin();
        assert_eq!(times(origin.copy()), [at(1), at(3)]);
        assert_eq!(times(origin), [at(1), at(3)]);
        // The number of a bundle that ended is used again.
        assert_eq!(times(frame().into_origin()), [at(1), at(3)]);
        assert_eq!(times(aged(5).into_origin()), [at(5)]);
    });
}

#[test]
fn the_origin_of_bytes_stands_for_all_packets_in_them() {
    let frame = || Packet::new(4, 0).with_body(Body::Carried(Box::new(Frame(vec![packet(1), packet(3)]))));
    let entries = entries(|| {
        let mut origins = frame().into_origin().split();
        assert_eq!(origins.len(), 2);
        origins.remove(1).lose(Why::Restoration);
        let mut restored = Packet::new(20, 80);
        restored.set_origin(origins.remove(0));
        restored.lose(Why::Queue);
        frame().into_origin().copy().lose(Why::Channel);
        Origin::default().lose(Why::Channel);
        assert!(packet(5).into_origin().split().len() == 1);
    });
    let of = |account, entry| {
        entries.iter().find(|(own, _, kind, _)| (*own, *kind) == (account, entry)).map(|entry| entry.3)
    };
    let lost = |why| Entry::Dropped(why);
    assert_eq!((of(1, lost(Why::Queue)), of(3, lost(Why::Restoration))), (Some(1), Some(1)));
    // A bundle is copied and ends as a whole.
    assert_eq!((of(1, Entry::Copied), of(3, lost(Why::Channel))), (Some(1), Some(1)));
    assert_eq!(of(3, lost(Why::Undeclared)), Some(1));
    assert_eq!(of(5, lost(Why::Undeclared)), Some(1));
}

#[test]
fn calls_inside_of_calls_keep_their_books_apart() {
    let mut inner = Ledger::default();
    let outer = entries(|| {
        packet(1).lose(Why::Queue);
        let before = inner.open(2);
        packet(1).lose(Why::Channel);
        // The same network again, as by an action that wakes an element.
        let again = inner.open(3);
        packet(1).lose(Why::Channel);
        inner.close(again);
        inner.close(before);
        packet(1).lose(Why::Queue);
    });
    assert_eq!(outer, [(1, 7, Entry::Dropped(Why::Queue), 2)]);
    let lost = Entry::Dropped(Why::Channel);
    assert_eq!(inner.entries(), [(1, 2, lost, 1), (1, 3, lost, 1)]);
}

#[test]
fn what_elements_hold_at_the_end_is_found_there() {
    let mut queue = crate::queue::Backlog::default();
    queue.push(packet(1), bentpipe_units::Time::ZERO);
    let mut elements = vec![(Some(queue), None), (None, Some(packet(2)))].into_iter();
    let mut ledger = Ledger::default();
    ledger.take_stock(2, |_| drop(elements.next()));
    assert_eq!(ledger.entries(), [(1, 0, Entry::Waiting, 1), (2, 1, Entry::InFlight, 1)]);
}

#[test]
fn all_reasons_are_listed_in_their_order() {
    // The last variant is known, so that a new one in front of it is missed.
    assert_eq!(Why::ALL.len(), Why::Undeclared as usize + 1);
    assert!(Why::ALL.iter().enumerate().all(|(place, why)| *why as usize == place));
}

/// Origins of the three fragments of a packet of account 1.
fn fragments() -> Vec<Origin> {
    packet(1).take_origin().fragments(3)
}

/// Returns the one origin of a list.
fn only(mut origins: Vec<Origin>) -> Origin {
    origins.pop().expect("one")
}

#[test]
fn the_first_fragment_that_is_lost_is_the_end_of_its_packet() {
    let channel = [(1, 7, Entry::Dropped(Why::Channel), 1)];
    for first in 0..3 {
        let lost = entries(|| {
            let mut parts = fragments();
            parts.remove(first).end(Why::Channel);
            dropping(Why::Reassembly, || drop(parts));
        });
        assert_eq!(lost, channel, "fragment {first}");
    }
    let again = entries(|| {
        let mut parts = fragments();
        let mut smaller = parts.remove(0).fragments(2);
        smaller.remove(1).end(Why::Channel);
        dropping(Why::Reassembly, || drop((parts, smaller)));
    });
    assert_eq!(again, channel, "fragmented again");
}

#[test]
fn fragments_that_all_arrive_are_their_packet() {
    let whole = |order: [usize; 3]| {
        entries(|| {
            let mut parts: Vec<Option<Origin>> = fragments().into_iter().map(Some).collect();
            let arrived = order.into_iter().filter_map(|n| parts[n].take()).collect();
            let mut whole = dropping(Why::Reassembly, || Origin::joined(arrived));
            whole.end(Why::Queue);
        })
    };
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        assert_eq!(whole(order), [(1, 7, Entry::Dropped(Why::Queue), 1)]);
    }
    // Packets of their own in fragments, as of a capture: all but one end there.
    let own = entries(|| {
        let tagged = [packet(1), packet(1)].map(|mut packet| packet.take_origin());
        let mut whole = dropping(Why::Reassembly, || Origin::joined(tagged.into()));
        whole.end(Why::Queue);
    });
    assert_eq!(own.iter().map(|(.., packets)| packets).sum::<i64>(), 2);
}

fn fragment(origin: Origin) -> Packet {
    let mut part = Packet::new(20, 80);
    part.set_origin(origin);
    part
}

/// Returns the fragments of a packet of account 1 as packets.
fn parts() -> Vec<Packet> {
    fragments().into_iter().map(fragment).collect()
}

/// Returns the origin of the packet that these fragments complete.
fn whole(parts: Vec<Packet>) -> Origin {
    Origin::joined(parts.into_iter().map(|mut part| part.take_origin()).collect())
}

/// Returns the copies of fragments for two branches of a group, which replace them.
fn branched(parts: Vec<Packet>) -> [Vec<Packet>; 2] {
    let mut branches = [Vec::new(), Vec::new()];
    for part in parts {
        branches.iter_mut().for_each(|branch| branch.push(part.branch()));
        part.replaced();
    }
    branches
}

#[test]
fn copies_of_fragments_for_a_branch_are_a_copy_of_their_packet() {
    for lost in 0..3 {
        let entries = entries(|| {
            let [mut first, second] = branched(parts());
            // Whichever is lost, the branch is without the packet, and the other one is not.
            first.remove(lost).lose(Why::Queue);
            dropping(Why::Reassembly, || drop(first));
            whole(second).end(Why::Channel);
        });
        let expected =
            [(Entry::Copied, 1), (Entry::Dropped(Why::Queue), 1), (Entry::Dropped(Why::Channel), 1)];
        assert_eq!(entries, expected.map(|(entry, count)| (1, 7, entry, count)), "fragment {lost}");
    }
}

#[test]
fn a_packet_is_lost_once_with_a_fragment_lost_in_front_of_branches() {
    let entries = entries(|| {
        let mut parts = parts();
        let last = parts.split_off(1);
        let [first, second] = branched(parts);
        // A branch has branches in turn.
        let second = branched(second);
        let mut last = last.into_iter();
        last.next().into_iter().for_each(|part| part.lose(Why::Channel));
        let rest = branched(last.collect());
        dropping(Why::Reassembly, || drop((first, second, rest)));
    });
    assert_eq!(entries, [(1, 7, Entry::Copied, 0), (1, 7, Entry::Dropped(Why::Channel), 1)]);
}

#[test]
fn a_duplicate_of_a_fragment_stands_in_for_a_lost_one() {
    for lost in 0..3 {
        let arrived = entries(|| {
            let mut parts = parts();
            let twin = parts[lost].copy();
            std::mem::replace(&mut parts[lost], twin).lose(Why::Channel);
            whole(parts).end(Why::Queue);
        });
        assert_eq!(arrived, [(1, 7, Entry::Dropped(Why::Queue), 1)], "fragment {lost}");
    }
    let both_lost = entries(|| {
        let mut parts = parts();
        let twin = parts[0].copy();
        parts.remove(0).lose(Why::Channel);
        twin.lose(Why::Queue);
        dropping(Why::Reassembly, || drop(parts));
    });
    assert_eq!(both_lost, [(1, 7, Entry::Dropped(Why::Channel), 1)], "once, where the first was lost");
}

#[test]
fn fragments_that_all_arrive_twice_are_a_packet_and_its_copy() {
    let entries = entries(|| {
        let parts = parts();
        let twins = parts.iter().map(Packet::copy).collect();
        whole(parts).end(Why::Queue);
        whole(twins).end(Why::Channel);
    });
    let expected = [(Entry::Copied, 1), (Entry::Dropped(Why::Queue), 1), (Entry::Dropped(Why::Channel), 1)];
    assert_eq!(entries, expected.map(|(entry, count)| (1, 7, entry, count)));
}

#[test]
fn a_bundle_in_fragments_ends_with_the_first_that_is_lost() {
    let lost = entries(|| {
        let frame = Packet::new(4, 0).with_body(Body::Carried(Box::new(Frame(vec![packet(1), packet(3)]))));
        let mut parts = frame.into_origin().fragments(2);
        only(parts.split_off(1)).end(Why::Channel);
        dropping(Why::Reassembly, || drop(parts));
    });
    let channel = Entry::Dropped(Why::Channel);
    assert_eq!(lost, [(1, 7, channel, 1), (3, 7, channel, 1)]);
}

/// Calls `work` with the context of an element of a network with one account.
fn with_context(work: impl FnOnce(&mut crate::Cx<'_>)) -> Account {
    let mut outbox = crate::element::Outbox::new(Accounts::up_to(1));
    let mut stream = bentpipe_units::RandomStream::new(1, "test");
    work(&mut crate::Cx::new(bentpipe_units::Time::ZERO, &[], &mut outbox, &mut stream));
    outbox.accounts().get(1)
}

#[test]
fn what_an_endpoint_refuses_is_dropped_there_and_not_delivered() {
    let refuse = || {
        with_context(|cx| {
            let [mut taken, mut refused] = [(); 2].map(|()| Packet::new(20, 80));
            [&mut taken, &mut refused].into_iter().for_each(|packet| cx.offer(packet, 1));
            assert_eq!([cx.accept(&mut taken), cx.accept(&mut refused)], [1, 1]);
            assert_eq!(cx.accept(&mut taken), 0, "a packet is delivered once");
            taken.recycle();
            cx.refuse(refused, Why::Checksum);
            // Its memory is used again, without its account.
            cx.refuse(Packet::new(20, 80), Why::Checksum);
        });
    };
    assert_eq!(entries(refuse), [(1, 7, Entry::Dropped(Why::Checksum), 1)]);
    let account = with_context(|cx| {
        let mut packet = Packet::new(20, 80);
        cx.offer(&mut packet, 1);
        cx.accept(&mut packet);
        cx.refuse(packet, Why::Checksum);
    });
    assert_eq!(account, Account { sent: 1, sent_bytes: 100, ..Account::default() });
}

#[test]
fn a_packet_that_an_endpoint_passes_on_stays_in_its_account() {
    let account = with_context(|cx| {
        let mut packet = Packet::new(20, 80);
        cx.offer(&mut packet, 1);
        cx.accept(&mut packet);
        assert!(!packet.is_accounted());
        // The number of another account counts for packets without one.
        cx.offer(&mut packet, 9);
        assert!(packet.is_accounted());
        cx.accept(&mut packet);
    });
    assert_eq!(
        account,
        Account { sent: 1, sent_bytes: 100, delivered: 1, delivered_bytes: 100, ..Account::default() }
    );
}

#[test]
fn packets_that_are_counted_apart_are_in_both_accounts() {
    let mut accounts = Accounts::up_to(1);
    let [one, other] = [SubAccount::default(), SubAccount::default()];
    let mut ledger = Ledger::default();
    let outer = ledger.open(7);
    let send = |accounts: &mut Accounts, of: &SubAccount| {
        let mut tag = Tag::none();
        tag.set(accounts.send_apart(1, of, 100));
        tag
    };
    let early = [send(&mut accounts, &one), send(&mut accounts, &other)];
    accounts.start_window();
    let [mut arrives, lost, on_its_way] = [(); 3].map(|()| send(&mut accounts, &one));
    let [mut first, second] = early;
    let number = first.deliver();
    accounts.deliver(number, 100, bentpipe_units::Time::ZERO);
    accounts.repeat(first.known());
    let number = arrives.deliver();
    accounts.deliver(number, 100, bentpipe_units::Time::ZERO);
    with_entry(Entry::Dropped(Why::Queue), || drop((lost, second)));
    accounts.settle();
    let tallies = accounts.tallies(&one);
    let before = Tally { sent: 1, delivered: 1, duplicates: 1, ..Tally::default() };
    let window = Tally { sent: 3, delivered: 1, dropped: 1, ..Tally::default() };
    assert_eq!(tallies, Tallies { before, window });
    assert_eq!(accounts.tallies(&other).before, Tally { sent: 1, dropped: 1, ..Tally::default() });
    let of = |number| (accounts.account_of(number), accounts.is_before_window(number));
    assert_eq!([of(first.known()), of(arrives.known())], [(1, true), (1, false)]);
    let all = Account { sent: 5, sent_bytes: 500, delivered: 2, delivered_bytes: 200, duplicates: 1 };
    assert_eq!((accounts.get(1), accounts.before_window(1).sent), (all, 2));
    // A packet that is refused is taken back in both.
    let number = arrives.take_back();
    accounts.take_back(number, 100);
    assert_eq!((accounts.get(1).delivered, accounts.tallies(&one).window.delivered), (1, 0));
    // What is followed is in an account within as well.
    accounts.follow(vec![1]);
    let mut followed = send(&mut accounts, &other);
    let number = followed.deliver();
    accounts.deliver(number, 100, bentpipe_units::Time::ZERO);
    assert_eq!(accounts.tallies(&other).window, Tally { sent: 1, delivered: 1, ..Tally::default() });
    assert_eq!(accounts.followed().map(|packet| packet.delivered).collect::<Vec<_>>(), [1]);
    with_entry(Entry::InFlight, || drop((arrives, on_its_way)));
    ledger.close(outer);
}

/// Returns a packet that was sent, and a copy of it.
fn sent_twice(cx: &mut crate::Cx<'_>) -> [Packet; 2] {
    let mut packet = Packet::new(20, 80);
    cx.offer(&mut packet, 1);
    let copy = packet.copy();
    [packet, copy]
}

#[test]
fn a_packet_is_lost_with_the_last_of_its_copies_and_arrives_once() {
    type Work = fn([Packet; 2], &mut crate::Cx<'_>);
    let fates: [(&str, [i64; 2], Work); 7] = [
        ("both lost", [0, 1], |copies, _| copies.into_iter().for_each(|copy| copy.lose(Why::Channel))),
        ("one arrives", [1, 0], |[mut one, other], cx| {
            other.lose(Why::Channel);
            cx.accept(&mut one);
        }),
        ("both arrive", [1, 0], |mut copies, cx| {
            copies.iter_mut().for_each(|copy| assert!(cx.accept(copy) > 0))
        }),
        ("one is on its way", [0, 0], |[one, other], _| {
            one.lose(Why::Queue);
            with_entry(Entry::InFlight, || drop(other));
        }),
        ("one arrived, one is on its way", [1, 0], |[mut one, other], cx| {
            cx.accept(&mut one);
            with_entry(Entry::InFlight, || drop(other));
        }),
        ("refused and lost", [0, 1], |[mut one, other], cx| {
            cx.accept(&mut one);
            cx.refuse(one, Why::Checksum);
            other.copy().lose(Why::Queue);
            other.lose(Why::Queue);
        }),
        ("a proxy has both", [1, 0], |copies, _| taking_over(|| drop(copies))),
    ];
    for (name, expected, work) in fates {
        let of_one = whole_packets(|cx| work(sent_twice(cx), cx));
        assert_eq!(of_one, expected, "{name}");
        let after_others = whole_packets(|cx| {
            for _ in 0..5000 {
                sent_twice(cx).into_iter().for_each(|copy| copy.lose(Why::Channel));
            }
            work(sent_twice(cx), cx);
        });
        assert_eq!(after_others, [expected[0], expected[1] + 5000], "{name}, with numbers used again");
    }
}

#[test]
fn answers_to_copies_of_a_request_are_one() {
    let answers = |lost: [bool; 2]| {
        whole_packets(|cx| {
            let [mut first, mut second] = sent_twice(cx);
            let mut ends = Vec::new();
            for (request, is_lost) in [&mut first, &mut second].into_iter().zip(lost) {
                cx.accept(request);
                let mut answer = Packet::new(20, 80);
                cx.offer_with(&mut answer, 1, request);
                match is_lost {
                    true => answer.lose(Why::Channel),
                    false => ends.push(answer),
                }
            }
            ends.iter_mut().for_each(|answer| assert!(cx.accept(answer) > 0));
        })
    };
    // The request itself arrives each time.
    assert_eq!(answers([true, true]), [1, 1]);
    assert_eq!(answers([true, false]), [2, 0]);
    assert_eq!(answers([false, false]), [2, 0]);
}

#[test]
fn a_packet_without_any_copy_of_a_fragment_cannot_become_whole() {
    // Of three fragments the first is duplicated, and the second lost; the others wait where they are.
    let lost = entries(|| {
        let mut parts = parts();
        let twin = parts[0].copy();
        parts.remove(1).lose(Why::Channel);
        with_entry(Entry::InFlight, || drop((parts, twin)));
    });
    assert_eq!(lost, [(1, 7, Entry::Dropped(Why::Channel), 1)]);
    // A duplicate of the lost one is on its way.
    let on_its_way = entries(|| {
        let mut parts = parts();
        let twin = parts[1].copy();
        parts.remove(1).lose(Why::Channel);
        with_entry(Entry::InFlight, || drop((parts, twin)));
    });
    assert_eq!(on_its_way, [(1, 7, Entry::InFlight, 1)]);
    // Fragments of two copies, which share an identification.
    let together = whole_packets(|cx| {
        let [mut one, mut two] = sent_twice(cx);
        let fragments = |packet: &mut Packet| -> Vec<Packet> {
            packet.take_origin().fragments(2).into_iter().map(fragment).collect()
        };
        let (mut first, mut second) = (fragments(&mut one), fragments(&mut two));
        first.remove(0).lose(Why::Channel);
        second.remove(1).lose(Why::Channel);
        first.append(&mut second);
        cx.accept(&mut fragment(whole(first)));
    });
    assert_eq!(together, [1, 0]);
    // Completed, lost behind, and completed again.
    let again = whole_packets(|cx| {
        let mut packet = Packet::new(20, 80);
        cx.offer(&mut packet, 1);
        let parts: Vec<Packet> = packet.take_origin().fragments(2).into_iter().map(fragment).collect();
        let twins = parts.iter().map(Packet::copy).collect();
        whole(parts).end(Why::Queue);
        let mut again = fragment(whole(twins));
        cx.accept(&mut again);
    });
    assert_eq!(again, [1, 0]);
}

/// Entries of one packet but those that are even.
fn uneven(work: impl FnOnce()) -> Vec<(u32, u32, Entry, i64)> {
    let mut entries = entries(work);
    entries.retain(|(.., count)| *count != 0);
    entries
}

/// Returns fragments behind a host's node, which keeps those of a group that it is a member of.
fn kept_at(place: u32, parts: Vec<Packet>) -> Vec<Packet> {
    set_place(place);
    let kept = |part: Packet| {
        let copy = part.branch();
        part.replaced();
        copy
    };
    parts.into_iter().map(kept).collect()
}

#[test]
fn copies_that_a_loss_undoes_are_taken_back_where_they_were_made() {
    for at_hosts in [[true, true], [true, false], [false, true], [false, false]] {
        let booked = uneven(|| {
            let mut parts = parts();
            let late = parts.split_off(1);
            let branches = branched(parts);
            let places = [8, 9].into_iter().zip(at_hosts);
            let members: Vec<_> = branches
                .into_iter()
                .zip(places)
                .map(|(parts, (place, is_there))| if is_there { kept_at(place, parts) } else { parts })
                .collect();
            set_place(3);
            late.into_iter().for_each(|part| part.lose(Why::Channel));
            set_place(9);
            dropping(Why::Reassembly, || drop(members));
        });
        assert_eq!(booked, [(1, 3, Entry::Dropped(Why::Channel), 1)], "{at_hosts:?}");
    }
}

#[test]
fn branches_wait_for_duplicates_in_front_of_them_and_no_longer() {
    // A branch has lost its copy of the first fragment, of which there is another one in front.
    let first_of_two = |take: fn(Packet)| {
        uneven(|| {
            let parts = parts();
            let twin = parts[0].copy();
            let [one, mut two] = branched(parts);
            two.remove(0).lose(Why::Channel);
            whole(one).end(Why::Queue);
            let mut late = branched(vec![twin]);
            let again = late[1].remove(0);
            drop(late);
            take(again);
            drop(two);
        })
    };
    let of = |entries: &[(u32, u32, Entry, i64)], wanted: Entry| {
        entries.iter().filter(|(.., entry, _)| *entry == wanted).map(|(.., count)| count).sum::<i64>()
    };
    let lost = first_of_two(|again| again.lose(Why::Fade));
    assert_eq!(of(&lost, Entry::Dropped(Why::Channel)), 1, "at its first loss: {lost:?}");
    assert_eq!((of(&lost, Entry::Copied), of(&lost, Entry::Dropped(Why::Queue))), (1, 1), "{lost:?}");
    let on_its_way = first_of_two(|again| with_entry(Entry::InFlight, || drop(again)));
    assert_eq!(of(&on_its_way, Entry::InFlight), 1, "{on_its_way:?}");
    // Both copies of a fragment are lost in front of the branches: no branch becomes whole, at once.
    let in_front = uneven(|| {
        let mut parts = parts();
        let (last, twin) = (parts.remove(2), parts[0].copy());
        let branches = branched(parts);
        last.lose(Why::Fade);
        with_entry(Entry::InFlight, || drop((branches, twin)));
    });
    assert_eq!(in_front, [(1, 7, Entry::Dropped(Why::Fade), 1)]);
    // Of a branch, the duplicate in front is all that is left at the end.
    let remains = uneven(|| {
        let parts = parts();
        let twin = parts[0].copy();
        let [one, mut two] = branched(parts);
        two.remove(0).lose(Why::Channel);
        whole(one).end(Why::Queue);
        with_entry(Entry::InFlight, || drop((twin, two)));
    });
    let expected = [(Entry::Copied, 1), (Entry::Dropped(Why::Queue), 1), (Entry::InFlight, 1)];
    assert_eq!(remains, expected.map(|(entry, count)| (1, 7, entry, count)));
}

#[test]
fn fragments_of_fragments_are_copied_for_branches_as_their_packet() {
    let smaller = |part: &mut Packet| -> Vec<Packet> {
        part.take_origin().fragments(2).into_iter().map(fragment).collect()
    };
    let all = |mut parts: Vec<Packet>| -> Vec<Packet> { parts.iter_mut().flat_map(smaller).collect() };
    let arrive = uneven(|| {
        let [one, mut two] = branched(all(parts()));
        whole(one).end(Why::Queue);
        two.remove(3).lose(Why::Channel);
        dropping(Why::Reassembly, || drop(two));
    });
    let expected = [(Entry::Copied, 1), (Entry::Dropped(Why::Queue), 1), (Entry::Dropped(Why::Channel), 1)];
    assert_eq!(arrive, expected.map(|(entry, count)| (1, 7, entry, count)));
    let lost = uneven(|| {
        let mut parts = all(parts());
        let last = parts.pop();
        let branches = branched(parts);
        last.into_iter().for_each(|part| part.lose(Why::Fade));
        dropping(Why::Reassembly, || drop(branches));
    });
    assert_eq!(lost, [(1, 7, Entry::Dropped(Why::Fade), 1)]);
}
