//! Recording of packets over each kind of medium, compared with the counters of the same run.

use bentpipe_assemble::Built;
use bentpipe_record::{FirstPackets, LedgerColumn, LedgerRow};
use bentpipe_scenario::Document;
use bentpipe_units::{RandomStream, Span};

use super::*;
use crate::prepared::Prepared;

/// Two flows over a medium between two hosts.
fn text(medium: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"5 s\"\nnode.a = {{}}\nnode.b = {{}}\n{medium}\n\
         [flow.web]\nfrom = \"a\"\nto = \"b\"\ntraffic = \"tcp\"\napplication = {{ kind = \"bulk\", size = \"200 kB\" }}\n\
         [flow.call]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"20 ms\" }}, \
         payload = \"32 B\", header = \"rtp\" }}\n"
    )
}

/// Counters of the forward direction and its channel after a run, and the packets recorded.
fn run(text: &str, flows: &[&str]) -> (Counters, Packets) {
    let document = Document::parse("test.toml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let scenario = document.scenario().unwrap_or_else(|error| panic!("{error}"));
    let Built { mut network, flows: handles, .. } =
        Built::new(&scenario, 1, document.access()).unwrap_or_else(|problem| panic!("{problem}"));
    let wanted: Vec<String> = flows.iter().map(|name| (*name).to_owned()).collect();
    let chosen: Vec<&FlowHandle> = handles.iter().filter(|flow| wanted.contains(&flow.name)).collect();
    let follower = Arc::new(Mutex::new(Follower::new(&network, &chosen)));
    follow(&mut network, &follower);
    let watching = Arc::clone(&follower);
    network
        .watch(move |now, at, packet, place| watching.lock().expect("alone").see(now, at, (packet, place)));
    network.run_until(Time::ZERO + scenario.duration);
    let counters = counters(&mut network);
    let ledger = LedgerRow::of(&network.close());
    let mut follower = follower.lock().expect("alone");
    follower.settle();
    let packets = std::mem::take(&mut follower.packets);
    drop(follower);
    agree(&packets, &ledger);
    (counters, packets)
}

/// Number of packets by their fate, and by the place of those that did not arrive.
type Ends = std::collections::BTreeMap<(&'static str, String), u64>;

/// Checks that the ends of packets are those in the accounts of their flows.
fn agree(packets: &Packets, ledger: &[LedgerRow]) {
    use LedgerColumn::{Copied, Delivered, Dropped, Remaining, Sent, TakenOver};
    for (n, flow) in packets.flows.iter().enumerate() {
        for (is_return, end) in [(false, "sender"), (true, "receiver")] {
            let sender = format!("flow.{}.{end}", flow.name);
            let own = format!("{sender}.rtcp");
            let rows = || ledger.iter().filter(|row| row.sender == sender || row.sender == own);
            let records = packets.records.iter();
            let records = records.filter(|record| (record.flow, record.is_return) == (n as u32, is_return));
            let of = |column| rows().filter(|row| row.column == column).map(|row| row.packets).sum::<u64>();
            // The answers of a node have no records.
            if of(Sent) == 0 || is_return && records.clone().next().is_none() {
                continue;
            }
            let name = format!("{sender}: {:#?}", rows().collect::<Vec<_>>());
            assert_eq!(records.clone().count() as u64, of(Sent), "{name}");
            let (mut recorded, mut booked) = (Ends::new(), Ends::new());
            for record in records {
                let place = match record.delivery {
                    Delivery::Arrived => String::new(),
                    _ => packets.places[record.place as usize].replace('/', "."),
                };
                *recorded.entry((record.delivery.word(), place)).or_default() += 1;
            }
            for row in rows() {
                let fate = match (row.column, &row.reason[..]) {
                    (Sent | Copied, _) => continue,
                    (Delivered, _) => Delivery::Arrived,
                    (TakenOver, _) => Delivery::TakenOver,
                    (Dropped, _) => Delivery::Lost,
                    (Remaining, "waiting") => Delivery::Waiting,
                    (Remaining, _) => Delivery::InFlight,
                };
                *booked.entry((fate.word(), row.place.clone())).or_default() += row.packets;
            }
            booked.retain(|_, packets| *packets > 0);
            if of(Copied) == 0 {
                assert_eq!(recorded, booked, "{name}");
                continue;
            }
            // Of copies one counts: what arrived once is neither lost nor on its way.
            for (end, count) in &recorded {
                assert!(booked.get(end).is_some_and(|all| all >= count), "{end:?} {count}: {name}");
            }
            let duplicates: u64 = rows().map(|row| row.duplicates).sum();
            // Receivers note duplicates of data and voice, and not of RTCP and of SIP's messages.
            if duplicates > 0 && !["sip", "voice"].contains(&&flow.name[..]) {
                let arrived = recorded.get(&("arrived", String::new())).copied().unwrap_or(0);
                assert_eq!(arrived, of(Delivered) - duplicates, "{name}");
            }
        }
    }
}

const LOSSY: &str = "[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"100 ms\"\n\
    forward.channel = { kind = \"packet-errors\", loss = 0.05 }\n\
    queue = { kind = \"drop-tail\", packets = 3 }";

#[test]
fn payload_is_what_goodput_counts() {
    // Protocol, flags and offset of fragments, byte 4 behind IP's header, and headers beyond IP's.
    let cases = [(UDP, 0, 0, 8), (UDP, 0x2000, 0, 8), (UDP, 3, 0, 0), (1, 0, 0, 0), (DCCP, 0, 6, 24)];
    for (protocol, fragment, offset, headers) in cases {
        let mut bytes = vec![0; 120];
        (bytes[0], bytes[9], bytes[24]) = (0x45, protocol, offset);
        bytes[2..4].copy_from_slice(&120_u16.to_be_bytes());
        bytes[6..8].copy_from_slice(&u16::to_be_bytes(fragment));
        let packet = Packet::from_bytes(&bytes);
        let seen = Seen::of(&packet).expect("an IP packet");
        assert_eq!(seen.payload(&packet), 100 - headers, "{protocol}, {fragment:#x}");
    }
}

#[test]
fn each_lost_packet_says_where() {
    let (counters, packets) = run(&text(LOSSY), &["web", "call"]);
    let count = |place: &str| {
        let lost = packets.records.iter().filter(|record| record.delivery == Delivery::Lost);
        lost.filter(|record| packets.places[record.place as usize] == place).count() as f64
    };
    let (queue, channel) = (counters["dropped-queue"], counters["lost"]);
    assert!(queue > 0.0 && channel > 5.0, "{queue} {channel}");
    assert_eq!((count("link/l/forward"), count("link/l/forward/channel")), (queue, channel));
    let calls = packets.records.iter().filter(|record| record.flow == 1);
    assert!(calls.clone().count() >= 249 && calls.clone().all(|call| call.payload == 32 && call.len == 60));
    let least = calls.filter_map(PacketRecord::delay).min().expect("some");
    assert_eq!(least, Span::from_micros(100_480));
}

/// Sums of counters by name.
type Counters = HashMap<&'static str, f64>;

/// Returns the sums of the counters of the forward direction and its channel at the end.
fn counters(network: &mut Network) -> Counters {
    struct Find(Counters);
    impl bentpipe_net::Observer for Find {
        fn counter(
            &mut self,
            of: &'static bentpipe_net::metric::Of<bentpipe_net::metric::Counter>,
            total: u64,
        ) {
            *self.0.entry(of.metric.name).or_default() += total as f64;
        }
        fn gauge(&mut self, _: &'static bentpipe_net::metric::Of<bentpipe_net::metric::Gauge>, _: f64) {}
    }
    let mut find = Find(Counters::new());
    let ids: Vec<ElementId> =
        network.ids().filter(|id| network.path(*id).starts_with("link/l/forward")).collect();
    ids.into_iter().for_each(|id| network.observe(id, &mut find));
    find.0
}

#[test]
fn recording_changes_nothing() {
    let document = Document::parse("test.toml", text(LOSSY).as_bytes()).expect("TOML");
    let mut scenario = document.scenario().expect("a scenario");
    let mut run = |recorded: &[String]| {
        scenario.probe.packets = recorded.to_vec();
        let built = Built::new(&scenario, 1, document.access()).expect("a network");
        let mut prepared = Prepared::new(built, false, &scenario);
        prepared.network.run_until(Time::ZERO + scenario.duration);
        (prepared.network.fingerprint(), prepared.artefacts)
    };
    let (fingerprint, artefacts) = run(&["*".to_owned()]);
    assert_eq!((run(&[]).0, run(&[]).1.len()), (fingerprint, 0));
    let files: Vec<(String, Vec<u8>)> = artefacts
        .into_iter()
        .map(|artefact| {
            let mut bytes = Vec::new();
            (artefact.write)(&mut bytes).expect("memory");
            (artefact.file, bytes)
        })
        .collect();
    assert_eq!((&files[0].0[..], &files[0].1[..4]), (PACKETS_FILE, &b"PAR1"[..]));
    let first: Vec<FirstPackets> = bentpipe_record::read_first_packets(&files[1].1[..]);
    assert_eq!(first.iter().map(|flow| flow.flow.name.as_str()).collect::<Vec<_>>(), ["web", "call"]);
    assert_eq!(first[0].packets[0].label, "SYN");
}

#[test]
fn packets_are_known_again_after_frames_and_cells() {
    let gse = "[dvb.c]\nkind = \"dvb-s2\"\nsymbol_rate = 1_000_000\n[link.l]\nbetween = [\"a\", \"b\"]\ndelay = \"100 ms\"\n\
        medium = { kind = \"dvb\", line = \"c\", encapsulation = \"gse\", rohc = { mode = \"optimistic\" } }";
    let atm = "[atm.switch.s]\n[atm.line.x]\nbetween = [\"a\", \"s\"]\nrate = \"2 Mbit/s\"\n[atm.line.y]\nbetween = [\"s\", \"b\"]\n\
        rate = \"2 Mbit/s\"\n[link.l]\nbetween = [\"a\", \"b\"]\nmedium = { kind = \"vc\" }";
    let dama = "[carrier.r]\npreset = \"skyplex\"\n[link.l]\nbetween = [\"a\", \"b\"]\ndelay = \"100 ms\"\nreturn.rate = \"1 Mbit/s\"\n\
        forward.medium = { kind = \"dama\", carrier = \"r\", cra = \"500 kbit/s\" }";
    for (name, medium) in [("gse", gse), ("atm", atm), ("dama", dama)] {
        let (_, packets) = run(&text(medium), &["call"]);
        let arrived = packets.records.iter().filter(|record| record.delivery == Delivery::Arrived).count();
        let lost = packets.records.iter().filter(|record| record.delivery == Delivery::Lost).count();
        assert!(arrived > 200 && lost == 0, "{name}: {arrived} arrived, {lost} lost");
    }
}

#[test]
fn a_request_that_a_node_answers_has_arrived_and_the_last_one_is_in_flight() {
    let ping = "title = \"t\"\nduration = \"2 s\"\nnode.a = {}\nnode.b = {}\n[link.l]\nbetween = [\"a\", \"b\"]\n\
        rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n[flow.one]\nfrom = \"a\"\nto = \"b\"\n\
        traffic = { kind = \"ping\", interval = \"100 ms\" }\n[flow.two]\nfrom = \"a\"\nto = \"b\"\ntraffic = \"ping\"\n";
    let (_, packets) = run(ping, &["one", "two"]);
    let fates = |flow: u32| {
        let of_flow = packets.records.iter().filter(|record| record.flow == flow);
        let count = |fate| of_flow.clone().filter(|record| record.delivery == fate).count();
        [Delivery::Arrived, Delivery::Lost, Delivery::Waiting, Delivery::InFlight].map(count)
    };
    // The last ones of both are sent at once.
    assert_eq!([fates(0), fates(1)], [[20, 0, 0, 1], [2, 0, 1, 0]]);
}

#[test]
fn packets_are_followed_through_translators() {
    let head = "title = \"t\"\nduration = \"5 s\"\nnode.a = {}\nnode.b = {}\n\
        node.r = { kind = \"router\", role = { kind = \"nat\", inside = [\"near\"] } }\n\
        link.near = { between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"5 ms\" }\n\
        link.far = { between = [\"r\", \"b\"], rate = \"10 Mbit/s\", delay = \"50 ms\" }\n";
    let flows = "[flow.t]\nfrom = \"a\"\nto = \"b\"\ntraffic = \"tcp\"\n\
        [flow.u]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"udp\", payload = \"100 B\", pattern = { kind = \"constant\", interval = \"10 ms\" } }\n\
        [flow.p]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"ping\", interval = \"100 ms\" }\n";
    let (_, packets) = run(&format!("{head}{flows}"), &["t", "u", "p"]);
    for (flow, is_return) in [(0, false), (0, true), (1, false), (2, false)] {
        let of_flow =
            packets.records.iter().filter(|record| (record.flow, record.is_return) == (flow, is_return));
        let arrived = of_flow.clone().filter(|record| record.delivery == Delivery::Arrived).count();
        // The queue in front of the translator has losses, and what is behind it has none.
        let is_lost_elsewhere = |record: &&PacketRecord| {
            record.delivery == Delivery::Lost && packets.places[record.place as usize] != "link/near/forward"
        };
        let lost: Vec<&PacketRecord> = of_flow.filter(is_lost_elsewhere).collect();
        assert!(arrived > 30 && lost.is_empty(), "{flow} {is_return}: {arrived} arrived, {lost:?}");
    }
}

#[test]
fn a_packet_that_its_receiver_drops_is_lost_there() {
    let damaging = "[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"100 ms\"\n\
        forward.channel = { kind = \"bit-errors\", ber = 1e-4 }";
    let (counters, packets) = run(&text(damaging), &["call"]);
    let lost = packets.records.iter().filter(|record| record.delivery == Delivery::Lost);
    let at =
        |place: &str| lost.clone().filter(|record| packets.places[record.place as usize] == place).count();
    // What identifies a packet may be damaged too.
    assert!(at("flow/call/receiver") > 3, "{}", at("flow/call/receiver"));
    assert!(at("link/l/forward/channel") + at("flow/call/receiver") <= counters["damaged"] as usize);
}

#[test]
fn packets_in_fragments_have_one_end_each() {
    let line =
        "[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"100 ms\"\nmtu = \"576 B\"\n";
    let lossy = "forward.channel = { kind = \"packet-errors\", loss = 0.1 }";
    let long = |channel: &str| text(&format!("{line}{channel}")).replace("32 B", "4000 B");
    for (channel, has_losses) in [("", false), (lossy, true)] {
        let (_, packets) = run(&long(channel), &["call"]);
        let count = |fate| packets.records.iter().filter(|record| record.delivery == fate).count();
        assert!(count(Delivery::Arrived) > 10, "{}", count(Delivery::Arrived));
        assert_eq!(count(Delivery::Lost) > 0, has_losses);
    }
}

#[test]
fn what_a_proxy_takes_over_and_what_waits_is_not_lost() {
    let proxy = "title = \"t\"\nduration = \"5 s\"\nnode.a = {}\nnode.b = {}\n\
        node.e = { kind = \"router\", role = { kind = \"pep\", link = \"far\" } }\n\
        link.near = { between = [\"a\", \"e\"], rate = \"10 Mbit/s\", delay = \"5 ms\" }\n\
        link.far = { between = [\"e\", \"b\"], rate = \"1 Mbit/s\", delay = \"250 ms\" }\n\
        [flow.t]\nfrom = \"a\"\nto = \"b\"\ntraffic = \"tcp\"\napplication = { kind = \"bulk\", size = \"100 kB\" }\n";
    let (_, packets) = run(proxy, &["t"]);
    let count = |fate| packets.records.iter().filter(|record| record.delivery == fate).count();
    assert_eq!(count(Delivery::Lost), 0);
    assert!(count(Delivery::TakenOver) > 60, "{}", count(Delivery::TakenOver));
    let down = "[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"100 ms\"\n\
        queue = { kind = \"drop-tail\", packets = 20 }\n\
        [[event]]\nat = \"3 s\"\nset = { \"link.l.rate\" = \"0 bit/s\" }\n";
    let (_, packets) = run(&text(down), &["call"]);
    let count = |fate| packets.records.iter().filter(|record| record.delivery == fate).count();
    assert_eq!(count(Delivery::Waiting), 20);
    assert!(count(Delivery::Lost) > 50, "{}", count(Delivery::Lost));
}

/// Settings of a link's channels by chance.
fn channel(random: &mut RandomStream) -> String {
    let parts = [
        "{ kind = \"packet-errors\", loss = 0.1 }",
        "{ kind = \"duplication\", probability = 0.2 }",
        "{ kind = \"jitter\", law = { kind = \"uniform\", max = \"300 ms\" }, keep_order = false }",
        "{ kind = \"outages\", outages = [{ at = \"2 s\", lasts = \"900 ms\" }] }",
        "{ kind = \"outages\", outages = [{ at = \"4 s\", lasts = \"9 s\" }] }",
        "{ kind = \"bit-errors\", ber = 2e-5 }",
    ];
    let chosen: Vec<&str> = parts.into_iter().filter(|_| random.chance(0.3)).collect();
    format!("[{}]", chosen.join(", "))
}

/// Fates and places of all kinds of traffic are those of the accounts, over paths by chance.
#[test]
fn packets_of_any_traffic_end_as_their_accounts_say() {
    let voice = "kind = \"voice\", codec = \"g711u\"";
    let traffic = [
        (
            "udp",
            "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"200 B\" }",
            1,
        ),
        (
            "copies",
            "{ kind = \"udp\", pattern = { kind = \"poisson\", mean_interval = \"30 ms\" }, payload = \"100 B\" }",
            5,
        ),
        (
            "long",
            "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"50 ms\" }, payload = \"3000 B\" }",
            1,
        ),
        ("voice", &format!("{{ {voice}, silence_suppression = false }}")[..], 1),
        ("calls", &format!("{{ {voice}, rtcp = \"none\" }}")[..], 4),
        (
            "sip",
            "{ kind = \"sip\", interval = \"2 s\", hold = \"2 s\", ring = \"100 ms\", media = { codec = \"g711a\" } }",
            1,
        ),
        ("tcp", "\"tcp\"", 1),
        ("tfrc", "{ kind = \"tfrc\", payload = \"500 B\" }", 1),
        ("ping", "{ kind = \"ping\", interval = \"40 ms\" }", 1),
    ];
    for seed in 0..12 {
        let mut random = RandomStream::new(seed, "packets of any traffic");
        let [forward, back] = [0, 1].map(|_| channel(&mut random));
        let mut scenario = format!(
            "title = \"t\"\nduration = \"6 s\"\nseed = {seed}\nnode.a = {{}}\nnode.b = {{}}\nnode.r = {{ kind = \"router\" }}\n\
             link.near = {{ between = [\"a\", \"r\"], rate = \"2 Mbit/s\", delay = \"50 ms\", forward.channel = {forward}, \
             return.channel = {back}, queue = {{ kind = \"drop-tail\", packets = 20 }} }}\n\
             link.far = {{ between = [\"r\", \"b\"], rate = \"10 Mbit/s\", delay = \"300 ms\", mtu = \"1400 B\" }}\n"
        );
        if random.chance(0.5) {
            scenario += "[probe]\nwarm_up = \"1 s\"\n";
        }
        let mut names = Vec::new();
        for (name, traffic, count) in traffic {
            if random.chance(0.5) {
                let stop = if random.chance(0.5) { "stop = \"4500 ms\"\n" } else { "" };
                scenario += &format!(
                    "[flow.{name}]\nfrom = \"a\"\nto = \"b\"\ncount = {count}\n{stop}traffic = {traffic}\n"
                );
                names.push(name);
            }
        }
        if !names.is_empty() {
            run(&scenario, &names);
        }
    }
}
