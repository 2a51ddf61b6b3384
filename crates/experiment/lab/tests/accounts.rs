//! Accounts agree with what happened: columns add up, receivers count what accounts call delivered, and each loss has a place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bentpipe_assemble::{Built, checked};
use bentpipe_lab::measure;
use bentpipe_net::metric::UnitColumn;
use bentpipe_record::{FinalValues, LedgerColumn, LedgerRow, Reported, UnitLine, UnitRow};
use bentpipe_scenario::{Access, Scenario};
use bentpipe_site::CallRecord;
use bentpipe_testkit::Folder;
use bentpipe_units::{RandomStream, Span};

use super::common;

/// Results of a run: measures and final values by name, accounts of packets and of units.
pub(super) struct Run {
    pub(super) values: BTreeMap<String, f64>,
    pub(super) ledger: Vec<LedgerRow>,
    units: Vec<UnitRow>,
    /// Set if packets have several receivers.
    has_groups: bool,
    /// Records of calls at each end.
    pub(super) calls: Vec<CallRecord>,
}

impl Run {
    fn of(scenario: &Scenario, access: &Access) -> Run {
        let mut built = Built::new(scenario, 1, access).unwrap_or_else(|problem| panic!("{problem}"));
        let recording = common::recorded(scenario, &mut built, Span::from_millis(200));
        let ends: Vec<_> = built.flows.iter().flat_map(|flow| flow.calls.clone()).collect();
        let calls = ends.iter().flat_map(|(_, end, reader)| reader.read(&mut built.network, *end)).collect();
        let reported = Reported::of(&mut built.network);
        let ledger = LedgerRow::of(&built.network.close());
        let mut measures = measure::measures(scenario, 1, &recording, &ledger);
        measures.extend(FinalValues::of(&recording.end).measures());
        let values = common::by_name(measures);
        let has_groups = !scenario.group.is_empty();
        Run { values, units: UnitRow::of(&reported, &ledger), has_groups, ledger, calls }
    }

    pub(super) fn new(text: &str) -> Run {
        Run::of(
            &common::scenario(text).unwrap_or_else(|refusal| panic!("{refusal}\n{text}")),
            &Access::default(),
        )
    }

    /// Runs the scenario of a file, next to which are those that it names.
    pub(super) fn with_files(file: &Path) -> Run {
        let document = bentpipe_paths::document(file).expect("TOML");
        let scenario = checked(&document).unwrap_or_else(|refusal| panic!("{refusal}"));
        Run::of(&scenario, document.access())
    }

    /// Returns a measure or final value; zero without it.
    pub(super) fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }

    /// Returns the packets of a sender in a column, of one reason and place if they are given.
    pub(super) fn packets(&self, sender: &str, column: LedgerColumn, (reason, place): (&str, &str)) -> u64 {
        let is_meant = |row: &&LedgerRow| {
            row.sender == sender
                && row.column == column
                && (reason.is_empty() || row.reason == reason)
                && (place.is_empty() || row.place == place)
        };
        self.ledger.iter().filter(is_meant).map(|row| row.packets).sum()
    }

    pub(super) fn column(&self, sender: &str, column: LedgerColumn) -> u64 {
        self.packets(sender, column, ("", ""))
    }

    /// Returns the units of a flow in a column, of one reason if it is given.
    pub(super) fn units(&self, flow: &str, column: UnitColumn, reason: &str) -> u64 {
        let is_meant = |row: &&UnitRow| {
            row.flow == flow && row.column == column && (reason.is_empty() || row.reason == reason)
        };
        self.units.iter().filter(is_meant).map(|row| row.count).sum()
    }

    pub(super) fn line(&self, flow: &str) -> String {
        let rows: Vec<&UnitRow> = self.units.iter().filter(|row| row.flow == flow).collect();
        UnitLine(&rows).to_string()
    }

    /// Checks what holds for the accounts of any run.
    pub(super) fn check(&self, name: &str) {
        for row in &self.ledger {
            let is_wrong = row.is_open()
                || row.reason == "undeclared"
                || row.column == LedgerColumn::Dropped && row.place.is_empty();
            assert!(!is_wrong, "{name}: {row:?}");
        }
        for rows in self.ledger.chunk_by(|a, b| a.sender == b.sender) {
            let sum = |columns: &[LedgerColumn]| {
                rows.iter().filter(|row| columns.contains(&row.column)).map(|row| row.packets).sum::<u64>()
            };
            use LedgerColumn::{Copied, Delivered, Dropped, Remaining, Sent, TakenOver};
            let (known, ended) = (sum(&[Sent, Copied]), sum(&[Delivered, TakenOver, Dropped, Remaining]));
            assert_eq!(known, ended, "{name}: {rows:#?}");
        }
        for row in self.ledger.iter().filter(|row| row.column == LedgerColumn::Sent) {
            let [Some(arrived), Some(lost)] = [row.arrived, row.lost] else { panic!("{name}: {row:?}") };
            assert!(arrived + lost <= row.packets - row.in_warm_up, "{name}: {row:?}");
            let of = |column| move |of: &&LedgerRow| of.sender == row.sender && of.column == column;
            let taken_over = self.ledger.iter().any(|row| of(LedgerColumn::TakenOver)(&row));
            let delivered = self.ledger.iter().find(of(LedgerColumn::Delivered));
            if let Some(of) = delivered.filter(|_| !taken_over && !self.has_groups) {
                assert_eq!(of.packets - of.in_warm_up, arrived + of.duplicates, "{name}: {of:?}, {row:?}");
            }
        }
        for rows in self.units.chunk_by(|a, b| a.flow == b.flow) {
            let flow = &rows[0].flow;
            let of_flow = self.ledger.iter().filter(|row| row.sender.starts_with(&format!("{flow}.")));
            assert!(
                !rows.iter().any(UnitRow::is_open),
                "{name}: {flow}: {}: {:#?}",
                self.line(flow),
                of_flow.collect::<Vec<_>>()
            );
            let (mut known, mut ended) = (0, 0);
            for row in rows {
                let is_known = matches!(row.column, UnitColumn::Offered | UnitColumn::Copied);
                *(if is_known { &mut known } else { &mut ended }) += row.count;
            }
            assert_eq!(known, ended, "{name}: {flow}: {}", self.line(flow));
        }
        self.check_receivers(name);
        self.check_losses(name);
    }

    /// Checks that the loss of a flow is that of its account.
    fn check_losses(&self, name: &str) {
        for (measure, loss) in self.values.iter().filter(|(name, _)| name.ends_with(".loss")) {
            let sender = measure.replace(".loss", ".sender");
            let rows = self.ledger.iter().filter(|row| row.sender == sender);
            let of = |wanted: &[LedgerColumn]| {
                let meant = rows.clone().filter(|row| wanted.contains(&row.column));
                meant.map(|row| row.packets - row.in_warm_up).sum::<u64>() as f64
            };
            use LedgerColumn::{Copied, Delivered, Dropped, Sent, TakenOver};
            let (dropped, arrived) = (of(&[Dropped]), of(&[Delivered, TakenOver]));
            assert!((0.0..=1.0).contains(loss), "{name}: {measure} is {loss}");
            if of(&[Sent]) > 0.0 && of(&[Copied]) == 0.0 {
                let expected = dropped / (dropped + arrived);
                assert!((loss - expected).abs() < 1e-9, "{name}: {measure} is {loss}, not {expected}");
            }
        }
    }

    /// Checks that receivers have what accounts call delivered, and that what they drop is dropped in an account.
    fn check_receivers(&self, name: &str) {
        let of_metric = |end: &'static str| self.values.iter().filter(move |(name, _)| name.ends_with(end));
        for (metric, dropped) in of_metric(".dropped-bad-checksum") {
            let place = metric.strip_suffix(".dropped-bad-checksum").unwrap_or_default();
            let is_meant = |row: &&LedgerRow| {
                row.column == LedgerColumn::Dropped && row.place == place && row.reason == "checksum"
            };
            // What roles send one another has no account.
            let booked: u64 = self.ledger.iter().filter(is_meant).map(|row| row.packets).sum();
            assert!(booked <= *dropped as u64, "{name}: {metric} is {dropped}, {booked} in accounts");
            let is_flow = place.starts_with("flow.");
            assert!(
                !is_flow || booked == *dropped as u64,
                "{name}: {metric} is {dropped}, {booked} in accounts"
            );
        }
        for (metric, arrived) in of_metric(".receiver.arrived-bytes") {
            let bytes = self.value(&metric.replace("arrived", "delivered"));
            let is_tcp = self.values.contains_key(&metric.replace("arrived-bytes", "segments-sent"));
            assert!(is_tcp || *arrived <= bytes, "{name}: {metric} is {arrived} of {bytes}");
        }
    }
}

