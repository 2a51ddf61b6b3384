//! Forecasts of runs in which rates, delays, losses and flows change.

use super::*;

/// A transfer over one link, of a rate there and back.
fn one_link(link: &str, more: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"180 s\"\nnode.a = {{}}\nnode.b = {{}}\n[link.l]\nbetween = [\"a\", \"b\"]\n\
         delay = \"250 ms\"\n{link}\n[flow.f]\nfrom = \"a\"\nto = \"b\"\n\
         traffic = {{ kind = \"tcp\", controller = \"newreno\" }}\n{more}"
    )
}

#[test]
fn a_delay_of_the_channel_is_one_of_the_path() {
    let text = one_link(
        "rate = \"10 Mbit/s\"\nchannel = { kind = \"jitter\", law = { kind = \"normal\", mean = \"50 ms\", deviation = \"5 ms\" } }",
        "",
    );
    let budget = budget(&text);
    let rtt = budget.flows[0].min_rtt.expect("TCP").as_secs_f64();
    assert!((0.600..0.602).contains(&rtt), "{rtt}");
    assert!(budget.to_string().contains("its channel adds 50.0 ms on average"), "{budget}");
}

#[test]
fn events_change_the_forecast() {
    let event = "[[event]]\nat = \"60 s\"\nset = { \"link.l.forward.rate\" = \"4 Mbit/s\" }\n\
        [[event]]\nat = \"90 s\"\nset = { \"link.l.delay\" = \"10 ms\" }\n";
    let budget = budget(&one_link("rate = \"10 Mbit/s\"", event));
    let (link, flow) = (&budget.links[0], &budget.flows[0]);
    let rates: Vec<(u64, f64)> = link.rates.iter().map(|held| (held.rate.as_bps(), held.share)).collect();
    assert_eq!(rates[0].0, 4_000_000);
    assert!((rates[0].1 - 2.0 / 3.0).abs() < 1e-9 && (rates[1].1 - 1.0 / 3.0).abs() < 1e-9, "{rates:?}");
    // A third of the time at 10 Mbit/s, the rest at 4.
    let mean = 6e6 * 1448.0 / 1500.0;
    assert!((flow.ceiling.as_bps() as f64 / mean - 1.0).abs() < 1e-3, "{}", flow.ceiling);
    let [least, mean, most] = flow.round_trips.expect("the delay changes").map(Span::as_secs_f64);
    // 1500 B take 1.2 ms at first and 3 ms then, and an ACK 0.04 ms.
    assert!((least - 0.02304).abs() < 1e-5 && (most - 0.50304).abs() < 1e-5, "{least} {most}");
    let expected = (2.0 * 0.50124 + 0.50304 + 3.0 * 0.02304) / 6.0;
    assert!((mean - expected).abs() < 1e-5, "{mean} {expected}");
    assert_eq!(flow.min_rtt.map(Span::as_secs_f64), Some(least));
}

#[test]
fn a_signal_chooses_the_modcod() {
    let text = |signal: &str, more: &str| {
        let text = one_link(
            "forward.medium = { kind = \"dvb\", line = \"fwd\", encapsulation = \"gse\" }\nreturn.rate = \"2 Mbit/s\"",
            more,
        );
        format!("{text}[dvb.fwd]\nkind = \"dvb-s2\"\nsymbol_rate = 10_000_000\npilots = true\n{signal}")
    };
    let clear = budget(&text("es_n0_db = 13.5\nmargin_db = 0.5\n", ""));
    // 16APSK 8/9 or 32APSK 3/4: EN 302 307-1, table 13. Less 2.4 % of pilots.
    assert!((35e6..37e6).contains(&(clear.links[0].rate.as_bps() as f64)), "{}", clear.links[0].rate);
    assert!(clear.links[0].rates.is_empty());
    let fade = "[[event]]\nat = \"90 s\"\nset = { \"dvb.fwd.es_n0_db\" = 3.5 }\n";
    let faded = budget(&text("es_n0_db = 13.5\nmargin_db = 0.5\n", fade));
    let stepped =
        budget(&text("es_n0_db = 13.5\nmargin_db = 0.5\nsteps = [{ at = \"90 s\", es_n0_db = 3.5 }]\n", ""));
    for budget in [&faded, &stepped] {
        let rates = &budget.links[0].rates;
        assert_eq!(rates.len(), 2, "{rates:?}");
        assert!(rates.iter().all(|held| (held.share - 0.5).abs() < 0.01), "{rates:?}");
        assert_eq!(rates[1].rate, clear.links[0].rate);
        let mean = clear.flows[0].ceiling.as_bps() as f64 / 2.0;
        assert!(budget.flows[0].ceiling.as_bps() as f64 > mean);
    }
}

