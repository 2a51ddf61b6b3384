//! Registration with digest, and calls by way of a proxy: the library's own one, and Kamailio with baresip as the other user.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bentpipe_signalling::digest::{Algorithm, Guard, Qop};
use bentpipe_signalling::proxy::{Config, Proxy};
use bentpipe_signalling::registrar::Registrar;
use bentpipe_signalling::sip::Transport;
use bentpipe_signalling::transaction::{Peer, Timers};
use bentpipe_testkit::{Folder, Process, free_port, has, said, text, until_some};
use bentpipe_units::{RandomStream, Span, Time};

use super::{bentpipe, printed_by, wait_for};

const SECRET: &str = "secret";

/// Proxy and registrar of 127.0.0.1 on a UDP socket, until it is dropped.
struct Server {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start() -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let local = socket.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || serve(&socket, proxy(local), &seen)));
        Server { port: local.port(), stop, thread }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn proxy(local: SocketAddr) -> Proxy {
    let guard = || {
        let mut guard = Guard::new("127.0.0.1", 7, Algorithm::Sha256, &[Qop::Auth]);
        ["alice", "bob"].into_iter().for_each(|user| guard.add_user(user, SECRET));
        Some(guard)
    };
    let registrar = Registrar::new(vec!["127.0.0.1".into()], guard());
    let config = Config { local, timers: Timers::default(), record_route: true, guard: guard() };
    Proxy::new(config, registrar, RandomStream::new(1, "proxy"))
}

fn serve(socket: &UdpSocket, mut proxy: Proxy, stop: &AtomicBool) {
    let (start, mut buffer) = (Instant::now(), vec![0; 65_536]);
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a time");
    while !stop.load(Ordering::Relaxed) {
        let arrival = socket.recv_from(&mut buffer);
        let now = Time::ZERO + Span::from_nanos(start.elapsed().as_nanos() as u64);
        if let Ok((len, address)) = arrival {
            proxy.receive(now, Peer { transport: Transport::Udp, address }, &buffer[..len]);
        }
        proxy.handle_timeout(now);
        while let Some(transmit) = proxy.poll_transmit() {
            socket.send_to(&transmit.bytes, transmit.to.address).expect("loopback takes it");
        }
    }
}

/// Kamailio as proxy and registrar with digest, for all users with one password.
fn kamailio(folder: &Folder, port: u16) -> Process {
    let text = KAMAILIO.replace("PORT", &port.to_string());
    let config = folder.write("kamailio.cfg", text);
    let run = folder.path().join("run");
    std::fs::create_dir(&run).expect("a folder");
    let mut command = Command::new("kamailio");
    command.arg("-f").arg(config).args(["-DD", "-E", "-m", "32", "-M", "4", "-Y"]).arg(run);
    let process = Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    wait_for("udp", port);
    process
}

const KAMAILIO: &str = r#"#!KAMAILIO
listen=udp:127.0.0.1:PORT
children=1
loadmodule "sl.so"
loadmodule "tm.so"
loadmodule "tmx.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "maxfwd.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "auth.so"
modparam("usrloc", "db_mode", 0)
request_route {
  if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
  if (is_method("CANCEL")) { if (t_check_trans()) { t_relay(); } exit; }
  if (has_totag()) {
    if (loose_route()) { t_relay(); exit; }
    if (is_method("ACK")) { if (t_check_trans()) { t_relay(); } exit; }
    sl_send_reply("404", "Not Here"); exit;
  }
  if (is_method("REGISTER")) {
    if (!pv_www_authenticate("127.0.0.1", "secret", "0")) { www_challenge("127.0.0.1", "0"); exit; }
    save("location"); exit;
  }
  if (is_method("INVITE")) {
    if (!pv_proxy_authenticate("127.0.0.1", "secret", "0")) { proxy_challenge("127.0.0.1", "0"); exit; }
    consume_credentials();
    record_route();
    if (!lookup("location")) { sl_send_reply("404", "Not Found"); exit; }
    t_relay(); exit;
  }
  sl_send_reply("405", "Method Not Allowed");
}
"#;

/// Registers bob at a server, and has him called by alice.
fn calls_by_way_of(server: u16) {
    let folder = Folder::new();
    let password = folder.write("password", SECRET).to_string_lossy().into_owned();
    let (own, server) = (free_port(), format!("127.0.0.1:{server}"));
    let credentials = ["--password-file", &password, "--user"];
    let own_text = own.to_string();
    let words = [&["answer", &own_text, "--register", &server, "--calls", "5"], &credentials[..], &["bob"]];
    let mut answerer = Process::start(&mut bentpipe(&words.concat()));
    wait_for("udp", own);
    let words = ["sip:bob@127.0.0.1", "--proxy", &server, "--calls", "5", "--hold", "100 ms"];
    let output = call_until_it_succeeds(&words, &credentials);
    assert!(said(&output, 0).contains("5 calls: 5 established, 0 failed"), "{}", text(&output));
    assert!(printed_by(&mut answerer).contains("5 calls: 5 established, 0 failed"));
}

