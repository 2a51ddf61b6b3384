//! Epidemic routing and spray and wait among nodes that meet at random.
//!
//! Each pair of `n` + 1 nodes meets in a Poisson process of rate 1, and hands over whatever it may at once. For that the means have
//! closed forms (Groenevelt, Nain, Koole 2005; Spyropoulos, Psounis, Raghavendra 2005), from chains whose state is the number of copies.

use super::*;

/// Source of random numbers (splitmix64): no crate is needed for uniform numbers.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn exponential(&mut self, rate: f64) -> f64 {
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - uniform).ln() / rate
    }
}

fn spray(copies: u32, is_binary: bool) -> impl Fn() -> Routing {
    move || Routing::Spray { copies, is_binary }
}

/// Nodes 1 to `count`, all of which may meet.
fn nodes(count: usize, routing: &dyn Fn() -> Routing) -> Vec<Node> {
    let make = |own: usize| {
        let mut node = Node::new(config(own as u32, 1 << 20), routing());
        (1..=count).filter(|other| *other != own).for_each(|other| node.meet(other as u64));
        node
    };
    (1..=count).map(make).collect()
}

/// Hands over what `from` has for `to`.
fn hand_over(nodes: &mut [Node], from: usize, to: usize, now: Time) {
    while let Some((id, bundle)) = nodes[from].poll_transmit(to as u64 + 1, WHOLE, now) {
        let is_taken = nodes[to].receive(bundle, from as u64 + 1, Arrival::Final, now);
        nodes[from].done(id, is_taken, now);
    }
}

/// Returns the mean delay, and the mean number of nodes with a copy when the destination gets it.
fn simulate(count: usize, runs: usize, routing: &dyn Fn() -> Routing, limit: usize) -> (f64, f64) {
    let mut dice = Dice(24);
    let (mut delay, mut copies) = (0.0, 0);
    for _ in 0..runs {
        let mut nodes = nodes(count, routing);
        let sent = bundle(&mut nodes[0], count as u32, 100, 3600);
        nodes[0].originate(sent, Time::ZERO);
        loop {
            delay += dice.exponential((count * (count - 1)) as f64 / 2.0);
            let one = dice.below(count);
            let other = (one + 1 + dice.below(count - 1)) % count;
            let holders = nodes.iter().filter(|node| node.stored().0 > 0).count();
            assert!(holders <= limit, "{holders} copies");
            hand_over(&mut nodes, one, other, Time::ZERO);
            hand_over(&mut nodes, other, one, Time::ZERO);
            if nodes[count - 1].poll_delivery().is_some() {
                copies += holders;
                break;
            }
        }
    }
    (delay / runs as f64, copies as f64 / runs as f64)
}

#[test]
fn epidemic_delays_and_copies_are_those_of_the_chain() {
    for n in [4, 12] {
        let (delay, copies) = simulate(n + 1, 3000, &|| Routing::Epidemic, n);
        let expected = (1..=n).map(|i| 1.0 / i as f64).sum::<f64>() / n as f64;
        // The state at the end is uniform on 1 to n.
        assert!((delay / expected - 1.0).abs() < 0.03, "{n}: {delay} and not {expected}");
        assert!((copies / ((n + 1) as f64 / 2.0) - 1.0).abs() < 0.03, "{n}: {copies} copies");
    }
}

#[test]
fn spray_and_wait_keeps_to_its_copies_and_to_its_chain() {
    let n = 12;
    // With i copies at the source's side the destination is met at the rate i, and one without a copy by the source at n - i.
    let expected = |limit: usize| {
        let last = 1.0 / limit as f64;
        (1..limit).rev().fold(last, |after, i| (1.0 + (n - i) as f64 * after) / n as f64)
    };
    let mut delays = Vec::new();
    for limit in [1, 3, 8] {
        let (delay, _) = simulate(n + 1, 3000, &spray(limit as u32, false), limit);
        let expected = expected(limit);
        assert!((delay / expected - 1.0).abs() < 0.04, "{limit}: {delay} and not {expected}");
        let (binary, _) = simulate(n + 1, 3000, &spray(limit as u32, true), limit);
        assert!(binary < 1.02 * delay, "{limit}: binary {binary}, source {delay}");
        delays.push(binary);
    }
    assert!(delays.is_sorted_by(|one, other| one > other), "{delays:?}");
}

#[test]
fn copies_go_once_to_each_neighbour_and_come_back_when_they_fail() {
    let mut nodes = nodes(4, &spray(4, true));
    let sent = bundle(&mut nodes[0], 9, 100, 60);
    nodes[0].originate(sent, Time::ZERO);
    let (id, copy) = nodes[0].poll_transmit(2, WHOLE, Time::ZERO).expect("a copy");
    assert_eq!(nodes[0].poll_transmit(2, WHOLE, Time::ZERO), None, "it is under way");
    nodes[0].done(id, false, Time::ZERO);
    let (id, again) = nodes[0].poll_transmit(2, WHOLE, Time::ZERO).expect("a copy");
    assert_eq!(copy, again, "two of four copies, as before");
    assert!(
        nodes[1].receive(again.clone(), 1, Arrival::Final, Time::ZERO)
            && nodes[1].receive(again, 1, Arrival::Final, Time::ZERO)
    );
    nodes[0].done(id, true, Time::ZERO);
    assert_eq!((nodes[1].counts().duplicates, nodes[1].stored().0, nodes[1].has_bundle(1)), (1, 1, false));
    hand_over(&mut nodes, 0, 2, Time::ZERO);
    assert!(!nodes[0].has_bundle(4), "one copy is left, for the destination");
    nodes[0].meet(9);
    assert!(nodes[0].has_bundle(9));
    nodes.iter_mut().for_each(|node| node.handle_timeout(at(60)));
    let left = |node: &Node| node.stored().0 > 0 || (1..=9).any(|number| node.has_bundle(number));
    assert!(!nodes.iter().any(left), "copies end with their lives");
}

#[test]
fn copies_are_fragmented_and_delivered_once() {
    let mut nodes = nodes(3, &spray(4, true));
    let sent = bundle(&mut nodes[0], 3, 1000, 60);
    nodes[0].originate(sent.clone(), Time::ZERO);
    let part = |nodes: &mut [Node], from: usize, to: usize| {
        while let Some((id, bundle)) = nodes[from].poll_transmit(to as u64 + 1, 300, Time::ZERO) {
            assert!(bundle.encoded_len() <= 300);
            nodes[to].receive(bundle, from as u64 + 1, Arrival::Final, Time::ZERO);
            nodes[from].done(id, true, Time::ZERO);
        }
    };
    part(&mut nodes, 0, 1);
    part(&mut nodes, 0, 2);
    part(&mut nodes, 1, 2);
    let whole = nodes[2].poll_delivery().expect("the bundle");
    assert_eq!((whole.payload.to_vec(), nodes[2].poll_delivery()), (sent.payload.to_vec(), None));
    assert!(nodes.iter().all(|node| node.stored() == (0, 0)), "what arrived is not kept");
}