#[test]
fn acks_limit_a_path_that_is_thin_on_the_way_back() {
    let budget = budget(&one_link("rate = \"10 Mbit/s\"\nreturn.rate = \"16 kbit/s\"", ""));
    // An ACK of 52 B for two segments of 1448.
    let expected = 16e3 / (52.0 * 8.0) * 2.0 * 1448.0 * 8.0;
    let by_answers = budget.flows[0].by_answers.expect("ACKs limit it").as_bps() as f64;
    assert!((by_answers / expected - 1.0).abs() < 1e-3);
    assert_eq!(budget.flows[0].fair_share.as_bps() as f64, by_answers);
    // The queue of the way back may lose some, and others acknowledge more: the line there is the bound.
    let line = 10e6 * 1448.0 / 1500.0;
    assert!((budget.flows[0].ceiling.as_bps() as f64 / line - 1.0).abs() < 1e-3);
    assert_eq!(budget.flows[0].bottleneck, "l return");
    let note = "its ACKs of 52 B fill l return, which limits it to 891.08 kbit/s where none is lost and its window stays; \
        while it grows, or as ACKs are lost, it gets more, up to 9.41 Mbit/s";
    assert!(budget.flows[0].warnings.iter().any(|warning| warning == note), "{:?}", budget.flows[0].warnings);
}

#[test]
fn flows_share_what_others_leave() {
    let text = "title = \"t\"\nduration = \"60 s\"\nnode.core = {}\nnode.pop = { kind = \"router\" }\nnode.user = { count = 50 }\n\
        link.trunk = { between = [\"core\", \"pop\"], rate = \"50 Mbit/s\", delay = \"260 ms\" }\n\
        link.lan = { between = [\"pop\", \"user\"], rate = \"100 Mbit/s\", delay = \"5 ms\" }\n\
        flow.dl = { from = \"core\", to = \"user\", count = 10, traffic = \"tcp\" }\n";
    let many = budget(text);
    let share = many.flows[0].fair_share.as_bps() as f64;
    assert!((share / (50e6 * 1448.0 / 1500.0 / 500.0) - 1.0).abs() < 1e-3, "{share}");
    assert_eq!(many.flows[0].bottleneck, "trunk forward");
    // Calls take what they offer; the transfer has the rest of the line, less the ACKs of the other.
    let call = "flow.call = { from = \"a\", to = \"b\", count = 10, traffic = { kind = \"udp\", payload = \"100 B\", \
        pattern = { kind = \"constant\", interval = \"10 ms\" } } }\n";
    let text = one_link("rate = \"2 Mbit/s\"", "");
    let calls = budget(&text.replace("[link.l]", &format!("{call}[link.l]")));
    let [call, bulk] =
        ["call", "f"].map(|name| calls.flows.iter().find(|flow| flow.name == name).expect("it"));
    assert_eq!(call.fair_share, Rate::from_bps(80_000));
    let rest = (2e6 - 10.0 * 80_000.0 * 1.28) * 1448.0 / 1500.0;
    assert!((bulk.fair_share.as_bps() as f64 / rest - 1.0).abs() < 1e-3, "{}", bulk.fair_share);
}

