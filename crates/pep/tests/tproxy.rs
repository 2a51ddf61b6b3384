//! Connections of real hosts through the proxy, in network namespaces. Needs root, `ip` and `nft`; without them the tests say so and
//! pass, but never in CI.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "talks to the proxy's process")]
#![allow(clippy::disallowed_methods, reason = "waits in real time")]

mod rig;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bentpipe_testkit::able_live;
use rig::{Rig, SERVER_V4, SERVER_V6, is_reset, number, pattern};
use sha2::{Digest, Sha256};
use socket2::SockRef;

/// Process of the proxy: the tests start themselves in the namespace of the router.
#[test]
fn proxy_process() {
    rig::run_as_asked();
}

fn able() -> Option<bentpipe_testkit::Turn> {
    let turn = able_live(&["ip", "nft"])?;
    Some(turn)
}

#[test]
fn transfers_arrive_intact_from_the_clients_address() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("");
    for server in [SERVER_V4, SERVER_V6] {
        for is_upload in [true, false] {
            let (mut client, mut accepted) = rig.connect(server, 8000);
            assert_eq!(accepted.peer_addr().expect("connected"), client.local_addr().expect("bound"));
            let (from, to) =
                if is_upload { (&mut client, &mut accepted) } else { (&mut accepted, &mut client) };
            let data = pattern(20_000_000);
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
    let rig = Rig::start("");
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
    let rig = Rig::start("");
    let (mut client, mut server) = rig.connect(SERVER_V4, 8002);
    client.write_all(b"question").expect("sent");
    client.shutdown(Shutdown::Write).expect("ended");
    let mut question = String::new();
    server.read_to_string(&mut question).expect("to the end");
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
fn resets_and_refusals_pass() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("");
    for is_clients in [true, false] {
        let (client, server) = rig.connect(SERVER_V4, 8003);
        let (resetting, mut other) = if is_clients { (client, server) } else { (server, client) };
        SockRef::from(&resetting).set_linger(Some(Duration::ZERO)).expect("set");
        drop(resetting);
        assert!(is_reset(&other.read(&mut [0])), "the reset passes");
    }
    // Nothing listens there: the proxy has answered, and resets.
    let mut refused = rig.connect_only(SocketAddr::new(SERVER_V4, 8999)).expect("the proxy answers");
    assert!(is_reset(&refused.read(&mut [0])), "the refusal passes");
    let figures = rig.end();
    assert_eq!((number(&figures, "broken"), number(&figures, "refused")), (2, 1), "{figures}");
}

#[test]
fn connections_to_the_router_and_to_the_proxy_are_not_split() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("");
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
fn a_proxy_that_is_killed_resets_its_connections_and_leaves_no_rules() {
    let Some(_turn) = able() else { return };
    let mut rig = Rig::start("");
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
    let mut rig = Rig::start("");
    rig.kill_with_guard();
    assert!(!rig.rules().is_empty(), "nothing is left to remove them");
    let (mut client, mut server) = rig.connect(SERVER_V4, 8006);
    client.write_all(b"y").expect("sent");
    server.read_exact(&mut [0]).expect("it passes the router");
    // A new proxy takes the place.
    rig.restart("");
    let figures = rig.end();
    assert_eq!(number(&figures, "split"), 0, "{figures}");
}

#[test]
fn more_connections_than_the_limit_are_forwarded() {
    let Some(_turn) = able() else { return };
    let rig = Rig::start("connections=4");
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
    assert_eq!((number(&figures, "split"), number(&figures, "limit_reached")), (4, 1), "{figures}");
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
    let rig = Rig::start("buffer=262144");
    let (client, mut server) = rig.connect(SERVER_V4, 8008);
    let written = fill(&client);
    assert!(written < 40_000_000, "{written} B were accepted");
    let unacknowledged = bentpipe_emu::streams::unacknowledged(&client).expect("a socket");
    // Read a part, and let the proxy end with the rest.
    let mut part = vec![0; 100_000];
    server.read_exact(&mut part).expect("received");
    let unread = unread_bytes(&server) + part.len() as u64;
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
    let rig = Rig::start("idle=1");
    let (mut client, mut server) = rig.connect(SERVER_V4, 8009);
    assert!(is_reset(&client.read(&mut [0])) && is_reset(&server.read(&mut [0])));
    let figures = rig.end();
    assert_eq!(number(&figures, "idle"), 1, "{figures}");
}

#[test]
fn ten_thousand_connections_take_bounded_memory() {
    let Some(_turn) = able() else { return };
    // The client and the server are in this process, with two descriptors per connection as in the proxy.
    let count = 10_000.min((rig::raise_limit() as usize - 200) / 2);
    let rig = Rig::start("connections=10000 buffer=65536");
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
    assert!(grown < 30_000_000, "{grown} B for {count} connections");
    eprintln!("{} B of memory per connection", grown / count as u64);
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
    let rig = Rig::start("");
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
            let mut client = rig.connect_only(SocketAddr::new(SERVER_V4, 8011)).expect("connected");
            let _ = client.write_all(&pattern(number * 10));
            let _ = client.shutdown(if number % 2 == 0 { Shutdown::Both } else { Shutdown::Write });
        }
    });
    std::thread::sleep(Duration::from_millis(500));
    let figures = rig.end();
    assert_eq!(number(&figures, "present"), 0, "{figures}");
    assert_eq!(number(&figures, "cut"), 0, "{figures}");
}
