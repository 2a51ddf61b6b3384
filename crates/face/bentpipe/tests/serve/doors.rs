//! Doors that one client or user cannot keep shut for others: connections, passwords, streams, proxies.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bentpipe_testkit::{Watch, may_open, until};
use serde_json::{Value, json};

use super::client::{PASSWORD, SCENARIO, Server, User};

/// Open files that 600 connections and the tests next to them take.
const CROWD: u64 = 1000;

fn wrong_password(server: &Server, name: &str, headers: &[(&str, &str)]) -> u16 {
    log_in(server, name, "wrong password 1", headers)
}

fn log_in(server: &Server, name: &str, password: &str, headers: &[(&str, &str)]) -> u16 {
    let body = json!({ "name": name, "password": password }).to_string();
    let own = [("content-type", "application/json"), ("sec-fetch-site", "same-origin")];
    let all: Vec<_> = own.into_iter().chain(headers.iter().copied()).collect();
    server.send(&User::default(), ("POST", "/api/v1/session"), &all, &body).status
}

/// Opens a stream and returns its status, and the connection behind its head.
fn stream(server: &Server, user: &User, job: i64) -> (u16, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(&server.host).expect("connected");
    let (name, value) = &user.0[0];
    let head =
        format!("GET /api/v1/jobs/{job}/stream HTTP/1.1\r\nhost: {}\r\n{name}: {value}\r\n\r\n", server.host);
    stream.write_all(head.as_bytes()).expect("written");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status");
    (line.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0), reader)
}

fn endless(server: &Server, user: &User) -> i64 {
    let scenario = server.scenario(user, &SCENARIO.replace("2 s", "999999 s"));
    server.launch(user, &json!({ "scenario": scenario }))
}

#[test]
fn connections_whose_request_never_ends_keep_nobody_out() {
    if !may_open(CROWD) {
        return;
    }
    let server = Server::new();
    let boss = server.boss();
    let begin = || {
        let mut stream = TcpStream::connect(&server.host).expect("connected");
        write!(stream, "GET /api/v1/health HTTP/1.1\r\nhost: {}\r\nx: ", server.host).expect("written");
        stream
    };
    let idle: Vec<TcpStream> = (0..600).map(|_| begin()).collect();
    for _ in 0..5 {
        assert_eq!(server.api(&User::default(), "GET", "/health", &Value::Null).status, 200);
        assert_eq!(server.api(&boss, "GET", "/me", &Value::Null).status, 200);
    }
    drop(idle);
}

#[test]
fn wrong_passwords_at_once_are_not_all_tried_and_others_log_in() {
    let server = Server::new();
    let boss = server.boss();
    for name in ["ann", "bob"] {
        server.user(&boss, name, 1);
    }
    let mut codes: BTreeMap<u16, u32> = BTreeMap::new();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let guesses: Vec<_> = (0..40).map(|_| scope.spawn(|| wrong_password(&server, "ann", &[]))).collect();
        for guess in guesses {
            *codes.entry(guess.join().expect("answered")).or_default() += 1;
        }
    });
    // Five at once, and on a slow machine one more after waits of 1, 2, 4 s and so on.
    let later = (start.elapsed().as_secs() + 1).ilog2();
    assert!(codes[&401] <= 5 + later && codes[&401] + codes[&429] == 40, "{codes:?}");
    // The form states the wait too, if it comes within it.
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let form = format!("name=ann&password={}", "x".repeat(12));
    until("a form within the wait", || {
        exhaust(&server, "ann");
        let answer = server.send(&User::default(), ("POST", "/login"), &headers, &form);
        let states = answer.header("retry-after").is_some() && answer.body.contains("wrong passwords");
        assert!(answer.status != 429 || states, "{answer:?}");
        answer.status == 429
    });
    assert_eq!(log_in(&server, "bob", PASSWORD, &[]), 200);
}

