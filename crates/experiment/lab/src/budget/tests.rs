use bentpipe_scenario::Document;

use super::*;

const ATM: &str = r#"
title = "TCP over ATM"
duration = "60 s"
[node.a]
[node.b]
[link.atm]
between = ["a", "b"]
rate = "155.52 Mbit/s"
delay = "270 ms"
framing = { kind = "aal5-llc-snap", sdh = true }
carries = "ipv4"
queue = { kind = "drop-tail", bytes = "1 MB" }
[tunnel.t]
between = ["a", "b"]
[flow.six]
from = "a"
to = "b"
ip = 6
traffic = { kind = "tcp", receive_buffer = "6 MB", timestamps = false, mss = "9100 B" }
[flow.voice]
from = "b"
to = "a"
count = 10
traffic = { kind = "udp", pattern = { kind = "constant", interval = "20 ms" }, payload = "45 B" }
"#;

fn budget(text: &str) -> Budget {
    let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
    let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    Budget::new(&scenario).expect("ways")
}

#[test]
fn copies_of_a_line_are_not_shared() {
    let text = "title = \"t\"\nduration = \"9 s\"\nnode.hub = {}\nnode.home = { count = 4 }\n\
        link.access = { between = [\"hub\", \"home\"], rate = \"4 Mbit/s\", delay = \"50 ms\" }\n\
        flow.web = { from = \"hub\", to = \"home\", traffic = \"tcp\" }\n";
    let web = &budget(text).flows[0];
    assert_eq!(web.fair_share, web.ceiling);
    assert!(!web.warnings.iter().any(|warning| warning.contains("share")), "{:?}", web.warnings);
}

#[test]
fn a_proxy_that_splits_a_flow_is_named() {
    let text = |state: &str, link: &str| {
        format!(
            "title = \"t\"\nduration = \"2 s\"\nnode.a = {{}}\nnode.c = {{}}\n\
            node.b = {{ kind = \"router\", role = {{ kind = \"pep\", link = \"{link}\", state = \"{state}\" }} }}\n\
            link.core = {{ between = [\"a\", \"b\"], rate = \"1 Gbit/s\", delay = \"1 ms\" }}\n\
            link.space = {{ between = [\"b\", \"c\"], rate = \"100 Mbit/s\", delay = \"300 ms\" }}\n\
            flow.web = {{ from = \"a\", to = \"c\", traffic = {{ kind = \"tcp\", receive_buffer = \"64 kB\" }} }}\n\
            flow.voice = {{ from = \"a\", to = \"c\", traffic = {{ kind = \"voice\", codec = \"g729\" }} }}\n"
        )
    };
    let is_split = |warning: &String| warning.starts_with("the proxy of b splits it in front of space:");
    let is_window = |warning: &String| warning.starts_with("the window of 64 kB limits it");
    for (state, splits) in [("on", true), ("draining", false)] {
        let budget = budget(&text(state, "space"));
        let [web, voice] = [&budget.flows[0].warnings, &budget.flows[1].warnings];
        assert_eq!((web.iter().any(is_split), web.iter().any(is_window)), (splits, !splits), "{web:?}");
        assert!(!voice.iter().any(is_split), "{voice:?}");
    }
}

#[test]
fn terminals_share_their_carrier() {
    let text = |count| {
        format!(
            "title = \"t\"\nduration = \"9 s\"\nnode.hub = {{}}\nnode.home = {{ count = {count} }}\n\
             carrier.r = {{ preset = \"skyplex\" }}\n\
             link.access = {{ between = [\"home\", \"hub\"], delay = \"250 ms\", return.rate = \"1 Mbit/s\", \
             forward.medium = {{ kind = \"dama\", carrier = \"r\", cra = \"44 kbit/s\", rbdc = \"1 Mbit/s\" }} }}\n\
             flow.up = {{ from = \"home\", to = \"hub\", traffic = \"tcp\" }}\n"
        )
    };
    let (few, many) = (budget(&text(2)), budget(&text(10)));
    let [few, many] = [&few, &many].map(|budget| (&budget.terminals[0], &budget.flows[0]));
    let share = many.0.share.as_bps() as f64 / many.0.most.as_bps() as f64;
    assert!(share < 0.9, "the carrier is contended: {share}");
    let expected = many.1.ceiling.as_bps() as f64 * share;
    assert!((many.1.fair_share.as_bps() as f64 / expected - 1.0).abs() < 1e-3);
    let named =
        |flow: &FlowBudget| flow.warnings.iter().any(|warning| warning.contains("terminals share carrier r"));
    assert!(named(many.1), "{:?}", many.1.warnings);
    assert!(few.0.share < few.0.most || few.1.fair_share == few.1.ceiling);
}

