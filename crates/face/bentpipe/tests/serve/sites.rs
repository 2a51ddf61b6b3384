//! Sites: machines that dial in, jobs on several of them, and sites that are cut off, killed, old, or lie.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bentpipe_agent::manifest::{Entry, sha256};
use bentpipe_agent::protocol::{
    Act, Command as Order, CommandResult, Outcome, Poll, Program, TaskReport, TaskState, Turn, parse,
};
use bentpipe_agent::{Error, Invitation, Session, enrol};
use bentpipe_testkit::{Watch, able_live, has, ip, namespaces, skip, until_some};
use serde_json::{Value, json};

use super::client::{PASSWORD, SCENARIO, initialised};

/// Time in which what is waited for comes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Scenario whose hosts are on other machines.
const GEO: &str = include_str!("../../../../../scenarios/geo.toml");

/// Server with TLS, and a session of its administrator.
struct Lab {
    folder: tempfile::TempDir,
    server: Child,
    host: String,
    cookie: String,
    /// Network namespace of the server.
    inside: Option<String>,
    sites: Vec<Child>,
}

/// Returns the program, in a namespace if one is given.
fn program(inside: Option<&str>) -> Command {
    let own = env!("CARGO_BIN_EXE_bentpipe");
    let Some(name) = inside else { return Command::new(own) };
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name, own]);
    command
}

fn serve(folder: &Path, listen: &str, inside: Option<&str>) -> (Child, String) {
    serve_with(folder, (listen, inside), &[])
}

