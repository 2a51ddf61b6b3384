//! Trains through a switch against a model that takes one cell at a time.

use std::collections::{BTreeMap, VecDeque};

use bentpipe_net::Outbox;
use bentpipe_net::Wire;
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_units::{RandomStream, Rate};
use bentpipe_wire::atm::rm;
use proptest::prelude::*;

use super::*;
use crate::cell::{Kind, Train, Word};
use crate::erica::Erica;

const PORTS: usize = 4;
const LINE: line::Config = line::Config { rate: Rate::from_bps(155_520_000), delay: Span::from_micros(40) };

/// A cell that comes, and what travels with it.
type Coming = (usize, Cell, Vec<Packet>);

/// What leaves at each port.
type Leaving = Vec<Vec<(Cell, Vec<Packet>)>>;

/// Channel `n` leads from port `n % 4` to the one `1 + n / 4 % 3` further, and back; each in its own class.
fn channel(n: usize) -> ((Port, Vc), (Port, Vc), Class) {
    let (from, to) = (n % PORTS, (n % PORTS + 1 + n / PORTS % 3) % PORTS);
    let vc = |base: usize| Vc::new((base + n) as u16).expect("a channel");
    ((Port(from as u16), vc(100)), (Port(to as u16), vc(200)), Class::ALL[n * 7 / 3 % 4])
}

const CHANNELS: usize = 16;

fn switch(config: &Config) -> Switch {
    let mut switch = Switch::new(config);
    (0..PORTS).for_each(|n| {
        switch.add_port(n.to_string(), &LINE).expect("a line");
    });
    (0..CHANNELS).map(channel).for_each(|(a, b, class)| switch.connect(a, b, class));
    switch
}

/// An output that does one thing after the other, each at its instant.
struct Plain {
    waiting: [VecDeque<(Word, Vec<Packet>)>; 4],
    most: [usize; 4],
    dropped: u64,
    free_at: Time,
    carried: u64,
    erica: Option<Erica>,
    frames: BTreeMap<Vc, (bool, bool, bool)>,
    told: BTreeMap<Vc, Time>,
    sent: Vec<(Cell, Vec<Packet>)>,
}