#[test]
fn a_line_that_is_down_carries_nothing_meanwhile() {
    let event = "[[event]]\nat = \"60 s\"\nset = { \"link.l.forward.rate\" = \"0 bit/s\" }\nhold = \"20 s\"\nevery = \"60 s\"\ntimes = 2\n";
    let whole = budget(&one_link("rate = \"10 Mbit/s\"", ""));
    let down = budget(&one_link("rate = \"10 Mbit/s\"", event));
    let rates = &down.links[0].rates;
    assert_eq!((rates[0].rate, rates[1].rate), (Rate::from_bps(0), Rate::from_bps(10_000_000)));
    // Two times 20 s of 180 s.
    assert!((rates[0].share - 40.0 / 180.0).abs() < 1e-9, "{rates:?}");
    let part = down.flows[0].ceiling.as_bps() as f64 / whole.flows[0].ceiling.as_bps() as f64;
    assert!((part - 140.0 / 180.0).abs() < 1e-3, "{part}");
    // The transfer begins on the whole line.
    let slow_starts = [&whole, &down].map(|budget| budget.flows[0].tcp.as_ref().expect("TCP").slow_start);
    assert_eq!(slow_starts[0], slow_starts[1]);
    // An event at the start holds from the start.
    let event = "[[event]]\nat = \"0 s\"\nset = { \"link.l.forward.rate\" = \"0 bit/s\" }\n";
    let never = budget(&one_link("rate = \"10 Mbit/s\"", event));
    assert_eq!(never.flows[0].ceiling, Rate::from_bps(0));
    assert_eq!(never.flows[0].tcp.as_ref().expect("TCP").slow_start, None);
}

#[test]
fn an_outage_is_a_time_without_goodput() {
    let channel = "forward.channel = { kind = \"outages\", outages = [{ at = \"5 s\", lasts = \"15 s\" }], every = \"60 s\" }";
    let out = budget(&one_link(&format!("rate = \"10 Mbit/s\"\n{channel}"), ""));
    let part = out.flows[0].ceiling.as_bps() as f64 / (10e6 * 1448.0 / 1500.0);
    assert!((part - 0.75).abs() < 1e-3, "{part}");
}

/// Datagrams of 1000 B in packets of 1028 B.
fn datagrams(rate: &str, more: &str) -> String {
    format!(
        "[flow.d]\nfrom = \"a\"\nto = \"b\"\n{more}traffic = {{ kind = \"udp\", payload = \"1000 B\", \
         pattern = {{ kind = \"constant-rate\", rate = \"{rate}\" }} }}\n"
    )
}

#[test]
fn channels_lose_a_part_of_what_is_sent() {
    let lossy = |channel: &str| {
        budget(&one_link(
            &format!("rate = \"10 Mbit/s\"\nforward.channel = {channel}"),
            &datagrams("2 Mbit/s", ""),
        ))
    };
    let five = lossy("{ kind = \"packet-errors\", loss = 0.05 }");
    let flow = &five.flows[1];
    assert!((flow.lost - 0.05).abs() < 1e-6, "{}", flow.lost);
    assert!(
        (flow.ceiling.as_bps() as f64 / (9.5e6 * 1000.0 / 1028.0) - 1.0).abs() < 1e-4,
        "{}",
        flow.ceiling
    );
    // It gets what it offers, less what is lost.
    assert!(
        (flow.fair_share.as_bps() as f64 / (1.9e6 * 1000.0 / 1028.0) - 1.0).abs() < 1e-4,
        "{}",
        flow.fair_share
    );
    assert!(five.to_string().contains("lost by channels       5.00 %"), "{five}");
    let note = "channels lose 5.00 % of its packets on average: a sender that slows down at a loss gets less than is forecast";
    assert!(five.flows[0].warnings.iter().any(|warning| warning == note), "{:?}", five.flows[0].warnings);
    let bits = lossy("{ kind = \"bit-errors\", ber = 1e-5 }");
    assert!((bits.flows[1].lost - (1.0 - (1.0 - 1e-5_f64).powi(8 * 1028))).abs() < 1e-6);
    let unknown = lossy("{ kind = \"trace\", synthetic = { loss = 0.1 } }");
    assert_eq!(unknown.flows[1].lost, 0.0);
    assert!(
        unknown
            .to_string()
            .contains("losses of its channel are not forecast: they follow a trace, a signal or a decoder near or below its threshold")
    );
}