/// Each protocol of a translator has port numbers, for which all ends inside contend that are there at a time.
#[test]
fn port_numbers_of_a_translator_are_counted_for_all_flows() {
    let text = |ports: u32, flows: &str| {
        format!(
            "title = \"t\"\nduration = \"900 s\"\nnode.server = {{}}\nnode.pc = {{ count = 5 }}\n\
            node.gw = {{ kind = \"router\", role = {{ kind = \"nat\", inside = [\"lan\"], ports = {ports} }} }}\n\
            link.sat = {{ between = [\"server\", \"gw\"], rate = \"10 Mbit/s\" }}\n\
            link.lan = {{ between = [\"gw\", \"pc\"], rate = \"100 Mbit/s\" }}\n{flows}"
        )
    };
    let download = "flow.dl = { from = \"server\", to = \"pc\", traffic = { kind = \"tcp\", opened_by = \"receiver\" }, \
        application = { kind = \"bulk\", size = \"100 kB\" } }\n";
    let datagrams = |name: &str, keys: &str| {
        format!(
            "flow.{name} = {{ from = \"pc\", to = \"server\", {keys} traffic = {{ kind = \"udp\", \
            pattern = {{ kind = \"constant\", interval = \"1 s\" }}, payload = \"100 B\" }} }}\n"
        )
    };
    let notes = |text: &str| {
        let flows = budget(text).flows;
        let of = |flow: &FlowBudget| {
            flow.warnings.iter().find(|note| note.contains("port numbers")).cloned().unwrap_or_default()
        };
        flows.iter().map(of).collect::<Vec<_>>()
    };
    let few = "the translator of gw has 3 port numbers for its 5 ends: those that get none get nothing";
    assert_eq!(notes(&text(3, download)), [few]);
    assert_eq!(notes(&text(5, download)), [""]);
    // Datagrams have others than connections.
    let both = datagrams("u", "") + &datagrams("v", "");
    let shared = "the translator of gw has 7 port numbers for the 10 ends of u, v: what those send that get none is dropped";
    assert_eq!(notes(&text(7, &format!("{download}{both}"))), ["", shared, shared]);
    // A number is kept for 300 s behind the last datagram.
    for (start, note) in [("200 s", shared), ("500 s", "")] {
        let later = datagrams("u", "stop = \"100 s\",") + &datagrams("v", &format!("start = \"{start}\","));
        assert_eq!(notes(&text(7, &later)), [note; 2]);
    }
}

/// Returns the notes of a budget on who shares a resource.
fn shares(budget: &Budget) -> Vec<&str> {
    let all = budget.flows.iter().flat_map(|flow| &flow.warnings);
    all.filter_map(|warning| warning.contains(" flows share ").then_some(&warning[..])).collect()
}

#[test]
fn stations_share_their_wifi_cell() {
    let text = |bss: &str| {
        format!(
            "title = \"t\"\nduration = \"9 s\"\n[node.ap]\nkind = \"router\"\n[node.laptop]\ncount = 4\n[node.desk]\n\
             [link.wlan]\nbetween = [\"ap\", \"laptop\"]\nmedium = {{ kind = \"wifi\"{bss} }}\n\
             [link.bench]\nbetween = [\"ap\", \"desk\"]\nmedium = {{ kind = \"wifi\"{bss} }}\n\
             [flow.down]\nfrom = \"ap\"\nto = \"laptop\"\ntraffic = \"tcp\"\n\
             [flow.up]\nfrom = \"desk\"\nto = \"laptop.1\"\ntraffic = \"tcp\"\n"
        )
    };
    let one = budget(&text(", bss = \"hall\""));
    // The upload crosses the cell twice.
    let all = "6 flows share cell hall: down (4), up (2)";
    assert_eq!(shares(&one), [all, all]);
    assert_eq!(one.flows[0].fair_share, one.flows[0].ceiling.mul_f64(1.0 / 6.0));
    let apart = budget(&text(""));
    // The upload has a cell of its own first, and the common one limits it.
    assert_eq!(shares(&apart), ["2 flows share wlan: down, up"; 2]);
}