/// A path of two links between hosts, with a channel on the first.
pub(super) fn path(duration_s: u32, channel: &str, flows: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"{duration_s} s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.b = {{}}\n\
         link.near = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"5 ms\"{channel} }}\n\
         link.far = {{ between = [\"r\", \"b\"], rate = \"10 Mbit/s\", delay = \"50 ms\" }}\n{flows}"
    )
}

pub(super) fn flow(name: &str, traffic: &str) -> String {
    format!("[flow.{name}]\nfrom = \"a\"\nto = \"b\"\ntraffic = {traffic}\n")
}

const UDP: &str =
    "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"10 ms\" }, payload = \"1000 B\" }";
const TWICE: &str = ", forward.channel = { kind = \"duplication\", probability = 0.5 }";

#[test]
fn each_payload_byte_counts_once_and_duplicates_are_a_column() {
    let run = Run::new(&path(10, TWICE, &flow("f", UDP)));
    run.check("duplication");
    let goodput = run.value("flow.f.goodput");
    assert!((goodput / 800_000.0 - 1.0).abs() < 0.02, "{goodput}: 100 datagrams of 1000 B a second");
    let duplicates = run.units("flow.f", UnitColumn::Duplicates, "");
    assert_eq!(duplicates as f64, run.value("flow.f.receiver.duplicates"));
    assert!(duplicates > 400, "{}", run.line("flow.f"));
    let delivered = run.units("flow.f", UnitColumn::Delivered, "");
    assert_eq!(delivered, run.column("flow.f.sender", LedgerColumn::Delivered) - duplicates);
    assert_eq!(run.value("flow.f.loss"), 0.0);
}

/// A capture of datagrams of which two are sent at a time.
fn capture(folder: &Folder) -> PathBuf {
    let ends = bentpipe_transport::app::Endpoints {
        source: "10.9.0.1:5000".parse().expect("an end"),
        destination: "10.9.0.2:9".parse().expect("an end"),
    };
    let mut pcap = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 101, 0, 0, 0];
    for n in 0..400_u32 {
        let packet = bentpipe_transport::app::datagram(ends, &[n as u8; 500]);
        let at_us = n / 2 * 20_000;
        let words = [at_us / 1_000_000, at_us % 1_000_000, packet.len() as u32, packet.len() as u32];
        pcap.extend(words.into_iter().flat_map(u32::to_le_bytes));
        pcap.extend(packet);
    }
    folder.write("packets.pcap", pcap)
}

fn replayed(channel: &str, stop_s: u32) -> Run {
    let folder = Folder::new();
    capture(&folder);
    let text = path(stop_s, channel, &flow("f", "{ kind = \"replay\", file = \"packets.pcap\" }"));
    Run::with_files(&folder.write("replay.toml", text))
}

#[test]
fn replays_have_duplicates_damage_and_what_was_not_sent() {
    let run = replayed(TWICE, 6);
    run.check("replay, duplicated");
    // 200 packets of 500 B in 4 s of sending, and nothing after.
    assert_eq!(run.value("flow.f.receiver.arrived-bytes"), 200_000.0);
    assert!(run.value("flow.f.receiver.delivered-bytes") > 280_000.0);
    assert_eq!(run.units("flow.f", UnitColumn::Delivered, ""), 400);

    let run = replayed(", forward.channel = { kind = \"bit-errors\", ber = 5e-5 }", 6);
    run.check("replay, damaged");
    let damaged = run.value("flow.f.receiver.dropped-bad-checksum");
    let place = ("checksum", "flow.f.receiver");
    assert_eq!(run.packets("flow.f.sender", LedgerColumn::Dropped, place) as f64, damaged);
    assert!(damaged > 40.0, "{damaged}");
    assert!(run.value("flow.f.loss") > 0.1, "{}", run.value("flow.f.loss"));

    let run = replayed("", 2);
    run.check("replay, cut");
    assert_eq!(run.units("flow.f", UnitColumn::Offered, ""), 400);
    let unsent = run.units("flow.f", UnitColumn::Remaining, "unsent");
    assert!((190..=210).contains(&unsent), "{}", run.line("flow.f"));
}