#[test]
fn a_flood_from_an_address_keeps_nobody_there_from_logging_in() {
    let server = Server::new();
    let boss = server.boss();
    server.user(&boss, "ann", 1);
    let stranger = User::default();
    let flood = |count: usize, path: &str| {
        let refused = |_: &usize| server.send(&stranger, ("GET", path), &[], "").status == 429;
        (0..count).filter(refused).count()
    };
    // Health, and the page to log in with what it needs, are counted nowhere: they cost no more than a refusal.
    let entry = ["/api/v1/health", "/login", "/style.css", "/script.js"];
    for path in entry {
        assert_eq!(flood(80, path), 0, "{path}");
    }
    // The limit fills again while a slow machine answers.
    for path in ["/api/v1/me", "/no/such/page"] {
        until(&format!("a refusal at {path}"), || flood(80, path) > 0);
    }
    for path in entry {
        assert_eq!(server.send(&stranger, ("GET", path), &[], "").status, 200, "{path}");
    }
    assert_eq!(log_in(&server, "ann", PASSWORD, &[]), 200);
    // Log-ins have limits of their own: of an address, but for those who are known there.
    amid_guesses(&server, || {
        assert_eq!(log_in(&server, "ann", PASSWORD, &[]), 200);
        let change = json!({ "old": PASSWORD, "new": "another correct horse" });
        let changed = server.api(&boss, "PUT", "/me/password", &change).status;
        assert_eq!(changed, 204, "a session proves who it is");
    });
}

