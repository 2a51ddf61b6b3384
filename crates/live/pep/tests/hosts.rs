//! Connections of real hosts through the proxy, in network namespaces. Needs root, `ip` and `nft`; without them the tests say so and
//! pass, but never in CI.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "talks to the proxy's process")]
#![allow(clippy::disallowed_methods, reason = "waits in real time")]

mod rig;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use bentpipe_testkit::{able_live, ip, succeed, until};
use rig::{Rig, SERVER_V4, SERVER_V6, is_reset, number, pattern};
use sha2::{Digest, Sha256};
use socket2::SockRef;

/// Process of the proxy: the tests start themselves in the namespace of the router.
#[test]
fn proxy_process() {
    rig::run_as_asked();
}

/// Modes of the proxy.
const MODES: [&str; 2] = ["tun", "tproxy"];

fn able() -> Option<bentpipe_testkit::Turn> {
    let turn = able_live(&["ip", "nft"])?;
    Some(turn)
}

/// Starts a proxy that stops once its connections have ended: a client sees an end before the proxy sees its acknowledgement.
fn start_draining(mode: &str) -> Rig {
    Rig::start(&format!("{mode} drain=10"))
}

/// Sends bytes to the end, and checks those received.
fn send(from: &mut TcpStream, to: &mut TcpStream, len: usize) {
    let data = pattern(len);
    let received = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            from.write_all(&data).expect("sent");
            from.shutdown(Shutdown::Write).expect("ended");
        });
        let mut received = Vec::new();
        to.read_to_end(&mut received).expect("received");
        sending.join().expect("sent");
        received
    });
    assert_eq!(Sha256::digest(&received), Sha256::digest(&data));
}

#[test]
fn transfers_arrive_intact_from_the_clients_address() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(transfer);
}

fn transfer(mode: &str) {
    let rig = start_draining(mode);
    for server in [SERVER_V4, SERVER_V6] {
        for is_upload in [true, false] {
            let (mut client, mut accepted) = rig.connect(server, 8000);
            assert_eq!(accepted.peer_addr().expect("connected"), client.local_addr().expect("bound"));
            let (from, to) =
                if is_upload { (&mut client, &mut accepted) } else { (&mut accepted, &mut client) };
            send(from, to, 20_000_000);
        }
    }
    let figures = rig.end();
    assert_eq!((number(&figures, "split"), number(&figures, "finished")), (4, 4), "{figures}");
    assert_eq!(number(&figures, "to_satellite"), 40_000_000, "{figures}");
    assert_eq!(number(&figures, "to_ground"), 40_000_000, "{figures}");
    assert_eq!(number(&figures, "acknowledged_and_lost"), 0, "{figures}");
}

#[test]
fn a_connection_that_the_satellite_side_opens_is_split_too() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(open_back);
}

fn open_back(mode: &str) {
    let rig = start_draining(mode);
    let (mut client, mut accepted) = rig.connect_back(8001);
    client.write_all(b"up").expect("sent");
    accepted.write_all(b"down").expect("sent");
    let (mut up, mut down) = ([0; 2], [0; 4]);
    accepted.read_exact(&mut up).expect("received");
    client.read_exact(&mut down).expect("received");
    drop((client, accepted));
    let figures = rig.end();
    assert_eq!((number(&figures, "split"), number(&figures, "to_ground")), (1, 2), "{figures}");
    assert_eq!(number(&figures, "to_satellite"), 4, "{figures}");
}

#[test]
fn half_closed_connections_stay_so() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(half_close);
}

fn half_close(mode: &str) {
    let rig = start_draining(mode);
    let (mut client, mut server) = rig.connect(SERVER_V4, 8002);
    client.write_all(b"question").expect("sent");
    client.shutdown(Shutdown::Write).expect("ended");
    let mut question = String::new();
    server.read_to_string(&mut question).expect("to the end");
    // Half a connection is to last; nothing but time tells that it does.
    std::thread::sleep(Duration::from_millis(300));
    server.write_all(&pattern(3_000_000)).expect("sent");
    drop(server);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("to the end");
    assert_eq!((question.as_str(), answer.len()), ("question", 3_000_000));
    let figures = rig.end();
    assert_eq!(number(&figures, "finished"), 1, "{figures}");
}