#[test]
fn a_datagram_damaged_on_the_way_is_dropped_at_its_receiver() {
    let channel = ", forward.channel = { kind = \"bit-errors\", ber = 1e-5 }, return.channel = { kind = \"bit-errors\", ber = 1e-5 }";
    let flows = [
        flow("f", UDP),
        flow("t", "\"tcp\""),
        flow("v", "{ kind = \"voice\", codec = \"g711a\" }"),
        flow("p", "{ kind = \"ping\", interval = \"20 ms\" }"),
        flow("r", "{ kind = \"tfrc\", rate = \"1 Mbit/s\", payload = \"1000 B\" }"),
    ];
    let run = Run::new(&path(20, channel, &flows.concat()));
    run.check("damage");
    for (sender, place) in [("flow.f.sender", "flow.f.receiver"), ("flow.t.sender", "flow.t.receiver")] {
        let dropped = run.packets(sender, LedgerColumn::Dropped, ("checksum", place));
        assert!(dropped > 20, "{sender}: {dropped} {:#?}", run.ledger);
    }
    // All that is lost on a line without loss is damaged.
    let is_of_channel = |row: &LedgerRow| row.reason == "channel";
    assert!(!run.ledger.iter().any(is_of_channel));
}

#[test]
fn fades_have_a_reason_of_their_own() {
    let outage = ", forward.channel = [{ kind = \"outages\", outages = [{ at = \"2 s\", lasts = \"1 s\" }] }, { kind = \"packet-errors\", loss = 0.1 }]";
    let run = Run::new(&path(10, outage, &flow("f", UDP)));
    run.check("outage");
    let faded = run.packets("flow.f.sender", LedgerColumn::Dropped, ("fade", "link.near.forward.channel"));
    assert!((99..=101).contains(&faded), "{faded}");
    assert!(
        run.packets("flow.f.sender", LedgerColumn::Dropped, ("channel", "link.near.forward.channel.2")) > 50
    );
}