#[test]
fn stations_share_both_directions_of_a_wimax_cell() {
    let text = "title = \"t\"\nduration = \"9 s\"\n[node.base]\nkind = \"router\"\n[node.house]\ncount = 5\n[cell.hill]\n\
        [link.radio]\nbetween = [\"base\", \"house\"]\nmedium = { kind = \"wimax\", cell_name = \"hill\" }\n\
        [flow.up]\nfrom = \"house\"\nto = \"base\"\ntraffic = { kind = \"udp\", pattern = { kind = \"constant-rate\", rate = \"1 Mbit/s\" }, payload = \"1000 B\" }\n";
    assert_eq!(shares(&budget(text)), ["5 flows share cell hill uplink: up (5)"]);
}

#[test]
fn aal5_is_counted_to_the_byte() {
    let budget = budget(ATM);
    let forward = &budget.links[0];
    // 9100 + TCP 20 + IPv6 40 + IPv4 20 + LLC/SNAP 8 + trailer 8 = 9196: 192 cells hold 9216.
    assert_eq!(
        (forward.packet, forward.cells, forward.padding),
        (Bytes::new(9180), Some(192), Some(Bytes::new(20)))
    );
    assert_eq!(forward.usable, Rate::from_bps(149_760_000));
    let six = &budget.flows[0];
    let expected = 149_760_000.0 * 9100.0 / (192.0 * 53.0);
    assert!((six.ceiling.as_bps() as f64 - expected).abs() < 2.0, "{}", six.ceiling);
    assert_eq!((six.mtu, six.payload, six.packet), (Bytes::new(9160), Bytes::new(9100), Bytes::new(9160)));
}

#[test]
fn what_tcp_needs_follows_from_the_round_trip() {
    let budget = budget(ATM);
    let six = &budget.flows[0];
    let tcp = six.tcp.as_ref().expect("TCP");
    let rtt = six.min_rtt.expect("TCP").as_secs_f64();
    assert!((0.540..0.542).contains(&rtt), "{rtt}");
    let needed = six.ceiling.as_bps() as f64 * rtt / 8.0;
    assert!((tcp.window_needed.get() as f64 - needed).abs() < 2.0);
    assert_eq!(tcp.window_allowed, Bytes::new(6_000_000));
    let limit = 6e6 * 8.0 / rtt;
    assert!((tcp.window_limit.as_bps() as f64 / limit - 1.0).abs() < 1e-6);
    assert_eq!(six.warnings.len(), 2, "{:?}", six.warnings);
    // An ACK for two segments: 1.5 windows in a round trip, after the handshake.
    let rounds = 1.0 + (6e6_f64 / 91_000.0).ln() / 1.5_f64.ln();
    let slow_start = tcp.slow_start.expect("it grows").as_secs_f64();
    assert!((slow_start / rtt - rounds).abs() < 1.0, "{slow_start}");
}

#[test]
fn udp_offers_what_its_pattern_says() {
    let voice = &budget(ATM).flows[1];
    assert_eq!(voice.offered, Some(Rate::from_bps(18_000)));
    assert_eq!((voice.packet, voice.min_rtt), (Bytes::new(73), None));
}