/// Flag that is set when this value goes out of scope, in a panic too.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs `work` amid guesses at many accounts from this address, more than are tried.
///
/// They come at once: one after the other, each takes its hash, and where that takes a second the limit is full again.
fn amid_guesses(server: &Server, work: impl FnOnce()) {
    let (is_over, tried, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let guess = |name: &str| match wrong_password(server, name, &[]) {
        401 => {
            tried.fetch_add(1, Ordering::SeqCst);
        }
        429 => {
            refused.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
        }
        status => panic!("{status}"),
    };
    std::thread::scope(|scope| {
        let _end = SetAtEnd(&is_over);
        for guest in 0..40 {
            let (guess, is_over) = (&guess, &is_over);
            scope.spawn(move || {
                let names = (0..).map(|n| format!("guest{guest}-{n}"));
                names.take_while(|_| !is_over.load(Ordering::SeqCst)).for_each(|name| guess(&name));
            });
        }
        until("a guess is refused", || refused.load(Ordering::SeqCst) > 0);
        work();
    });
    let (tried, most) = (tried.load(Ordering::SeqCst), 30 + start.elapsed().as_secs() + 1);
    assert!(tried <= most, "{tried} guesses were tried, of at most {most}");
}

/// Guesses at an account until guesses from here are not tried any more.
fn exhaust(server: &Server, name: &str) {
    let guesses: Vec<u16> = (0..20).map(|_| wrong_password(server, name, &[])).collect();
    assert!(guesses.contains(&429), "{guesses:?}");
}

/// Asserts that after guesses from here an account's log-in is refused.
///
/// The wait after five failures is a second. A log-in that a slow machine sends later is none to judge: guesses go before another.
fn assert_held_back(server: &Server, (name, password): (&str, &str), headers: &[(&str, &str)]) {
    until("a log-in within the wait", || {
        let start = Instant::now();
        exhaust(server, name);
        let status = log_in(server, name, password, headers);
        assert!(status == 429 || start.elapsed() >= Duration::from_secs(1), "{name}: {status}");
        status == 429
    });
}

#[test]
fn guesses_at_an_account_from_its_own_address_leave_its_browser_its_attempts() {
    let mut server = Server::new();
    let boss = server.boss();
    for name in ["ann", "bob"] {
        server.user(&boss, name, 1);
    }
    let body = json!({ "name": "ann", "password": PASSWORD });
    let first = server.api(&User::default(), "POST", "/session", &body);
    let device = first.cookie("bentpipe-device").expect("a cookie");
    assert!(
        first.head.contains(&format!("{device}; Path=/; HttpOnly; SameSite=Strict; Max-Age=")),
        "{first:?}"
    );
    let own = [("cookie", &device[..])];
    // A browser that nobody knows.
    assert_held_back(&server, ("ann", PASSWORD), &[]);
    assert_eq!(log_in(&server, "ann", PASSWORD, &own), 200);
    // Who has the cookie guesses no more than others do, and at no other account.
    let guesses: Vec<u16> = (0..9).map(|_| wrong_password(&server, "ann", &own)).collect();
    assert!(guesses[..5] == [401; 5] && guesses.contains(&429), "{guesses:?}");
    assert_held_back(&server, ("bob", PASSWORD), &own);
    // It outlives the server, and ends with the password.
    server.kill_and_restart();
    exhaust(&server, "ann");
    let again = server.send(
        &User(vec![("cookie".to_owned(), device.clone())]),
        ("POST", "/api/v1/session"),
        &[("content-type", "application/json"), ("sec-fetch-site", "same-origin")],
        &body.to_string(),
    );
    let session = User(vec![("cookie".to_owned(), again.cookie("bentpipe-session").expect("logged in"))]);
    let change = json!({ "old": PASSWORD, "new": "another correct horse" });
    assert_eq!(server.api(&session, "PUT", "/me/password", &change).status, 204);
    assert_held_back(&server, ("ann", "another correct horse"), &own);
}

/// Opens a request for the archive of a job and reads only its first bytes.
fn unread(server: &Server, user: &User, job: i64) -> TcpStream {
    let mut stream = TcpStream::connect(&server.host).expect("connected");
    let (name, value) = &user.0[0];
    let head = format!(
        "GET /api/v1/jobs/{job}/archive HTTP/1.1\r\nhost: {}\r\n{name}: {value}\r\n\r\n",
        server.host
    );
    stream.write_all(head.as_bytes()).expect("written");
    stream.read_exact(&mut [0; 12]).expect("a status");
    stream
}

#[test]
fn downloads_that_stall_give_way_to_one_that_waits() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let scenario = server.scenario(&ann, SCENARIO);
    let job = server.launch(&ann, &json!({ "scenario": scenario }));
    server.wait_for(&ann, job, "done");
    // More than buffers of sockets hold, and nothing that deflate shortens.
    server.fill_report(job, 24 << 20, true);
    let mut idle: Vec<TcpStream> = (0..2).map(|_| unread(&server, &ann, job)).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // They take a little again and again, so that they never take nothing.
        scope.spawn(|| {
            let mut block = [0; 4096];
            while !over.load(Ordering::SeqCst) {
                idle.iter_mut().for_each(|stream| drop(stream.read(&mut block)));
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        let whole = server.bytes(&ann, &format!("/api/v1/jobs/{job}/archive"));
        over.store(true, Ordering::SeqCst);
        assert!(whole.len() > 24 << 20, "{}", String::from_utf8_lossy(&whole[..whole.len().min(300)]));
    });
}

#[test]
fn a_named_proxy_is_believed_and_no_other() {
    let server = Server::with(&["--trusted-proxy", "127.0.0.1/32"]);
    let boss = server.boss();
    server.user(&boss, "ann", 1);
    let from = |address: &'static str| [("x-forwarded-for", address)];
    let of_one: Vec<u16> = (0..8).map(|_| wrong_password(&server, "ann", &from("198.51.100.1"))).collect();
    assert_eq!((of_one[0], of_one[7]), (401, 429));
    assert_eq!(log_in(&server, "ann", PASSWORD, &from("198.51.100.2")), 200, "next door");
    let audit = server.api(&boss, "GET", "/audit", &Value::Null).body;
    assert!(audit.contains("198.51.100.1") && audit.contains("198.51.100.2"));
    let server = Server::new();
    assert_eq!(wrong_password(&server, "ann", &from("198.51.100.1")), 401);
    assert!(!server.api(&server.boss(), "GET", "/audit", &Value::Null).body.contains("198.51.100.1"));
}

#[test]
fn a_user_has_the_own_streams_and_no_others() {
    let server = Server::with(&["--jobs", "2"]);
    let boss = server.boss();
    let [ann, bob] = ["ann", "bob"].map(|name| server.user(&boss, name, 1));
    let jobs = [&ann, &bob].map(|user| endless(&server, user));
    let mut open = Vec::new();
    let mut codes: BTreeMap<u16, usize> = BTreeMap::new();
    for _ in 0..24 {
        let (code, stream) = stream(&server, &ann, jobs[0]);
        open.push(stream);
        *codes.entry(code).or_default() += 1;
    }
    assert_eq!(codes, BTreeMap::from([(200, 20), (429, 4)]));
    assert_eq!(stream(&server, &bob, jobs[1]).0, 200);
    // Streams that were closed leave their places.
    drop(open);
    let again = || stream(&server, &ann, jobs[0]).0 == 200;
    assert!((0..100).any(|_| again() || {
        std::thread::sleep(Duration::from_millis(50));
        false
    }));
}

#[test]
fn a_stream_ends_with_the_token_the_session_and_the_level_that_opened_it() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let other = server.log_in("ann", PASSWORD).expect("logged in");
    let id = server.api(&ann, "GET", "/me", &Value::Null).json()["id"].clone();
    let job = endless(&server, &ann);
    server.wait_for(&ann, job, "running");
    let made = server.api(&ann, "POST", "/me/tokens", &json!({ "name": "t", "scope": "read" })).json();
    let secret = made["secret"].as_str().expect("a secret");
    let program = User(vec![("authorization".to_owned(), format!("Bearer {secret}"))]);
    let path = format!("/me/tokens/{}", made["id"]);
    let ends: [(&User, &dyn Fn() -> u16); 3] = [
        (&program, &|| server.api(&ann, "DELETE", &path, &Value::Null).status),
        (&other, &|| server.api(&other, "DELETE", "/session", &Value::Null).status),
        (&ann, &|| server.api(&boss, "PATCH", &format!("/users/{id}"), &json!({ "level": 0 })).status),
    ];
    for (user, end) in ends {
        let (code, mut reader) = stream(&server, user, job);
        assert_eq!(code, 200);
        assert!(matches!(end(), 200 | 204));
        let (watch, start) = (Watch::start(), Instant::now());
        std::io::copy(&mut reader, &mut std::io::sink()).expect("it ends");
        let (taken, late) = (start.elapsed(), watch.end());
        assert!(taken < Duration::from_secs(10) + 10 * late.quantile(0.99), "{taken:?}, {late:?}");
    }
}