#[test]
fn packets_with_a_part_in_a_faded_frame_are_faded() {
    for encapsulation in ["gse", "ule"] {
        let dense = UDP.replace("10 ms", "3 ms");
        let text = format!(
            "title = \"t\"\nduration = \"10 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
             dvb.down = {{ kind = \"dvb-s2\", symbol_rate = 2_000_000, es_n0_db = 11.0, margin_db = 1.0, reaction = \"9 s\" }}\n\
             [link.sky]\nbetween = [\"a\", \"b\"]\ndelay = \"260 ms\"\nreturn.rate = \"1 Mbit/s\"\n\
             forward.medium = {{ kind = \"dvb\", line = \"down\", encapsulation = \"{encapsulation}\" }}\n\
             [[event]]\nat = \"3 s\"\nset = {{ \"dvb.down.es_n0_db\" = 2.0 }}\nhold = \"2 s\"\n{}",
            flow("f", &dense)
        );
        let Ok(scenario) = common::scenario(&text) else {
            assert_eq!(encapsulation, "ule", "{:?}", common::scenario(&text).err());
            continue;
        };
        let run = Run::of(&scenario, &Access::default());
        run.check(encapsulation);
        let faded = run.packets("flow.f.sender", LedgerColumn::Dropped, ("fade", "dvb.down.a"));
        assert!((600..720).contains(&faded), "{encapsulation}: {faded} in 2 s: {:#?}", run.ledger);
        assert_eq!(run.value("link.sky.forward.packets-faded"), faded as f64);
        let others = run.packets("flow.f.sender", LedgerColumn::Dropped, ("restoration", ""));
        assert_eq!(others, 0, "{encapsulation}: a packet that goes on in the next frame is faded too");
    }
}

#[test]
fn answers_to_pings_have_an_account_of_their_flow() {
    let lossy = ", forward.channel = { kind = \"packet-errors\", loss = 0.2 }, return.channel = { kind = \"packet-errors\", loss = 0.3 }";
    for ip in [4, 6] {
        let ping = flow("p", "{ kind = \"ping\", interval = \"20 ms\" }") + &format!("ip = {ip}\n");
        let run = Run::new(&path(20, lossy, &ping));
        run.check("pings");
        let lost = |sender, place| run.packets(sender, LedgerColumn::Dropped, ("channel", place));
        let there = lost("flow.p.sender", "link.near.forward.channel");
        let back = lost("flow.p.receiver", "link.near.return.channel");
        assert!(there > 100 && back > 100, "{there} {back}");
        assert_eq!(
            run.column("flow.p.receiver", LedgerColumn::Sent),
            run.column("flow.p.sender", LedgerColumn::Delivered)
        );
        assert_eq!(run.units("flow.p", UnitColumn::Dropped, "channel"), there + back);
        assert!(!run.ledger.iter().any(|row| row.sender == "node.b"), "no answer is the node's own");
        assert_eq!(run.units("flow.p", UnitColumn::Delivered, "") as f64, run.value("flow.p.sender.replies"));
    }
    let twice = Run::new(&path(20, TWICE, &flow("p", "{ kind = \"ping\", interval = \"20 ms\" }")));
    twice.check("pings twice");
    assert!(twice.units("flow.p", UnitColumn::Duplicates, "") > 400, "{}", twice.line("flow.p"));
}

/// Hosts behind a translator, whose lines damage and lose packets.
fn translated(channel: &str) -> String {
    let head = format!(
        "title = \"t\"\nduration = \"20 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
         node.r = {{ kind = \"router\", role = {{ kind = \"nat\", inside = [\"near\"] }} }}\n\
         link.near = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"5 ms\" }}\n\
         link.far = {{ between = [\"r\", \"b\"], rate = \"10 Mbit/s\", delay = \"50 ms\"{channel} }}\n"
    );
    let flows = [
        flow("f", UDP),
        flow("t", "\"tcp\""),
        flow("p", "{ kind = \"ping\", interval = \"20 ms\" }"),
        flow("v", "{ kind = \"voice\", codec = \"g711a\" }"),
    ];
    head + &flows.concat()
}

#[test]
fn translated_packets_stay_in_their_accounts() {
    let channels = [
        "",
        ", forward.channel = { kind = \"bit-errors\", ber = 1e-5 }, return.channel = { kind = \"bit-errors\", ber = 1e-5 }",
        ", forward.channel = { kind = \"packet-errors\", loss = 0.1 }, return.channel = { kind = \"duplication\", probability = 0.3 }",
    ];
    for channel in channels {
        let run = Run::new(&translated(channel));
        run.check(channel);
        assert!(run.column("flow.p.receiver", LedgerColumn::Sent) > 500, "{channel}");
        // A packet that a translator returns is not delivered there, and not its own.
        let is_its_own = |row: &LedgerRow| row.sender.starts_with("node.r.");
        assert!(!run.ledger.iter().any(is_its_own), "{channel}: {:#?}", run.ledger);
        let sent = run.column("flow.f.sender", LedgerColumn::Sent);
        assert_eq!(sent as f64, run.value("flow.f.sender.sent"), "{channel}");
        let delivered = run.column("flow.f.sender", LedgerColumn::Delivered);
        assert_eq!(delivered as f64, run.value("flow.f.receiver.packets"), "{channel}");
    }
}

#[test]
fn calls_that_wait_at_the_end_are_in_the_account() {
    let calls = |to: &str| {
        format!(
            "title = \"t\"\nduration = \"60 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
             link.l = {{ between = [\"a\", \"b\"], rate = \"10 Mbit/s\", delay = \"50 ms\" }}\n\
             [flow.c]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"{to}\", interval = \"2 s\", ring = \"10 s\", hold = \"20 s\" }}\n"
        )
    };
    for protocol in ["sip", "iax"] {
        let run = Run::new(&calls(protocol));
        run.check(protocol);
        let waiting = run.units("flow.c", UnitColumn::Remaining, "waiting");
        assert!(waiting > 0, "{protocol}: {}", run.line("flow.c"));
        assert_eq!(run.value("flow.c.calls-waiting"), waiting as f64, "{protocol}");
        assert!(run.units("flow.c", UnitColumn::Delivered, "") > 0, "{protocol}");
    }
}

/// Two flows of bundles to one node, of which one waits for a contact that is over.
fn bundles(layer: &str, channel: &str) -> String {
    let role = "role = { kind = \"dtn\", network = \"net\" }";
    format!(
        "title = \"t\"\nduration = \"60 s\"\nnode.a = {{ {role} }}\nnode.b = {{ kind = \"router\", {role} }}\nnode.c = {{ {role} }}\n\
         [dtn.net]\nlayer = \"{layer}\"\nplan = \"\"\"\na range +0 +9000 a b 0.1\na range +0 +9000 b c 0.1\n\
         a contact +0 +9000 a b 125000\na contact +0 +9000 b a 125000\na contact +0 +20 b c 125000\n\
         a contact +0 +20 c b 125000\n\"\"\"\n\
         [link.near]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"100 ms\"\n{channel}\n\
         [link.far]\nbetween = [\"b\", \"c\"]\nrate = \"1 Mbit/s\"\ndelay = \"100 ms\"\n\
         [flow.short]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"bundles\", interval = \"100 ms\", payload = \"500 B\" }}\n\
         [flow.long]\nfrom = \"a\"\nto = \"c\"\ntraffic = {{ kind = \"bundles\", interval = \"100 ms\", payload = \"500 B\", lifetime = \"30 s\" }}\n"
    )
}

#[test]
fn bundles_of_one_flow_in_a_store_are_not_those_of_another() {
    let lossy = "forward.channel = { kind = \"packet-errors\", loss = 0.2 }";
    let run = Run::new(&bundles("udp", lossy));
    run.check("bundles");
    // Of the other flow hundreds wait at the nodes that both share.
    let loss = run.value("flow.short.loss");
    assert!((loss - 0.2).abs() < 0.05, "{loss}: {}", run.line("flow.short"));
    assert_eq!(run.units("flow.short", UnitColumn::Remaining, "waiting"), 0, "{}", run.line("flow.short"));
    let waiting = run.units("flow.long", UnitColumn::Remaining, "waiting");
    let expired = run.units("flow.long", UnitColumn::Dropped, "expired");
    assert!(waiting > 150 && expired > 50, "{}", run.line("flow.long"));
    for layer in ["ltp", "tcpcl"] {
        let run = Run::new(&bundles(layer, lossy));
        run.check(layer);
        assert_eq!(run.value("flow.short.loss"), 0.0, "{layer}: {}", run.line("flow.short"));
    }
}

#[test]
fn a_stream_has_its_bytes_at_the_end() {
    let lossy = ", forward.channel = { kind = \"packet-errors\", loss = 0.05 }";
    let run = Run::new(&path(10, lossy, &flow("t", "\"tcp\"")));
    run.check("stream");
    assert_eq!(
        run.units("flow.t", UnitColumn::Delivered, "") as f64,
        run.value("flow.t.receiver.delivered-bytes")
    );
    assert!(run.units("flow.t", UnitColumn::Remaining, "in-flight") > 0, "{}", run.line("flow.t"));
    let size = "application = { kind = \"bulk\", size = \"100 kB\" }\n";
    let run = Run::new(&path(30, "", &(flow("t", "\"tcp\"") + size)));
    assert_eq!(run.line("flow.t"), "100000 offered, 100000 delivered");
}

#[test]
fn the_accounts_of_every_example_agree() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let files = std::fs::read_dir(folder).expect("the examples").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "toml")).collect();
    files.sort();
    for file in files {
        let document = bentpipe_paths::document(&file).unwrap_or_else(|error| panic!("{error}"));
        let mut scenario = checked(&document).expect("valid");
        scenario.duration = scenario.duration.min(Span::from_secs(8));
        scenario.probe.warm_up = Span::ZERO;
        Run::of(&scenario, document.access()).check(&file.display().to_string());
    }
}

/// Faults that all links of the examples get.
const FAULTS: [&str; 5] = [
    "{ kind = \"duplication\", probability = 0.3 }",
    "{ kind = \"bit-errors\", ber = 1e-5 }",
    "{ kind = \"packet-errors\", loss = 0.05 }",
    "{ kind = \"jitter\", law = { kind = \"exponential\", mean = \"2 ms\" }, keep_order = false }",
    "{ kind = \"outages\", outages = [{ at = \"1 s\", lasts = \"500 ms\" }] }",
];

#[test]
fn the_accounts_of_every_example_with_faults_agree() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let files = std::fs::read_dir(folder).expect("the examples").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|it| it == "toml")).collect();
    files.sort();
    let mut runs = 0;
    for (file, fault) in files.iter().flat_map(|file| FAULTS.map(|fault| (file, fault))) {
        let mut document = bentpipe_paths::document(file).unwrap_or_else(|error| panic!("{error}"));
        let links: Vec<String> = checked(&document).expect("valid").link.keys().cloned().collect();
        for (link, way) in links.iter().flat_map(|link| ["forward", "return"].map(|way| (link, way))) {
            let before = document.clone();
            // Some media have other faults.
            let is_set = document.set(&format!("link.{link}.{way}.channel={fault}")).is_ok();
            if !is_set || checked(&document).is_err() {
                document = before;
            }
        }
        let mut scenario = checked(&document).expect("valid");
        scenario.duration = scenario.duration.min(Span::from_secs(4));
        scenario.probe.warm_up = Span::ZERO;
        Run::of(&scenario, document.access()).check(&format!("{} with {fault}", file.display()));
        runs += 1;
    }
    assert!(runs > 100, "{runs}");
}

/// Returns one of some words.
pub(super) fn one_of<'a>(stream: &mut RandomStream, words: &[&'a str]) -> &'a str {
    words[(stream.unit() * words.len() as f64) as usize % words.len()]
}