#[test]
fn data_after_an_urgent_byte_arrives() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(send_urgent_byte);
}

fn send_urgent_byte(mode: &str) {
    let rig = start_draining(mode);
    let rest = [b"def".repeat(1000), b"ghi".repeat(1000)].concat();
    for server in [SERVER_V4, SERVER_V6] {
        let (client, accepted) = rig.connect(server, 8018);
        // An answer is another flow, and its end is not that of the question.
        for (mut from, mut to) in [(&client, &accepted), (&accepted, &client)] {
            from.write_all(b"abc").expect("sent");
            SockRef::from(from).send_out_of_band(b"!").expect("sent");
            from.write_all(&rest).expect("sent");
            from.shutdown(Shutdown::Write).expect("ended");
            let mut received = Vec::new();
            to.read_to_end(&mut received).expect("to the end");
            // The proxy's own TCP has no urgent data.
            let start = if mode == "tun" { &b"abc!"[..] } else { b"abc" };
            let expected = [start, &rest].concat();
            assert!(received == expected, "{} of {} B by {mode} to {server}", received.len(), expected.len());
        }
    }
    let figures = rig.end();
    assert_eq!((number(&figures, "split"), number(&figures, "finished")), (2, 2), "{figures}");
    assert_eq!(number(&figures, "acknowledged_and_lost"), 0, "{figures}");
}

#[test]
fn an_urgent_byte_stays_out_of_line_by_tproxy() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("tproxy");
    let (mut client, mut server) = rig.connect(SERVER_V4, 8019);
    client.write_all(b"abc").expect("sent");
    SockRef::from(&client).send_out_of_band(b"!").expect("sent");
    server.read_exact(&mut [0; 3]).expect("received");
    let mut byte = [std::mem::MaybeUninit::new(0)];
    // The byte comes although nothing follows it.
    until("an urgent byte", || SockRef::from(&server).recv_out_of_band(&mut byte).is_ok_and(|len| len == 1));
    client.write_all(b"d").expect("sent");
    let mut next = [0];
    server.read_exact(&mut next).expect("received");
    assert_eq!(next, *b"d");
    drop((client, server));
    rig.end();
}

#[test]
fn resets_and_refusals_pass() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(reset_and_refuse);
}

fn reset_and_refuse(mode: &str) {
    let rig = Rig::start(mode);
    for is_clients in [true, false] {
        let (client, server) = rig.connect(SERVER_V4, 8003);
        let (resetting, mut other) = if is_clients { (client, server) } else { (server, client) };
        SockRef::from(&resetting).set_linger(Some(Duration::ZERO)).expect("set");
        drop(resetting);
        assert!(is_reset(&other.read(&mut [0])), "the reset passes");
    }
    // Nothing listens there: the proxy has answered, and resets.
    let refused = rig.connect_only(SocketAddr::new(SERVER_V4, 8999));
    let read = refused.and_then(|mut refused| refused.read(&mut [0]));
    assert!(is_reset(&read), "the refusal passes");
    let figures = rig.end();
    assert_eq!((number(&figures, "broken"), number(&figures, "refused")), (2, 1), "{figures}");
}

#[test]
fn connections_to_the_router_and_to_the_proxy_are_not_split() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("tproxy");
    let router = "10.1.0.1:8004".parse().expect("an address");
    let listener = rig.listen_at_router(router);
    rig.connect_only(router).expect("the router's own service");
    assert_eq!(listener.accept().expect("accepted").1.ip().to_string(), "10.1.0.2");
    let mut looped = rig.connect_at_router("127.0.0.1:9040".parse().expect("an address"));
    assert!(is_reset(&looped.read(&mut [0])) || looped.write_all(b"x").is_err(), "refused");
    let figures = rig.end();
    assert_eq!((number(&figures, "split"), number(&figures, "loops")), (0, 1), "{figures}");
}

