//! Privileges of a running gateway, as the kernel shows them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use bentpipe_testkit::{Folder, Tshark, until};

use super::rig::{Running, Sky, site_of_two, udp};

/// Lines of `/proc/PID/status` or of a thread's.
fn status(path: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line =
        |line: &str| line.split_once(':').map(|(key, value)| (key.to_owned(), value.trim().to_owned()));
    text.lines().filter_map(line).collect()
}

const SETS: [&str; 5] = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];

/// Asserts that all threads of a gateway are without privileges.
fn expect_none(gateway: &Running) {
    let pid = gateway.id();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let threads: Vec<String> =
        tasks.map(|entry| entry.expect("a thread").path().join("status").display().to_string()).collect();
    assert!(threads.len() >= 3, "main thread, loop and control socket: {threads:?}");
    for path in threads {
        let status = status(&path);
        for set in SETS {
            assert_eq!(status[set], "0000000000000000", "{set} of {path}");
        }
        for id in ["Uid", "Gid"] {
            assert!(status[id].split_whitespace().all(|id| id != "0"), "{path}: {}", status[id]);
        }
        assert_eq!((&status["NoNewPrivs"][..], &status["Seccomp"][..]), ("1", "2"), "{path}");
        assert_eq!(status["Groups"], "", "{path}");
    }
}

