//! Hosts that misbehave, and hosts that go away.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use bentpipe_net::link::{self, Link};
use bentpipe_testkit::{Lateness, Watch, until};
use bentpipe_units::{Bytes, RandomStream, Span};

use super::bench::{Bench, able};
use super::median_rtt;

/// Sends `packets` as they are out of the interface `sat0` of the namespace that the thread is in (packet(7)).
fn send_raw(packets: &[Vec<u8>]) -> io::Result<usize> {
    let protocol = (libc::ETH_P_IP as u16).to_be();
    // SAFETY: takes its arguments by value.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, libc::c_int::from(protocol)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the name ends with a zero byte.
    let index = unsafe { libc::if_nametoindex(c"sat0".as_ptr()) };
    // SAFETY: `sockaddr_ll` is plain data for which all bytes zero is a value.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    (to.sll_family, to.sll_protocol, to.sll_ifindex) = (libc::AF_PACKET as u16, protocol, index as i32);
    let send = |packet: &&Vec<u8>| {
        let to_len = size_of_val(&to) as libc::socklen_t;
        // SAFETY: reads the packet and the address, both of which live for the call, with their lengths.
        let sent = unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const to).cast(),
                to_len,
            )
        };
        sent >= 0
    };
    Ok(packets.iter().filter(send).count())
}

fn prompt() -> link::Config {
    link::Config { delay: Span::from_millis(5), mtu: Some(Bytes::new(1500)), ..link::Config::default() }
}

/// Pings the right host, and asserts that most round trips over [`prompt`] are as short as the machine allows.
fn expect_prompt(bench: &Bench, more: &[&str]) {
    let watch = Watch::start();
    let ping = ["-n", "-c", "20", "-i", "0.02", "-w", "5"];
    let rtt = median_rtt(&bench.run("ping", &[&ping[..], more, &["10.77.0.2"]].concat()));
    let machine = watch.end();
    assert!((0.009..0.015 + most_wake_ups(&machine)).contains(&rtt), "{rtt}; {machine:?}");
}

/// Returns the time that the emulator takes to wake twice, as in a round trip, more often than not.
fn most_wake_ups(machine: &Lateness) -> f64 {
    2.0 * machine.quantile(0.9).as_secs_f64()
}

#[test]
fn garbage_and_jumbo_packets_of_a_host_change_nothing_for_others() {
    let Some(_turn) = able() else { return };
    let bench = Bench::start(&prompt());
    let mtu = ["-n", bench.left.name(), "link", "set", "sat0", "mtu", "9000"];
    assert!(Command::new("ip").args(mtu).status().expect("starts").success());
    let mut stream = RandomStream::new(5, "garbage");
    let garbage = |n: usize| (0..1 + n * 9 % 8990).map(|_| (stream.unit() * 256.0) as u8).collect();
    let packets: Vec<Vec<u8>> = (0..400).map(garbage).collect();
    let sent = bench.left.within(|| send_raw(&packets)).expect("inside").expect("a packet socket");
    expect_prompt(&bench, &[]);
    let mut driver = bench.finish();
    assert!(sent > 100, "only {sent} were sent");
    // What is no IP packet is refused by the kernel at the far end, and counted.
    assert!(driver.errors().write > 10, "{:?}", driver.errors());
    assert!(driver.lost().is_empty());
    assert_eq!(driver.network().unrouted_packets(), 0);
}

#[test]
fn a_storm_of_broadcasts_passes_and_is_over() {
    let Some(_turn) = able() else { return };
    for bench in [Bench::start(&prompt()), Bench::ethernet(&prompt())] {
        let storm = bench.left.within(|| {
            let socket = std::net::UdpSocket::bind("10.77.0.1:0")?;
            socket.set_broadcast(true)?;
            // What the device's queue has no room for is lost there.
            Ok::<usize, io::Error>(
                (0..50_000).filter(|_| socket.send_to(&[0; 64], "10.77.0.255:9").is_ok()).count(),
            )
        });
        let sent = storm.expect("inside").expect("a socket");
        expect_prompt(&bench, &[]);
        let driver = bench.finish();
        assert!(sent > 1000 && driver.lateness().count() > 1000, "{sent} sent");
        assert!(driver.lost().is_empty());
    }
}

#[test]
fn a_device_that_vanishes_is_said_and_the_end_is_said() {
    let Some(_turn) = able() else { return };
    let bench = Bench::start(&prompt());
    let delete = |host: &str| Command::new("ip").args(["-n", host, "link", "delete", "sat0"]).status();
    assert!(delete(bench.left.name()).expect("starts").success());
    // Nothing tells that it goes on but time.
    std::thread::sleep(Duration::from_secs(1));
    assert!(!bench.has_ended(), "one host is left");
    assert!(delete(bench.right.name()).expect("starts").success());
    until("end of the emulator", || bench.has_ended());
    let driver = bench.finish();
    assert_eq!(driver.lost().len(), 2);
}

#[test]
fn a_delay_is_changed_while_packets_are_under_way() {
    let Some(_turn) = able() else { return };
    let bench = Bench::start(&link::Config { delay: Span::from_millis(20), ..link::Config::default() });
    let (link, watch) = (bench.link, Watch::start());
    let ping = ["-n", "-c", "20", "-i", "0.02", "-w", "5", "10.77.0.2"];
    let before = median_rtt(&bench.run("ping", &ping));
    bench.control.clone().apply(move |network| {
        let now = network.now();
        if let Some(line) = network.element::<Link>(link) {
            line.set_delay(now, Span::from_millis(60));
        }
        network.poke(link);
    });
    let after = median_rtt(&bench.run("ping", &ping));
    let machine = watch.end();
    bench.finish();
    let is_right = |rtt: f64, expected: f64, within: f64| {
        rtt > expected - within && rtt < expected + within + most_wake_ups(&machine)
    };
    let is_both = is_right(before, 0.040, 0.6e-3) && is_right(after, 0.080, 1e-3);
    assert!(is_both, "{before} s, then {after} s; {machine:?}");
}

#[test]
fn hosts_at_rest_send_nothing() {
    let Some(_turn) = able() else { return };
    for bench in [Bench::start(&prompt()), Bench::ethernet(&prompt())] {
        // Listener reports and duplicate address detection would come within a second, a router solicitation after it.
        std::thread::sleep(Duration::from_millis(2500));
        let driver = bench.finish();
        assert_eq!((driver.lateness().count(), driver.errors().write), (0, 0));
    }
}

#[test]
fn fragments_of_a_host_arrive_as_they_are() {
    let Some(_turn) = able() else { return };
    for bench in [Bench::start(&prompt()), Bench::ethernet(&prompt())] {
        expect_prompt(&bench, &["-s", "4000"]);
        let driver = bench.finish();
        // Three fragments each way, and no more: nothing puts them together on the way.
        assert!(driver.lateness().count() >= 6 * 15, "{}", driver.lateness().count());
    }
}
