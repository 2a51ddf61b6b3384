//! Older spellings of scenario files mean what they meant.

use std::path::{Path, PathBuf};

use bentpipe_scenario::{Document, Scenario, Traffic, Way, current_key};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &Path) -> Document {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Document::parse(&path.display().to_string(), &bytes).unwrap_or_else(|refusal| panic!("{refusal}"))
}

/// A point of a sweep: the scenario, and what the sweep sets there.
type Point = (Scenario, Vec<(usize, String, String)>);

/// The first and the last point of a file's sweep.
fn ends(document: &Document) -> Vec<Point> {
    let lengths: Vec<usize> = document.axes().map(|(_, values)| values).collect();
    let [first, last]: [Vec<usize>; 2] =
        [lengths.iter().map(|_| 0).collect(), lengths.iter().map(|length| length - 1).collect()];
    let at = |point: &Vec<usize>| {
        let scenario = document.scenario_at(point).unwrap_or_else(|refusal| panic!("{refusal}"));
        (scenario, document.settings_at(point).collect())
    };
    [first, last].iter().map(at).collect()
}

/// `scenarios-geo.toml` is the older spelling of `scenarios/geo.toml`, `studies-votos-crowd.toml` of `studies/votos/crowd.toml`.
fn present(older: &Path) -> PathBuf {
    let name = older.file_name().expect("a file").to_string_lossy().into_owned();
    let known = [
        "scenarios",
        "studies/abr-video",
        "studies/rohc-ule",
        "studies/koreasat",
        "studies/votos",
        "studies/wichmo",
    ];
    let folder = known.iter().find(|folder| name.starts_with(&format!("{}-", folder.replace('/', "-"))));
    let folder = folder.unwrap_or_else(|| panic!("{name}"));
    root().join(folder).join(&name[folder.len() + 1..])
}

#[test]
fn every_older_file_gives_the_scenario_that_the_present_one_gives() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older");
    let files = std::fs::read_dir(folder).expect("a corpus").map(|entry| entry.expect("a file").path());
    let files: Vec<PathBuf> = files.collect();
    assert!(files.len() >= 33);
    for older in files {
        let (before, after) = (read(&older), read(&present(&older)));
        assert!(!before.notes().is_empty() && after.notes().is_empty(), "{}", older.display());
        let (before, after) = (ends(&before), ends(&after));
        assert_eq!(before, after, "{}", older.display());
        // A run's hash is of this text.
        let text = |ends: &[Point]| serde_json::to_string(&ends[1].0).expect("JSON");
        assert_eq!(text(&before), text(&after), "{}", older.display());
    }
}

const SKY: &str = r#"
title = "t"
duration = "1 s"
node.a = {}
node.b = {}
[carrier.skyplex]
[dvb.line]
kind = "transport-stream"
rate = "2 Mbit/s"
[link.sky]
between = ["a", "b"]
"#;

fn parsed(rest: &str) -> Result<Document, String> {
    Document::parse("sky.toml", format!("{SKY}{rest}").as_bytes()).map_err(|refusal| refusal.to_string())
}