/// Places calls as alice, again until the callee is registered.
fn call_until_it_succeeds(words: &[&str], credentials: &[&str]) -> Output {
    let words = [&["call"], words, credentials, &["alice"]].concat();
    until_some("registration of the callee", || {
        let output = bentpipe(&words).output().expect("bentpipe starts");
        let is_unregistered = text(&output).contains("404 ") || text(&output).contains("480 ");
        (!is_unregistered).then_some(output)
    })
}

#[test]
fn a_registered_user_is_called_by_way_of_the_librarys_proxy() {
    calls_by_way_of(Server::start().port);
}

#[test]
fn a_registered_user_is_called_by_way_of_kamailio() {
    if !has("kamailio") {
        return;
    }
    let (folder, port) = (Folder::new(), free_port());
    let server = kamailio(&folder, port);
    calls_by_way_of(port);
    // Its processes wait for each other at the end, at times for a minute, which no bound of a test should cut.
    drop(server);
}

#[test]
fn a_refused_registration_ends_the_answerer_with_the_reason() {
    let server = Server::start();
    let folder = Folder::new();
    let password = folder.write("password", "wrong").to_string_lossy().into_owned();
    let registrar = format!("127.0.0.1:{}", server.port);
    let words = ["answer", &free_port().to_string(), "--register", &registrar, "--user", "bob"];
    let output = bentpipe(&[&words[..], &["--password-file", &password]].concat()).output().expect("starts");
    assert!(said(&output, 2).contains("rejected the credentials of \"bob\""), "{}", text(&output));
    let output = bentpipe(&words).output().expect("starts");
    assert!(said(&output, 2).contains("rejected the credentials of \"bob\""), "{}", text(&output));
}

/// Returns baresip without a sound card, as the user carol of a server.
fn baresip(folder: &Folder, server: u16, words: &[&str]) -> Command {
    // baresip takes the next port too.
    let port = free_port();
    let modules = "module g711.so\nmodule aufile.so\nmodule aubridge.so\nmodule_tmp uuid.so\nmodule_tmp account.so\nmodule_app menu.so\n";
    let config = format!(
        "sip_listen 127.0.0.1:{port}\naudio_source aufile,carol/tone.wav\naudio_player aubridge,x\nmodule_path /usr/lib/baresip/modules\n{modules}"
    );
    folder.write("carol/config", config);
    folder.write("carol/contacts", "");
    let account = format!(
        "<sip:carol@127.0.0.1:{server}>;auth_user=carol;auth_pass={SECRET};answermode=auto;audio_codecs=PCMA/8000;regint=60\n"
    );
    folder.write("carol/accounts", account);
    folder.write("carol/tone.wav", silence());
    let mut command = Command::new("baresip");
    command.args(["-4", "-f", "carol"]).args(words).current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Returns a WAV file of one second of silence at 8 kHz.
fn silence() -> Vec<u8> {
    let samples = 8000_u32;
    let mut bytes = [&b"RIFF"[..], &(36 + 2 * samples).to_le_bytes(), b"WAVEfmt "].concat();
    for (value, len) in [(16, 4), (1, 2), (1, 2), (8000, 4), (16_000, 4), (2, 2), (16, 2)] {
        bytes.extend(&u32::to_le_bytes(value)[..len]);
    }
    bytes.extend([&b"data"[..], &(2 * samples).to_le_bytes()].concat());
    bytes.resize(bytes.len() + 2 * samples as usize, 0);
    bytes
}

#[test]
fn baresip_answers_and_places_calls_by_way_of_kamailio() {
    if !has("kamailio") || !has("baresip") {
        return;
    }
    let (folder, port) = (Folder::new(), free_port());
    let password = folder.write("password", SECRET).to_string_lossy().into_owned();
    let server = kamailio(&folder, port);
    let proxy = format!("127.0.0.1:{port}");
    let credentials = ["--password-file", &password[..], "--user"];
    let mut carol = Process::start(&mut baresip(&folder, port, &["-t", "20"]));
    let words = ["sip:carol@127.0.0.1", "--proxy", &proxy, "--calls", "1", "--hold", "300 ms"];
    let output = call_until_it_succeeds(&words, &credentials);
    assert!(said(&output, 0).contains("1 call: 1 established, 0 failed"), "{}", text(&output));
    carol.end();
    // Now carol calls bob, who hangs up; alice's call before shows that he is registered.
    let own = free_port();
    let own_text = own.to_string();
    let words = ["answer", &own_text, "--register", &proxy, "--hold", "300 ms", "--calls", "2"];
    let mut answerer = Process::start(&mut bentpipe(&[&words[..], &credentials, &["bob"]].concat()));
    wait_for("udp", own);
    let target = "sip:bob@127.0.0.1";
    said(&call_until_it_succeeds(&[target, "--proxy", &proxy, "--hold", "0 s"], &credentials), 0);
    let dial = format!("/dial sip:bob@{proxy}");
    let mut carol = Process::start(&mut baresip(&folder, port, &["-t", "10", "-e", &dial]));
    assert!(printed_by(&mut answerer).contains("2 calls: 2 established, 0 failed"));
    carol.end();
    // Its processes wait for each other at the end, at times for a minute, which no bound of a test should cut.
    drop(server);
}
