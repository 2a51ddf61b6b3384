//! A client, a router with the proxy, and a server, in network namespaces.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_emu::{Namespace, signals};
use bentpipe_pep::{Config, Mode, OwnTcp, Proxy};
use bentpipe_testkit::{PATIENCE, Process, ip, until};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::{ip as wire_ip, tcp};
use rustix::process::{Resource, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

const CLIENT_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));
pub(crate) const SERVER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 2));
pub(crate) const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd02, 0, 0, 0, 0, 0, 0, 2));

const SETTINGS: &str = "BENTPIPE_TEST_PEP";

/// Raises the limit of descriptors to the most that is allowed, and returns it.
pub(crate) fn raise_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("up to the maximum");
    limit.current.unwrap_or(u64::MAX)
}

/// Runs a proxy with the settings of the environment until Ctrl-C, and prints its figures.
pub(crate) fn run_as_asked() {
    let Ok(settings) = std::env::var(SETTINGS) else { return };
    let value = |key: &str| {
        let words = settings.split(' ').filter_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        words.map(|value| value.parse::<u64>().expect("a number")).next()
    };
    let is_tun = settings.split(' ').any(|word| word == "tun");
    let config = Config {
        mode: if is_tun { Mode::Tun } else { Mode::Tproxy },
        own: OwnTcp::default(),
        memory: value("memory").map(Bytes::new),
        ground: vec!["lan0".to_owned()],
        satellite: vec!["sat0".to_owned()],
        port: 9040,
        controller: Some(if is_tun { "hybla" } else { "reno" }.to_owned()),
        rate: None,
        satellite_buffer: value("buffer").map(Bytes::new),
        ground_buffer: value("buffer").map(Bytes::new),
        connections: value("connections").unwrap_or(1000) as usize,
        idle: Span::from_secs(value("idle").unwrap_or(600)),
        drain: Span::from_secs(value("drain").unwrap_or(0)),
        sets_rules: true,
        prometheus: None,
    };
    static STOP: AtomicBool = AtomicBool::new(false);
    let waker: &'static signals::Waker = Box::leak(Box::new(signals::Waker::new().expect("an event")));
    signals::watch(waker).expect("handlers");
    std::thread::spawn(move || {
        while !signals::end_requested() {
            waker.wait(Span::from_secs(1));
        }
        STOP.store(true, Ordering::SeqCst);
    });
    let proxy = Proxy::open(config).expect("it opens");
    println!("ready");
    let notice = |line: &str| println!("notice {line}");
    println!("figures {}", proxy.run(&STOP, &notice).expect("it runs").to_json());
}

/// Returns `true` if a read or write failed by a reset.
pub(crate) fn is_reset(result: &std::io::Result<usize>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// Returns bytes without a short period.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(next).collect()
}

