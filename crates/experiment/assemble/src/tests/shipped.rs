//! Shipped examples do what their text claims.

use std::collections::HashMap;

use bentpipe_net::metric::{Counter, Gauge, Of};

use super::*;

/// Counters of an element by their path and name.
#[derive(Default)]
struct Counters {
    part: String,
    found: HashMap<String, u64>,
}

impl bentpipe_net::Observer for Counters {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.found.insert(format!("{}/{}", self.part, metric.name), total);
    }
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.part);
    }
}

/// Counters of both directions of the link "sky" after 10 s of dvb-rohc.toml, changed by `edit`.
fn dvb_rohc(edit: impl Fn(String) -> String) -> (HashMap<String, u64>, u64) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios/dvb-rohc.toml");
    let text = edit(std::fs::read_to_string(path).unwrap());
    let mut built = built(&text);
    built.network.run_until(at(10));
    let mut counters = Counters::default();
    let lines: std::collections::BTreeSet<_> = built.links.iter().map(|link| link.line).collect();
    for line in lines {
        built.network.observe(line, &mut counters);
    }
    let calls = built.flows.iter().find(|flow| flow.flow == "calls").expect("calls");
    let sink: &mut Sink = built.network.element(calls.receivers[0]).expect("a sink");
    (counters.found, sink.flows().iter().map(|flow| flow.packets).sum())
}

#[test]
fn all_calls_of_dvb_rohc_are_compressed_as_rtp() {
    let (sky, received) = dvb_rohc(|text| text);
    let [forward, back] = ["forward", "return"].map(|way| move |name: &str| format!("link/sky/{way}/{name}"));
    // 20 calls of 50 packets a second: the sink's are 261 ms late, and a few are damaged.
    let rtp = sky[&forward("compressed-rtp")];
    assert!((9_960..=10_000).contains(&rtp), "{rtp} of 10000");
    assert!((9_500..=rtp).contains(&received), "{received} of {rtp}");
    // The rest are acknowledgements, which are compressed too.
    assert_eq!(sky[&forward("compressed")], sky[&forward("packets-in")]);
    assert!(sky[&forward("compressed")] > rtp);
    // The download's data is not.
    let plain = sky[&back("packets-in")] - sky[&back("compressed")];
    assert!(sky[&back("compressed")] <= 3 && plain > 100, "{plain} in segments");
}

#[test]
fn the_filter_of_dvb_rohc_is_about_its_calls() {
    let drop_calls = |text: String| {
        text.replace("action = \"compress\", profiles = [\"rtp\", \"udp\"]", "action = \"drop\"")
    };
    let (sky, received) = dvb_rohc(drop_calls);
    assert_eq!((received, sky["link/sky/forward/compressed-rtp"]), (0, 0));
    assert!(sky["link/sky/forward/dropped-by-filter"] >= 9_960);
}
