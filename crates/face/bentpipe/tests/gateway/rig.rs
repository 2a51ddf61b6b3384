//! Sites in network namespaces, joined by a bridge in one of their own: the sky.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bentpipe_emu::Namespace;
use bentpipe_testkit::{Folder, Process, Turn, able_live, ip, until};
use serde_json::Value;

/// The sky, with sites 1, 2, ... at 192.168.77.1, .2, ... and the sky itself at 192.168.77.9.
pub(crate) struct Sky {
    pub(crate) sites: Vec<Namespace>,
    pub(crate) sky: Namespace,
    pub(crate) folder: Folder,
    _turn: Turn,
}

impl Sky {
    /// A sky with so many sites; none where this machine cannot.
    pub(crate) fn new(count: usize) -> Option<Sky> {
        let turn = able_live(&["ip", "ping", "iperf3", "tshark"])?;
        let sky = Namespace::create("gw-sky").expect("able");
        let inside = format!("-n {}", sky.name());
        ip(&format!("{inside} link add name br0 type bridge mcast_snooping 0"));
        ip(&format!("{inside} address add 192.168.77.9/24 dev br0"));
        ip(&format!("{inside} link set dev br0 up"));
        let sites = (1..=count).map(|n| site(&sky, n)).collect();
        Some(Sky { sites, sky, folder: Folder::new(), _turn: turn })
    }

    /// Starts a gateway with this site file.
    pub(crate) fn start(&self, site: usize, text: &str) -> Running {
        self.start_with(site, text, &[])
    }

    /// Starts a gateway with this site file and options.
    pub(crate) fn start_with(&self, site: usize, text: &str, options: &[&str]) -> Running {
        let path = self.folder.write(format!("site-{site}.toml"), text);
        Running::start(&self.sites[site - 1], &path, options)
    }

    /// Runs a program at a site; what it printed.
    pub(crate) fn run(&self, site: usize, words: &[&str]) -> String {
        let output = self.sites[site - 1].command(words[0]).args(&words[1..]).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text + &String::from_utf8_lossy(&output.stderr)
    }

    /// How many of five pings from a site are answered.
    pub(crate) fn pings(&self, site: usize, to: &str) -> usize {
        self.answered(site, to, "2").0
    }

    /// Asserts that a site's pings are all answered, however late on a busy machine.
    #[track_caller]
    pub(crate) fn expect_every_ping(&self, site: usize, to: &str) {
        // One at a time: after an answer, `ping` waits for the last one no longer than its interval.
        for _ in 0..5 {
            let text = self.run(site, &["ping", "-n", "-c", "1", "-W", "30", to]);
            assert!(text.contains(" time="), "{text}");
        }
    }

    /// Sends five pings and waits some seconds for the last answer.
    fn answered(&self, site: usize, to: &str, seconds: &str) -> (usize, String) {
        let text = self.run(site, &["ping", "-n", "-c", "5", "-i", "0.05", "-W", seconds, to]);
        (text.matches(" time=").count(), text)
    }

    /// Asserts that a site can be reached, once both gateways know each other.
    #[track_caller]
    pub(crate) fn expect_pings(&self, site: usize, to: &str) {
        until(&format!("answers of {to} to site {site}"), || self.pings(site, to) == 5);
    }

    /// A UDP socket at a site.
    pub(crate) fn socket(&self, site: usize, address: &str) -> UdpSocket {
        bind(&self.sites[site - 1], address)
    }
}

/// A UDP socket in a namespace, whose reads give up after a second.
pub(crate) fn bind(namespace: &Namespace, address: &str) -> UdpSocket {
    let bound = namespace.within(|| UdpSocket::bind(address)).expect("inside");
    let socket = bound.expect("an address of the site");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
    socket
}

fn site(sky: &Namespace, n: usize) -> Namespace {
    let site = Namespace::create(&format!("gw-{n}")).expect("the sky could be made as well");
    let (inside, above) = (format!("-n {}", site.name()), format!("-n {}", sky.name()));
    ip(&format!("{inside} link add name up0 type veth peer name down{n} netns {}", sky.name()));
    ip(&format!("{inside} address add 192.168.77.{n}/24 dev up0"));
    ip(&format!("{inside} link set dev up0 up"));
    ip(&format!("{above} link set dev down{n} master br0 up"));
    site
}

/// A gateway that runs; it ends with the value.
pub(crate) struct Running {
    process: Process,
    pub(crate) path: PathBuf,
    said: Vec<String>,
}

fn bentpipe() -> &'static str {
    env!("CARGO_BIN_EXE_bentpipe")
}

impl Running {
    fn start(site: &Namespace, path: &Path, options: &[&str]) -> Running {
        let mut command = site.command(bentpipe());
        command.arg("gateway").arg(path).args(options).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Process::start(&mut command);
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let mut said = Vec::new();
        // It says so when it runs. What it says later is read too, or it would wait for that.
        let runs = lines.by_ref().map_while(Result::ok).any(|line| {
            said.push(line);
            said.last().is_some_and(|line| line.contains(" runs on "))
        });
        assert!(runs, "it did not start: {said:?}");
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("gateway: {line}")));
        Running { process, path: path.to_owned(), said }
    }

    /// Returns the messages of its start.
    pub(crate) fn said(&self) -> String {
        self.said.join("\n")
    }

    /// Returns the process identifier.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal. The process is `ip`'s, which became the gateway (`ip netns exec` calls execve).
    pub(crate) fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Ends it as Ctrl-C does; its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.process.end().0
    }

    /// `bentpipe gateway WHAT SITE`: whether it was fine, and what it printed.
    pub(crate) fn ask(&self, what: &str) -> (bool, String) {
        let output =
            Command::new(bentpipe()).args(["gateway", what]).arg(&self.path).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
    }

    pub(crate) fn statistics(&self) -> Value {
        let (fine, text) = self.ask("statistics");
        assert!(fine, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }
}

/// A site file of two sites that send to each other: site `n` (1 or 2) has the addresses 10.n.0.1 and fd00:n::1, sends on
/// PID 0x100 + n, and its carrier and the other site have these keys.
pub(crate) fn site_of_two(n: usize, carrier: &str, to: &str, remote: &str) -> String {
    let other = 3 - n;
    format!(
        r#"
title = "site {n}"
[lan]
device = "bent0"
addresses = ["10.{n}.0.1/32", "fd00:{n}::1/128"]
[carrier]
{carrier}
{to}
[remote.other]
send = "0x10{n}"
receive = ["0x10{other}"]
networks = ["10.{other}.0.0/24", "fd00:{other}::/64"]
{remote}
"#
    )
}

/// UDP both ways between sites 1 and 2.
pub(crate) fn udp(n: usize) -> String {
    let other = 3 - n;
    format!(
        "[[output]]\nkind = \"udp\"\nto = [\"192.168.77.{other}:5004\"]\n[[input]]\nkind = \"udp\"\nlisten = \"192.168.77.{n}:5004\"\nfrom = [\"192.168.77.{other}\"]\n"
    )
}