/// Starts a server with further arguments.
fn serve_with(folder: &Path, (listen, inside): (&str, Option<&str>), arguments: &[&str]) -> (Child, String) {
    let mut child = program(inside)
        .args(["serve", "--self-signed", "--listen", listen, "--data"])
        .arg(folder.join("data"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let host = line.trim().strip_prefix("bentpipe serve: https://").unwrap_or_else(|| panic!("{line}"));
    (child, host.to_owned())
}

impl Lab {
    fn new(listen: &str, inside: Option<&str>) -> Lab {
        let folder = initialised();
        let (server, host) = serve(folder.path(), listen, inside);
        let mut lab = Lab {
            folder,
            server,
            host,
            cookie: String::new(),
            inside: inside.map(str::to_owned),
            sites: Vec::new(),
        };
        std::fs::write(lab.path("password"), PASSWORD).expect("written");
        let output = lab.remote(&["log-in", "--name", "boss", "--password", &lab.shown("password")]);
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        let cookie = notes.split("BENTPIPE_SESSION='").nth(1).and_then(|rest| rest.split('\'').next());
        lab.cookie = cookie.unwrap_or_else(|| panic!("{notes}")).to_owned();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn remote(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = program(self.inside.as_deref());
        command.args(["remote", "--server", &format!("https://{}", self.host)]);
        command.args(["--ca", &self.shown("data/certificate.pem")]).args(arguments);
        command.env("BENTPIPE_SESSION", &self.cookie).output().expect("runs")
    }

    /// Runs an operation, which must succeed.
    #[track_caller]
    fn ask(&self, arguments: &[&str]) -> Value {
        let output = self.remote(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Runs an operation, which must be refused, and returns the words.
    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.remote(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn code(&self, name: &str) -> String {
        self.ask(&["invite-site", "--name", name])["code"].as_str().expect("a code").to_owned()
    }

    /// Enrols a site in this process, and returns its folder.
    fn enrolled(&self, name: &str) -> PathBuf {
        let folder = self.path(name);
        let invitation = Invitation::parse(&self.code(name)).expect("a code");
        let enrolment =
            enrol(&folder, &format!("https://{}", self.host), &invitation, None).expect("enrolled");
        assert_eq!(enrolment.name, name);
        folder
    }

    /// Enrols a machine by the command line, and starts its site.
    fn site(&mut self, name: &str, inside: Option<&str>, allowed: &str) -> usize {
        let code = self.code(name);
        let mut command = program(inside);
        command.args(["site", "enrol", "--controller", &format!("https://{}", self.host)]);
        let output = command.args(["--folder", &self.shown(name), &code]).output().expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(self.path(&format!("{name}.toml")), allowed).expect("written");
        self.sites.push(self.dial(name, inside));
        self.sites.len() - 1
    }

    fn dial(&self, name: &str, inside: Option<&str>) -> Child {
        let mut command = program(inside);
        command.args([
            "site",
            "--folder",
            &self.shown(name),
            "--allow",
            &self.shown(&format!("{name}.toml")),
        ]);
        let errors = std::fs::File::create(self.path(&format!("{name}.log"))).expect("a file");
        command.stdout(Stdio::null()).stderr(errors).spawn().expect("starts")
    }

    fn sites(&self) -> Vec<Value> {
        self.ask(&["list-sites"]).as_array().expect("a list").clone()
    }

    /// Waits until a number of sites is connected, and each clock is measured.
    fn wait_for_sites(&self, count: usize) {
        let start = Instant::now();
        let is_there = |site: &&Value| site["connected"] == true && site["programs"] != json!([]);
        while self.sites().iter().filter(is_there).count() < count {
            assert!(start.elapsed() < PATIENCE, "{:?}", self.sites());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Launches a job file with a scenario.
    fn launch(&self, scenario: &str, file: &str) -> String {
        std::fs::write(self.path("job.toml"), file).expect("written");
        let scenario = self.scenario(scenario);
        let job = self.ask(&["launch-job", "--scenario", &scenario, "--sites", &self.shown("job.toml")]);
        job["id"].to_string()
    }

    fn scenario(&self, text: &str) -> String {
        std::fs::write(self.path("scenario.toml"), text).expect("written");
        let text = self.shown("scenario.toml");
        self.ask(&["add-scenario", "--name", "Test", "--text", &text])["id"].to_string()
    }

    fn job(&self, id: &str) -> Value {
        self.ask(&["get-job", id])
    }

    fn wait(&self, id: &str, state: &str) -> Value {
        let start = Instant::now();
        loop {
            let job = self.job(id);
            if job["state"] == state {
                return job;
            }
            let is_over = job["ended"].is_number();
            let events = || self.ask(&["list-events", id, "--limit", "500"]);
            assert!(!is_over && start.elapsed() < PATIENCE, "{job} {}", events());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a task is in a state, by the events of the job.
    fn wait_for_task(&self, id: &str, task: &str, state: &str) {
        let start = Instant::now();
        let is_there = |event: &Value| event["content"]["task"] == task && event["content"]["state"] == state;
        loop {
            let events = self.ask(&["list-events", id, "--limit", "500"]);
            if events.as_array().expect("a list").iter().any(is_there) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{events}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn file(&self, id: &str, path: &str) -> String {
        let all = self.ask(&["list-artifacts", id]);
        let found = all.as_array().expect("a list").iter().find(|file| file["path"] == path);
        let number = found.unwrap_or_else(|| panic!("no {path} in {all}"))["number"].to_string();
        let output = self.remote(&["get-artifact", id, &number]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn audited(&self, action: &str, outcome: &str) -> usize {
        let log = self.ask(&["list-audit"]);
        let is_there = |entry: &&Value| {
            entry["action"] == action && entry["outcome"].as_str().is_some_and(|text| text.contains(outcome))
        };
        log.as_array().expect("a list").iter().filter(is_there).count()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in self.sites.iter_mut().chain([&mut self.server]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Network namespaces of machines, which go with the value.
struct Machines(Vec<String>);

impl Machines {
    /// Makes machines on cables to the first one, and two more cables: from the second and the fourth to the third.
    fn new() -> Machines {
        let names = ["hub", "gw", "sat", "term"].map(|name| format!("{name}-{}", std::process::id()));
        let machines = Machines(names.to_vec());
        let [hub, gateway, satellite, terminal] = names;
        for name in &machines.0 {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
        }
        for (n, name) in [&gateway, &satellite, &terminal].into_iter().enumerate() {
            ip(&format!("-n {hub} link add to{n} type veth peer name control netns {name}"));
            ip(&format!("-n {hub} address add 192.0.2.1/32 peer 192.0.2.{}/32 dev to{n}", n + 11));
            ip(&format!("-n {name} address add 192.0.2.{}/32 peer 192.0.2.1/32 dev control", n + 11));
            ip(&format!("-n {hub} link set to{n} up"));
            ip(&format!("-n {name} link set control up"));
        }
        for (name, cable, address) in [(&gateway, "eth1", "10.0.0.1"), (&terminal, "eth2", "10.0.0.4")] {
            ip(&format!("-n {satellite} link add {cable} type veth peer name data netns {name}"));
            ip(&format!("-n {name} address add {address}/24 dev data"));
            ip(&format!("-n {name} link set data up"));
        }
        machines
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

#[test]
fn three_sites_start_together_and_bring_their_results_home() {
    let Some(_turn) = able_live(&["iperf3", "ping", "tc"]) else { return };
    let machines = Machines::new();
    let [hub, gateway, satellite, terminal] = [0, 1, 2, 3].map(|n| Some(&machines.0[n][..]));
    // The path of a site to the server is slow; its clock is known well enough all the same.
    let slow = "qdisc add dev control root tbf rate 512kbit burst 4kb latency 1s";
    let mut tc = Command::new("tc");
    tc.args(["-n", &machines.0[3]]).args(slow.split(' '));
    assert!(tc.status().is_ok_and(|status| status.success()), "tc");
    let mut lab = Lab::new("192.0.2.1:8443", hub);
    let hosts = "programs = [\"iperf3\", \"ping\"]\nnetworks = [\"10.0.0.0/8\"]\n";
    lab.site("gateway", gateway, hosts);
    lab.site("satellite", satellite, "programs = [\"emulate\"]\ninterfaces = [\"eth1\", \"eth2\"]\n");
    lab.site("terminal", terminal, hosts);
    lab.wait_for_sites(3);
    assert!(lab.sites().iter().all(|site| site["problems"] == json!([])), "{:?}", lab.sites());
    let file = include_str!("../../../../../sites/three-machines.toml").replace("60 s", "4500 ms");
    let file = file.replace("45 s", "1 s").replace("count = 45", "count = 3").replace("\"2 s\"", "\"1 s\"");
    // iperf3 takes ten round trips in addition to its second.
    // Its delay comes from a file of the user, which the site asks for.
    std::fs::write(lab.path("delays"), "time,delay\n0 s,50 ms\n1 s,50 ms\n").expect("written");
    lab.ask(&["add-file", &lab.shown("delays"), "--name", "leo.csv"]);
    let scenario = GEO.replace("delay = \"270 ms\"", "delay_changes = { file = \"leo.csv\" }");
    let id = lab.launch(&scenario, &file);
    lab.wait_for_task(&id, "download", "running");
    // A key is changed while it runs; a wrong one is refused, and ends nothing.
    let change = |key: &str| lab.remote(&["change-job", &id, "--key", key, "--value", "9 Mbit/s"]);
    // An emulation that is not ready says so.
    let changed = until_some("a change", || {
        let changed = change("link.satellite.rate");
        let is_early = String::from_utf8_lossy(&changed.stderr).contains("try again");
        (!is_early).then_some(changed)
    });
    let answer: Value = serde_json::from_slice(&changed.stdout).unwrap_or_default();
    assert!(answer["at"].as_f64().is_some_and(|at_s| at_s > 0.5), "{changed:?}");
    let refused = String::from_utf8_lossy(&change("link.nowhere.rate").stderr).into_owned();
    assert!(refused.contains("site satellite: ") && refused.contains("422"), "{refused}");
    // The cable to a site is cut while it works.
    let hub = &machines.0[0];
    ip(&format!("-n {hub} link set to0 down"));
    // For long enough that the site misses it.
    std::thread::sleep(Duration::from_millis(700));
    ip(&format!("-n {hub} link set to0 up"));
    lab.wait(&id, "done");

    let events = lab.ask(&["list-events", &id, "--limit", "500"]);
    let is_change = |event: &&Value| event["kind"] == "set" && event["content"]["value"] == "9 Mbit/s";
    assert_eq!(events.as_array().expect("a list").iter().filter(is_change).count(), 1, "{events}");
    assert!(lab.file(&id, "input/leo.csv").starts_with("time,delay"));

    let output: Value = serde_json::from_str(&lab.file(&id, "tasks/download/output.txt")).expect("of iperf3");
    let rate = output["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or_default();
    assert!(rate > 1e5 && rate < 10.1e6, "{rate} of 10 Mbit/s: {output}");
    let echoes = lab.file(&id, "tasks/echo/output.txt");
    assert!(echoes.contains("3 packets transmitted, 3 received"), "{echoes}");
    let shortest = echoes.split("rtt min/avg/max/mdev = ").nth(1).and_then(|rest| rest.split('/').next());
    let shortest: f64 = shortest.and_then(|text| text.parse().ok()).expect("a time");
    assert!(shortest > 100.0, "over the satellite and back: {shortest} ms");
    assert!(lab.file(&id, "report.html").contains("<svg"));
    let sites: Value = serde_json::from_str(&lab.file(&id, "sites.json")).expect("JSON");
    let tasks = sites["tasks"].as_array().expect("a list");
    assert_eq!(tasks.len(), 4);
    for task in tasks {
        let number = |name: &str| task[name].as_f64().unwrap_or_else(|| panic!("{name}: {task}"));
        let early_us = number("ordered_us") - (number("started_us") - number("clock_offset_us"));
        assert!(early_us <= number("clock_error_us") + 1000.0, "{task}");
    }
    let ordered = |name: &str| {
        let task = tasks.iter().find(|task| task["task"] == name).expect("a task");
        task["ordered_us"].as_i64().expect("a time")
    };
    assert_eq!(ordered("satellite"), ordered("client"), "they start together");
    assert_eq!(ordered("download") - ordered("satellite"), 1_000_000);
    for name in ["gateway", "satellite", "terminal"] {
        let wait = Instant::now();
        while std::fs::read_dir(lab.path(name).join("tasks")).expect("a folder").next().is_some() {
            assert!(wait.elapsed() < PATIENCE, "{name} keeps its tasks");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(!namespaces().iter().any(|name| name.starts_with("bentpipe-")), "{:?}", namespaces());
}

/// Network of the study, with a host at router 2 for an agent.
fn with_agent() -> String {
    let text = include_str!("../../../../../studies/tatpa/network.toml");
    let text = text.split("[sweep]").next().expect("a text");
    let lan = "rate = \"100 Mbit/s\"\ndelay = \"100 us\"\nframing = { kind = \"ethernet\" }\n";
    format!("{text}\n[node.agent]\n\n[link.lan-agent]\nbetween = [\"router-2\", \"agent\"]\n{lan}")
}

/// Writes the file of a bundle node, and returns what permits it at a site.
fn permit_node(lab: &Lab, own: u32, neighbours: &[(u32, Option<&str>)], default: u32) -> String {
    let mut text = format!(
        "eid = \"ipn:{own}.0\"\nstore = \"store\"\n[[listen]]\nlayer = \"tcpcl\"\nat = \"0.0.0.0:4556\"\n"
    );
    for (node, at) in neighbours {
        let at = at.map_or(String::new(), |at| format!("at = \"{at}:4556\"\n"));
        text += &format!("[[neighbour]]\nnode = {node}\nlayer = \"tcpcl\"\n{at}");
    }
    text += &format!("[routes]\ndefault = {default}\n");
    let folder = lab.path(&format!("node-{own}"));
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("node.toml"), text).expect("written");
    let file = folder.join("node.toml").display().to_string();
    format!(
        "programs = [\"dtn-node\", \"dtn-perf\"]\nnetworks = [\"127.0.0.0/8\"]\n[nodes]\nown = \"{file}\"\n"
    )
}

/// Bundles of `bentpipe dtn perf` across router 1, with an agent on router 2 and without (S9).
#[test]
#[ignore = "takes a minute: `BENTPIPE_TATPA_SECONDS` of real time with an agent and without"]
#[expect(clippy::print_stdout, reason = "it is run for its figures")]
fn bundles_cross_router_1_with_an_agent_on_router_2_and_without() {
    let Some(_turn) = able_live(&["ip"]) else { return };
    let seconds = std::env::var("BENTPIPE_TATPA_SECONDS").unwrap_or_else(|_| "20".to_owned());
    let mut machines = Machines::new();
    let [hub, sender, satellite, receiver] = [0, 1, 2, 3].map(|n| machines.0[n].clone());
    let agent = format!("agent-{}", std::process::id());
    ip(&format!("netns add {agent}"));
    machines.0.push(agent.clone());
    ip(&format!("-n {agent} link set lo up"));
    ip(&format!("-n {hub} link add to3 type veth peer name control netns {agent}"));
    ip(&format!("-n {hub} address add 192.0.2.1/32 peer 192.0.2.14/32 dev to3"));
    ip(&format!("-n {agent} address add 192.0.2.14/32 peer 192.0.2.1/32 dev control"));
    ip(&format!("-n {hub} link set to3 up"));
    ip(&format!("-n {agent} link set control up"));
    ip(&format!("-n {satellite} link add eth3 type veth peer name data netns {agent}"));
    ip(&format!("-n {agent} address add 10.0.0.7/24 dev data"));
    ip(&format!("-n {agent} link set data up"));
    ip(&format!("-n {receiver} address add 10.0.0.5/24 dev data"));
    let mut lab = Lab::new("192.0.2.1:8443", Some(&hub));
    let (to_agent, to_receiver) = (Some("10.0.0.7"), Some("10.0.0.5"));
    let of_sender = permit_node(&lab, 1, &[(3, to_agent)], 3);
    let of_agent = permit_node(&lab, 3, &[(1, None), (2, to_receiver)], 2);
    let of_receiver = permit_node(&lab, 2, &[(3, None)], 3);
    lab.site("sender", Some(&sender), &of_sender);
    lab.site("agent", Some(&agent), &of_agent);
    lab.site("receiver", Some(&receiver), &of_receiver);
    let interfaces = "programs = [\"emulate\"]\ninterfaces = [\"eth1\", \"eth2\", \"eth3\"]\n";
    lab.site("satellite", Some(&satellite), interfaces);
    lab.wait_for_sites(4);
    let node = |site: &str| {
        format!("[task.node-{site}]\nsite = \"{site}\"\nprogram = \"dtn-node\"\nname = \"own\"\n")
    };
    let common = format!(
        "{}{}[task.satellite]\nsite = \"satellite\"\nprogram = \"emulate\"\nduration = \"{} s\"\n\
         attach = {{ satellite-sender = \"eth1\", satellite-receiver = \"eth2\", agent = \"eth3\" }}\n\
         [task.load]\nsite = \"sender\"\nprogram = \"dtn-perf\"\nnode = \"127.0.0.1:4556\"\nfrom = \"ipn:1.60\"\n\
         to = \"ipn:2.9\"\npayload = \"50 kB\"\nduration = \"{seconds} s\"\nstart = \"2 s\"\n",
        node("sender"),
        node("receiver"),
        seconds.parse::<u32>().expect("a number") + 20,
    );
    let measured = |lab: &Lab, file: &str| -> Value {
        let id = lab.launch(&with_agent(), file);
        let start = Instant::now();
        while lab.job(&id)["ended"].is_null() && start.elapsed() < Duration::from_secs(300) {
            std::thread::sleep(Duration::from_millis(200));
        }
        println!("{}", lab.job(&id)["message"]);
        serde_json::from_str(&lab.file(&id, "tasks/load/figures.json")).expect("JSON")
    };
    let with = measured(&lab, &format!("{common}{}", node("agent")));
    println!("agent on:  {with}");
    permit_node(&lab, 1, &[(2, to_receiver)], 2);
    permit_node(&lab, 2, &[(1, None)], 1);
    let without = measured(&lab, &common);
    println!("agent off: {without}");
    for figures in [&with, &without] {
        assert!(figures["delivered"].as_u64().is_some_and(|count| count > 0), "{figures}");
    }
}

const ECHO: &str = "\
[task.echo]
site = \"east\"
program = \"ping\"
host = \"127.0.0.1\"
count = 15
interval = \"200 ms\"
";

const LOOPBACK: &str = "programs = [\"ping\"]\nnetworks = [\"127.0.0.0/8\"]\n";

#[test]
fn killed_sites_and_servers_lose_nothing_and_run_nothing_twice() {
    if !has("ping") {
        return;
    }
    let mut lab = Lab::new("127.0.0.1:0", None);
    let site = lab.site("east", None, LOOPBACK);
    lab.wait_for_sites(1);
    let id = lab.launch(SCENARIO, ECHO);
    lab.wait_for_task(&id, "echo", "running");
    lab.sites[site].kill().expect("killed");
    lab.sites[site].wait().expect("ended");
    lab.server.kill().expect("killed");
    lab.server.wait().expect("ended");
    let (server, host) = serve(lab.folder.path(), &lab.host, None);
    (lab.server, lab.host) = (server, host);
    lab.sites[site] = lab.dial("east", None);
    let job = lab.wait(&id, "done");
    assert_eq!(job["attempt"], 1, "{job}");
    let echoes = lab.file(&id, "tasks/echo/output.txt");
    assert!(echoes.contains("15 packets transmitted, 15 received"), "{echoes}");
    assert_eq!(echoes.matches("packets transmitted").count(), 1, "{echoes}");
}

#[test]
#[ignore = "takes two minutes and more: a cable that is cut for `BENTPIPE_CUT_SECONDS`"]
#[expect(clippy::print_stdout, reason = "it is run for its figures")]
fn a_long_cut_loses_nothing() {
    let Some(_turn) = able_live(&["ping"]) else { return };
    let machines = Machines::new();
    let (hub, gateway) = (&machines.0[0], &machines.0[1]);
    let mut lab = Lab::new("192.0.2.1:8443", Some(hub));
    lab.site("east", Some(gateway), LOOPBACK);
    lab.wait_for_sites(1);
    let seconds: u64 =
        std::env::var("BENTPIPE_CUT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    let id = lab.launch(SCENARIO, ECHO);
    lab.wait_for_task(&id, "echo", "running");
    ip(&format!("-n {hub} link set to0 down"));
    std::thread::sleep(Duration::from_secs(seconds));
    assert_eq!(lab.job(&id)["state"], "running", "it waits for its site");
    ip(&format!("-n {hub} link set to0 up"));
    let start = Instant::now();
    let job = lab.wait(&id, "done");
    println!("cut for {seconds} s: done {:.1} s after the cable was back", start.elapsed().as_secs_f64());
    assert_eq!(job["attempt"], 1, "{job}");
    let echoes = lab.file(&id, "tasks/echo/output.txt");
    assert!(echoes.contains("15 packets transmitted, 15 received"), "{echoes}");
}

#[test]
fn what_a_site_does_not_permit_is_not_started() {
    if !has("ping") {
        return;
    }
    let mut lab = Lab::new("127.0.0.1:0", None);
    lab.site("east", None, LOOPBACK);
    lab.wait_for_sites(1);
    let scenario = lab.scenario(SCENARIO);
    let launch = |file: &str| {
        std::fs::write(lab.path("job.toml"), file).expect("written");
        lab.remote(&["launch-job", "--scenario", &scenario, "--sites", &lab.shown("job.toml")])
    };
    for (from, to, why) in [
        ("\"ping\"", "\"sh\"", "line 3"),
        ("\"east\"", "\"west\"", "west is not a site of this server"),
        ("host = \"127.0.0.1\"\n", "", "task.echo.host"),
        (
            "program = \"ping\"\nhost = \"127.0.0.1\"\ncount = 15\ninterval = \"200 ms\"",
            "program = \"emulate\"",
            "does not permit emulate",
        ),
    ] {
        let output = launch(&ECHO.replace(from, to));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(why) && error.contains("422"), "{error}");
    }
    // The networks are the site's own secret: it refuses when it is asked.
    let id = lab.launch(SCENARIO, &ECHO.replace("127.0.0.1", "169.254.169.254"));
    let job = lab.wait(&id, "failed");
    assert!(
        job["message"].as_str().is_some_and(|text| text.contains("not in the networks of the site's file")),
        "{job}"
    );
}

/// Site that speaks the protocol as a test wants.
struct Puppet {
    session: Session,
    /// What it states of its clock.
    offset_us: f64,
}

impl Puppet {
    fn poll(
        &mut self,
        wait_ms: u32,
        results: Vec<CommandResult>,
        tasks: Vec<TaskReport>,
    ) -> Result<Turn, Error> {
        let doctor = Some(bentpipe_agent::protocol::Doctor {
            programs: vec!["ping".to_owned()],
            ..Default::default()
        });
        let clock = bentpipe_agent::protocol::Clock {
            offset_us: Some(self.offset_us),
            error_us: Some(100.0),
            ..Default::default()
        };
        let answer = self.session.send("poll", &Poll { wait_ms, results, tasks, clock, doctor })?;
        parse(&answer).map_err(Error::Connection)
    }

    /// Polls until a command comes.
    fn next(&mut self, results: Vec<CommandResult>, tasks: &[TaskReport]) -> Order {
        let mut results = Some(results);
        for _ in 0..20 {
            let turn = self.poll(1000, results.take().unwrap_or_default(), tasks.to_vec()).expect("answered");
            if let Some(order) = turn.commands.first() {
                return order.clone();
            }
        }
        panic!("no command");
    }
}

fn done(order: &Order) -> Vec<CommandResult> {
    vec![CommandResult { id: order.id, outcome: Outcome::Done {} }]
}

#[test]
fn a_clock_that_is_off_by_a_second_is_stated_and_taken_into_account() {
    let lab = Lab::new("127.0.0.1:0", None);
    let folder = lab.enrolled("east");
    let offset_us = 1_000_000.0;
    let mut puppet = Puppet { session: Session::log_in(&folder, |_| {}).expect("logged in"), offset_us };
    puppet.poll(0, Vec::new(), Vec::new()).expect("answered");
    assert_eq!(lab.sites()[0]["offset_us"], 1e6);
    let id = lab.launch(SCENARIO, ECHO);
    let prepare = puppet.next(Vec::new(), &[]);
    let task = prepare.act.task();
    let report = |state| [TaskReport { task, state }];
    let start = puppet.next(done(&prepare), &report(TaskState::Prepared {}));
    // The order is by the controller's clock: the site adds what it measured.
    let Act::Start { at_us, .. } = start.act else { panic!("{start:?}") };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let ahead_us = at_us - now.as_micros() as i64;
    assert!((0..2_000_000).contains(&ahead_us), "{ahead_us}");
    let [started_us, ended_us] = [at_us + 1_000_000, at_us + 1_500_000];
    let ended =
        TaskState::Ended { started_us: Some(started_us), ended_us, code: Some(0), why: "ended".to_owned() };
    let list = puppet.next(done(&start), &report(ended.clone()));
    let listed = vec![CommandResult { id: list.id, outcome: Outcome::Files { files: Vec::new() } }];
    puppet.next(listed, &report(ended));
    lab.wait(&id, "done");
    let sites: Value = serde_json::from_str(&lab.file(&id, "sites.json")).expect("JSON");
    let stated = &sites["tasks"][0];
    assert_eq!((&stated["clock_offset_us"], &stated["ordered_us"]), (&json!(1e6), &json!(at_us)), "{stated}");
    let owed = lab.refused(&["remove-job", &id]);
    assert!(owed.contains("site east still has files of it"), "{owed}");
    let order = puppet.next(Vec::new(), &[]);
    assert_eq!(order.act, Act::Drop { task });
    puppet.poll(0, done(&order), Vec::new()).expect("answered");
    lab.ask(&["remove-job", &id]);
    assert!(lab.refused(&["get-job", &id]).contains("404"));
}

#[test]
fn files_of_a_site_are_refused_by_a_disk_without_room() {
    let mut lab = Lab::new("127.0.0.1:0", None);
    let folder = lab.enrolled("east");
    let log_in = || Puppet { session: Session::log_in(&folder, |_| {}).expect("logged in"), offset_us: 0.0 };
    let mut puppet = log_in();
    puppet.poll(0, Vec::new(), Vec::new()).expect("answered");
    let id = lab.launch(SCENARIO, ECHO);
    let prepare = puppet.next(Vec::new(), &[]);
    let task = prepare.act.task();
    let report = |state| [TaskReport { task, state }];
    let start = puppet.next(done(&prepare), &report(TaskState::Prepared {}));
    // A site that is away for minutes after its task is not waited for.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let ended_us = now.as_micros() as i64;
    let ended = TaskState::Ended { started_us: Some(1), ended_us, code: Some(0), why: "ended".to_owned() };
    let list = puppet.next(done(&start), &report(ended.clone()));
    let entry = Entry { path: "output.txt".to_owned(), bytes: 3, sha256: sha256(b"abc"), chunks: Vec::new() };
    let listed = vec![CommandResult { id: list.id, outcome: Outcome::Files { files: vec![entry] } }];
    let order = puppet.next(listed, &report(ended.clone()));
    assert_eq!(order.act, Act::Fetch { task, file: 0, chunk: 0 });
    // Meanwhile the disk keeps more than it has.
    lab.server.kill().expect("killed");
    lab.server.wait().expect("ended");
    (lab.server, lab.host) =
        serve_with(lab.folder.path(), (&lab.host.clone(), None), &["--keep-free", "1000000 GB"]);
    let mut puppet = log_in();
    puppet.poll(0, Vec::new(), report(ended).to_vec()).expect("answered");
    assert_eq!(puppet.session.send_chunk((task, 0, 0), b"abc").expect("answered").0, 507);
    let job = lab.wait(&id, "failed");
    let said = job["message"].as_str().expect("a message");
    assert!(said.contains("file \"output.txt\": the server's disk has") && said.contains("keeps"), "{said}");
}

#[test]
fn a_site_that_lies_is_found_out() {
    let lab = Lab::new("127.0.0.1:0", None);
    let folder = lab.enrolled("east");
    let mut puppet = Puppet { session: Session::log_in(&folder, |_| {}).expect("logged in"), offset_us: 0.0 };
    puppet.poll(0, Vec::new(), Vec::new()).expect("answered");
    let entry = |path: &str, text: &[u8]| Entry {
        path: path.to_owned(),
        bytes: text.len() as u64,
        sha256: sha256(text),
        chunks: Vec::new(),
    };
    let mut lie = |files: Vec<Entry>, chunk: &[u8]| {
        let id = lab.launch(SCENARIO, ECHO);
        // What is left of the task before is confirmed first.
        let mut left = Vec::new();
        let prepare = loop {
            let order = puppet.next(std::mem::take(&mut left), &[]);
            match order.act {
                Act::Prepare { .. } => break order,
                _ => left = done(&order),
            }
        };
        let Act::Prepare { task, program: Program::Ping { count: 15, .. }, .. } = prepare.act else {
            panic!("{prepare:?}")
        };
        let report = |state| [TaskReport { task, state }];
        let start = puppet.next(done(&prepare), &report(TaskState::Prepared {}));
        assert!(matches!(start.act, Act::Start { .. }), "{start:?}");
        let ended =
            TaskState::Ended { started_us: Some(1), ended_us: 2, code: Some(0), why: "ended".to_owned() };
        let list = puppet.next(done(&start), &report(ended.clone()));
        assert_eq!(list.act, Act::List { task });
        let listed = vec![CommandResult { id: list.id, outcome: Outcome::Files { files } }];
        let order = puppet.next(listed, &report(ended));
        let mut status = 0;
        if order.act == (Act::Fetch { task, file: 0, chunk: 0 }) {
            // What was not asked for is not taken.
            assert_eq!(puppet.session.send_chunk((task, 0, 7), b"x").expect("answered").0, 409);
            assert_eq!(puppet.session.send_chunk((task + 1, 0, 0), b"x").expect("answered").0, 409);
            status = puppet.session.send_chunk((task, 0, 0), chunk).expect("answered").0;
        }
        let job = lab.wait(&id, "failed");
        let files = lab.ask(&["list-artifacts", &id]);
        assert!(files.as_array().expect("a list").iter().all(|file| file["path"] == "sites.json"), "{files}");
        (status, job["message"].as_str().expect("a message").to_owned())
    };
    for path in ["../x", "/etc/cron.d/x", "a/../../x", "a\\..\\x"] {
        let (status, message) = lie(vec![entry(path, b"x")], b"x");
        assert!(status == 0 && message.contains("list of files is refused"), "{message}");
    }
    let (status, message) = lie(vec![entry("output.txt", b"abc")], b"abd");
    assert!(status == 422 && message.contains("not the hash that the site stated"), "{message}");
    let (status, message) = lie(vec![entry("output.txt", b"abc")], b"abcd");
    assert!(status == 422 && message.contains("not the size that the site stated"), "{message}");
    assert_eq!(lab.audited("send file", "not the"), 2);
    assert!(!lab.path("data/x").exists() && !lab.path("x").exists());
}

#[test]
fn strangers_old_versions_and_revoked_sites_stay_outside() {
    let lab = Lab::new("127.0.0.1:0", None);
    let code = lab.code("east");
    let url = format!("https://{}", lab.host);
    let invitation = Invitation::parse(&code).expect("a code");
    let other = Invitation { certificate: [7; 32], ..invitation.clone() };
    let refusal = |name: &str, invitation: &Invitation| {
        let result = enrol(&lab.path(name), &url, invitation, None);
        result.err().unwrap_or_else(|| panic!("{name} was enrolled")).to_string()
    };
    assert!(refusal("fake", &other).contains("its certificate is not the one"), "a server between them");
    let guessed = Invitation { secret: "0".repeat(32), ..invitation.clone() };
    assert!(refusal("guess", &guessed).contains("the invitation was used"));
    enrol(&lab.path("east"), &url, &invitation, None).expect("enrolled");
    assert!(refusal("again", &invitation).contains("the invitation was used"));
    let folder = lab.path("east");

    let login = |change: &dyn Fn(&mut bentpipe_agent::protocol::Hello)| {
        let session = Session::log_in(&folder, |hello| change(hello)).map_err(|error| error.to_string())?;
        Ok::<_, String>(Puppet { session, offset_us: 0.0 })
    };
    let old = login(&|hello| hello.version = 7).err().expect("refused");
    assert!(old.contains("version 7 of the protocol, this server 2"), "{old}");
    let renamed = login(&|hello| hello.name = "west".to_owned()).err().expect("refused");
    assert!(renamed.contains("no such site, or not its key"), "{renamed}");
    // A signature is of one connection: who has seen it cannot use it.
    let seen = std::cell::RefCell::new(String::new());
    login(&|hello| hello.signature.clone_into(&mut seen.borrow_mut())).expect("logged in");
    let replayed = login(&|hello| hello.signature = seen.borrow().clone()).err().expect("refused");
    assert!(replayed.contains("not its key"), "{replayed}");

    let mut first = login(&|_| {}).expect("logged in");
    first.poll(0, Vec::new(), Vec::new()).expect("answered");
    let mut second = login(&|_| {}).expect("logged in");
    let displaced = first.poll(0, Vec::new(), Vec::new()).expect_err("displaced").to_string();
    assert!(displaced.contains("another connection took the place"), "{displaced}");
    second.poll(0, Vec::new(), Vec::new()).expect("answered");
    let id = lab.sites()[0]["id"].to_string();
    // It takes effect at once, also on a poll that waits.
    let waiting = std::thread::spawn(move || {
        let error = second.poll(20_000, Vec::new(), Vec::new()).expect_err("revoked");
        error.to_string()
    });
    // Nothing tells that the poll waits; one that comes later is refused the same.
    std::thread::sleep(Duration::from_millis(300));
    lab.ask(&["revoke-site", &id]);
    let revoked = waiting.join().expect("ended");
    assert!(revoked.contains("revoked"), "{revoked}");
    assert!(login(&|_| {}).err().is_some_and(|why| why.contains("no such site")));
    assert_eq!(lab.sites(), Vec::<Value>::new());
    for (action, outcome) in [
        ("invite site", "done"),
        ("enrol site", "not valid"),
        ("log in site", "refused"),
        ("revoke site", "done"),
    ] {
        assert!(lab.audited(action, outcome) > 0, "{action}");
    }
    assert!(lab.refused(&["invite-site", "--name", "../x"]).contains("lower-case letters"));
    if !has("curl") {
        return skip("curl is missing");
    }
    let poll = |body: &str| {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--noproxy",
            "*",
            "--max-time",
            "10",
            "--cacert",
            &lab.shown("data/certificate.pem"),
        ]);
        curl.args(["--write-out", "%{http_code}", "--output", "/dev/null", "--data", body]);
        let output = curl.arg(format!("{url}/site/poll")).output().expect("runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(poll("{}"), "403", "nobody logged in over this connection");
}

/// Path between the sites of EGGS with a delay of its own: a relay of datagrams, 20 ms each way, and 30 ms from the sixth second of a run on.
const RELAY: &str = "\
import heapq, select, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('192.0.2.1', 7700))
other = {'192.0.2.12': '192.0.2.13', '192.0.2.13': '192.0.2.12'}
begin, last, queue, count = 0, 0, [], 0
while True:
    wait = max(0, queue[0][0] - time.monotonic()) if queue else None
    if select.select([s], [], [], wait)[0]:
        data, (source, _) = s.recvfrom(65536)
        now = time.monotonic()
        begin = now if now > last + 1 else begin
        last = now
        count += 1
        heapq.heappush(queue, (now + (0.02 if now < begin + 5 else 0.03), count, data, other[source]))
    while queue and queue[0][0] <= time.monotonic():
        _, _, data, to = heapq.heappop(queue)
        s.sendto(data, (to, 7700))
";

/// EGGS on three machines: the sink on a planet, its orbiter, and Earth, whose host is behind an interface of its own.
struct Eggs {
    lab: Lab,
    relay: Child,
    /// They go last.
    _machines: Machines,
}

impl Drop for Eggs {
    fn drop(&mut self) {
        let _ = self.relay.kill();
        let _ = self.relay.wait();
    }
}

impl Eggs {
    fn new() -> Eggs {
        let machines = Machines::new();
        let [hub, planet, orbiter, earth] = [0, 1, 2, 3].map(|n| machines.0[n].clone());
        ip(&format!("-n {orbiter} link delete eth2"));
        ip(&format!("-n {earth} link add port type veth peer name host"));
        ip(&format!("-n {earth} address add 10.0.0.3/24 dev host"));
        ip(&format!("-n {earth} link set host up"));
        let relay = Command::new("ip").args(["netns", "exec", &hub, "python3", "-c", RELAY]).spawn();
        let mut lab = Lab::new("192.0.2.1:8443", Some(&hub));
        let host = |own: u32, neighbour: u32, at: Option<&str>| {
            let permits = permit_node(&lab, own, &[(neighbour, at)], neighbour);
            permits.replace("programs = [", "programs = [\"ping\", \"emulate\", ").replace(
                "networks = [",
                "interfaces = [\"port\"]\nnetworks = [\"10.0.0.0/8\", \"192.0.2.0/24\", ",
            )
        };
        let of_planet = host(1, 2, Some("10.0.0.3")).replace("interfaces = [\"port\"]\n", "");
        let of_earth = host(2, 1, None);
        lab.site("planet", Some(&planet), &of_planet);
        let orbiter_permits =
            "programs = [\"emulate\"]\ninterfaces = [\"eth1\"]\nnetworks = [\"192.0.2.0/24\"]\n";
        lab.site("orbiter", Some(&orbiter), orbiter_permits);
        lab.site("earth", Some(&earth), &of_earth);
        lab.wait_for_sites(3);
        Eggs { lab, relay: relay.expect("starts"), _machines: machines }
    }

    /// Launches the study's network with this delay of the long haul, and further tasks.
    fn launch(&self, delay: &str, duration: &str, tasks: &str) -> String {
        let text = include_str!("../../../../../studies/eggs/tcp.toml");
        let text =
            text.split("[sweep]").next().expect("a text").replace("\"250 ms\"", &format!("\"{delay}\""));
        let part = |site: &str, host: &str, interface: &str| {
            format!(
                "[task.{site}]\nsite = \"{site}\"\nprogram = \"emulate\"\nduration = \"{duration}\"\n\
                 cut = \"longhaul\"\npart = \"{site}\"\njoin = \"192.0.2.1:7700\"\n\
                 attach = {{ {host} = \"{interface}\" }}\n"
            )
        };
        let parts = part("orbiter", "sink", "eth1") + &part("earth", "earth", "port");
        self.lab.launch(&text, &format!("{parts}{tasks}"))
    }
}

#[test]
fn eggs_on_three_sites_takes_the_path_off_the_delay_and_refuses_a_longer_one() {
    let Some(_turn) = able_live(&["ping", "python3"]) else { return };
    let eggs = Eggs::new();
    let lab = &eggs.lab;
    assert!(lab.sites().iter().all(|site| site["processors"].as_u64() > Some(0)), "{:?}", lab.sites());
    // Of a packet that has to be there in 15 ms, it is known 20 ms too late.
    let id = eggs.launch("15 ms", "1 s", "");
    let job = lab.wait(&id, "failed");
    let said = lab.file(&id, "tasks/earth/errors.txt");
    assert!(said.contains("longhaul") && said.contains("the path between both machines has"), "{job} {said}");

    let echo = "[task.echo]\nsite = \"planet\"\nprogram = \"ping\"\nhost = \"10.0.0.3\"\ncount = 6\n\
                interval = \"400 ms\"\nstart = \"3 s\"\n";
    let watch = Watch::start();
    let id = eggs.launch("250 ms", "4 s", echo);
    lab.wait(&id, "done");
    let late = watch.end();
    let echoes = lab.file(&id, "tasks/echo/output.txt");
    assert!(echoes.contains("6 packets transmitted, 6 received"), "{echoes}");
    let shortest = echoes.split("rtt min/avg/max/mdev = ").nth(1).and_then(|rest| rest.split('/').next());
    let shortest: f64 = shortest.and_then(|text| text.parse().ok()).expect("a time");
    // Both links both ways, with the serialisation of 84 B at 64 kbit/s on each; the path's 40 ms and more are in it.
    let links = 2.0 * (250.0 + 40.0) + 4.0 * 10.5;
    // Both emulators, the relay and both kernels wake for it on the way there and back.
    let most = links + 40.0 + 10.0 * late.quantile(0.95).as_secs_f64() * 1e3;
    assert!((links - 1.0..most).contains(&shortest), "{shortest} ms of {links} to {most} ms");
    let said = lab.file(&id, "tasks/earth/errors.txt");
    assert!(said.contains("path to the other machine: round trips of 4"), "{said}");
    assert!(lab.file(&id, "report.html").contains("<svg"));
    let files = lab.ask(&["list-artifacts", &id]);
    let paths = files.as_array().expect("a list").iter().filter_map(|file| file["path"].as_str());
    let has = |part: &str| paths.clone().any(|path| path.contains(part));
    assert!(has("tasks/earth/") && !has("key") && !has("live.jsonl"), "{files}");
    // Its plots moved while it ran.
    let live = std::fs::read_to_string(lab.path(&format!("data/jobs/{id}/live-1.jsonl"))).expect("samples");
    assert!(live.starts_with("{\"event\":\"columns\""), "{live}");
    assert!(live.lines().filter(|line| line.starts_with("{\"event\":\"samples\"")).count() > 10, "{live}");
}

/// Measures of EGGS as bundles of real nodes over three sites.
#[test]
#[ignore = "takes 45 s: `BENTPIPE_EGGS_SECONDS` of real time"]
#[expect(clippy::print_stdout, reason = "it is run for its figures")]
fn bundles_of_eggs_cross_three_sites() {
    let Some(_turn) = able_live(&["python3"]) else { return };
    let seconds = std::env::var("BENTPIPE_EGGS_SECONDS").unwrap_or_else(|_| "20".to_owned());
    let eggs = Eggs::new();
    let node = |site: &str| {
        format!(
            "[task.node-{site}]\nsite = \"{site}\"\nprogram = \"dtn-node\"\nname = \"own\"\nstart = \"4 s\"\n"
        )
    };
    let load = format!(
        "{}{}[task.load]\nsite = \"planet\"\nprogram = \"dtn-perf\"\nnode = \"127.0.0.1:4556\"\nfrom = \"ipn:1.60\"\n\
         to = \"ipn:2.9\"\npayload = \"25 B\"\nbundles_per_second = 20\nduration = \"{seconds} s\"\nstart = \"8 s\"\n",
        node("planet"),
        node("earth"),
    );
    let whole = seconds.parse::<u32>().expect("a number") + 20;
    let id = eggs.launch("250 ms", &format!("{whole} s"), &load);
    eggs.lab.wait(&id, "done");
    let figures: Value = serde_json::from_str(&eggs.lab.file(&id, "tasks/load/figures.json")).expect("JSON");
    println!("{figures}");
    assert!(figures["delivered"].as_u64() > Some(0) && figures["delivered"] == figures["sent"], "{figures}");
}