/// Returns a scenario with a router that may translate, a medium, and two channels.
fn generated(stream: &mut RandomStream) -> String {
    const CHANNELS: [&str; 7] = [
        "",
        "{ kind = \"packet-errors\", loss = 0.1 }",
        "{ kind = \"bit-errors\", ber = 1e-5 }",
        "{ kind = \"duplication\", probability = 0.2 }",
        "{ kind = \"jitter\", law = { kind = \"exponential\", mean = \"5 ms\" }, keep_order = false }",
        "{ kind = \"outages\", outages = [{ at = \"2 s\", lasts = \"700 ms\" }] }",
        "[{ kind = \"duplication\", probability = 0.3 }, { kind = \"gilbert-elliott\", p = 0.05, r = 0.3 }]",
    ];
    let mut channel = |way: &str| match one_of(stream, &CHANNELS) {
        "" => String::new(),
        channel => format!(", {way}.channel = {channel}"),
    };
    let channels = channel("forward") + &channel("return");
    let medium = one_of(
        stream,
        &[
            "rate = \"2 Mbit/s\", delay = \"100 ms\"",
            "rate = \"300 kbit/s\", delay = \"10 ms\", queue = { kind = \"drop-tail\", bytes = \"8 kB\" }",
            "rate = \"2 Mbit/s\", delay = \"20 ms\", mtu = \"700 B\"",
        ],
    );
    let role = one_of(stream, &["", ", role = { kind = \"nat\", inside = [\"near\"] }"]);
    let mut flows = String::new();
    for name in ["one", "two", "three"] {
        let traffic = one_of(
            stream,
            &[
                "\"tcp\"",
                UDP,
                "{ kind = \"ping\", interval = \"50 ms\", payload = \"900 B\" }",
                "{ kind = \"voice\", codec = \"g729\" }",
                "{ kind = \"tfrc\", rate = \"500 kbit/s\", payload = \"600 B\" }",
                "{ kind = \"sip\", interval = \"1 s\", ring = \"500 ms\", hold = \"3 s\" }",
            ],
        );
        flows += &flow(name, traffic);
    }
    format!(
        "title = \"t\"\nduration = \"6 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\"{role} }}\nnode.b = {{}}\n\
         link.near = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"2 ms\" }}\n\
         link.far = {{ between = [\"r\", \"b\"], {medium}{channels} }}\n{flows}"
    )
}

#[test]
fn the_accounts_of_generated_scenarios_agree() {
    let mut stream = RandomStream::new(7, "accounts");
    let mut runs = 0;
    for _ in 0..80 {
        let text = generated(&mut stream);
        // Some flows cannot be opened through a translator, or do not fit the MTU.
        let Ok(scenario) = common::scenario(&text) else { continue };
        Run::of(&scenario, &Access::default()).check(&text);
        runs += 1;
    }
    assert!(runs > 40, "{runs}");
}

/// Two hosts and a link between them.
pub(super) fn line(duration_s: u32, rate: &str, delay: &str, flows: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"{duration_s} s\"\nnode.a = {{}}\nnode.b = {{}}\n\
         link.l = {{ between = [\"a\", \"b\"], rate = \"{rate}\", delay = \"{delay}\" }}\n{flows}"
    )
}

fn constant_rate(rate: &str) -> String {
    flow(
        "f",
        &format!(
            "{{ kind = \"udp\", pattern = {{ kind = \"constant-rate\", rate = \"{rate}\" }}, payload = \"1000 B\" }}"
        ),
    )
}

#[test]
fn a_queue_that_is_full_at_the_end_has_its_losses() {
    let run = Run::new(&line(15, "1 Mbit/s", "100 ms", &constant_rate("2 Mbit/s")));
    run.check("full queue");
    let [sent, delivered, dropped] = [LedgerColumn::Sent, LedgerColumn::Delivered, LedgerColumn::Dropped]
        .map(|column| run.column("flow.f.sender", column) as f64);
    let loss = run.value("flow.f.loss");
    assert!(dropped / sent > 0.2, "{dropped} of {sent}");
    assert!((loss - dropped / (dropped + delivered)).abs() < 1e-12 && loss > 0.3, "{loss}");

    let calls =
        flow("v", "{ kind = \"voice\", codec = \"g711a\", silence_suppression = false }") + "count = 10\n";
    let run = Run::new(&line(60, "64 kbit/s", "10 ms", &calls));
    // Each has 80 kbit/s, of which the line carries 64 in all.
    let loss = run.value("flow.v.voice-loss").max(run.value("group.v.voice-loss.mean"));
    assert!(loss > 0.7, "{loss}: {:?}", run.values);

    let pings = flow("p", "{ kind = \"ping\", interval = \"1 ms\", payload = \"1000 B\" }");
    let run = Run::new(&line(15, "1 Mbit/s", "100 ms", &pings));
    run.check("pings into a full queue");
    assert!(run.value("flow.p.unanswered") > 0.7, "{}", run.value("flow.p.unanswered"));
}

#[test]
fn what_the_warm_up_lost_is_not_of_the_window() {
    let outage = |lasts: &str| {
        format!(
            ", forward.channel = {{ kind = \"outages\", outages = [{{ at = \"0 s\", lasts = \"{lasts}\" }}] }}"
        )
    };
    let slow =
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"2 s\" }, payload = \"1000 B\" }";
    let warm = |warm_up: &str| format!("[probe]\nwarm_up = \"{warm_up}\"\n");
    for (lasts, warm_up, name, traffic, measure) in [
        ("5 s", "5500 ms", "f", slow, "loss"),
        ("10 s", "11 s", "v", "{ kind = \"voice\", codec = \"g711a\" }", "voice-loss"),
        ("10 s", "11 s", "p", "{ kind = \"ping\", interval = \"2 s\" }", "unanswered"),
    ] {
        let run = Run::new(&path(20, &outage(lasts), &(flow(name, traffic) + &warm(warm_up))));
        run.check(measure);
        assert!(run.column(&format!("flow.{name}.sender"), LedgerColumn::Dropped) > 0);
        let lost = run.values.get(&format!("flow.{name}.{measure}"));
        assert_eq!(lost, Some(&0.0), "{measure}: {:#?}", run.ledger);
    }
}