#[test]
fn connections_to_the_router_are_not_split_by_tun_either() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("tun");
    let router = "10.1.0.1:8004".parse().expect("an address");
    let listener = rig.listen_at_router(router);
    rig.connect_only(router).expect("the router's own service");
    assert_eq!(listener.accept().expect("accepted").1.ip().to_string(), "10.1.0.2");
    let figures = rig.end();
    assert_eq!(number(&figures, "split"), 0, "{figures}");
}

#[test]
fn a_killed_proxy_on_tun_has_its_connections_reset_and_leaves_no_rules() {
    let Some(_turn) = able() else { return };
    let mut rig = Rig::start("tun");
    let mut all: Vec<_> = [SERVER_V4, SERVER_V6]
        .into_iter()
        .enumerate()
        .map(|(n, at)| rig.connect(at, 8012 + n as u16))
        .collect();
    for (client, server) in &mut all {
        client.write_all(b"x").expect("sent");
        server.read_exact(&mut [0]).expect("received");
    }
    // The table of the connections is written ten times a second.
    until("a table with both", || rig.listed_connections() == 2);
    rig.kill();
    let (mut client, mut server) = rig.connect(SERVER_V4, 8021);
    client.write_all(b"y").expect("sent");
    server.read_exact(&mut [0]).expect("it passes the router");
    rig.await_resets();
    for (client, server) in &mut all {
        for end in [client, server] {
            let written = end.write(b"z");
            assert!(is_reset(&written) || is_reset(&end.read(&mut [0])), "{written:?}");
        }
    }
    client.write_all(b"y").expect("sent");
    server.read_exact(&mut [0]).expect("others stay");
    rig.await_no_rules();
}

#[test]
fn a_lossy_path_with_a_small_mtu_delivers_all() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start_on("tun buffer=1000000 drain=20", |router| {
        ip(&format!("-n {router} link set sat0 mtu 1300"));
        let nft = |rule: &str| {
            let mut command = Command::new("ip");
            succeed(command.args(["netns", "exec", router, "nft"]).args(rule.split(' ')));
        };
        nft("add table inet loss");
        nft("add chain inet loss forward { type filter hook forward priority 0 ; }");
        nft("add rule inet loss forward iifname pep9040 numgen random mod 100 < 1 drop");
        nft("add rule inet loss forward oifname pep9040 numgen random mod 100 < 1 drop");
    });
    for (port, server) in [(8014, SERVER_V4), (8015, SERVER_V6)] {
        let (mut client, mut accepted) = rig.connect(server, port);
        send(&mut client, &mut accepted, 1_000_000);
        send(&mut accepted, &mut client, 1_000_000);
    }
    let figures = rig.end_but_for("table inet loss");
    assert_eq!(
        (number(&figures, "finished"), number(&figures, "acknowledged_and_lost")),
        (2, 0),
        "{figures}"
    );
}

#[test]
fn stalled_readers_take_no_more_than_the_memory() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("tun memory=4000000 buffer=8000000");
    let before = rig.resident_bytes();
    let stalled: Vec<_> = (0..10).map(|_| rig.connect(SERVER_V4, 8016)).collect();
    for (client, _) in &stalled {
        fill(client);
    }
    let grown = rig.resident_bytes().saturating_sub(before);
    assert!(grown < 40_000_000, "{grown} B");
    // Another connection has its reserve.
    let (mut client, mut server) = rig.connect(SERVER_V4, 8017);
    send(&mut client, &mut server, 1_000_000);
    let figures = rig.end();
    assert!(number(&figures, "dropped_for_want_of_memory") > 0, "{figures}");
    assert!(number(&figures, "acknowledged_and_lost") < 10_000_000, "{figures}");
}