/// Client with one connection that stays open.
struct Lasting {
    stream: TcpStream,
    head: String,
}

impl Lasting {
    fn new(server: &Server, user: &User) -> Lasting {
        let stream = TcpStream::connect(&server.host).expect("connected");
        let headers: String = user.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Lasting { stream, head: format!("GET /api/v1/me HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", server.host) }
    }

    /// Sends a request and returns its status; `None` if the connection has ended.
    fn ask(&mut self) -> Option<u16> {
        self.stream.write_all(self.head.as_bytes()).ok()?;
        let mut reader = BufReader::new(&self.stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).ok()?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            match line.trim_end().to_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().ok()?,
                Some(_) => {}
                None => break,
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
        first.split(' ').nth(1)?.parse().ok()
    }
}

#[test]
fn who_shares_the_address_of_many_connections_loses_no_request() {
    if !may_open(CROWD) {
        return;
    }
    let server = Server::new();
    let boss = server.boss();
    let [ann, eve, mallory] = ["ann", "eve", "mallory"].map(|name| server.user(&boss, name, 1));
    let mut honest = Lasting::new(&server, &ann);
    assert_eq!(honest.ask(), Some(200));
    let mut crowd: Vec<Lasting> = Vec::new();
    // Connections without a request, and others of two users, who ask at each and keep it.
    for n in 0..600 {
        let mut one = Lasting::new(&server, [&eve, &mallory][n % 2]);
        if n >= 320 {
            assert_eq!(one.ask(), Some(200), "a new one finds room");
        }
        crowd.push(one);
        if n % 20 == 0 {
            assert_eq!(honest.ask(), Some(200), "after {n}");
            assert_eq!(server.api(&ann, "GET", "/me", &Value::Null).status, 200);
        }
    }
    assert!(crowd[0].ask().is_none() && crowd[320].ask().is_none(), "the oldest ones made room");
    assert_eq!(crowd[599].ask(), Some(200));
}