fn scenario(document: &Document) -> Scenario {
    document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[test]
fn older_keys_are_set_and_swept_where_they_are_now() {
    let set = |rest: &str, assignments: &[&str]| {
        let mut document = parsed(rest).expect("a file");
        assignments
            .iter()
            .for_each(|assignment| document.set(assignment).unwrap_or_else(|refusal| panic!("{refusal}")));
        scenario(&document)
    };
    let file = "medium = { kind = \"dama\", carrier = \"skyplex\" }\n";
    let wanted = set("medium = { kind = \"dama\", carrier = \"skyplex\", cra = \"264 kbit/s\" }\n", &[]);
    assert_eq!(set(file, &["link.sky.dama.cra=264 kbit/s"]), wanted);
    assert_eq!(set(file, &["link.sky.medium.cra=264 kbit/s"]), wanted);
    assert_eq!(set(file, &["sweep.link.sky.dama.cra=[\"264 kbit/s\"]"]), wanted);
    // A whole kind, and the first key of one.
    let whole = "link.sky.dama={ carrier = \"skyplex\", cra = \"264 kbit/s\" }";
    assert_eq!(
        set("rate = \"1 Mbit/s\"\nmedium = { kind = \"wifi\" }\n", &[whole]).link["sky"].medium,
        wanted.link["sky"].medium
    );
    let first = set("", &["link.sky.dama.carrier=skyplex", "link.sky.dama.cra=264 kbit/s"]);
    assert_eq!(first, wanted);
    assert_eq!(current_key("link.sky.return.dvb.pid"), "link.sky.return.medium.pid");
    assert_eq!(current_key("dvb.line.rate"), "dvb.line.rate");
    assert_eq!(current_key("flow.x.tcp.rto.min"), "flow.x.traffic.rto.min");
    assert_eq!(current_key("flow.stream.start"), "flow.stream.start");
}

const FLOW: &str = "rate = \"1 Mbit/s\"\n[flow.x]\nfrom = \"a\"\nto = \"b\"\n";

#[test]
fn older_keys_of_traffic_are_set_and_swept_where_they_are_now() {
    let of = |traffic: &str, assignments: &[&str]| {
        let mut document = parsed(&format!("{FLOW}{traffic}")).expect("a file");
        assignments
            .iter()
            .for_each(|assignment| document.set(assignment).unwrap_or_else(|refusal| panic!("{refusal}")));
        scenario(&document)
    };
    let wanted = of("traffic = { kind = \"tcp\", initial_window = 4 }\n", &[]);
    assert_eq!(of("tcp = { initial_window = 4 }\n", &[]), wanted);
    assert_eq!(of("traffic = \"tcp\"\n", &["flow.x.tcp.initial_window=4"]), wanted);
    assert_eq!(of("tcp = {}\n", &["flow.x.traffic.initial_window=4"]), wanted);
    assert_eq!(of("tcp = {}\n", &["sweep.flow.x.tcp.initial_window=[4]"]), wanted);
    assert_eq!(of("", &["flow.x.tcp.initial_window=4"]), wanted);
    let datagrams = "udp = { pattern = { kind = \"constant\", interval = \"1 s\" }, payload = \"100 B\" }\n";
    assert_eq!(of(datagrams, &["flow.x.tcp={ initial_window = 4 }"]), wanted);
    // What is unset is the path's, whatever the spelling.
    let Traffic::Tcp(tcp) = &of("tcp = {}\n", &[]).flow["x"].traffic else { panic!("TCP") };
    assert_eq!(tcp.mss.get(), 1460);
}

#[test]
fn traffic_is_a_value_of_a_sweep() {
    let kinds = r#"[sweep]
"flow.x.traffic" = ["tcp", { kind = "tcp", controller = "bbr" }, { kind = "tfrc", payload = "1000 B" }]
"#;
    let document = parsed(&format!("{FLOW}{kinds}")).expect("a file");
    let words = [0, 1, 2].map(|point| {
        let scenario = document.scenario_at(&[point]).unwrap_or_else(|refusal| panic!("{refusal}"));
        scenario.flow["x"].traffic.word()
    });
    assert_eq!(words, ["tcp", "tcp", "tfrc"]);
    let shown: Vec<String> =
        document.settings_at(&[1]).map(|(_, key, value)| format!("{key} {value}")).collect();
    assert_eq!(shown, ["flow.x.traffic { kind = \"tcp\", controller = \"bbr\" }"]);
}

#[test]
fn a_flow_is_refused_what_its_traffic_does_not_take() {
    let datagrams = "traffic = { kind = \"udp\", pattern = { kind = \"constant\", interval = \"1 s\" }, payload = \"100 B\" }\n";
    let refused = |rest: &str| {
        let document = parsed(&format!("{FLOW}{rest}")).expect("TOML");
        document.scenario().unwrap_err().to_string()
    };
    let application = refused(&format!("{datagrams}application = {{ kind = \"bulk\" }}\n"));
    assert!(
        application.contains("flow.x.application: no application writes a \"udp\" flow: expected none"),
        "{application}"
    );
    let copies = refused("traffic = { kind = \"replay\", file = \"x.pcap\" }\ncount = 2\n");
    assert!(copies.contains("flow.x.count: a \"replay\" flow has no copies: expected 1"), "{copies}");
    let group = FLOW.replace("to = \"b\"", "to = \"g\"");
    let group = parsed(&format!("{group}traffic = \"tcp\"\n[group.g]\nmembers = [\"b\"]\n")).expect("TOML");
    let group = group.scenario().unwrap_err().to_string();
    assert!(group.contains("flow.x.to: a \"tcp\" flow goes to one node, not to a group"), "{group}");
    let nothing = refused("");
    assert!(nothing.contains("flow.x: `traffic` is missing: expected"), "{nothing}");
    let unknown = refused("traffic = \"tpc\"\n");
    assert!(unknown.contains("flow.x.traffic") && unknown.contains("\"tcp\""), "{unknown}");
    let strange = refused("traffic = { kind = \"tcp\", payload = \"1 B\" }\n");
    assert!(strange.contains("flow.x.traffic.payload: unknown key"), "{strange}");
    let two = parsed(&format!("{FLOW}tcp = {{}}\nudp = {{}}\n")).unwrap_err();
    assert!(two.contains("flow.x.udp: conflicts with `tcp`: a flow sends one thing"), "{two}");
}

#[test]
fn a_direction_gets_what_its_link_has_before_a_part_of_it_is_set() {
    let mut document =
        parsed("rate = \"1 Mbit/s\"\nqueue = { kind = \"drop-tail\", packets = 9 }\n").expect("a file");
    document.set("link.sky.forward.queue.bytes=5 kB").expect("a key");
    let link = &scenario(&document).link["sky"];
    let forward = link.side("sky", Way::Forward).common.queue.clone().expect("a queue");
    let wanted = bentpipe_net::queue::DropTailConfig { packets: Some(9), bytes: "5 kB".parse().ok() };
    assert_eq!(forward, bentpipe_net::queue::Discipline::DropTail(wanted));
    assert_eq!(link.side("sky", Way::Return).common.queue, link.queue);
}

#[test]
fn media_are_values_of_a_sweep() {
    let file = "rate = \"1 Mbit/s\"\n[sweep]\n\"link.sky.return.medium\" = [\"line\", { kind = \"dama\", carrier = \"skyplex\" }]\n";
    let document = parsed(file).expect("a file");
    let words = [0, 1].map(|point| {
        let scenario = document.scenario_at(&[point]).unwrap_or_else(|refusal| panic!("{refusal}"));
        scenario.link["sky"].side("sky", Way::Return).medium.word()
    });
    assert_eq!(words, ["line", "dama"]);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let two = parsed("dama = { carrier = \"skyplex\" }\nwifi = {}\n").unwrap_err();
    assert!(
        two.contains("sky.toml:13:1: link.sky.wifi: conflicts with `dama`: a link has one medium"),
        "{two}"
    );
    let both = parsed("medium = \"wifi\"\nvc = {}\n").unwrap_err();
    assert!(both.contains("sky.toml:13:1: link.sky.vc: conflicts with `medium`"), "{both}");
    let refused = |rest: &str| parsed(rest).expect("TOML").scenario().unwrap_err().to_string();
    let shared = refused("rate = \"1 Mbit/s\"\nforward.medium = \"wifi\"\n");
    assert!(shared.contains("link.sky.forward.medium: both directions share a \"wifi\""), "{shared}");
    let unknown = refused("medium = { kind = \"wify\" }\n");
    assert!(
        unknown.contains("link.sky.medium.kind") && unknown.contains("did you mean \"wifi\"?"),
        "{unknown}"
    );
    let strange = refused("medium = { kind = \"wifi\", carrier = \"skyplex\" }\n");
    assert!(strange.contains("sky.toml:12:27: link.sky.medium.carrier: unknown key"), "{strange}");
    let mut document = parsed("medium = \"wifi\"\n").expect("a file");
    let other = document.set("link.sky.dama.cra=1 kbit/s").unwrap_err().to_string();
    assert!(other.contains("`link.sky.medium` is \"wifi\""), "{other}");
}

#[test]
fn renamed_keys_are_noted_set_and_swept() {
    let channel = |key: &str| format!("channel = {{ kind = \"trace\", {key} = {{ loss = 0.1 }} }}\n");
    let link = |versions: &str, bss: &str, trace: &str| {
        format!("{versions} = \"ipv4\"\nmedium = {{ kind = \"wifi\", {bss} = \"x\" }}\n{}", channel(trace))
    };
    let flow = |window: &str, control: &str| {
        format!(
            "[flow.x]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"tcp\", {window} = \"decay\" }}\n\
             [flow.y]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"tfrc\", payload = \"100 B\", control = {{ {control} = \"rfc3448\" }} }}\n"
        )
    };
    let before =
        parsed(&(link("carries", "cell", "stand_in") + &flow("unused_window", "edition"))).expect("a file");
    let after = parsed(&(link("ip_versions", "bss", "synthetic") + &flow("window_validation", "revision")));
    let after = after.expect("a file");
    assert_eq!(scenario(&before), scenario(&after));
    assert!(after.notes().is_empty());
    let notes = before.notes().join("\n");
    for note in [
        "link.sky.carries is an older spelling of link.sky.ip_versions",
        "link.sky.medium.cell is an older spelling of link.sky.medium.bss",
        "link.sky.channel.stand_in is an older spelling of link.sky.channel.synthetic",
        "flow.x.traffic.unused_window is an older spelling of flow.x.traffic.window_validation",
        "flow.y.traffic.control.edition is an older spelling of flow.y.traffic.control.revision",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
    // In options and sweeps, alone or in a value.
    let mut set = parsed(&(link("ip_versions", "bss", "synthetic") + &flow("window_validation", "revision")))
        .expect("a file");
    let mut now = set.clone();
    for (older, present) in [
        ("link.sky.wifi.cell=y", "link.sky.medium.bss=y"),
        (
            "link.sky.forward.channel={ kind = \"trace\", stand_in = { loss = 0.2 } }",
            "link.sky.forward.channel={ kind = \"trace\", synthetic = { loss = 0.2 } }",
        ),
        (
            "sweep.link.sky.channel.stand_in.loss=[0.3, 0.4]",
            "sweep.link.sky.channel.synthetic.loss=[0.3, 0.4]",
        ),
        ("flow.x.tcp.unused_window=restart", "flow.x.traffic.window_validation=restart"),
        ("flow.y.tfrc.control.edition=rfc5348", "flow.y.traffic.control.revision=rfc5348"),
    ] {
        set.set(older).unwrap_or_else(|refusal| panic!("{refusal}"));
        now.set(present).unwrap_or_else(|refusal| panic!("{refusal}"));
    }
    assert_eq!(ends(&set), ends(&now));
    assert_eq!(current_key("link.sky.return.wifi.cell"), "link.sky.return.medium.bss");
    assert_eq!(current_key("flow.y.tfrc.control.edition"), "flow.y.traffic.control.revision");
    // Both spellings at once.
    let both = parsed("carries = \"ipv4\"\nip_versions = \"ipv6\"\n").expect_err("two spellings");
    assert!(both.contains("link.sky.carries: conflicts with `ip_versions`"), "{both}");
}