#[test]
fn packets_that_a_full_backlog_refuses_are_in_the_account() {
    let tfrc = "{ kind = \"tfrc\", payload = \"1000 B\", rate = \"2 Mbit/s\", queue = 5 }";
    let run = Run::new(&line(30, "200 kbit/s", "100 ms", &flow("f", tfrc)));
    run.check("backlog");
    let refused = run.units("flow.f", UnitColumn::Refused, "backlog-full");
    assert_eq!(refused as f64, run.value("flow.f.sender.dropped-backlog"));
    assert!(refused > 5000, "{}", run.line("flow.f"));
}

#[test]
fn bytes_of_a_connection_that_was_given_up_are_lost() {
    let dies =
        "[[event]]\nat = \"5 s\"\nset = { \"link.l.channel\" = { kind = \"packet-errors\", loss = 1.0 } }\n";
    let bulk = flow("t", "{ kind = \"tcp\", retries = 2 }")
        + "application = { kind = \"bulk\", size = \"50 MB\" }\n";
    let run = Run::new(&line(40, "10 Mbit/s", "100 ms", &(bulk + dies)));
    run.check("given up");
    let lost = run.units("flow.t", UnitColumn::Dropped, "connection-given-up");
    assert!(
        lost > 0 && run.units("flow.t", UnitColumn::Remaining, "in-flight") == 0,
        "{}",
        run.line("flow.t")
    );
    let place = run.units.iter().find(|row| row.reason == "connection-given-up").map(|row| &row.place[..]);
    assert_eq!(place, Some("flow.t.sender"));

    let proxy = "title = \"t\"\nduration = \"20 s\"\nnode.s = {}\nnode.c = {}\n\
        node.e = { kind = \"router\", role = { kind = \"pep\", link = \"k\" } }\n\
        link.h = { between = [\"s\", \"e\"], rate = \"100 Mbit/s\", delay = \"1 ms\" }\n\
        link.k = { between = [\"e\", \"c\"], rate = \"5 Mbit/s\", delay = \"250 ms\" }\n\
        [flow.t]\nfrom = \"s\"\nto = \"c\"\ntraffic = \"tcp\"\n\
        [[event]]\nat = \"5 s\"\nset = { \"node.e.role.state\" = \"down\" }\n";
    let run = Run::new(proxy);
    run.check("proxy down");
    let lost = run.units("flow.t", UnitColumn::Dropped, "connection-given-up") as f64;
    let held = run.value("node.e.pep.lost-bytes");
    assert!(held > 0.0 && (lost / held - 1.0).abs() < 0.05, "{lost} of {held}: {}", run.line("flow.t"));
}

#[test]
fn bundles_in_fragments_are_lost_with_any_of_them() {
    let text = "title = \"t\"\nduration = \"100 s\"\n\
        node.a = { role = { kind = \"dtn\", network = \"n\" } }\nnode.b = { role = { kind = \"dtn\", network = \"n\" } }\n\
        [dtn.n]\nlayer = \"udp\"\nplan = \"\"\"\na range +0 +1000 a b 1\na contact +0 +1000 a b 125000\n\"\"\"\n\
        [link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 s\"\n\
        forward.channel = { kind = \"packet-errors\", loss = 0.5 }\n\
        [flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"bundles\", payload = \"5000 B\", interval = \"500 ms\" }\n";
    let run = Run::new(text);
    run.check("bundles in fragments");
    let loss = run.value("flow.f.loss");
    // Four fragments each, 190 bundles: the deviation is 1.8 %.
    assert!((loss - (1.0 - 0.5_f64.powi(4))).abs() < 0.06, "{loss}: {}", run.line("flow.f"));
    assert!(run.units("flow.f", UnitColumn::Dropped, "on-the-way") > 150, "{}", run.line("flow.f"));
    let shown = UnitRow::with_losses(&run.units);
    assert!(shown.iter().any(|row| row.unit == "bundles"), "they have a line");
    let lost = run.units.iter().find(|row| row.reason == "on-the-way").map(|row| &row.place[..]);
    assert_eq!(lost, Some("node.a"), "the node that had them last");
    // The layer's packets are a role's, whose losses have a line too.
    let roles = LedgerRow::lossy(&run.ledger);
    assert!(roles.iter().any(|row| row.sender == "node.a.dtn"), "{:?}", run.ledger);
}