#[test]
fn a_fade_loses_what_is_sent_until_the_sender_knows_of_it() {
    let text = "title = \"t\"\nduration = \"12 s\"\nnode.a = {}\nnode.b = {}\nprobe.warm_up = \"2 s\"\n\
        [link.x]\nbetween = [\"a\", \"b\"]\ndelay = \"250 ms\"\nmedium = { kind = \"dvb\", line = \"c\", encapsulation = \"gse\" }\n\
        [dvb.c]\nkind = \"dvb-s2\"\nsymbol_rate = 2_000_000\nes_n0_db = 9.0\nreaction = \"500 ms\"\n\
        steps = [{ at = \"4 s\", es_n0_db = 2.0 }]\n";
    let found = budget(&format!("{text}{}", datagrams("1.2 Mbit/s", "")));
    // Half a second of ten.
    assert!((found.flows[0].lost - 0.05).abs() < 0.002, "{}", found.flows[0].lost);
    assert!(found.to_string().contains("lost by channels"), "{found}");
    let slower = |warning: &String| warning.contains("slower than what comes");
    assert!(!found.flows[0].warnings.iter().any(slower), "{:?}", found.flows[0].warnings);
}

#[test]
fn what_is_lost_on_the_way_takes_nothing_of_links_behind() {
    let text = "title = \"t\"\nduration = \"60 s\"\nnode.a = {}\nnode.r = { kind = \"router\" }\nnode.b = {}\n\
        link.first = { between = [\"a\", \"r\"], rate = \"8 Mbit/s\", channel = { kind = \"packet-errors\", loss = 0.5 } }\n\
        link.second = { between = [\"r\", \"b\"], rate = \"6 Mbit/s\" }\n";
    let found = budget(&format!("{text}{}", datagrams("20 Mbit/s", "")));
    // The first link carries 8 Mbit/s, of which half come to the second.
    assert!((found.flows[0].ceiling.as_bps() as f64 / (4e6 * 1000.0 / 1028.0) - 1.0).abs() < 1e-4);
    assert_eq!(found.flows[0].bottleneck, "first forward");
}

#[test]
fn a_flow_that_is_off_takes_nothing() {
    let text = |more: &str| one_link("rate = \"10 Mbit/s\"", &datagrams("5 Mbit/s", more));
    let whole = 10e6 * 1448.0 / 1500.0;
    let share = |text: &str| {
        let found = budget(text);
        (found.flows[0].fair_share.as_bps() as f64 / whole, found.flows[1].warnings.join("; "))
    };
    assert!((share(&text("")).0 - 0.5).abs() < 0.01);
    let (off, note) = share(&text("active = false\n"));
    assert!((off - 1.0).abs() < 1e-3, "{off}");
    assert!(note.contains("it is not active in the run, and sends nothing"), "{note}");
    // A third of the time with the other.
    let event = "[[event]]\nat = \"120 s\"\nset = { \"flow.d.active\" = true }\n";
    let (third, note) = share(&format!("{}{event}", text("active = false\n")));
    assert!((third - (1.0 - 0.5 / 3.0)).abs() < 0.01, "{third}");
    assert!(note.contains("it is active for 60.0 s of 180.0 s"), "{note}");
    let (later, _) = share(&text("start = \"90 s\"\nstop = \"135 s\"\n"));
    assert!((later - (1.0 - 0.5 / 4.0)).abs() < 0.01, "{later}");
    // An application that writes nothing.
    let silent = text("").replace(
        "controller = \"newreno\" }",
        "controller = \"newreno\" }\napplication = { kind = \"nothing\" }",
    );
    let found = budget(&silent);
    assert_eq!(found.flows[0].offered, Some(Rate::from_bps(0)));
    assert!(found.flows[0].warnings.iter().any(|note| note == "its application writes nothing"));
    assert_eq!(Some(found.flows[1].fair_share), found.flows[1].offered);
}

