//! Completion of flows: the last new packet, whatever comes twice, and none while packets wait.

use crate::accounts::Run;

/// A flow of datagrams over a router. `first` are more settings of the link in front of it.
fn over_router((duration_s, warm_up_s): (u32, u32), first: &str, second: &str, traffic: &str) -> String {
    format!(
        "title = \"t\"\nduration = \"{duration_s} s\"\nprobe.warm_up = \"{warm_up_s} s\"\n\
         node.a = {{}}\nnode.r = {{ kind = \"router\" }}\nnode.b = {{}}\n\
         link.k = {{ between = [\"a\", \"r\"], rate = \"10 Mbit/s\", delay = \"5 ms\"{first} }}\n\
         link.l = {{ between = [\"r\", \"b\"], delay = \"5 ms\", {second} }}\n\
         [flow.f]\nfrom = \"a\"\nto = \"b\"\ntraffic = {traffic}\n"
    )
}

fn datagrams(interval_ms: u32, packets: u32) -> String {
    format!(
        "{{ kind = \"udp\", pattern = {{ kind = \"constant\", interval = \"{interval_ms} ms\" }}, payload = \"1000 B\", packets = {packets} }}"
    )
}

const TWICE: &str = ", forward.channel = { kind = \"duplication\", probability = 1.0 }";

/// Each duplicate comes 82 ms behind its packet, the one of the last packet too.
#[test]
fn a_duplicate_completes_nothing() {
    let slow = "rate = \"100 kbit/s\"";
    let of = |channel: &str| Run::new(&over_router((10, 0), channel, slow, &datagrams(200, 10)));
    let (once, twice) = (of(""), of(TWICE));
    assert_eq!(twice.value("flow.f.receiver.duplicates"), 10.0);
    for measure in ["completion", "goodput", "loss", "delay-p50"] {
        let name = format!("flow.f.{measure}");
        assert_eq!(twice.values.get(&name), once.values.get(&name), "{measure}");
    }
    // Nine intervals behind the first packet, and the last one on both links.
    let completion = once.value("flow.f.completion");
    assert!((1.89..2.1).contains(&completion), "{completion}");
}

/// 20 packets of the warm-up wait in front of a line that sends one a second.
#[test]
fn packets_of_the_warm_up_that_wait_withhold_completion() {
    let line = "rate = \"8224 bit/s\"";
    for (duration_s, completes) in [(15, false), (30, true)] {
        let run = Run::new(&over_router((duration_s, 5), "", line, &datagrams(10, 20)));
        let completion = run.values.get("flow.f.completion");
        assert_eq!(completion.is_some(), completes, "{duration_s} s: {completion:?}");
        assert!(completion.is_none_or(|at| (20.0..20.1).contains(at)), "{completion:?}");
    }
}

/// Copies that end in the run are counted, and the others are among those that there are.
#[test]
fn completions_of_a_group_are_those_of_copies_that_ended() {
    let text = "title = \"t\"\nduration = \"12 s\"\nnode.a = {}\nnode.b = {}\n\
        link.l = { between = [\"a\", \"b\"], rate = \"1 Mbit/s\", delay = \"20 ms\" }\n\
        [flow.f]\nfrom = \"a\"\nto = \"b\"\ncount = 4\nstagger = \"3500 ms\"\n\
        application = { kind = \"bulk\", size = \"300 kB\" }\ntraffic = \"tcp\"\n";
    let run = Run::new(text);
    let all: Vec<f64> =
        (1..=4).filter_map(|n| run.values.get(&format!("flow.f.{n}.completion")).copied()).collect();
    assert_eq!(all.len(), 3, "the last one has 1.5 s for 2.5: {:#?}", run.values);
    assert_eq!(run.value("group.f.completion.n"), 3.0);
    assert_eq!((run.value("group.f.n"), run.value("group.f.of")), (4.0, 4.0));
    let mean = all.iter().sum::<f64>() / 3.0;
    assert!((run.value("group.f.completion.mean") - mean).abs() < 1e-9, "{mean}");
}