impl Plain {
    fn new(config: &Config) -> Plain {
        let cells = line::cells_per_second(LINE.rate);
        let erica =
            config.abr.target().map(|(measure, target)| Erica::new(measure, target, cells).expect("one"));
        Plain {
            waiting: Default::default(),
            most: [0; 4],
            dropped: 0,
            free_at: Time::ZERO,
            carried: 0,
            erica,
            frames: BTreeMap::new(),
            told: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    /// The next transmission or end of an interval before `until`, and the one after it.
    fn run(&mut self, until: Time) {
        loop {
            let first = (0..4).find(|class| !self.waiting[*class].is_empty());
            let start = first.map_or(Time::NEVER, |_| self.free_at);
            let end = self.erica.as_ref().map_or(Time::NEVER, Erica::ends_at);
            if end.min(start) >= until {
                return;
            }
            if end <= start {
                self.end_interval(end);
            } else if let Some((word, cargo)) = first.and_then(|class| self.waiting[class].pop_front()) {
                self.send(word, cargo);
            }
        }
    }

    fn end_interval(&mut self, at: Time) {
        let queue = self.waiting[Class::Abr as usize].len();
        self.erica.iter_mut().for_each(|erica| erica.end_interval(at, queue));
    }

    fn send(&mut self, word: Word, cargo: Vec<Packet>) {
        // 424 bits at 155.52 Mbit/s, in units of 1/155520000 ns.
        self.carried += 424_000_000_000;
        self.free_at += Span::from_nanos(self.carried / 155_520_000);
        self.carried %= 155_520_000;
        self.sent.push((Cell { at: self.free_at + LINE.delay, word }, cargo));
    }

    fn put(&mut self, at: Time, class: Class, word: Word, cargo: Vec<Packet>) {
        if self.waiting.iter().all(VecDeque::is_empty) {
            self.free_at = self.free_at.max(at);
        }
        let waiting = &mut self.waiting[class as usize];
        waiting.push_back((word, cargo));
        self.most[class as usize] = self.most[class as usize].max(waiting.len());
    }

    fn admits(&mut self, config: &Config, class: Class, word: Word) -> bool {
        let (limit, queue) = (config.limit, self.waiting[class as usize].len());
        let limit =
            [limit.cbr, limit.vbr, limit.abr, limit.ubr][class as usize].map_or(usize::MAX, |n| n as usize);
        let (starting, refused, broken) = self.frames.entry(word.vc()).or_insert((true, false, false));
        if matches!(word.kind(), Kind::Rm | Kind::Oam) {
            return queue < limit;
        }
        let (epd, ppd) =
            (Discard::each(config.epd)[class as usize], Discard::each(config.ppd)[class as usize]);
        if *starting {
            (*refused, *broken) = (epd.is_some_and(|epd| queue >= epd as usize), false);
        }
        *starting = word.is_last();
        if *refused || (*broken && ppd == Some(true) && !word.is_last()) {
            return false;
        }
        *broken |= queue >= limit;
        queue < limit
    }

    /// What a backward RM cell says that comes where channel `number` of ERICA's sends.
    fn answer(&mut self, number: usize, word: Word) -> Word {
        let Some(erica) = self.erica.as_mut().filter(|_| word.kind() == Kind::Rm && word.is_backward())
        else {
            return word;
        };
        let given = rm::Rate::from_cells_per_second(erica.feedback(number));
        let repr = word.rm_repr();
        Word::rm(word.vc(), word.clp(), &rm::Repr { explicit: repr.explicit.min(given), ..repr })
    }

    /// Lets ERICA count a cell that comes; whether that fills its interval.
    fn count(&mut self, class: Class, number: usize, word: Word) -> bool {
        let Some(erica) = &mut self.erica else { return false };
        match class {
            Class::Abr => {
                erica.on_abr(number, 1);
                if word.kind() == Kind::Rm && !word.is_backward() {
                    erica.on_rate(number, word.current().cells_per_second());
                }
                return erica.room() == 0;
            }
            Class::Cbr | Class::Vbr => erica.on_other(1),
            Class::Ubr => {}
        }
        false
    }

    /// Whether the source of a channel of ABR is told by an RM cell of the switch's own; then it is noted.
    fn tells(&mut self, config: &Config, vc: Vc, at: Time) -> bool {
        let queue = self.waiting[Class::Abr as usize].len();
        let quiet = self.told.get(&vc).copied().unwrap_or_default();
        let tells = config.becn.is_some_and(|becn| queue >= becn as usize) && at >= quiet;
        if tells {
            self.told.insert(vc, at + Span::from_millis(100));
        }
        tells
    }

    /// Puts an RM cell of the switch's own here, if there is room.
    fn put_told(&mut self, config: &Config, vc: Vc, at: Time) {
        let repr = rm::Repr {
            backward: true,
            not_by_source: true,
            congestion: true,
            explicit: rm::Rate::MAX,
            ..rm::Repr::default()
        };
        let limit = config.limit.abr.map_or(usize::MAX, |limit| limit as usize);
        if self.waiting[Class::Abr as usize].len() < limit {
            self.put(at, Class::Abr, Word::rm(vc, false, &repr), Vec::new());
        } else {
            self.dropped += 1;
        }
    }
}

/// Where a channel's cells that come to an input go: output and VC there, their class, their numbers there and at the input.
type Route = (usize, Vc, Class, usize, usize);

/// Leads all channels through plain outputs.
fn routes(outputs: &mut [Plain]) -> BTreeMap<(usize, Vc), Route> {
    let (mut routes, mut numbers) = (BTreeMap::new(), [0; PORTS]);
    for ((a, vc_a), (b, vc_b), class) in (0..CHANNELS).map(channel) {
        let [from, to] = [a, b].map(|port| usize::from(port.0));
        let [back, forth] = [from, to].map(|port| {
            outputs[port].erica.as_mut().map(|erica| erica.add(Guarantee::NONE));
            numbers[port] += 1;
            numbers[port] - 1
        });
        routes.insert((from, vc_a), (to, vc_b, class, forth, back));
        routes.insert((to, vc_b), (from, vc_a, class, back, forth));
    }
    routes
}

/// What a switch does that looks at one cell at a time.
fn plainly(config: &Config, coming: &[Coming], until: Time) -> Vec<Plain> {
    let mut outputs: Vec<Plain> = (0..PORTS).map(|_| Plain::new(config)).collect();
    let routes = routes(&mut outputs);
    for (input, Cell { at, word }, cargo) in coming {
        outputs.iter_mut().for_each(|output| output.run(*at));
        let Some((to, vc, class, number, back)) = routes.get(&(*input, word.vc())).copied() else { continue };
        let mut word = outputs[*input].answer(back, *word);
        let (came_on, output) = (word.vc(), &mut outputs[to]);
        word = word.on(vc);
        let is_full = output.count(class, number, word);
        let queue = output.waiting[Class::Abr as usize].len();
        if class == Class::Abr && config.efci.is_some_and(|efci| queue >= efci as usize) {
            word = word.congested();
        }
        if output.admits(config, class, word) {
            output.put(*at, class, word, cargo.clone());
        } else {
            output.dropped += 1;
        }
        if is_full {
            output.end_interval(*at);
        }
        if class == Class::Abr && output.tells(config, vc, *at) {
            outputs[*input].put_told(config, came_on, *at);
        }
    }
    outputs.iter_mut().for_each(|output| output.run(until));
    outputs
}

/// What comes out of a switch that is given the cells of each input in trains that begin where `cuts` says.
fn in_trains(switch: &mut Switch, coming: &[Coming], cuts: &[bool], until: Time) -> Leaving {
    let mut trains: Vec<(usize, Train)> = Vec::new();
    for (n, (input, cell, cargo)) in coming.iter().enumerate() {
        let last = trains.iter_mut().rev().find(|(at, _)| at == input);
        match last.filter(|_| !cuts[n % cuts.len()]) {
            Some((_, train)) => {
                train.cells.push(*cell);
                train.cargo.extend(cargo.iter().cloned());
            }
            None => {
                let train = Train { cells: vec![*cell], cargo: cargo.iter().cloned().collect() };
                trains.push((*input, train));
            }
        }
    }
    let wires: Vec<Wire> = (0..PORTS).map(|port| Wire::new(0, Port(port as u16))).collect();
    let (mut outbox, mut stream) = (Outbox::default(), RandomStream::new(0, "switch"));
    let mut leaving: Leaving = vec![Vec::new(); PORTS];
    let mut deadline = Time::ZERO;
    let mut trains = trains.into_iter().peekable();
    loop {
        let next = trains.peek().map_or(Time::NEVER, |(_, train)| train.cells[0].at);
        let now = next.min(deadline);
        if now > until {
            return leaving;
        }
        let mut cx = Cx::new(now, &wires, &mut outbox, &mut stream);
        deadline = match trains.next_if(|_| next <= deadline) {
            Some((input, train)) => {
                switch.receive(Port(input as u16), Box::new(train).into_packet(0), &mut cx)
            }
            None => switch.wake(&mut cx),
        };
        while let Some((wire, packet)) = outbox.pop() {
            let Train { cells, mut cargo } = *Train::from_packet(packet).expect("cells");
            let soon = now..=now + LINE.delay + Span::from_nanos(2727);
            assert!(soon.contains(&cells[0].at), "a train is handed over when its first cell arrives soon");
            let cells = cells.into_iter().map(|cell| (cell, cargo.drain(..cell.word.cargo()).collect()));
            leaving[usize::from(wire.port().0)].extend(cells);
        }
    }
}

/// Cells that come to all ports, by their instants; `draws` say how long after the one before, on which channel, and what.
fn coming(draws: &[(u16, u8, u8)]) -> Vec<Coming> {
    let mut line = [Time::ZERO; PORTS];
    let mut now = Time::ZERO;
    let mut cells: Vec<Coming> = Vec::new();
    for (n, (wait, which, what)) in draws.iter().enumerate() {
        let (a, b, _) = channel(usize::from(*which) % (CHANNELS + 1));
        let (port, vc) = if which & 0x80 == 0 { a } else { b };
        let input = usize::from(port.0);
        // Bursts, ties and pauses; on a line no two at once.
        now += Span::from_nanos(u64::from(wait % 8) * u64::from(wait >> 6));
        let at = now.max(line[input] + Span::from_nanos(1));
        line[input] = at;
        let repr = rm::Repr {
            backward: what & 8 != 0,
            explicit: rm::Rate::MAX,
            current: rm::Rate::from_cells_per_second(f64::from(*wait) * 7.0),
            ..rm::Repr::default()
        };
        let word = match what % 8 {
            0 => Word::rm(vc, false, &repr),
            1 => Word::data(vc, n as u32, 7, true),
            2 => Word::data(vc, n as u32, 7, true).damaged(),
            3 => Word::whole(vc, what & 16 != 0),
            4 => Word::oam(vc),
            _ => Word::data(vc, n as u32, 3, false),
        };
        let cargo = (0..word.cargo()).map(|k| Packet::new(8, (2 * n + k) as u32)).collect();
        cells.push((input, Cell { at, word }, cargo));
    }
    cells.sort_by_key(|(input, cell, _)| (cell.at, *input));
    cells
}

fn config() -> impl Strategy<Value = Config> {
    let some = |range: std::ops::Range<u32>| proptest::option::of(range);
    let limits = (some(0..20), some(0..20), some(0..20), some(0..20));
    let abr = (0..3, 1_u32..30, 5_u64..400, any::<[bool; 3]>());
    let discards =
        proptest::option::of((some(0..15), some(0..15), some(0..15), some(0..15), any::<[bool; 4]>()));
    (limits, some(0..15), some(0..15), some(0..15), (any::<bool>(), discards), abr).prop_map(
        |((cbr, vbr, abr, ubr), efci, becn, epd, (ppd, discards), (kind, cells, micros, flags))| {
            let discards = discards.map_or(
                (epd.map(Discard::Data), Some(Discard::Data(ppd))),
                |(cbr, vbr, abr, ubr, ppd)| {
                    let ppd = ppd.map(Some);
                    let ppd = ByCategory { cbr: ppd[0], vbr: ppd[1], abr: ppd[2], ubr: ppd[3] };
                    (Some(Discard::Each(ByCategory { cbr, vbr, abr, ubr })), Some(Discard::Each(ppd)))
                },
            );
            let measure = Measurement {
                cells,
                time: Span::from_micros(micros),
                immediate: flags[0],
                count_rates: flags[1],
                activity_decay: flags[2].then_some(0.9),
                ..Measurement::default()
            };
            let algorithm = match kind {
                0 => Algorithm::None,
                1 => Algorithm::Erica { utilisation: 0.9, fairness: Fairness::default(), measure },
                _ => Algorithm::EricaPlus {
                    queue: QueueControl::default(),
                    fairness: Fairness::default(),
                    measure,
                },
            };
            Config {
                abr: algorithm,
                efci,
                becn,
                limit: Limits { cbr, vbr, abr, ubr },
                epd: discards.0,
                ppd: discards.1,
            }
        },
    )
}

#[derive(Default)]
struct Totals(BTreeMap<(String, &'static str), f64>, String);

impl Observer for Totals {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert((self.1.clone(), metric.name), total as f64);
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.0.insert((self.1.clone(), metric.name), value);
    }
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn trains_are_as_cells_one_by_one(
        config in config(),
        draws in prop::collection::vec((any::<u16>(), any::<u8>(), any::<u8>()), 1..800),
        // Trains of some cells, and of a hundred and more.
        cuts in (0.0..0.15).prop_flat_map(|share| prop::collection::vec(prop::bool::weighted(share), 1..50)),
    ) {
        let coming = coming(&draws);
        let until = Time::from_nanos(50_000_000);
        let plain = plainly(&config, &coming, until);
        let mut switch = switch(&config);
        let leaving = in_trains(&mut switch, &coming, &cuts, until);
        let mut totals = Totals::default();
        switch.observe(until, &mut totals);
        for (port, (plain, cells)) in plain.iter().zip(&leaving).enumerate() {
            prop_assert_eq!(&plain.sent, cells, "port {}", port);
            let total = |name| totals.0[&(port.to_string(), name)];
            for (class, name) in ["cbr-queue-max", "vbr-queue-max", "abr-queue-max", "ubr-queue-max"].iter().enumerate() {
                prop_assert_eq!(plain.most[class] as f64, total(*name));
            }
            let names = ["dropped-cbr", "dropped-vbr", "dropped-abr", "dropped-ubr", "dropped-epd", "dropped-ppd"];
            prop_assert_eq!(plain.dropped as f64, names.into_iter().map(total).sum::<f64>());
            prop_assert_eq!(total("delivered"), cells.len() as f64);
        }
    }

    #[test]
    fn what_comes_sooner_is_found_in_trains_of_any_length(
        steps in prop::collection::vec(0_u64..3, 0..700),
        until in 0_u64..800,
    ) {
        let mut nanos = 0;
        let cells: Vec<Cell> = steps
            .into_iter()
            .map(|step| {
                nanos += step;
                Cell { at: Time::from_nanos(nanos), word: Word::oam(Vc::FIRST) }
            })
            .collect();
        let until = Time::from_nanos(until);
        let plain: Vec<Cell> = cells.iter().copied().filter(|cell| cell.at < until).collect();
        prop_assert_eq!(sooner(&cells, until), &plain[..]);
    }
}