/// Users with several kept connections each have all of an address: browsers behind one router.
#[test]
fn idle_connections_of_users_with_others_make_room_for_newcomers_without_a_reset() {
    let server = Server::new();
    let boss = server.boss();
    let users: Vec<User> = (0..16).map(|n| server.user(&boss, &format!("user{n}"), 1)).collect();
    let mut kept: Vec<Lasting> = (0..256).map(|n| Lasting::new(&server, &users[n % 16])).collect();
    for one in &mut kept {
        assert_eq!(one.ask(), Some(200));
    }
    // All are there before the first one asks, as if each took its time for a handshake.
    let mut newcomers: Vec<Lasting> = (0..40).map(|n| Lasting::new(&server, &users[n % 16])).collect();
    // The last one was accepted once it is answered.
    for one in newcomers.iter_mut().rev() {
        assert_eq!(one.ask(), Some(200), "a newcomer stays until it has asked");
    }
    let ended = |one: &mut Lasting| {
        one.stream.set_nonblocking(true).expect("set");
        match one.stream.read(&mut [0; 16]) {
            Ok(read) => {
                assert_eq!(read, 0, "nothing was asked");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "it ends without a reset");
                false
            }
        }
    };
    let ends = |kept: &mut Vec<Lasting>| kept.iter_mut().map(ended).filter(|is_over| *is_over).count();
    until("idle ones to end", || ends(&mut kept) >= 40);
    assert!(ends(&mut kept) <= 44, "and no more than are needed");
}

#[test]
fn who_sends_all_of_a_body_before_reading_sees_why_it_is_refused() {
    let server = Server::new();
    let boss = server.boss();
    let post = |user: &User, path: &str, body: &[u8]| {
        let headers: String = user.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = TcpStream::connect(&server.host).expect("connected");
        let head = format!(
            "POST /api/v1{path} HTTP/1.1\r\nhost: {}\r\nsec-fetch-site: same-origin\r\ncontent-length: {}\r\n{headers}\r\n",
            server.host,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("taken");
        stream.write_all(body).expect("all of it is taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("no reset");
        assert!(answer.contains("connection: close"), "{answer}");
        answer.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok())
    };
    // Far more than the buffers of a connection.
    let body = vec![b' '; 20 << 20];
    assert_eq!(post(&User::default(), "/scenarios", &body), Some(401));
    assert_eq!(post(&boss, "/scenarios", &body), Some(413));
}

#[test]
fn bad_archives_of_some_keep_nobody_from_importing() {
    let server = Server::new();
    let boss = server.boss();
    let names = ["ann", "eve", "mallory", "trudy"];
    let [ann, others @ ..] = names.map(|name| server.user(&boss, name, 1));
    let scenario = server.scenario(&ann, SCENARIO);
    let job = server.launch(&ann, &json!({ "scenario": scenario }));
    server.wait_for(&ann, job, "done");
    let archive = server.bytes(&ann, &format!("/api/v1/jobs/{job}/archive"));
    let mut damaged = archive.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 100].fill(0);
    let import = |user: &User, bytes: &[u8]| {
        let headers: String = user.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "POST /api/v1/jobs/import HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nsec-fetch-site: same-origin\r\n\
             content-length: {}\r\n{headers}\r\n",
            server.host,
            bytes.len()
        );
        server.raw(&[head.as_bytes(), bytes].concat()).status
    };
    let is_over = AtomicBool::new(false);
    let load = Ordering::SeqCst;
    std::thread::scope(|scope| {
        for other in others.iter().cycle().take(9) {
            scope.spawn(|| {
                while !is_over.load(load) {
                    assert_ne!(import(other, &damaged), 201);
                }
            });
        }
        let imported: Vec<u16> = (0..8).map(|_| import(&ann, &archive)).collect();
        is_over.store(true, load);
        assert_eq!(imported, [201; 8]);
    });
}
