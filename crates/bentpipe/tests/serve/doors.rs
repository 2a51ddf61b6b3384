//! Doors that one client or user cannot keep shut for others: connections, passwords, streams, proxies.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::client::{PASSWORD, SCENARIO, Server, User};

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
    let mut codes: BTreeMap<u16, usize> = BTreeMap::new();
    std::thread::scope(|scope| {
        let guesses: Vec<_> = (0..40).map(|_| scope.spawn(|| wrong_password(&server, "ann", &[]))).collect();
        for guess in guesses {
            *codes.entry(guess.join().expect("answered")).or_default() += 1;
        }
    });
    // One in a second, should the machine be that slow.
    assert!(codes[&401] <= 7 && codes[&429] >= 33, "{codes:?}");
    assert_eq!(log_in(&server, "bob", PASSWORD, &[]), 200);
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
        std::thread::sleep(std::time::Duration::from_millis(50));
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
        let start = std::time::Instant::now();
        std::io::copy(&mut reader, &mut std::io::sink()).expect("it ends");
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }
}