#[test]
fn a_capture_offers_what_is_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = std::fs::File::create(folder.path().join("call.pcap")).expect("a file");
    let mut writer =
        bentpipe_wire::pcap::Writer::new(&mut file, bentpipe_wire::pcap::LinkType::RAW).expect("written");
    // 101 packets of 100 B, one each 20 ms.
    let mut packet = vec![0; 100];
    packet[..20]
        .copy_from_slice(&[0x45, 0, 0, 100, 0, 0, 0, 0, 64, 17, 0x56, 0x6b, 10, 9, 8, 7, 10, 9, 8, 6]);
    for n in 0..101 {
        writer.write(n * 20_000_000, &packet, 0).expect("written");
    }
    let text = "title = \"t\"\nduration = \"10 s\"\nnode.a = {}\nnode.b = {}\n\
        link.l = { between = [\"a\", \"b\"], rate = \"1 Mbit/s\" }\n\
        flow.r = { from = \"a\", to = \"b\", start = \"9 s\", traffic = { kind = \"replay\", file = \"call.pcap\", times = 2 } }\n";
    let path = folder.path().join("replay.toml");
    std::fs::write(&path, text).expect("written");
    let document = bentpipe_paths::document(&path).expect("readable");
    let scenario = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    let found = Budget::with_files(&scenario, Some(document.access())).expect("ways");
    let flow = &found.flows[0];
    // Those of its last second in the run.
    let offered = 8.0 * 50.0 * 100.0;
    assert!(
        (flow.offered.expect("a rate").as_bps() as f64 / offered - 1.0).abs() < 1e-3,
        "{:?}",
        flow.offered
    );
    assert_eq!((flow.packet, flow.payload), (Bytes::new(100), Bytes::new(100)));
    let note =
        "its file has 202 packets with 20.2 kB in 4020.0 ms; 1 s of that are in the run, with 50 packets";
    assert!(flow.warnings.iter().any(|warning| warning == note), "{:?}", flow.warnings);
    let stopped = text.replace("start = \"9 s\"", "start = \"5 s\", stop = \"7 s\"");
    std::fs::write(&path, stopped).expect("written");
    let document = bentpipe_paths::document(&path).expect("readable");
    let stopped = document.scenario().unwrap_or_else(|refusal| panic!("{refusal}"));
    let found = Budget::with_files(&stopped, Some(document.access())).expect("ways");
    let note = "its file has 202 packets with 20.2 kB in 4020.0 ms; 2 s of that are before its stop, with 100 packets";
    assert!(found.flows[0].warnings.iter().any(|warning| warning == note), "{:?}", found.flows[0].warnings);
    let unread = Budget::new(&scenario).expect("ways");
    assert!(unread.flows[0].warnings.iter().any(|note| note.starts_with("its file is not read here")));
}

#[test]
fn equal_flows_climb_once() {
    let flow = |n: usize| {
        format!(
            "[flow.f{n}]\nfrom = \"a\"\nto = \"b\"\ntraffic = {{ kind = \"tcp\", controller = \"newreno\", receive_buffer = \"16 MB\" }}\n"
        )
    };
    let more: String = (0..600).map(flow).collect();
    // Each takes some 10,000 ACKs, of two million for all.
    let found = budget(&one_link("rate = \"300 Mbit/s\"", &more));
    let slow_starts: Vec<Option<Span>> =
        found.flows[1..].iter().map(|flow| flow.tcp.as_ref().expect("TCP").slow_start).collect();
    assert!(
        slow_starts[0].is_some() && slow_starts.iter().all(|one| *one == slow_starts[0]),
        "{slow_starts:?}"
    );
}