/// Returns a figure by its name.
pub(crate) fn number(figures: &str, name: &str) -> u64 {
    let (_, rest) = figures.split_once(&format!("\"{name}\":")).expect("a figure");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

fn socket(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket.set_write_timeout(Some(PATIENCE)).expect("set");
    socket
}

fn listener(address: SocketAddr) -> TcpListener {
    let socket = socket(address);
    socket.set_reuse_address(true).expect("set");
    socket.bind(&address.into()).expect("a free port");
    socket.listen(4096).expect("listens");
    socket.into()
}

pub(crate) struct Rig {
    client: Namespace,
    router: Namespace,
    server: Namespace,
    proxy: Process,
    output: BufReader<std::process::ChildStdout>,
}

impl Rig {
    /// Starts a proxy between a client and a server.
    pub(crate) fn start(settings: &str) -> Rig {
        Rig::start_on(settings, |_| {})
    }

    /// Starts a proxy on a router that is changed first.
    pub(crate) fn start_on(settings: &str, change: impl FnOnce(&str)) -> Rig {
        let [client, router, server] = ["pep-client", "pep-router", "pep-server"]
            .map(|host| Namespace::create(host).expect("a namespace"));
        for namespace in [&client, &router, &server] {
            // Duplicate address detection would hold up link-local addresses.
            namespace.sysctl("net/ipv6/conf/default/accept_dad", "0").expect("a setting");
        }
        let [c, r, s] = [&client, &router, &server].map(Namespace::name);
        ip(&format!("-n {r} link add lan0 type veth peer name eth0 netns {c}"));
        ip(&format!("-n {r} link add sat0 type veth peer name eth0 netns {s}"));
        for (name, device, net, host) in
            [(c, "eth0", 1, 2), (r, "lan0", 1, 1), (r, "sat0", 2, 1), (s, "eth0", 2, 2)]
        {
            ip(&format!("-n {name} address add 10.{net}.0.{host}/24 dev {device}"));
            ip(&format!("-n {name} address add fd0{net}::{host}/64 dev {device} nodad"));
            ip(&format!("-n {name} link set {device} up"));
        }
        for (name, net) in [(c, 1), (s, 2)] {
            ip(&format!("-n {name} route add default via 10.{net}.0.1"));
            ip(&format!("-n {name} -6 route add default via fd0{net}::1"));
        }
        router.forward_packets().expect("it forwards");
        await_link(&client);
        change(r);
        let (proxy, output) = start_proxy(&router, settings);
        Rig { client, router, server, proxy, output }
    }

    /// Starts another proxy in the place of one that has ended.
    pub(crate) fn restart(&mut self, settings: &str) {
        (self.proxy, self.output) = start_proxy(&self.router, settings);
    }

    /// Starts a second proxy, which is to be refused, and returns its output.
    pub(crate) fn refused(&self, settings: &str) -> String {
        let output = proxy_command(&self.router, settings).output().expect("starts");
        assert!(!output.status.success(), "a second proxy runs");
        let [out, errors] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        out + &errors
    }

    pub(crate) fn listen(&self, at: SocketAddr) -> TcpListener {
        self.server.within(|| listener(at)).expect("inside")
    }

    pub(crate) fn listen_at_router(&self, at: SocketAddr) -> TcpListener {
        self.router.within(|| listener(at)).expect("inside")
    }

    /// Connects from the client.
    pub(crate) fn connect_only(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        self.client.within(|| open(to)).expect("inside")
    }

    pub(crate) fn connect_at_router(&self, to: SocketAddr) -> TcpStream {
        self.router.within(|| open(to)).expect("inside").expect("connected")
    }

    /// Returns a connection of the client to the server, and its other end.
    pub(crate) fn connect(&self, server: IpAddr, port: u16) -> (TcpStream, TcpStream) {
        let listener = self.listen(SocketAddr::new(server, port));
        let client = self.connect_only(SocketAddr::new(server, port)).expect("connected");
        (client, accept(&listener))
    }

    /// Returns a connection that the host behind the satellite opens.
    pub(crate) fn connect_back(&self, port: u16) -> (TcpStream, TcpStream) {
        let at = SocketAddr::new(CLIENT_V4, port);
        let listener = self.client.within(|| listener(at)).expect("inside");
        let client = self.server.within(|| open(at)).expect("inside").expect("connected");
        (client, accept(&listener))
    }

    /// Kills the proxy.
    pub(crate) fn kill(&mut self) {
        self.proxy.signal("-KILL");
        self.proxy.finish();
    }

    /// Kills the proxy with the shell that would remove its rules.
    pub(crate) fn kill_with_guard(&mut self) {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.proxy.id())).expect("it runs");
        let children = tasks.flatten().filter_map(|task| {
            std::fs::read_to_string(task.path().join("children")).ok().filter(|text| !text.is_empty())
        });
        let guard = children.last().expect("a guard").trim().to_owned();
        self.proxy.signal("-STOP");
        bentpipe_testkit::succeed(Command::new("kill").args(["-KILL", &guard]));
        self.kill();
    }

    /// Returns the number of connections that the proxy has listed for its guard.
    pub(crate) fn listed_connections(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.proxy.id())).expect("it runs");
        let is_table = |path: &std::path::PathBuf| {
            std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:bentpipe-pep"))
        };
        let table = files.flatten().map(|file| file.path()).find(is_table).expect("a table");
        let text = std::fs::read_to_string(table).expect("a text");
        text.lines().filter(|line| line.starts_with("add")).count()
    }

    /// Waits until the guard has the connections reset that a killed proxy left.
    pub(crate) fn await_resets(&self) {
        until("resets", || self.rules().contains("elements ="));
    }

    /// Returns the rules of the router.
    pub(crate) fn rules(&self) -> String {
        let output = |program: &str, words: &[&str]| {
            let output = self.router.command(program).args(words).output().expect("starts");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let policies = output("ip", &["rule"]) + &output("ip", &["-6", "rule"]);
        let policies: String = policies.lines().filter(|line| line.contains("9040")).collect();
        output("nft", &["list", "ruleset"]) + &policies
    }

    /// Sends SYNs to the server from addresses that no host has, the first of them 198.18.0.0 plus `first`.
    pub(crate) fn flood(&self, port: u16, first: u32, count: u32) {
        let raw = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IPPROTO_RAW)));
        let socket = self.client.within(raw).expect("inside").expect("a raw socket");
        let server = SocketAddr::new(SERVER_V4, port);
        for n in first..first + count {
            let source = Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + n);
            // A full queue of the device loses some, as a network does.
            let _ = socket.send_to(&syn(SocketAddr::new(source.into(), 4000), server), &server.into());
        }
    }

    /// Returns a counter of the router's TCP.
    pub(crate) fn router_counter(&self, name: &str) -> u64 {
        let read = || std::fs::read_to_string("/proc/thread-self/net/netstat").expect("counters");
        let text = self.router.within(read).expect("inside");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        let found = rows.chunks_exact(2).find_map(|rows| {
            let place = rows[0].iter().position(|word| *word == name)?;
            rows[1][place].parse().ok()
        });
        found.expect("a counter")
    }

    /// Returns the permanent neighbours of the router, as `ip` prints them.
    pub(crate) fn permanent_neighbours(&self) -> String {
        let list = || Command::new("ip").args(["neigh", "show", "nud", "permanent"]).output();
        let output = self.router.within(list).expect("inside").expect("ip runs");
        String::from_utf8(output.stdout).expect("text")
    }

    pub(crate) fn await_no_rules(&self) {
        until("end of the rules", || self.rules().is_empty());
    }

    /// Returns the resident memory of the proxy.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.proxy.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Ends the proxy as Ctrl-C does, and returns its figures.
    pub(crate) fn end(self) -> String {
        let mut rig = self;
        let figures = rig.end_proxy();
        rig.await_no_rules();
        figures
    }

    /// Ends the proxy on a router that has other rules.
    pub(crate) fn end_but_for(mut self, others: &str) -> String {
        let figures = self.end_proxy();
        assert!(self.rules().contains(others), "{}", self.rules());
        figures
    }

    fn end_proxy(&mut self) -> String {
        let (code, _) = self.proxy.end();
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        assert_eq!(code, Some(0), "{text}");
        let figures = text.lines().find_map(|line| line.strip_prefix("figures "));
        figures.expect("figures").to_owned()
    }
}

