//! Clients behind a proxy, which adds their addresses to what they send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::client::{PASSWORD, Server};

/// Starts a proxy in front of a server, and returns its address. It takes one request of a connection.
///
/// As real ones do, it keeps what a client wrote into the header, and adds the client's address.
fn proxy(server: &Server) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (own, host) = (listener.local_addr().expect("bound"), server.host.clone());
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let host = host.clone();
            std::thread::spawn(move || pass(client, &host));
        }
    });
    own
}

fn pass(mut client: TcpStream, host: &str) -> std::io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    head.truncate(head.len() - 2);
    let mut server = TcpStream::connect(host)?;
    server.write_all(&head)?;
    write!(server, "x-forwarded-for: {}\r\n\r\n", client.peer_addr()?.ip())?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    std::io::copy(&mut server, &mut client)?;
    client.shutdown(std::net::Shutdown::Both)
}

/// Logs in from an address of this machine by way of a proxy, and returns the status.
fn log_in(server: &Server, proxy: SocketAddr, from: [u8; 4], password: &str, forged: &str) -> u16 {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((from, 0)).into()).expect("an address of this machine");
    socket.connect(&proxy.into()).expect("connected");
    let mut stream = TcpStream::from(socket);
    let body = json!({ "name": "ann", "password": password }).to_string();
    write!(
        stream,
        "POST /api/v1/session HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         sec-fetch-site: same-origin\r\ncontent-length: {}\r\nx-forwarded-for: {forged}\r\n\r\n{body}",
        server.host,
        body.len()
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn who_guesses_behind_a_proxy_is_held_back_and_others_behind_it_log_in() {
    let server = Server::with(&["--trusted-proxy", "127.0.0.1/32"]);
    let boss = server.boss();
    server.user(&boss, "ann", 1);
    let proxy = proxy(&server);
    let guess = |n: usize| {
        log_in(&server, proxy, [127, 0, 0, 2], "wrong password 1", &format!("198.51.100.{n}, 127.0.0.1"))
    };
    let codes: Vec<u16> = (0..8).map(guess).collect();
    assert_eq!((codes[0], codes[7]), (401, 429), "an address that it invents is not believed: {codes:?}");
    assert_eq!(log_in(&server, proxy, [127, 0, 0, 3], PASSWORD, "127.0.0.2"), 200, "next door");
    let audit = server.api(&boss, "GET", "/audit", &Value::Null).body;
    assert!(audit.contains("127.0.0.2") && audit.contains("127.0.0.3"), "{audit}");
    assert!(!audit.contains("198.51.100."), "{audit}");
}