#[test]
fn figures_are_those_behind_the_warm_up() {
    let event =
        "[[event]]\nat = \"60 s\"\nset = { \"link.l.rate\" = \"1 Mbit/s\" }\n[probe]\nwarm_up = \"90 s\"\n";
    let found = budget(&one_link("rate = \"10 Mbit/s\"", event));
    let flow = &found.flows[0];
    assert!((flow.ceiling.as_bps() as f64 / (1e6 * 1448.0 / 1500.0) - 1.0).abs() < 1e-3, "{}", flow.ceiling);
    // Slow start is over by then: it is that of the line at the start.
    let whole = budget(&one_link("rate = \"10 Mbit/s\"", ""));
    let slow_starts = [flow, &whole.flows[0]].map(|flow| flow.tcp.as_ref().expect("TCP").slow_start);
    assert_eq!(slow_starts[0], slow_starts[1]);
    // A flow that has stopped before has its own time.
    let stopped = budget(&one_link(
        "rate = \"10 Mbit/s\"",
        &format!("{}[probe]\nwarm_up = \"90 s\"\n", datagrams("20 Mbit/s", "stop = \"60 s\"\n")),
    ));
    assert!((stopped.flows[0].fair_share.as_bps() as f64 / (10e6 * 1448.0 / 1500.0) - 1.0).abs() < 1e-3);
}

#[test]
fn flows_end_with_their_packets_and_data() {
    let ended = |more: &str| {
        let found = budget(&one_link("rate = \"10 Mbit/s\"", more));
        found.flows[0].fair_share.as_bps() as f64 / (10e6 * 1448.0 / 1500.0)
    };
    // Half of the line for 18 of 180 s.
    let packets = datagrams("5 Mbit/s", "").replace("payload", "packets = 10944, payload");
    assert!((ended(&packets) - 0.95).abs() < 0.005, "{}", ended(&packets));
    let other = |application: &str| {
        format!("[flow.o]\nfrom = \"a\"\nto = \"b\"\napplication = {{ {application} }}\ntraffic = \"tcp\"\n")
    };
    let lasting = other("kind = \"bulk\", duration = \"36 s\"");
    // The buffer of 16 MB takes another 26.5 s.
    assert!((ended(&lasting) - (1.0 - 0.5 * 62.5 / 180.0)).abs() < 0.01, "{}", ended(&lasting));
    // 24 MB at half of the line take 40 s.
    let sized = other("kind = \"bulk\", size = \"24 MB\"");
    assert!((ended(&sized) - (1.0 - 0.5 * 39.8 / 180.0)).abs() < 0.01, "{}", ended(&sized));
}

/// Copies that would start too late are counted by the reason.
#[test]
fn copies_that_do_not_run_are_named() {
    let note = |keys: &str, traffic: &str| {
        let flow = format!("[flow.g]\nfrom = \"a\"\nto = \"b\"\ncount = 10\n{keys}\ntraffic = {traffic}\n");
        let budget = budget(&one_link("rate = \"10 Mbit/s\"", &flow));
        let notes = budget.flows[1].warnings.iter().filter(|note| note.contains("copies run"));
        (notes.cloned().collect::<Vec<_>>(), budget.links[0].flows)
    };
    let udp =
        "{ kind = \"udp\", pattern = { kind = \"constant\", interval = \"20 ms\" }, payload = \"20 B\" }";
    for (keys, run, words) in [
        (
            "stagger = \"20 s\"\nstop = \"50 s\"",
            3,
            "3 of 10 copies run; 1 would start after the end, 6 after their stop",
        ),
        (
            "stagger = \"20 s\"\nstop = \"60 s\"",
            3,
            "3 of 10 copies run; 1 would start after the end, 6 after their stop",
        ),
        ("stagger = \"20 s\"", 9, "9 of 10 copies run; 1 would start after the end"),
        ("stagger = \"20 s\"\nstop = \"1 h\"", 9, "9 of 10 copies run; 1 would start after the end"),
        ("stagger = \"10 s\"\nstop = \"50 s\"", 5, "5 of 10 copies run; 5 would start after their stop"),
    ] {
        for traffic in [udp, "\"tcp\""] {
            // The transfer of `one_link` is another.
            assert_eq!(note(keys, traffic), (vec![words.to_owned()], run + 1), "{keys}, {traffic}");
        }
    }
}
