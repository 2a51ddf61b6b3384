//! Memory and threads that one client takes from others: answers that are not read, requests that are given up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bentpipe_testkit::Watch;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::client::{PASSWORD, SCENARIO, Server, User};
use super::limits::{MAX_SERVER, peak};

/// Opens a request over a connection that takes little, and reads nothing.
fn ask(server: &Server, user: &User, path: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set");
    socket.connect(&server.host.parse::<SocketAddr>().expect("an address").into()).expect("connected");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let (name, value) = &user.0[0];
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\n{name}: {value}\r\n\r\n", server.host)
        .expect("written");
    stream
}

/// Reads the status of an answer.
fn status(stream: &mut TcpStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("a status");
    String::from_utf8_lossy(&head[9..]).parse().expect("a number")
}

#[test]
fn answers_that_nobody_reads_are_bounded() {
    let server = Server::new();
    let boss = server.boss();
    let [ann, bob] = ["ann", "bob"].map(|name| server.user(&boss, name, 1));
    // Two versions whose lines all differ: 100,000 in the page of their difference, were it whole.
    let comments = |mark: &str| (0..60_000).map(|_| format!("#{mark}\n")).collect::<String>();
    let id = server.scenario(&ann, &format!("{SCENARIO}{}", comments("a")));
    let text = format!("{SCENARIO}{}", comments("b"));
    assert_eq!(server.api(&ann, "PUT", &format!("/scenarios/{id}"), &json!({ "text": text })).status, 200);
    let versions = server.api(&ann, "GET", &format!("/scenarios/{id}/versions"), &Value::Null).json();
    let (from, to) = (&versions[1]["id"], &versions[0]["id"]);
    let page = format!("/scenarios/{id}/history?from={from}&to={to}");
    let whole = server.send(&ann, ("GET", &page), &[], "");
    assert!(whole.status == 200 && whole.body.contains("the difference is longer"), "{}", whole.body.len());
    // Shares of a user are for unit tests.
    let mut unread: Vec<TcpStream> = Vec::new();
    for _ in 0..60 {
        let mut stream = ask(&server, &ann, &page);
        let status = status(&mut stream);
        assert!(matches!(status, 200 | 429), "{status}");
        unread.push(stream);
    }
    assert!(peak(&server) < MAX_SERVER, "{}", peak(&server));
    // Others are answered, and the user too once something is read.
    assert_eq!(server.api(&bob, "GET", "/jobs", &Value::Null).status, 200);
    drop(unread);
    let own = Instant::now();
    while server.api(&ann, "GET", &format!("/scenarios/{id}"), &Value::Null).status != 200 {
        assert!(own.elapsed() < Duration::from_secs(60), "it ended with the connections");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns the bytes of each connection of a server that its clients have not taken, as the kernel counts them.
fn untaken(server: &Server) -> Vec<u64> {
    let port: u16 = server.host.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", server.id())).expect("a table");
    let own = format!(":{port:04X}");
    let queue = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_own = words.get(1)?.ends_with(&own) && words.get(3) != Some(&"0A");
        let sent = words.get(4)?.split(':').next()?;
        is_own.then(|| u64::from_str_radix(sent, 16).ok()).flatten()
    };
    table.lines().filter_map(queue).collect()
}

#[test]
fn the_kernel_keeps_little_of_answers_that_nobody_reads() {
    let server = Server::new();
    let mut unread = Vec::new();
    for _ in 0..20 {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4096).expect("set");
        socket.connect(&server.host.parse::<SocketAddr>().expect("an address").into()).expect("connected");
        let mut stream = TcpStream::from(socket);
        // One after the other: 3 MB in all, of any client.
        let request = format!("GET /api/v1/openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n", server.host);
        stream.write_all(request.repeat(50).as_bytes()).expect("written");
        unread.push(stream);
    }
    let (mut most, start) = (0, Instant::now());
    while start.elapsed() < Duration::from_secs(3) {
        let queues = untaken(&server);
        most = most.max(queues.iter().sum());
        // 256 KiB, and the last piece of each.
        assert!(queues.iter().all(|bytes| *bytes <= 320 << 10), "{queues:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(most > 0, "the answers came");
    // All of it is lost once their clients took nothing for a time.
    let lost = Instant::now();
    while untaken(&server).iter().sum::<u64>() > 0 {
        assert!(lost.elapsed() < Duration::from_secs(90), "{:?}", untaken(&server));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn refusals_of_a_user_have_one_entry_together() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 0);
    for n in 0..50 {
        assert_eq!(server.api(&ann, "PATCH", &format!("/jobs/{n}"), &json!({ "note": "x" })).status, 403);
    }
    let audit = server.api(&boss, "GET", "/audit", &Value::Null).json();
    let refused =
        audit.as_array().expect("a list").iter().filter(|entry| entry["outcome"] == "level too low");
    assert_eq!(refused.count(), 1);
}

#[test]
fn lists_have_the_beginnings_of_texts_and_each_object_the_whole() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let job = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, job, "done");
    let note = "n".repeat(4000);
    let path = format!("/jobs/{job}");
    assert_eq!(server.api(&boss, "PATCH", &path, &json!({ "note": note })).json()["note"], json!(note));
    let listed = server.api(&boss, "GET", "/jobs", &Value::Null).json();
    assert_eq!(listed[0]["note"], json!("n".repeat(300)));
    assert_eq!(server.job(&boss, job)["note"], json!(note));
    assert_eq!(server.api(&boss, "PATCH", &path, &json!({ "note": format!("{note}n") })).status, 422);
    let text = format!("# {}\nrate = \"1 Mbit/s\"\n", "k".repeat(5000));
    let preset = json!({ "section": "link", "name": "long", "text": text });
    let id = server.api(&boss, "POST", "/presets", &preset).json()["id"].clone();
    let listed = server.api(&boss, "GET", "/presets", &Value::Null).json();
    assert_eq!(listed[0]["text"].as_str().map(str::len), Some(1000));
    assert_eq!(server.api(&boss, "GET", &format!("/presets/{id}"), &Value::Null).json()["text"], json!(text));
}