/// Protocol of packets with their own header (raw(7)).
const IPPROTO_RAW: i32 = 255;

/// Returns the packet of a SYN.
fn syn(src: SocketAddr, dst: SocketAddr) -> Vec<u8> {
    let repr = tcp::Repr {
        src_port: src.port(),
        dst_port: dst.port(),
        seq: tcp::SeqNumber(src.port().into()),
        ack: None,
        flags: tcp::Flags::SYN,
        window: 64_000,
        urgent: None,
        options: tcp::Options::NONE,
    };
    let header = wire_ip::Repr::new(src.ip(), dst.ip(), wire_ip::Protocol::TCP, repr.buffer_len());
    let mut packet = vec![0; header.buffer_len() + repr.buffer_len()];
    header.emit(&mut packet);
    let upper = &mut packet[header.buffer_len()..];
    repr.emit(upper);
    let pseudo = Pseudo::new(src.ip(), dst.ip(), wire_ip::Protocol::TCP);
    tcp::Segment::new_unchecked(upper).fill_checksum(&pseudo);
    packet
}

/// Waits until IPv6 works: its addresses and neighbours take a moment.
fn await_link(client: &Namespace) {
    let server = SocketAddr::new(SERVER_V6, 7);
    let is_refused = || {
        let result = client.within(|| open(server)).expect("inside");
        result.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    until("route by IPv6", is_refused);
}

fn open(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket(to);
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("accepted");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    stream
}

fn proxy_command(router: &Namespace, settings: &str) -> Command {
    let itself = std::env::current_exe().expect("a path");
    // Without `ip` in between the process has its own number.
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", router.name())).arg(itself);
    command.args(["--exact", "proxy_process", "--nocapture", "--test-threads", "1"]).env(SETTINGS, settings);
    command
}

fn start_proxy(router: &Namespace, settings: &str) -> (Process, BufReader<std::process::ChildStdout>) {
    let mut command = proxy_command(router, settings);
    let mut proxy = Process::start(command.stdout(Stdio::piped()));
    let mut output = BufReader::new(proxy.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while line.trim_end() != "ready" {
        line.clear();
        assert!(output.read_line(&mut line).expect("text") > 0, "the proxy ended");
        // The harness of tests writes in front of the word.
        if line.trim_end().ends_with("ready") {
            break;
        }
    }
    (proxy, output)
}