#[test]
fn a_proxy_that_is_killed_resets_its_connections_and_leaves_no_rules() {
    let Some(_turn) = able() else { return };
    let mut rig = Rig::start("tproxy");
    let (mut client, mut server) = rig.connect(SERVER_V4, 8005);
    client.write_all(b"x").expect("sent");
    server.read_exact(&mut [0]).expect("received");
    rig.kill();
    assert!(is_reset(&client.read(&mut [0])), "no end: a reset");
    assert!(is_reset(&server.read(&mut [0])), "no end: a reset");
    let (mut client, mut server) = rig.connect(SERVER_V4, 8005);
    client.write_all(b"y").expect("sent");
    server.read_exact(&mut [0]).expect("it passes the router");
    rig.await_no_rules();
}

#[test]
fn rules_alone_stop_nothing() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(leave_rules);
}

fn leave_rules(mode: &str) {
    let mut rig = Rig::start(mode);
    rig.kill_with_guard();
    assert!(!rig.rules().is_empty(), "nothing is left to remove them");
    let (mut client, mut server) = rig.connect(SERVER_V4, 8006);
    client.write_all(b"y").expect("sent");
    server.read_exact(&mut [0]).expect("it passes the router");
    // A new proxy takes the place.
    rig.restart(mode);
    let figures = rig.end();
    assert_eq!(number(&figures, "split"), 0, "{figures}");
}

#[test]
fn a_proxy_removes_what_one_of_the_other_mode_left() {
    let Some(_turn) = able() else { return };
    for [killed, next] in [["tun", "tproxy"], ["tproxy", "tun"]] {
        let mut rig = Rig::start(killed);
        rig.kill_with_guard();
        assert!(!rig.rules().is_empty(), "nothing is left to remove them");
        rig.restart(next);
        let (mut client, mut server) = rig.connect(SERVER_V4, 8020);
        client.write_all(b"y").expect("sent");
        server.read_exact(&mut [0]).expect("received");
        drop((client, server));
        // `end` waits until no rule is left.
        let figures = rig.end();
        assert_eq!(number(&figures, "split"), 1, "{figures}");
    }
}

#[test]
fn a_second_proxy_of_any_mode_is_refused_its_port() {
    let Some(_turn) = able() else { return };
    for [running, second] in [["tun", "tun"], ["tun", "tproxy"], ["tproxy", "tun"], ["tproxy", "tproxy"]] {
        let rig = Rig::start(running);
        let before = rig.rules();
        let refusal = rig.refused(second);
        assert!(refusal.contains("choose another --port"), "{second} next to {running}: {refusal}");
        assert_eq!(rig.rules(), before);
        rig.end();
    }
}

#[test]
fn more_connections_than_the_limit_are_forwarded() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(exceed_limit);
}

fn exceed_limit(mode: &str) {
    let rig = Rig::start(&format!("{mode} connections=4"));
    let pairs: Vec<_> = (0..8)
        .map(|_| {
            let pair = rig.connect(SERVER_V4, 8007);
            std::thread::sleep(Duration::from_millis(50));
            pair
        })
        .collect();
    for (mut client, mut server) in pairs {
        client.write_all(b"z").expect("sent");
        server.read_exact(&mut [0]).expect("received");
    }
    let figures = rig.end();
    // By TPROXY the kernel forwards the others, and the proxy sees none of them.
    let [counted, other] = if mode == "tun" {
        [("over_limit", 4), ("limit_reached", 0)]
    } else {
        [("limit_reached", 1), ("over_limit", 0)]
    };
    assert_eq!((number(&figures, "split"), number(&figures, counted.0)), (4, counted.1), "{figures}");
    assert!(figures.contains(&format!("\"{}\":null", other.0)), "{figures}");
}