#[test]
fn bundles_are_lost_where_they_or_a_part_of_them_is() {
    let until = |end_s: u32, payload: &str, channel: &str, lifetime: &str| {
        let role = "role = { kind = \"dtn\", network = \"n\" }";
        format!(
            "title = \"t\"\nduration = \"60 s\"\nnode.a = {{ {role} }}\nnode.o = {{ kind = \"router\", {role} }}\nnode.b = {{ {role} }}\n\
             [dtn.n]\nlayer = \"udp\"\nplan = \"\"\"\na range +0 +1000 a o 1\na range +0 +1000 o b 1\na contact +0 +1000 a o 125000\n\
             a contact +0 +{end_s} o b 125000\n\"\"\"\n\
             [link.near]\nbetween = [\"a\", \"o\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 s\"\n{channel}\n\
             [link.far]\nbetween = [\"o\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 s\"\n\
             [flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"bundles\", payload = \"{payload}\", interval = \"500 ms\"{lifetime} }}\n"
        )
    };
    let text = |payload: &str, channel: &str| until(1000, payload, channel, "");
    let lossy = "forward.channel = { kind = \"packet-errors\", loss = 0.3 }";
    let lossy_behind = text("5000 B", "").replace("b\"]\nrate", &format!("b\"]\n{lossy}\nrate"));
    let hops =
        [(text("500 B", lossy), "node.a"), (text("5000 B", lossy), "node.a"), (lossy_behind, "node.o")];
    for (text, last) in hops {
        let run = Run::new(&text);
        run.check("bundles over two hops");
        let places: Vec<_> = run.units.iter().filter(|row| row.column == UnitColumn::Dropped).collect();
        // What the last datagrams on their way are of is known by their number alone.
        let elsewhere = places.iter().filter(|row| row.place != last).map(|row| row.count).sum::<u64>();
        let most = u64::from(last == "node.o");
        assert!(elsewhere <= most, "{last}: {places:?}");
        assert!(places.iter().any(|row| row.place == last), "{last}: {}", run.line("flow.f"));
    }
    // The channel loses all of the last twelve seconds: of what entered it, nothing is on its way.
    let dies = "forward.channel = { kind = \"packet-errors\", loss = 0.0 }\n\
        [[event]]\nat = \"48 s\"\nset = { \"link.near.forward.channel.loss\" = 1.0 }";
    for payload in ["500 B", "5000 B"] {
        let run = Run::new(&text(payload, dies));
        run.check("bundles, dead link");
        let dropped = run.column("node.a.dtn", LedgerColumn::Dropped);
        let in_flight = run.units("flow.f", UnitColumn::Remaining, "in-flight");
        let on_the_way = run.units("flow.f", UnitColumn::Dropped, "on-the-way");
        assert!(
            (1..=3).contains(&in_flight) && on_the_way > 18,
            "{payload}: {} of {dropped}",
            run.line("flow.f")
        );
    }
    let run = Run::new(&until(50, "500 B", "", ", lifetime = \"4 s\""));
    run.check("bundles that expire");
    let expired: Vec<_> = run.units.iter().filter(|row| row.reason == "expired").collect();
    let has_place = |row: &&UnitRow| ["node.a", "node.o"].contains(&&row.place[..]);
    assert!(!expired.is_empty() && expired.iter().all(has_place), "{}", run.line("flow.f"));
}

/// Bundles through a node that has room for 30 kB and a contact that begins at 5 s and is slower.
fn full_node(layer: &str, payload: &str) -> String {
    let role = "role = { kind = \"dtn\", network = \"n\"";
    format!(
        "title = \"t\"\nduration = \"40 s\"\nnode.a = {{ {role} }} }}\nnode.b = {{ {role} }} }}\n\
         node.r = {{ kind = \"satellite\", {role}, storage = \"30 kB\" }} }}\n\
         [dtn.n]\nlayer = \"{layer}\"\nplan = \"\"\"\na range +0 +1000 a r 0.01\na range +0 +1000 r b 0.1\n\
         a contact +0 +1000 a r 100000\na contact +0 +1000 r a 100000\n\
         a contact +5 +25 r b 30000\na contact +5 +25 b r 30000\n\"\"\"\n\
         [link.x]\nbetween = [\"a\", \"r\"]\nrate = \"5 Mbit/s\"\ndelay = \"10 ms\"\n\
         [link.y]\nbetween = [\"r\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"100 ms\"\n\
         [flow.u]\nfrom = \"a\"\nto = \"b\"\n\
         traffic = {{ kind = \"bundles\", payload = \"{payload}\", interval = \"50 ms\", lifetime = \"1 d\" }}\n"
    )
}

#[test]
fn bundles_that_a_full_node_refuses_end_there_and_those_that_wait_have_their_node() {
    for layer in ["udp", "dccp", "ltp", "ltp-green", "tcpcl"] {
        for payload in ["1000 B", "3000 B"] {
            let name = format!("{layer}, {payload}");
            let run = Run::new(&full_node(layer, payload));
            run.check(&name);
            let dropped: Vec<_> = run.units.iter().filter(|row| row.column == UnitColumn::Dropped).collect();
            // No line loses a packet, and the neighbour of LTP and TCPCL keeps what is refused.
            let has_refusals = matches!(layer, "udp" | "dccp" | "ltp-green");
            assert_eq!(!dropped.is_empty(), has_refusals, "{name}: {}", run.line("flow.u"));
            assert!(
                dropped.iter().all(|row| row.reason == "no-room" && row.place == "node.r"),
                "{name}: {dropped:?}"
            );
            let waits = |row: &&UnitRow| row.reason == "waiting";
            let waiting: Vec<_> = run.units.iter().filter(waits).collect();
            // A part of one may wait at its destination for the others.
            let has_place = |row: &&UnitRow| ["node.a", "node.r", "node.b"].contains(&&row.place[..]);
            assert!(!waiting.is_empty() && waiting.iter().all(has_place), "{name}: {waiting:?}");
        }
    }
}

/// Datagrams of two fragments over faults.
fn fragments(channels: &str) -> Run {
    let long = UDP.replace("1000 B", "2000 B");
    Run::new(&path(30, channels, &flow("f", &long)))
}

#[test]
fn duplicates_of_fragments_are_delivered_as_the_receiver_counts_them() {
    let faults = ", mtu = \"1500 B\", forward.channel = [{ kind = \"duplication\", probability = 0.5 }, { kind = \"packet-errors\", loss = 0.2 }]";
    let run = fragments(faults);
    run.check("duplicated fragments");
    let delivered = run.column("flow.f.sender", LedgerColumn::Delivered);
    assert_eq!(delivered as f64, run.value("flow.f.receiver.packets"));
    // A fragment is lost unless one of its copies arrives: 0.5 of them have two.
    let arrives = 1.0 - (0.5 * 0.2 + 0.5 * 0.04);
    let loss = run.value("flow.f.loss");
    assert!((loss - (1.0 - arrives * arrives)).abs() < 0.03, "{loss}");
}

#[test]
fn members_of_a_group_lose_packets_with_their_fragments() {
    let text = |channel: &str| {
        format!(
            "title = \"t\"\nduration = \"30 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.b = {{}}\nnode.c = {{}}\n\
             group.g = {{ members = [\"b\", \"c\"] }}\n\
             link.up = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"5 ms\" }}\n\
             link.one = {{ between = [\"r\", \"b\"], rate = \"10 Mbit/s\", delay = \"50 ms\"{channel} }}\n\
             link.two = {{ between = [\"r\", \"c\"], rate = \"10 Mbit/s\", delay = \"50 ms\" }}\n\
             [flow.f]\nfrom = \"a\"\nto = \"g\"\ntraffic = {{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"20 ms\" }}, payload = \"4000 B\" }}\n"
        )
    };
    let run = Run::new(&text(", forward.channel = { kind = \"packet-errors\", loss = 0.1 }"));
    run.check("group");
    let place = ("channel", "link.one.forward.channel");
    let dropped = run.packets("flow.f.sender", LedgerColumn::Dropped, place) as f64;
    let sent = run.column("flow.f.sender", LedgerColumn::Sent) as f64;
    // Three fragments of a member's datagrams, and none of the other's.
    let expected = 1.0 - 0.9_f64.powi(3);
    assert!((dropped / sent - expected).abs() < 0.04, "{dropped} of {sent}");
    let loss = run.value("flow.f.loss");
    assert!((loss - dropped / sent / 2.0).abs() < 0.01, "{loss} of both members");
    assert_eq!(Run::new(&text("")).value("flow.f.loss"), 0.0);
    // Behind their sender, in front of the router that copies them.
    let lossy = "delay = \"5 ms\", forward.channel = { kind = \"packet-errors\", loss = 0.1 }";
    let run = Run::new(&text("").replacen("delay = \"5 ms\"", lossy, 1));
    run.check("group, lost in front of its branches");
    let loss = run.value("flow.f.loss");
    assert!((loss - expected).abs() < 0.03, "{loss}");
    let waits = run.column("flow.f.sender", LedgerColumn::Remaining);
    assert!(waits < 20, "what is lost is not in flight: {waits}");
}