/// Processes whose parent is the gateway.
fn children(gateway: &Running) -> Vec<u32> {
    let pid = gateway.id();
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it runs");
    text.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

#[test]
fn a_running_gateway_has_no_privileges_and_carries_packets_all_the_same() {
    let Some(sky) = Sky::new(2) else { return };
    let json = sky.folder.path().join("one.jsonl");
    let statistics = |name: &str| {
        format!(
            "[statistics]\njson = \"{name}.jsonl\"\nlog = \"{name}.log\"\nprometheus = \"127.0.0.1:9188\"\n"
        )
    };
    let capture = "[capture]\npath = \"air\"\nsize = \"300 kB\"\nfiles = 3\n";
    let site = |n| {
        site_of_two(
            n,
            "rate = \"8 Mbit/s\"",
            &udp(n),
            &(statistics(["one", "two"][n - 1]) + capture).replace("air", ["air", "sky"][n - 1]),
        )
    };
    let (mut one, mut two) = (sky.start(1, &site(1)), sky.start_with(2, &site(2), &["--user", "4711"]));
    assert!(one.said().contains("privileges dropped: user nobody"), "{}", one.said());
    sky.expect_pings(1, "10.2.0.1");
    expect_none(&one);
    expect_none(&two);
    assert!(status(&format!("/proc/{}/status", two.id()))["Uid"].starts_with("4711"));

    // The helper has one capability, and cannot get others.
    let [helper] = children(&one)[..] else { panic!("{:?}", children(&one)) };
    let helper = status(&format!("/proc/{helper}/status"));
    for set in ["CapPrm", "CapEff", "CapBnd"] {
        assert_eq!(helper[set], format!("{:016x}", 1 << 12), "{set}: CAP_NET_ADMIN alone");
    }
    assert_eq!((&helper["NoNewPrivs"][..], &helper["Seccomp"][..]), ("1", "2"));
    // It holds nothing of the gateway's open: its socket, and /dev/null thrice.
    let pid = &helper["Pid"];
    assert_eq!(fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count(), 4);

    // The loop still has real-time priority, and files and metrics are written.
    let loops = fs::read_dir(format!("/proc/{}/task", one.id())).expect("it runs").filter(|entry| {
        let path = entry.as_ref().expect("a thread").path().join("sched");
        fs::read_to_string(path)
            .is_ok_and(|text| text.lines().any(|line| line.starts_with("policy") && line.ends_with(" 1")))
    });
    assert_eq!(loops.count(), 1, "one thread is in SCHED_FIFO");
    let page = || sky.run(1, &["curl", "-s", "http://127.0.0.1:9188/metrics"]);
    until("metrics of packets", || page().contains("bentpipe_gateway_sent_packets_total"));
    until("a line of statistics", || fs::read_to_string(&json).is_ok_and(|text| text.contains('\n')));

    // A new network is a route that root makes.
    let path = one.path.clone();
    let text = site(1).replace("\"10.2.0.0/24\"", "\"10.2.0.0/24\", \"10.9.0.0/16\"");
    fs::write(&path, text).expect("written");
    let (fine, said) = one.ask("reload");
    assert!(fine && said.contains("contexts kept"), "{said}");
    let routes = sky.run(1, &["ip", "route"]);
    assert!(routes.contains("10.9.0.0/16 dev bent0"), "{routes}");
    sky.expect_every_ping(1, "10.2.0.1");
    // A new output is a file that only root could make.
    fs::write(&path, format!("{}[[output]]\nkind = \"file\"\npath = \"/etc/new.ts\"\n", site(1)))
        .expect("written");
    let (fine, said) = one.ask("reload");
    assert!(!fine && said.contains("output.1.path: /etc/new.ts: Permission denied"), "{said}");
    // It goes on.
    sky.expect_every_ping(1, "10.2.0.1");

    // Three files at each point, none longer than allowed, and tshark reads each.
    for _ in 0..4 {
        sky.run(1, &["ping", "-n", "-q", "-c", "300", "-i", "0.002", "-s", "1400", "10.2.0.1"]);
    }
    let missed = one.statistics()["capture_missed"].as_u64();
    let (code, _) = (one.end(), two.end());
    assert_eq!((code, missed), (Some(0), Some(0)));
    for (point, filter, least) in [("lan", "icmp", 400), ("sent", "mp2t", 2000), ("received", "mp2t", 2000)] {
        let files = [1, 2, 3].map(|n| sky.folder.path().join(format!("air-{point}-{n}.pcap")));
        let counts = files.map(|file| {
            let len = fs::metadata(&file).expect("it is there").len();
            assert!(len <= 300_000 && len > 24, "{}: {len} B", file.display());
            Tshark::on(&file).expect("required").count(filter)
        });
        assert!(counts.iter().sum::<usize>() >= least, "{point}: {counts:?}");
    }
    assert!(!fs::exists(format!("/proc/{pid}")).expect("procfs"), "the helper has ended");
    assert!(one.ask("statistics").1.contains("no gateway runs"), "its socket is gone");
}

#[test]
fn privileges_are_kept_on_request_and_a_killed_gateway_leaves_nothing() {
    let Some(sky) = Sky::new(2) else { return };
    let site = |n| site_of_two(n, "rate = \"8 Mbit/s\"", &udp(n), "");
    let one = sky.start_with(1, &site(1), &["--keep-privileges"]);
    let two = sky.start(2, &site(2));
    sky.expect_pings(1, "10.2.0.1");
    assert!(one.said().contains("privileges are kept"), "{}", one.said());
    let all = status(&format!("/proc/{}/status", one.id()));
    assert_eq!((&all["NoNewPrivs"][..], &all["Seccomp"][..]), ("0", "0"));
    assert_ne!(all["CapEff"], "0000000000000000");
    assert!(children(&one).is_empty());
    let helpers = children(&two);
    two.signal("-KILL");
    let is_gone = || helpers.iter().all(|pid| !fs::exists(format!("/proc/{pid}")).expect("procfs"));
    until("end of the helpers", is_gone);
    assert!(!sky.run(2, &["ip", "link"]).contains("bent0"), "the device is gone");
}

#[test]
fn programs_run_as_the_user_and_end_with_the_gateway() {
    let Some(sky) = Sky::new(1) else { return };
    let ends = "[[output]]\nkind = \"program\"\ncommand = [\"sh\", \"-c\", \"cat > /dev/null; exit\"]\n                [[input]]\nkind = \"program\"\ncommand = [\"sleep\", \"1000\"]\n";
    let mut one = sky.start(1, &site_of_two(1, "rate = \"8 Mbit/s\"", ends, ""));
    let programs: Vec<_> =
        children(&one).into_iter().map(|pid| status(&format!("/proc/{pid}/status"))).collect();
    let [names, uids] =
        ["Name", "Uid"].map(|key| programs.iter().map(|of| of[key].clone()).collect::<Vec<_>>());
    let user = "65534\t65534\t65534\t65534";
    assert_eq!((names.len(), &uids[1..]), (3, &[user.to_owned(), user.to_owned()][..]), "{names:?}");
    assert_eq!(&status(&format!("/proc/{}/status", one.id()))["Seccomp"][..], "2");
    assert_eq!(one.end(), Some(0));
    let is_gone =
        |of: &BTreeMap<String, String>| !fs::exists(format!("/proc/{}", of["Pid"])).expect("procfs");
    // The helper ends when it sees that the gateway has.
    until(&format!("end of {names:?}"), || programs.iter().all(is_gone));
}

#[test]
fn a_wrong_user_is_refused_before_anything_is_made() {
    let folder = Folder::new();
    let path = folder.write("site.toml", site_of_two(1, "rate = \"8 Mbit/s\"", &udp(1), ""));
    for (name, why) in [("no-such-user", "unknown user \"no-such-user\""), ("root", "is root")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
        let output = command.arg("gateway").arg(&path).args(["--user", name]).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_root = status("/proc/self/status")["Uid"].starts_with('0');
        let why = if is_root { why } else { "only root can change the user" };
        assert!(output.status.code() == Some(2) && text.contains(why), "{text}");
    }
}
