//! Registration and calls both ways with iaxmodem (libiax2), on loopback.
#![allow(clippy::disallowed_methods, reason = "waits for a program in real time")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bentpipe_signalling::iax::{CallId, Config, Endpoint, Event, format};
use bentpipe_testkit::{Folder, Process, free_port, has, skip, until_some};
use bentpipe_units::{RandomStream, Span, Time};

/// Voice of 20 ms in 16-bit samples at 8 kHz.
const FRAME: usize = 320;

/// Endpoint on a UDP socket, which sends voice on all calls that are up.
struct Phone {
    socket: UdpSocket,
    endpoint: Endpoint,
    start: Instant,
    up: Vec<CallId>,
    events: Vec<Event>,
    heard: usize,
}

impl Phone {
    fn new() -> Phone {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a time");
        let users = BTreeMap::from([("modem".to_owned(), "password".to_owned())]);
        let config =
            Config { users, password: Some("password".into()), ..Config::new("modem", vec![format::LINEAR]) };
        let endpoint = Endpoint::new(config, RandomStream::new(1, "phone"));
        Phone { socket, endpoint, start: Instant::now(), up: vec![], events: vec![], heard: 0 }
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Runs until an event is found, for some seconds at most.
    fn until<T>(&mut self, what: &str, mut find: impl FnMut(&mut Phone) -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(10);
        let (mut buffer, mut next_voice) = (vec![0; 2000], Instant::now());
        while Instant::now() < end {
            if let Ok((len, from)) = self.socket.recv_from(&mut buffer) {
                let now = self.now();
                self.endpoint.receive(now, from, &buffer[..len]);
            }
            let now = self.now();
            self.endpoint.handle_timeout(now);
            if Instant::now() >= next_voice {
                next_voice += Duration::from_millis(20);
                for call in self.up.clone() {
                    let timestamp = self.endpoint.elapsed(now, call).unwrap_or(0) / 20 * 20;
                    self.endpoint.send_voice(now, call, timestamp, vec![0; FRAME]);
                }
            }
            while let Some((to, bytes)) = self.endpoint.poll_transmit() {
                self.socket.send_to(&bytes, to).expect("loopback takes it");
            }
            while let Some(event) = self.endpoint.poll_event() {
                match event {
                    Event::Voice { payload, .. } if payload.len() == FRAME => self.heard += 1,
                    event => self.events.push(event),
                }
            }
            if let Some(found) = find(self) {
                return found;
            }
        }
        panic!("no {what}: {:?}", self.events);
    }

    fn event<T>(&mut self, what: &str, find: impl Fn(&Event) -> Option<T>) -> T {
        self.until(what, |phone| {
            let at = phone.events.iter().position(|event| find(event).is_some())?;
            find(&phone.events.remove(at))
        })
    }
}

/// Modem with its device, in a mount namespace where its configuration is a folder of the test.
struct Modem {
    process: Process,
    device: File,
}

impl Modem {
    fn start(folder: &Folder, server: u16, own: u16) -> Option<Modem> {
        let device = folder.file("device");
        let config = format!(
            "device {}\nowner root:root\nmode 660\nport {own}\nrefresh 60\nserver 127.0.0.1:{server}\npeername modem\n\
             secret password\ncidname modem\ncidnumber 100\ncodec slinear\n",
            device.display()
        );
        folder.write("etc/bentpipe", config);
        let script = "mount --bind \"$0\" /etc/iaxmodem && exec iaxmodem bentpipe";
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(folder.file("etc"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(&mut command);
        let open = || OpenOptions::new().read(true).write(true).open(&device).ok();
        let opened = until_some("device of the modem", || match open() {
            None if process.is_running() => None,
            opened => Some(opened),
        });
        opened.map(|device| Modem { process, device })
    }

    fn dial(&mut self, command: &str) {
        self.device.write_all(command.as_bytes()).expect("the modem reads");
    }
}

#[test]
fn iaxmodem_registers_calls_and_is_called() {
    if !has("iaxmodem") || !has("unshare") {
        return;
    }
    let (folder, mut phone) = (Folder::new(), Phone::new());
    let own = free_port();
    let server = phone.socket.local_addr().expect("an address").port();
    let Some(mut modem) = Modem::start(&folder, server, own) else {
        return skip("iaxmodem does not run in a namespace of this machine");
    };
    let address = phone.event("registration", |event| match event {
        Event::Bound { user, address } if user == "modem" => Some(*address),
        _ => None,
    });
    assert_eq!(address, SocketAddr::from(([127, 0, 0, 1], own)));
    modem.dial("ATDT555\r");
    let call = phone.event("call of the modem", |event| match event {
        Event::Incoming { call, number, .. } if number == "555" => Some(*call),
        _ => None,
    });
    talk(&mut phone, call, true);
    let call = call_until_it_rings(&mut phone, address);
    modem.dial("ATA\r");
    phone.event("answer", |event| (*event == Event::Answered { call }).then_some(()));
    talk(&mut phone, call, false);
    // A modem may stay in its last call when it is interrupted.
    modem.process.kill().expect("it runs");
}

/// Calls the modem, again while it is still busy with the end of its call.
fn call_until_it_rings(phone: &mut Phone, address: SocketAddr) -> CallId {
    for _ in 0..40 {
        let now = phone.now();
        let call = phone.endpoint.call(now, address, "100").expect("room");
        let rings = phone.event("ringing or refusal", |event| match event {
            Event::Ringing { call: other } if *other == call => Some(true),
            Event::Failed { call: other, .. } if *other == call => Some(false),
            _ => None,
        });
        if rings {
            return call;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    panic!("the modem stays busy: {:?}", phone.events)
}

/// Has a call up for a second of voice, and ends it.
fn talk(phone: &mut Phone, call: CallId, answers: bool) {
    if answers {
        let now = phone.now();
        phone.endpoint.ring(now, call);
        phone.endpoint.answer(now, call);
        phone.event("acknowledged answer", |event| (*event == Event::Confirmed { call }).then_some(()));
    }
    phone.heard = 0;
    phone.up.push(call);
    phone.until("voice", |phone| (phone.heard >= 50).then_some(()));
    phone.up.clear();
    let (now, before) = (phone.now(), phone.endpoint.counters());
    phone.endpoint.hang_up(now, call);
    phone.until("acknowledgement of HANGUP", |phone| (phone.endpoint.legs() == 0).then_some(()));
    assert_eq!(before.malformed, 0);
}