/// Bit errors give fragments a wrong port. What is joined of them has no listener at a member.
#[test]
fn damaged_fragments_of_groups_are_in_the_account() {
    let udp =
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"3 ms\" }, payload = \"600 B\" }";
    for (members, mtu) in [("\"z\"", 1500), ("\"z\"", 300), ("\"z\", \"y\"", 1500), ("\"z\", \"y\"", 300)] {
        let run = Run::new(&format!(
            "title = \"t\"\nduration = \"40 s\"\nnode.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.z = {{}}\nnode.y = {{}}\n\
             group.g = {{ members = [{members}] }}\n\
             link.up = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"10 ms\", mtu = \"{mtu} B\", \
             forward.channel = {{ kind = \"bit-errors\", ber = 6e-5 }} }}\n\
             link.one = {{ between = [\"r\", \"z\"], rate = \"10 Mbit/s\", delay = \"10 ms\", mtu = \"300 B\" }}\n\
             link.two = {{ between = [\"r\", \"y\"], rate = \"10 Mbit/s\", delay = \"10 ms\" }}\n{}",
            flow("f", udp).replace("to = \"b\"", "to = \"g\"")
        ));
        run.check(&format!("group of {members} over {mtu}"));
        let no_listener = run.packets("flow.f.sender", LedgerColumn::Dropped, ("no-listener", "node.z"));
        assert!(no_listener > 0, "group of {members} over {mtu}: {:#?}", run.ledger);
    }
}

/// A group behind two routers, with faults and MTUs of its links.
fn generated_group(stream: &mut RandomStream) -> String {
    let mut one = |of: &[&str]| of[(stream.unit() * of.len() as f64) as usize].to_owned();
    let faults = [
        "",
        "",
        "{ kind = \"packet-errors\", loss = 0.1 }",
        "{ kind = \"bit-errors\", ber = 6e-5 }",
        "{ kind = \"duplication\", probability = 0.3 }",
        "{ kind = \"reordering\", probability = 0.1, delay = \"30 ms\" }",
        "{ kind = \"outages\", outages = [{ at = \"3 s\", lasts = \"2 s\" }] }",
        "[{ kind = \"duplication\", probability = 0.2 }, { kind = \"bit-errors\", ber = 3e-5 }]",
        "[{ kind = \"bit-errors\", ber = 3e-5 }, { kind = \"duplication\", probability = 0.2 }]",
    ];
    let mut link = |name: &str, from: &str, to: &str| {
        let mtu = one(&["", "", "mtu = \"300 B\"\n", "mtu = \"576 B\"\n"]);
        let rate = one(&["1 Mbit/s", "4 Mbit/s", "10 Mbit/s"]);
        let fault = one(&faults);
        let channel = if fault.is_empty() { fault } else { format!("forward.channel = {fault}\n") };
        let queue = one(&["", "", "queue = { kind = \"drop-tail\", packets = 20 }\n"]);
        format!(
            "[link.{name}]\nbetween = [\"{from}\", \"{to}\"]\nrate = \"{rate}\"\ndelay = \"20 ms\"\n{mtu}{channel}{queue}"
        )
    };
    let links: String =
        [("up", "a", "r"), ("mid", "r", "q"), ("x", "r", "m0"), ("y", "q", "m1"), ("z", "q", "m2")]
            .map(|(name, from, to)| link(name, from, to))
            .concat();
    let payload = one(&["200 B", "600 B", "1400 B", "2500 B"]);
    let interval = one(&["3 ms", "10 ms"]);
    let [ip, address] = if one(&["4", "6"]) == "6" { ["6", "ff0e::1"] } else { ["4", "239.1.1.1"] };
    let members = one(&["\"m0\"", "\"m1\", \"m2\"", "\"m0\", \"m1\", \"m2\""]);
    format!(
        "title = \"t\"\nduration = \"8 s\"\n[node]\na = {{}}\nr = {{ kind = \"router\" }}\nq = {{ kind = \"router\" }}\nm0 = {{}}\nm1 = {{}}\nm2 = {{}}\n\
         [group.g]\naddress = \"{address}\"\nmembers = [{members}]\n{links}[flow.f]\nfrom = \"a\"\nto = \"g\"\nip = {ip}\n\
         traffic = {{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"{interval}\" }}, payload = \"{payload}\" }}\n"
    )
}

#[test]
fn the_accounts_of_generated_groups_with_fragments_close() {
    let mut stream = RandomStream::new(7, "groups");
    let mut open = Vec::new();
    for _ in 0..40 {
        let text = generated_group(&mut stream);
        let run = Run::new(&text);
        if run.ledger.iter().any(LedgerRow::is_open) {
            open.push(format!("{text}\n{:#?}", run.ledger));
        }
    }
    assert!(open.is_empty(), "{} open:\n{}", open.len(), open.join("\n"));
}

#[test]
fn a_flow_completes_once_nothing_is_on_its_way() {
    let udp = "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"100 ms\" }, payload = \"1000 B\", packets = 80 }";
    let run = |duration_s: u32| Run::new(&line(duration_s, "10 Mbit/s", "3 s", &flow("f", udp)));
    let (cut, whole) = (run(10), run(12));
    assert!(cut.column("flow.f.sender", LedgerColumn::Remaining) > 0);
    assert_eq!(cut.values.get("flow.f.completion"), None);
    assert!((whole.value("flow.f.completion") - 10.9).abs() < 0.1, "{}", whole.value("flow.f.completion"));
}
