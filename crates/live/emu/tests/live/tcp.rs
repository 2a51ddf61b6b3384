//! The kernel's own TCP through the emulator.

use std::process::Stdio;

use bentpipe_net::link;
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_testkit::{Watch, await_socket};
use bentpipe_units::{Rate, Span};

use super::bench::{Bench, able};

/// What iperf3 received in `seconds` with the controller `congestion`, in bits per second, after one second.
fn goodput(bench: &Bench, congestion: &str, seconds: u32) -> f64 {
    let mut server = bench.right.command("iperf3");
    let mut server = server.args(["-s", "-1"]).stdout(Stdio::null()).spawn().expect("starts");
    await_socket(&server, "10.77.0.2:5201");
    let seconds = seconds.to_string();
    let args = ["-c", "10.77.0.2", "-J", "-O", "1", "-t", &seconds, "-C", congestion];
    let text = bench.run("iperf3", &args);
    let _ = server.wait();
    // The receiver's figure is the last one of the output.
    let received = text.rsplit_once("\"sum_received\"").expect("iperf3 measured").1;
    let figure = received.split_once("\"bits_per_second\":").expect("a rate").1;
    figure.split(',').next().expect("a number").trim().parse().expect("a number")
}

#[test]
fn trains_of_segments_pass_an_ethernet_interface_both_ways() {
    let Some(_turn) = able() else { return };
    let config = link::Config { delay: Span::from_millis(2), ..link::Config::default() };
    let bench = Bench::ethernet(&config);
    let rate = goodput(&bench, "cubic", 3);
    let driver = bench.finish();
    eprintln!("Ethernet: {:.0} Mbit/s", rate / 1e6);
    // Were a checksum or a length wrong, nothing would get through; segment by segment this is more than it reaches.
    assert!(rate > 50e6, "{rate} bit/s");
    assert!(driver.lost().is_empty());
}

#[test]
fn the_kernel_s_tcp_fills_a_link() {
    let Some(_turn) = able() else { return };
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(60), bytes: None });
    let config = link::Config {
        rate: Some(Rate::from_bps(10_000_000)),
        delay: Span::from_millis(20),
        queue,
        ..link::Config::default()
    };
    for congestion in ["cubic", "reno"] {
        let (bench, watch, seconds) = (Bench::start(&config), Watch::start(), 5);
        let share = goodput(&bench, congestion, seconds) / (10e6 * 1448.0 / 1500.0);
        let machine = watch.end();
        bench.finish();
        let found = format!("{congestion}: {share:.4} of what the link carries; {machine:?}");
        eprintln!("{found}");
        // What a pause of either program leaves undone.
        let pause = machine.worst().as_secs_f64() / f64::from(seconds);
        assert!((0.95 - 2.0 * pause..1.01 + pause).contains(&share), "{found}");
    }
}