#[test]
fn the_text_says_it_all() {
    let text = budget(ATM).to_string();
    for part in
        ["atm forward", "192 cells, 20 B padding", "Flow six: a - b", "133.9", "note: the window of 6 MB"]
    {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn a_virtual_channel_has_what_its_lines_and_its_service_leave() {
    let network = |service: &str| {
        format!(
            r#"
title = "t"
duration = "1 s"
node.a = {{}}
node.b = {{}}
atm.switch.s = {{}}
atm.line.up = {{ between = ["a", "s"], rate = "155.52 Mbit/s", delay = "2 ms" }}
atm.line.down = {{ between = ["s", "b"], rate = "155.52 Mbit/s", sdh = true, delay = "3 ms" }}
link.path = {{ between = ["a", "b"], vc = {{ {service} }} }}
flow.bulk = {{ from = "a", to = "b", traffic = {{ kind = "tcp", mss = "512 B", timestamps = false }} }}
"#
        )
    };
    let of = |service: &str| {
        let link = budget(&network(service)).links[0].clone();
        (link.cells, link.padding.map(Bytes::get), link.capacity.as_bps(), link.delay)
    };
    let capacity = |rate: f64, cells: f64| (rate * 552.0 / (53.0 * cells)) as u64;
    let delay = Span::from_millis(5);
    // 552 B of IP are 12 cells with LLC/SNAP, and without as well: 568 and 560 of 576 B.
    assert_eq!(of(""), (Some(12), Some(8), capacity(149.76e6, 12.0), delay));
    assert_eq!(of("encapsulation = \"vc-mux\""), (Some(12), Some(16), capacity(149.76e6, 12.0), delay));
    let peak = "service = { kind = \"ubr\", pcr = \"10 Mbit/s\" }";
    assert_eq!(of(peak), (Some(12), Some(8), capacity(10e6, 12.0), delay));
    // One cell in 32 is an RM cell.
    let abr = "service = { kind = \"abr\" }";
    assert_eq!(of(abr), (Some(12), Some(8), capacity(149.76e6 / 32.0 * 31.0, 12.0), delay));
}

/// A window far beyond the bandwidth-delay product fills a long queue: the delay is named, and a limit proposed.
#[test]
fn a_queue_that_is_too_long_is_named() {
    let text = |queue: &str| {
        format!(
            "title = \"x\"\nduration = \"10 s\"\n[node.a]\n[node.b]\n[link.x]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n\
             delay = \"250 ms\"\n{queue}\n[flow.up]\nfrom = \"a\"\nto = \"b\"\n\
             traffic = {{ kind = \"tcp\", send_buffer = \"4 MB\", receive_buffer = \"4 MB\" }}\n"
        )
    };
    let note = |queue: &str| {
        let warnings = budget(&text(queue)).flows.remove(0).warnings;
        warnings.into_iter().find(|warning| warning.contains("wait in the queue of"))
    };
    // 1000 packets, or 4 MB less the 60 kB in flight, at 0.96 Mbit/s.
    for (queue, seconds) in [("", " 12."), ("queue = { kind = \"drop-tail\", bytes = \"64 MB\" }", " 32.")] {
        let note = note(queue).expect("a note");
        assert!(note.contains("x forward") && note.contains(seconds), "{note}");
    }
    assert_eq!(note("queue = { kind = \"drop-tail\", packets = 50 }"), None);
}

/// GSM streams over 8 Mbit/s of bridged ULE, with header compression. The publication's equations 14 and 15.
fn streams(count: u32, rohc: &str) -> CompressedFlow {
    let budget = budget(&format!(
        "title = \"t\"\nduration = \"9 s\"\nnode.a = {{}}\nnode.b = {{}}\n\
         dvb.up = {{ kind = \"transport-stream\", rate = \"8 Mbit/s\" }}\n\
         link.sky = {{ between = [\"a\", \"b\"], delay = \"250 ms\", medium = {{ kind = \"dvb\", line = \"up\", pid = \"0x201\", \
         packing = \"1 ms\", bridged = true, rohc = {{ {rohc} }} }} }}\n\
         flow.calls = {{ from = \"a\", to = \"b\", count = {count}, ip = 6, traffic = {{ kind = \"udp\", \
         pattern = {{ kind = \"constant\", interval = \"20 ms\" }}, payload = \"45 B\", header = \"rtp\", shared_ports = true }} }}\n"
    ));
    budget.flows[0].compressed[0].clone()
}

const REFRESHED: &str = "cid = \"large\", contexts = 16384, refresh = 350, refresh_repeats = 3, repeats = 3, \
                         dynamic_refresh = 0, confirm = 0";

#[test]
fn compressed_streams_fit_as_published() {
    // The publication's average header is 2 B longer.
    for (profiles, published) in [("[\"ip\", \"rtp\"]", 314.0), ("[\"ip\"]", 249.0)] {
        let flow = streams(published as u32, &format!("profiles = {profiles}, {REFRESHED}"));
        let room = flow.room.expect("a rate") as f64;
        assert!((room / published - 1.0).abs() < 0.03, "{profiles}: {room} for {published}");
        assert_eq!(flow.lengths.packet_bytes, 93.0);
        // 22 B around each, and 188 B of TS for 183.
        let on_line = (flow.lengths.compressed_bytes + 22.0) * 188.0 / 183.0;
        assert!((flow.lengths.on_line_bytes - on_line).abs() < 1e-6, "{flow:?}");
    }
}

#[test]
fn cids_and_too_few_contexts_count() {
    let compressed = |count, rohc: &str| streams(count, rohc).lengths.compressed_bytes;
    let alone = compressed(1, "profiles = [\"rtp\"], confirm = 0");
    let few = compressed(10, "profiles = [\"rtp\"], confirm = 0");
    assert!((few - alone - 0.9).abs() < 1e-6, "nine of ten have an octet of CID: {alone}, {few}");
    // Flows that take each other's contexts begin anew with each packet.
    let crowded = compressed(17, "profiles = [\"rtp\"]");
    assert!(crowded > few + 5.0, "{few}, {crowded}");
}

/// Rover, orbiter and Earth with a plan of two contacts.
fn relay(rest: &str) -> Budget {
    budget(&format!(
        r#"
title = "t"
duration = "5000 s"
node.rover = {{ role = {{ kind = "dtn", network = "mars" }} }}
node.orbiter = {{ kind = "satellite", role = {{ kind = "dtn", network = "mars" }} }}
node.earth = {{ role = {{ kind = "dtn", network = "mars" }} }}
link.near = {{ between = ["rover", "orbiter"], rate = "1 Mbit/s" }}
link.far = {{ between = ["orbiter", "earth"], rate = "256 kbit/s", delay = "760 s" }}
[dtn.mars]
plan = """
a range +0 +9000 rover orbiter 0.5
a range +0 +9000 orbiter earth 760
a contact +600 +1200 rover orbiter 100000
a contact +1800 +2000 orbiter earth 32000
a contact +3000 +3100 orbiter earth 32000
"""
[flow.measures]
from = "rover"
to = "earth"
{rest}"#
    ))
}

#[test]
fn contact_plans_have_their_capacity_and_bundles_their_arrival() {
    let rest = "start = \"100 s\"\nstop = \"200 s\"\n\
        traffic = { kind = \"bundles\", payload = \"945 B\", interval = \"1 s\", lifetime = \"1 d\" }\n";
    let relay = relay(rest);
    let pairs: Vec<_> =
        relay.contacts.iter().map(|pair| (&pair.from[..], &pair.to[..], pair.contacts)).collect();
    assert_eq!(pairs, [("rover", "orbiter", 1), ("orbiter", "earth", 2)]);
    let capacities: Vec<u64> = relay.contacts.iter().map(|pair| pair.capacity.get()).collect();
    assert_eq!(capacities, [60_000_000, 300 * 32_000]);
    assert_eq!(relay.contacts[1].open, Span::from_secs(300));
    // By the end of the first contact behind its stop, 1900 s from its start on: 6400 bundles, and one that has begun.
    let most = 6401.0 * 945.0 * 8.0 / 1900.0;
    let flow = &relay.flows[0];
    assert!((flow.ceiling.as_bps() as f64 - most).abs() < 2.0, "{} {most}", flow.ceiling);
    assert_eq!(flow.bottleneck, "contacts from orbiter to earth");
    let bundles = &relay.bundles[0];
    assert_eq!((bundles.bundles, bundles.offered.get()), (100, 100_000));
    assert_eq!(bundles.warnings, Vec::<String>::new());
    let first = bundles.first.as_ref().expect("a route");
    assert_eq!(first.path, ["rover", "orbiter", "earth"]);
    assert_eq!(first.ready, Span::from_secs(100));
    // The next contact, the transmission of some 1000 B and the light time, at each hop.
    let best = 1800.0 + 1000.0 / 32_000.0 + 760.0;
    assert!((first.at.as_secs_f64() - best).abs() < 0.01, "{} {best}", first.at);
    let text = relay.to_string();
    assert!(text.contains("arrives at 2560.0 s by rover - orbiter - earth"), "{text}");
}

#[test]
fn forecasts_keep_to_the_routing_of_their_network() {
    let routing = |routing: &str| {
        let text = format!(
            r#"
title = "t"
duration = "5000 s"
node.rover = {{ role = {{ kind = "dtn", network = "mars" }} }}
node.one = {{ kind = "satellite", role = {{ kind = "dtn", network = "mars" }} }}
node.two = {{ kind = "satellite", role = {{ kind = "dtn", network = "mars" }} }}
node.earth = {{ role = {{ kind = "dtn", network = "mars" }} }}
link.a = {{ between = ["rover", "one"], rate = "1 Mbit/s" }}
link.b = {{ between = ["one", "two"], rate = "1 Mbit/s" }}
link.c = {{ between = ["two", "earth"], rate = "1 Mbit/s" }}
link.d = {{ between = ["rover", "earth"], rate = "1 Mbit/s" }}
[dtn.mars]
routing = {{ kind = {routing} }}
plan = """
a range +0 +9000 rover one 1
a range +0 +9000 one two 1
a range +0 +9000 two earth 1
a range +0 +9000 one earth 1
a range +0 +9000 rover earth 1
a contact +0 +100 rover one 1000
a contact +200 +300 one two 1000
a contact +400 +500 two earth 1000
a contact +600 +700 one earth 1000
a contact +800 +900 rover earth 1000
"""
[flow.measures]
from = "rover"
to = "earth"
traffic = {{ kind = "bundles", payload = "945 B", interval = "1 s", bundles = 1, lifetime = "1 d" }}
"#
        );
        let budget = budget(&text);
        budget.bundles[0].first.clone().map(|first| (first.at.as_secs_f64().round(), first.path.join("-")))
    };
    let way = |at: f64, path: &str| Some((at, path.to_owned()));
    // A bundle of 1000 B takes a second in a contact, and another for the light.
    let best = way(402.0, "rover-one-two-earth");
    assert_eq!(routing("\"contact-graph\""), best);
    assert_eq!(routing("\"epidemic\""), best);
    assert_eq!(routing("\"spray-and-wait\", copies = 4"), best);
    // Two copies: the source gives one away, and it waits for Earth. So does a copy of the source's at any number of them.
    let one = way(602.0, "rover-one-earth");
    assert_eq!(routing("\"spray-and-wait\", copies = 3"), one);
    assert_eq!(routing("\"spray-and-wait\", copies = 9, binary = false"), one);
    assert_eq!(routing("\"spray-and-wait\", copies = 1"), way(802.0, "rover-earth"));
    let routes = |routes: &str| routing(&format!("\"static\", routes = {{ {routes} }}"));
    assert_eq!(routes("rover = { earth = \"earth\" }"), way(802.0, "rover-earth"));
    assert_eq!(routes("rover = { default = \"one\" }, one = { earth = \"earth\" }"), one);
    assert_eq!(routes("rover = { default = \"one\" }"), None, "nothing leads on");
}

/// Returns the warnings of bundles over 200 s, with the lines of their network and keys of their traffic.
fn warnings_over_200_s(network: &str, traffic: &str) -> String {
    let text = format!(
        r#"
title = "t"
duration = "5000 s"
node.orbiter = {{ role = {{ kind = "dtn", network = "mars" }} }}
node.earth = {{ role = {{ kind = "dtn", network = "mars" }} }}
link.far = {{ between = ["orbiter", "earth"], rate = "256 kbit/s", delay = "200 s" }}
[dtn.mars]
{network}
plan = """
a range +0 +9000 orbiter earth 200
a contact +0 +9000 orbiter earth 32000
a contact +0 +9000 earth orbiter 32000
"""
[flow.measures]
from = "orbiter"
to = "earth"
traffic = {{ kind = "bundles", {traffic}, lifetime = "1 d" }}
"#
    );
    budget(&text).bundles[0].warnings.join("; ")
}

#[test]
fn sessions_that_cannot_open_over_the_light_time_are_reported() {
    let traffic = "payload = \"945 B\", interval = \"1 s\", bundles = 1";
    let warnings = |tcp: &str| warnings_over_200_s(&format!("layer = \"tcpcl\"\n{tcp}"), traffic);
    // 1 s + 2 s + ... + 60 s.
    let short = warnings("");
    assert!(short.contains("TCP gives up after 123 s, and an answer from earth takes 400 s"), "{short}");
    assert_eq!(warnings("tcp = { syn_retries = 12 }"), "");
}

#[test]
fn blocks_of_ltp_are_to_fill_the_round_trip() {
    let traffic = "payload = \"100 B\", interval = \"100 ms\", bundles = 9";
    let warnings = |ltp: &str| warnings_over_200_s(&format!("layer = \"ltp\"\n{ltp}"), traffic);
    let few = warnings("ltp = { sessions = 256 }");
    assert!(
        few.contains("256 blocks of LTP at a time are fewer") && few.contains("`ltp.sessions` of 4010"),
        "{few}"
    );
    assert_eq!(warnings("ltp = { sessions = 4010 }"), "");
    assert_eq!(warnings(""), "");
    // Seven bundles of 155 B fill a block of 1000 B.
    let several = |sessions: u32| {
        warnings(&format!("ltp = {{ sessions = {sessions}, aggregate = {{ bytes = \"1000 B\" }} }}"))
    };
    assert_eq!(several(573), "");
    assert!(several(572).contains("`ltp.sessions` of 573"), "{}", several(572));
}

#[test]
fn reports_of_ltp_are_to_fit_the_way_back() {
    let check = |ltp: &str, back: &str| {
        let text = format!(
            "title = \"t\"\nduration = \"1000 s\"\nnode.orbiter = {{ role = {{ kind = \"dtn\", network = \"mars\" }} }}\n\
             node.earth = {{ role = {{ kind = \"dtn\", network = \"mars\" }} }}\n\
             link.far = {{ between = [\"orbiter\", \"earth\"], rate = \"256 kbit/s\", delay = \"2 s\" }}\n\
             dtn.mars = {{ layer = \"ltp\"{ltp}, plan = \"\"\"\na range +0 +1000 orbiter earth 2\n\
             a contact +0 +1000 orbiter earth 32000\na contact +0 +1000 earth orbiter {back}\n\"\"\" }}\n\
             flow.m = {{ from = \"orbiter\", to = \"earth\", stop = \"900 s\", count = 2, traffic = {{ kind = \"bundles\", \
             payload = \"100 B\", interval = \"100 ms\", lifetime = \"1 d\" }} }}\n"
        );
        budget(&text).bundles[0].warnings.join("; ")
    };
    // Twice 9000 bundles, with 53 B of a report each; seven of 155 B are in a block of 1000 B.
    let few = check("", "500");
    assert!(
        few.contains("reports of LTP take 954 kB, and contacts from earth to orbiter carry 500 kB"),
        "{few}"
    );
    assert_eq!(check("", "1000"), "");
    assert_eq!(check(", ltp = { aggregate = { bytes = \"1000 B\" } }", "500"), "");
}

#[test]
fn bundles_that_do_not_fit_their_plan_are_reported() {
    let traffic = |payload, interval, lifetime| {
        format!(
            "traffic = {{ kind = \"bundles\", payload = \"{payload} B\", interval = \"{interval} ms\", \
             lifetime = \"{lifetime} s\" }}\n"
        )
    };
    let warnings = |rest: &str| relay(rest).bundles[0].warnings.join("; ");
    let much = warnings(&traffic(10_000, 500, 90_000));
    assert!(much.contains("contacts from orbiter to earth carry 9.6 MB"), "{much}");
    assert!(much.contains("no route takes the last bundle within its lifetime"), "{much}");
    assert!(!much.contains("first"), "{much}");
    let old = warnings(&traffic(100, 1000, 60));
    assert!(old.contains("no route takes the first bundle within its lifetime"), "{old}");
    let late = warnings(&format!("start = \"1190 s\"\nstop = \"1191 s\"\n{}", traffic(100, 1000, 90_000)));
    assert_eq!(late, "");
}

/// A call in a cell, with keys of its medium.
fn cell(more: &str) -> Budget {
    budget(&format!(
        "title = \"t\"\nduration = \"9 s\"\nnode.base = {{}}\nnode.house = {{}}\ncell.hill = {{}}\n\
        link.radio = {{ between = [\"base\", \"house\"], medium = {{ kind = \"wimax\", cell_name = \"hill\"{more} }} }}\n\
        flow.call = {{ from = \"house\", to = \"base\", traffic = {{ kind = \"voice\", codec = \"g729\" }} }}\n"
    ))
}

#[test]
fn both_directions_of_a_call_have_its_packets() {
    let lengths: Vec<Bytes> = cell("").links.iter().map(|link| link.packet).collect();
    assert_eq!(lengths, [Bytes::new(60); 2], "20 bytes behind IP, UDP and RTP");
}

#[test]
fn a_cell_counts_compressed_headers() {
    let plain = cell("");
    assert!(plain.flows[0].compressed.is_empty());
    for mode in ["unidirectional", "optimistic", "reliable"] {
        let rohc =
            format!(", uplink = [{{ rohc = {{ mode = \"{mode}\" }} }}], downlink = [{{ rohc = {{}} }}]");
        let with = cell(&rohc);
        let [on] = &with.flows[0].compressed[..] else { panic!("one link") };
        let lengths = on.lengths;
        assert!(
            lengths.packet_bytes == 60.0 && (22.0..25.0).contains(&lengths.compressed_bytes),
            "{lengths:?}"
        );
        // Header of 6 and CRC of 4 bytes.
        assert!((lengths.on_line_bytes - lengths.compressed_bytes - 10.0).abs() < 1e-9, "{lengths:?}");
        let gain = with.flows[0].ceiling.as_bps() as f64 / plain.flows[0].ceiling.as_bps() as f64;
        assert!((gain * lengths.on_line_bytes / 70.0 - 1.0).abs() < 0.01, "{gain}");
    }
}

mod over_time;
mod voice;

#[test]
fn a_flow_through_a_proxy_of_bundles_has_a_budget_on_each_side() {
    let text = "title = \"t\"\nduration = \"100 s\"\nnode.sink = {}\n\
        node.orbiter = { kind = \"router\", role = { kind = \"dtn\", network = \"n\" } }\n\
        node.earth = { role = { kind = \"dtn\", network = \"n\" } }\n\
        dtn.n = { layer = \"udp\", plan = \"a contact +0 +900 orbiter earth 8000\" }\n\
        link.near = { between = [\"sink\", \"orbiter\"], rate = \"64 kbit/s\", delay = \"1 s\" }\n\
        link.far = { between = [\"orbiter\", \"earth\"], rate = \"64 kbit/s\", delay = \"200 s\" }\n\
        flow.measures = { from = \"sink\", to = \"earth\", traffic = { kind = \"bundles\", payload = \"25 B\", \
        interval = \"100 ms\", through = { node = \"orbiter\" } } }\n";
    let budget = budget(text);
    let [near, far] = &budget.flows[..] else { panic!("{:?}", budget.flows) };
    assert_eq!([&near.path[..], &far.path[..]], [["sink", "orbiter"], ["orbiter", "earth"]]);
    // 20 B of IP, 20 B of TCP and 12 B of time stamps.
    assert_eq!((near.payload.get(), near.packet.get()), (25, 25 + 52));
    assert_eq!(
        near.min_rtt.expect("TCP"),
        Span::from_secs(2) + Rate::from_bps(64_000).span_of(Bytes::new(77 + 52))
    );
    assert!(near.tcp.is_some() && far.tcp.is_none() && far.min_rtt.is_none());
    assert_eq!(far.packet.get(), 25 + 55 + 28);
    assert_eq!([near.offered, far.offered], [Some(Rate::from_bps(2000)); 2]);
}

#[test]
fn a_bundle_for_two_contacts_arrives_with_the_later_of_its_parts() {
    let text = "title = \"t\"\nduration = \"100 s\"\nnode.a = { role = { kind = \"dtn\", network = \"n\" } }\n\
        node.b = { kind = \"router\", role = { kind = \"dtn\", network = \"n\" } }\n\
        node.c = { role = { kind = \"dtn\", network = \"n\" } }\n\
        dtn.n.plan = \"\"\"\na range +0 +90 a b 0\na range +0 +90 b c 0\na contact +0 +10 a b 1000\n\
        a contact +10 +11 b c 10000\na contact +20 +30 a b 1000\na contact +30 +31 b c 10000\n\"\"\"\n\
        link.x = { between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }\n\
        link.y = { between = [\"b\", \"c\"], rate = \"1 Mbit/s\" }\n\
        flow.f = { from = \"a\", to = \"c\", traffic = { kind = \"bundles\", payload = \"PAYLOAD\", interval = \"1 s\", \
        bundles = 1 } }\n";
    let last = |payload: &str| {
        let budget = budget(&text.replace("PAYLOAD", payload));
        budget.bundles[0].last.as_ref().map(|arrival| arrival.at.as_secs_f64())
    };
    // The first part fills its contact; what is left goes at 10 kB a second with 3 % and 55 B of headers.
    let second = |part: f64| 30.0 + part * 1.03 / 10_000.0;
    let at = last("15 kB").expect("two contacts have room");
    assert!((second(5000.0)..second(5800.0)).contains(&at), "{at}");
    assert_eq!(last("19.5 kB"), None);
}