/// Writes until nothing is accepted for half a second, and returns the number of bytes.
fn fill(stream: &TcpStream) -> usize {
    stream.set_nonblocking(true).expect("set");
    let (chunk, mut written, mut quiet) = (pattern(65_536), 0, 0);
    while quiet < 10 {
        match (&*stream).write(&chunk) {
            Ok(bytes) => (written, quiet) = (written + bytes, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                quiet += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("{error}"),
        }
    }
    stream.set_nonblocking(false).expect("set");
    written
}

#[test]
fn a_reader_that_stalls_stops_its_sender_and_what_is_lost_is_counted() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(stall);
}

fn stall(mode: &str) {
    let rig = Rig::start(&format!("{mode} buffer=262144"));
    let (client, mut server) = rig.connect(SERVER_V4, 8008);
    // A buffer that the kernel adapts to the first read may take all that the proxy holds.
    SockRef::from(&server).set_recv_buffer_size(200_000).expect("set");
    let written = fill(&client);
    assert!(written < 40_000_000, "{written} B were accepted");
    // Read a part, and let the proxy end with the rest, once all that moves on has done so.
    let mut part = vec![0; 100_000];
    server.read_exact(&mut part).expect("received");
    let state = || {
        let unacknowledged = bentpipe_emu::streams::unacknowledged(&client).expect("a socket");
        (unacknowledged, unread_bytes(&server) + part.len() as u64)
    };
    let (mut unacknowledged, mut unread) = state();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(300));
        let before = (unacknowledged, unread);
        (unacknowledged, unread) = state();
        if before == (unacknowledged, unread) {
            break;
        }
    }
    let figures = rig.end();
    let lost = number(&figures, "acknowledged_and_lost");
    let acknowledged = written as u64 - unacknowledged;
    let between = acknowledged.saturating_sub(unread);
    assert!(
        lost.abs_diff(between) <= between / 10 + 200_000,
        "{lost} B lost, {between} B between: {figures}"
    );
    assert!(lost > 100_000, "{figures}");
    assert_eq!(number(&figures, "cut"), 1, "{figures}");
}

fn unread_bytes(stream: &TcpStream) -> u64 {
    rustix::io::ioctl_fionread(stream).expect("a socket")
}

#[test]
fn idle_connections_end() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(stay_idle);
}

fn stay_idle(mode: &str) {
    let rig = Rig::start(&format!("{mode} idle=1"));
    let (mut client, mut server) = rig.connect(SERVER_V4, 8009);
    assert!(is_reset(&client.read(&mut [0])) && is_reset(&server.read(&mut [0])));
    let figures = rig.end();
    assert_eq!(number(&figures, "idle"), 1, "{figures}");
}

#[test]
fn ten_thousand_connections_take_bounded_memory() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(hold_many);
}

fn hold_many(mode: &str) {
    // The client and the server are in this process, with two descriptors per connection as in the proxy.
    let count = 10_000.min((rig::raise_limit() as usize - 200) / 2);
    let rig = Rig::start(&format!("{mode} connections=10000 buffer=65536"));
    let listener = rig.listen(SocketAddr::new(SERVER_V4, 8010));
    let before = rig.resident_bytes();
    let (clients, servers) = std::thread::scope(|scope| {
        let accepting = scope
            .spawn(|| (0..count).map(|_| listener.accept().expect("accepted").0).collect::<Vec<TcpStream>>());
        let clients: Vec<TcpStream> = (0..count)
            .map(|_| rig.connect_only(SocketAddr::new(SERVER_V4, 8010)).expect("connected"))
            .collect();
        (clients, accepting.join().expect("accepted"))
    });
    for mut client in &clients {
        client.write_all(&[7; 1000]).expect("sent");
    }
    for mut server in &servers {
        server.read_exact(&mut [0; 1000]).expect("received");
    }
    let grown = rig.resident_bytes().saturating_sub(before);
    eprintln!("{} B of memory per connection by {mode}", grown / count as u64);
    // The state of the kernel's TCP is not in the process.
    let most = if mode == "tun" { 100_000_000 } else { 30_000_000 };
    assert!(grown < most, "{grown} B for {count} connections");
    drop((clients, servers));
    std::thread::sleep(Duration::from_secs(2));
    let figures = rig.end();
    assert_eq!(
        (number(&figures, "split"), number(&figures, "peak")),
        (count as u64, count as u64),
        "{figures}"
    );
}

