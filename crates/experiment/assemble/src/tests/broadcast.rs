//! A stream for groups that several receivers hear: sent once, with losses of each.

use std::collections::BTreeMap;

use bentpipe_net::Observer;
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_transport::app::Sink;

use super::{at, built};
use crate::{Built, checked};

/// A hub and three sites on one carrier. `more` is in each stream, `channel` in the link of site c.
fn network(more: &str, channel: &str) -> String {
    let mut text = "title = \"t\"\nduration = \"20 s\"\nnode.hub = {}\n\
         dvb.up = { kind = \"transport-stream\", rate = \"2 Mbit/s\", tables = \"100 ms\" }\n\
         group.all = { members = [\"a\", \"b\", \"c\"] }\n\
         flow.news = { from = \"hub\", to = \"all\", traffic = { kind = \"udp\", payload = \"60 B\", packets = 900, \
         pattern = { kind = \"constant\", interval = \"20 ms\" } } }\n\
         flow.one = { from = \"hub\", to = \"b\", traffic = { kind = \"udp\", payload = \"60 B\", packets = 900, \
         pattern = { kind = \"constant\", interval = \"20 ms\" } } }\n"
        .to_owned();
    for (n, site) in ["a", "b", "c"].into_iter().enumerate() {
        let channel = if site == "c" { channel } else { "" };
        text += &format!(
            "node.{site} = {{}}\nlink.{site} = {{ between = [\"hub\", \"{site}\"], delay = \"25{n} ms\", return.rate = \"1 Mbit/s\", \
             {channel} forward.medium = {{ kind = \"dvb\", line = \"up\", pid = \"0x20{n}\", packing = \"5 ms\" {more} }} }}\n"
        );
    }
    text
}

#[derive(Default)]
struct Counters(BTreeMap<String, u64>, String);

impl Observer for Counters {
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.0.insert(format!("{} {}", self.1, metric.name), total);
    }
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.1);
    }
}

fn counters(built: &mut Built) -> BTreeMap<String, u64> {
    let mut values = Counters::default();
    let ids: Vec<_> = built.network.ids().collect();
    ids.into_iter().for_each(|id| built.network.observe(id, &mut values));
    values.0
}

/// Runs a network and returns it with the packets and duplicates of the members and of the flow to one site.
fn run(text: &str) -> (Built, Vec<(u64, u64)>) {
    let mut built = built(text);
    built.network.run_until(at(20));
    let ends: Vec<_> = built.flows.iter().flat_map(|flow| flow.receivers.clone()).collect();
    let received = ends.into_iter().map(|end| {
        let sink: &mut Sink = built.network.element(end).expect("a sink");
        (sink.flows()[0].packets, sink.flows()[0].duplicates)
    });
    let received = received.collect();
    (built, received)
}

#[test]
fn a_group_goes_once_over_the_satellite() {
    for line in
        ["kind = \"transport-stream\", rate = \"2 Mbit/s\"", "kind = \"dvb-s2\", symbol_rate = 1500000"]
    {
        let with =
            |more: &str| network(more, "").replace("kind = \"transport-stream\", rate = \"2 Mbit/s\"", line);
        let (mut separate, each) = run(&with(""));
        let (mut common, once) = run(&with(", multicast = \"0x300\""));
        assert_eq!((&each, &once), (&vec![(900, 0); 4], &vec![(900, 0); 4]), "{line}");
        let (separate, common) = (counters(&mut separate), counters(&mut common));
        let sndus = |of: &BTreeMap<String, u64>, path: &str| of[&format!("{path} packets-in")];
        assert_eq!(
            ["a", "b", "c"].map(|site| sndus(&separate, &format!("link/{site}/forward"))),
            [900, 1800, 900]
        );
        assert_eq!(["a", "b", "c"].map(|site| sndus(&common, &format!("link/{site}/forward"))), [0, 900, 0]);
        assert_eq!(sndus(&common, "link/a/forward/multicast"), 900);
    }
}

#[test]
fn each_decompressor_has_its_own_losses() {
    let rohc = ", multicast = \"0x300\", rohc = { refresh = 100, dynamic_refresh = 0 }";
    let channel = "forward.channel = { kind = \"packet-errors\", loss = 0.1 },";
    let (_, received) = run(&network(rohc, channel));
    assert_eq!(received[..2], [(900, 0), (900, 0)]);
    assert_eq!(received[3], (900, 0), "the flow to one site, of a stream of its own");
    let at_c = received[2].0;
    assert!((600..880).contains(&at_c), "{at_c} of 900 behind losses of one in ten");
}

#[test]
fn impossible_streams_for_groups_are_refused() {
    let refused = |text: &str| {
        let document = bentpipe_scenario::Document::parse("file.toml", text.as_bytes()).expect("TOML");
        let refused = checked(&document).err().map(|refusal| refusal.to_string());
        refused.unwrap_or_else(|| {
            match Built::new(&super::scenario(text), 1, &bentpipe_scenario::Access::default()) {
                Ok(_) => panic!("accepted"),
                Err(problem) => problem.to_string(),
            }
        })
    };
    let mode = refused(&network(", multicast = \"0x300\", rohc = { mode = \"optimistic\" }", ""));
    assert!(mode.contains("one compressor cannot heed the feedback of many decompressors"), "{mode}");
    let gse = network(", multicast = \"0x300\", encapsulation = \"gse\"", "");
    let gse = refused(&gse.replace(
        "kind = \"transport-stream\", rate = \"2 Mbit/s\", tables = \"100 ms\"",
        "kind = \"dvb-s2\", symbol_rate = 1500000",
    ));
    assert!(gse.contains("conflicts with GSE"), "{gse}");
    let unlike =
        network(", multicast = \"0x300\"", "").replacen("packing = \"5 ms\"", "packing = \"6 ms\"", 1);
    let unlike = refused(&unlike);
    assert!(unlike.contains("link.b.forward.medium.multicast: expected the same encapsulation"), "{unlike}");
    let taken = refused(&network(", multicast = \"0x201\"", ""));
    assert!(taken.contains("multicast"), "{taken}");
}