/// Writes a capture of empty records next to the results of a job. Its bytes are holes of the file.
fn capture(server: &Server, job: i64, bytes: u64) {
    let results = server.data().join(format!("jobs/{job}/results"));
    let folder = std::fs::read_dir(results).expect("results").next().expect("a folder").expect("an entry");
    let mut file = std::fs::File::create(folder.path().join("x.pcap")).expect("made");
    let head =
        [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 8], &[0xff, 0xff, 0, 0, 101, 0, 0, 0]].concat();
    file.write_all(&head).expect("written");
    file.set_len(24 + bytes).expect("set");
}

#[test]
fn captures_that_one_user_asks_for_keep_nobody_waiting() {
    let server = Server::new();
    let boss = server.boss();
    let [greedy, other] = ["ann", "bob"].map(|name| server.user(&boss, name, 1));
    let [large, small] = [(&greedy, 150_000_000), (&other, 1600)].map(|(user, bytes)| {
        let scenario = server.scenario(user, SCENARIO);
        let job = server.launch(user, &json!({ "scenario": scenario }));
        server.wait_for(user, job, "done");
        capture(&server, job, bytes);
        job
    });
    let page = format!("/api/v1/jobs/{large}/packets");
    // Requests that are given up: their threads end, and are not those of the database.
    let (watch, mut longest) = (Watch::start(), Duration::ZERO);
    for _ in 0..30 {
        let stream = ask(&server, &greedy, &page);
        std::thread::sleep(Duration::from_millis(50));
        drop(stream);
        let asked = Instant::now();
        assert_eq!(server.api(&other, "GET", "/me", &Value::Null).status, 200);
        longest = longest.max(asked.elapsed());
    }
    let late = watch.end();
    assert!(longest < Duration::from_secs(1) + 10 * late.quantile(0.99), "{longest:?}, {late:?}");
    server.log_in("bob", PASSWORD).expect("logged in");
    // Requests that are waited for: a turn of others comes before the second one of this user.
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut stream = ask(&server, &greedy, &page);
                stream.set_read_timeout(Some(Duration::from_secs(120))).expect("set");
                let _ = status(&mut stream);
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        let before = done.load(Ordering::SeqCst);
        let found = server.api(&other, "GET", &format!("/jobs/{small}/packets"), &Value::Null);
        assert_eq!((found.status, &found.json()["total"]), (200, &json!(100)), "{found:?}");
        let during = done.load(Ordering::SeqCst) - before;
        assert!(during <= 2, "{during} of the others came first");
    });
}