#[test]
fn a_flood_of_connections_that_break_leaves_nothing() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(flood);
}

fn flood(mode: &str) {
    let rig = start_draining(mode);
    let listener = rig.listen(SocketAddr::new(SERVER_V4, 8011));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                let (mut stream, _) = listener.accept().expect("accepted");
                // Garbage to a client that does not read, then a reset.
                let _ = stream.write_all(&pattern(5000));
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("set");
            }
        });
        for number in 0..500 {
            // A reset may come before the system reports the connection.
            let Ok(mut client) = rig.connect_only(SocketAddr::new(SERVER_V4, 8011)) else { continue };
            let _ = client.write_all(&pattern(number * 10));
            let _ = client.shutdown(if number % 2 == 0 { Shutdown::Both } else { Shutdown::Write });
        }
    });
    let figures = rig.end();
    assert_eq!(number(&figures, "present"), 0, "{figures}");
    assert_eq!(number(&figures, "cut"), 0, "{figures}");
}

#[test]
fn a_flood_of_syns_from_nowhere_stops_no_connection() {
    let Some(_turn) = able() else { return };
    MODES.into_iter().for_each(flood_with_syns);
}

fn flood_with_syns(mode: &str) {
    let rig = Rig::start_on(mode, |router| ip(&format!("-n {router} route add 198.18.0.0/15 via 10.1.0.2")));
    let server = SocketAddr::new(SERVER_V4, 8030);
    let listener = rig.listen(server);
    let (before, mut sent) = (rig.resident_bytes(), 0);
    let mut flood = |count| {
        rig.flood(server.port(), sent, count);
        sent += count;
    };
    if mode == "tproxy" {
        // The listener's queue is full from here on.
        until("SYN cookies", || {
            flood(500);
            rig.router_counter("SyncookiesSent") > 0
        });
    } else {
        flood(3000);
    }
    for _ in 0..20 {
        flood(200);
        let mut client = rig.connect_only(server).expect("connected");
        client.write_all(b"question").expect("sent");
        let mut accepted = accept_from(&listener, &client);
        accepted.read_exact(&mut [0; 8]).expect("received");
        accepted.write_all(b"answer").expect("sent");
        client.read_exact(&mut [0; 6]).expect("received");
    }
    let grown = rig.resident_bytes().saturating_sub(before);
    assert!(grown < 50_000_000, "{grown} B for {sent} SYNs");
    let cookies = rig.router_counter("SyncookiesRecv");
    let figures = rig.end();
    match mode {
        "tproxy" => assert_eq!((number(&figures, "split"), cookies > 0), (20, true), "{cookies}: {figures}"),
        _ => assert!(number(&figures, "answered") > 1000 && number(&figures, "split") >= 20, "{figures}"),
    }
}

/// All packets to the device have one neighbour, in a table that a scan of the LAN fills.
#[test]
fn the_neighbour_of_the_device_stays_in_the_table() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("tun");
    let neighbours = rig.permanent_neighbours();
    assert!(neighbours.lines().any(|line| line.starts_with("0.0.0.0 dev pep9040")), "{neighbours}");
    rig.end();
}

/// Accepts connections until that of a client comes. A proxy on TUN opens some for clients that are nowhere.
fn accept_from(listener: &std::net::TcpListener, client: &TcpStream) -> TcpStream {
    let wanted = client.local_addr().expect("bound");
    let accepted = std::iter::repeat_with(|| listener.accept().expect("accepted"));
    let (stream, _) = accepted.into_iter().find(|(_, from)| *from == wanted).expect("endless");
    stream
}
