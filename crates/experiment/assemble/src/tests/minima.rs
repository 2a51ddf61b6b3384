//! Shares of ABR channels with minimum rates on two trunks, compared with progressive filling.

use std::collections::BTreeMap;

use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_units::Time;

use super::built;

/// Capacities of the trunks in Mbit/s.
const TRUNKS: [f64; 2] = [10.0, 8.0];

/// Channels: minimum in Mbit/s, and the trunks that each passes.
const CHANNELS: [(f64, &[usize]); 4] = [(3.0, &[0, 1]), (0.0, &[0]), (1.0, &[1]), (2.0, &[0])];

/// Max-min shares above the minima, by raising all alike until trunks are full.
fn filled() -> [f64; 4] {
    let (mut shares, mut is_fixed) = (CHANNELS.map(|(mcr, _)| mcr), [false; 4]);
    while is_fixed.contains(&false) {
        let open = |trunk: usize| (0..4).filter(move |n| CHANNELS[*n].1.contains(&trunk));
        let room = |trunk: &usize| {
            let left = TRUNKS[*trunk] - open(*trunk).map(|n| shares[n]).sum::<f64>();
            let count = open(*trunk).filter(|n| !is_fixed[*n]).count();
            (count > 0).then(|| (left / count as f64, *trunk))
        };
        let Some((more, full)) = [0, 1].iter().filter_map(room).min_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        (0..4).filter(|n| !is_fixed[*n]).for_each(|n| shares[n] += more);
        open(full).for_each(|n| is_fixed[n] = true);
    }
    shares
}

fn network() -> String {
    let mut text = "title = \"t\"\nduration = \"4 s\"\n\
        [atm.switch.s0]\nabr = \"erica-plus\"\n[atm.switch.s1]\nabr = \"erica-plus\"\n[atm.switch.s2]\n"
        .to_owned();
    for (n, rate) in TRUNKS.iter().enumerate() {
        let far = n + 1;
        text += &format!(
            "[atm.line.trunk{n}]\nbetween = [\"s{n}\", \"s{far}\"]\nrate = \"{rate} Mbit/s\"\ndelay = \"2 ms\"\n"
        );
    }
    for (n, (mcr, trunks)) in CHANNELS.iter().enumerate() {
        let (first, last) = (trunks[0], trunks[trunks.len() - 1] + 1);
        text += &format!(
            "[node.a{n}]\n[node.b{n}]\n\
             [atm.line.a{n}]\nbetween = [\"a{n}\", \"s{first}\"]\nrate = \"20 Mbit/s\"\ndelay = \"1 ms\"\n\
             [atm.line.b{n}]\nbetween = [\"s{last}\", \"b{n}\"]\nrate = \"20 Mbit/s\"\ndelay = \"1 ms\"\n\
             [link.l{n}]\nbetween = [\"a{n}\", \"b{n}\"]\n\
             medium = {{ kind = \"vc\", limit = 500, service = {{ kind = \"abr\", mcr = \"{mcr} Mbit/s\" }} }}\n\
             [flow.f{n}]\nfrom = \"a{n}\"\nto = \"b{n}\"\n\
             traffic = {{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"500 us\" }}, payload = \"700 B\" }}\n"
        );
    }
    text
}

#[derive(Default)]
struct Received(BTreeMap<String, f64>, String);

impl bentpipe_net::Observer for Received {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(format!("{} {}", self.1, metric.name), total as f64);
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.0.insert(format!("{} {}", self.1, metric.name), value);
    }
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.1);
    }
}

#[test]
fn shares_with_minima_are_those_of_progressive_filling() {
    let expected = filled();
    assert!(
        (expected[0] - (3.0 + 5.0 / 3.0)).abs() < 1e-9 && (expected[2] - (8.0 - expected[0])).abs() < 1e-9
    );
    let mut built = built(&network());
    let mut cells = |millis: u64| {
        built.network.run_until(Time::from_nanos(millis * 1_000_000));
        let mut values = Received::default();
        let ids: Vec<_> = built.network.ids().collect();
        ids.into_iter().for_each(|id| built.network.observe(id, &mut values));
        let queue = values.0["line/trunk0/forward abr-queue"];
        ([0, 1, 2, 3].map(|n| values.0[&format!("vc/l{n}/b{n} cells-received")]), queue)
    };
    let ((before, early), (after, late)) = (cells(1500), cells(4000));
    for (n, expected) in expected.into_iter().enumerate() {
        let rate = (after[n] - before[n]) * 424.0 / 2.5 / 1e6;
        assert!((rate / expected - 1.0).abs() < 0.07, "channel {n}: {rate} Mbit/s for {expected}");
    }
    assert!(late < early + 100.0, "{early} {late}");
}
