//! Studies as jobs, reservations, notes and tags.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_testkit::has;
use serde_json::{Value, json};

use super::client::{SCENARIO, Server, User};

#[test]
fn a_study_runs_as_a_job_and_leaves_its_comparison() {
    // The server is started in this crate, so that a relative folder of studies is not there.
    let server = Server::new();
    let boss = server.boss();
    let refused = server.api(&boss, "POST", "/jobs", &json!({ "study": "tatpa" }));
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains("--studies"), "{refused:?}");
    let studies = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
    let server = Server::with(&["--studies", &studies.display().to_string()]);
    let boss = server.boss();
    for bad in [
        json!({ "study": "nothing" }),
        json!({ "study": "--help" }),
        json!({ "study": "../studies/pep" }),
        json!({ "study": "pep", "seeds": 3 }),
        json!({ "study": "pep", "scenario": 1 }),
        json!({}),
    ] {
        assert_eq!(server.api(&boss, "POST", "/jobs", &bad).status, 422, "{bad}");
    }
    let names = server.api(&boss, "GET", "/studies", &Value::Null).json();
    assert!(names.as_array().expect("a list").iter().any(|study| study["name"] == "tatpa"), "{names}");
    let id = server.launch(&boss, &json!({ "study": "tatpa", "quick": true }));
    let job = server.wait_for(&boss, id, "done");
    assert_eq!((job["kind"].as_str(), job["study"].as_str()), (Some("study"), Some("tatpa")));
    assert_eq!(job["finished"], job["runs"]);
    let files = server.api(&boss, "GET", &format!("/jobs/{id}/artifacts"), &Value::Null).json();
    let has = |name: &str| files.as_array().expect("a list").iter().any(|file| file["path"] == name);
    assert!(has("report.html") && has("comparison.json"), "{files}");
    let page = server.send(&boss, ("GET", &format!("/jobs/{id}")), &[], "");
    assert!(page.status == 200 && page.body.contains("study tatpa"));
    archive_has_all(&server, &boss, id, &files);
}

/// Unpacks the archive of a job by Python, and compares with the list of files.
fn archive_has_all(server: &Server, user: &User, id: i64, files: &Value) {
    let archive = server.folder.path().join("job.zip");
    let mut remote = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    remote.args(["remote", "--server", &format!("http://{}", server.host), "get-archive", &id.to_string()]);
    let output =
        remote.arg("--output").arg(&archive).env("BENTPIPE_SESSION", &user.0[0].1).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Reading checks the CRC of each file.
    let script = "import json, sys, zipfile\n\
        a = zipfile.ZipFile(sys.argv[1])\n\
        print(json.dumps(sorted([i.filename, len(a.read(i))] for i in a.infolist())))";
    if !has("python3") {
        return;
    }
    let output = Command::new("python3").args(["-c", script]).arg(&archive).output().expect("runs");
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let mut found: Vec<(String, i64)> = serde_json::from_value(found).expect("a list");
    let description = format!("job-{id}/bentpipe-job.json");
    assert!(found.iter().any(|(name, _)| *name == description), "{found:?}");
    found.retain(|(name, _)| *name != description);
    let listed = files.as_array().expect("a list").iter();
    let mut wanted: Vec<(String, i64)> = listed
        .map(|file| {
            let path = file["path"].as_str().expect("a path");
            (format!("job-{id}/{path}"), file["bytes"].as_i64().expect("bytes"))
        })
        .collect();
    wanted.sort();
    assert_eq!(found, wanted);
}

#[test]
fn reservations_hold_the_jobs_of_others_and_clashes_are_refused() {
    let server = Server::new();
    let boss = server.boss();
    let (ann, bob) = (server.user(&boss, "ann", 1), server.user(&boss, "bob", 1));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let reserve =
        |start: i64, end: i64| json!({ "start": now + start, "end": now + end, "purpose": "campaign" });
    let made = server.api(&ann, "POST", "/reservations", &reserve(-1000, 3_600_000));
    assert_eq!(made.status, 201, "{made:?}");
    let clash = server.api(&bob, "POST", "/reservations", &reserve(60_000, 7_200_000));
    assert_eq!(clash.status, 409);
    assert!(clash.body.contains("reserved by ann"), "{clash:?}");
    let part = |capability: &str| json!({ "start": now + 86_400_000, "end": now + 90_000_000, "purpose": "x", "capability": capability });
    for (capability, status, why) in [
        ("1 processor", 201, "processors"),
        ("1 processor", 409, "0 of 1 processors are free"),
        ("emulation", 409, "1 processor reserved by ann"),
        ("testbed", 409, "1 processor reserved by ann"),
        ("site with gateway", 422, "no site permits gateway"),
        ("site east", 422, "no such site"),
        ("everything", 422, "expected"),
    ] {
        let answer = server.api(&ann, "POST", "/reservations", &part(capability));
        assert!(answer.status == status && answer.body.contains(why), "{capability}: {answer:?}");
    }
    for bad in [reserve(10, 5), reserve(-20_000, -10_000), reserve(0, 8 * 86_400_000)] {
        assert_eq!(server.api(&bob, "POST", "/reservations", &bad).status, 422, "{bad}");
    }
    let [of_bob, of_ann] = [&bob, &ann].map(|user| {
        let scenario = server.scenario(user, SCENARIO);
        server.launch(user, &json!({ "scenario": scenario }))
    });
    server.wait_for(&ann, of_ann, "done");
    assert_eq!(server.job(&bob, of_bob)["state"], "queued");
    let path = format!("/reservations/{}", made.json()["id"]);
    assert_eq!(server.api(&bob, "DELETE", &path, &Value::Null).status, 403);
    assert_eq!(server.api(&ann, "DELETE", &path, &Value::Null).status, 204);
    server.wait_for(&bob, of_bob, "done");
}

#[test]
fn reservations_have_limits_by_level() {
    let server = Server::new();
    let boss = server.boss();
    let (ann, eve) = (server.user(&boss, "ann", 1), server.user(&boss, "eve", 2));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let hour = 3_600_000;
    let reserve = |user: &User, from: i64, hours: i64| {
        let body = json!({ "start": now + from * hour, "end": now + (from + hours) * hour, "purpose": "x" });
        let answer = server.api(user, "POST", "/reservations", &body);
        (answer.status, answer.json()["detail"].as_str().unwrap_or_default().to_owned())
    };
    let (code, why) = reserve(&ann, 1, 25);
    assert!(code == 422 && why.contains("has 1.04 d: expected at most 1 d at level 1"), "{why}");
    assert_eq!(reserve(&ann, 14 * 24 - 1, 2).0, 422, "too far ahead");
    assert_eq!([0, 24].map(|from| reserve(&ann, from, 24).0), [201, 201]);
    let (code, why) = reserve(&ann, 100, 1);
    assert!(code == 422 && why.contains("at most 2 d together"), "{why}");
    assert_eq!(reserve(&eve, 100, 6 * 24).0, 201);
    assert_eq!(reserve(&eve, 88 * 24, 3 * 24).0, 422);
    assert_eq!(reserve(&boss, 200 * 24, 7 * 24).0, 201);
    let page = server.send(&ann, ("GET", "/reservations"), &[], "").body;
    assert!(page.contains("at most 1 d long"), "{page}");
}

#[test]
fn a_queued_job_shows_why_it_waits_where_and_until_when() {
    let server = Server::new();
    let boss = server.boss();
    let (ann, bob) = (server.user(&boss, "ann", 1), server.user(&boss, "bob", 1));
    let launch = |user: &User, duration: &str| {
        let scenario = server.scenario(user, &SCENARIO.replace("2 s", duration));
        server.launch(user, &json!({ "scenario": scenario }))
    };
    let place = |id: i64| {
        let answer = server.api(&boss, "GET", &format!("/jobs/{id}/queue"), &Value::Null);
        (answer.status == 200).then(|| answer.json())
    };
    let first = launch(&ann, "2 s");
    server.wait_for(&ann, first, "done");
    assert_eq!(place(first), None);
    let running = launch(&ann, "999999 s");
    server.wait_for(&ann, running, "running");
    let (second, third) = (launch(&bob, "2 s"), launch(&bob, "2 s"));
    let (second, third) = (place(second).expect("queued"), (third, place(third).expect("queued")));
    assert_eq!((&second["position"], &second["of"]), (&json!(1), &json!(2)), "{second}");
    assert!(
        second["reason"].as_str().is_some_and(|why| why.contains("as many as there are places")),
        "{second}"
    );
    assert!(third.1["reason"].as_str().is_some_and(|why| why.contains("1 queued before it")), "{third:?}");
    assert!(third.1["expected"].as_i64() >= second["expected"].as_i64() && second["expected"].is_i64());
    let page = server.send(&bob, ("GET", &format!("/jobs/{}", third.0)), &[], "").body;
    assert!(page.contains("Position 2 of 2") && page.contains("Expected start"), "{page}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let body = json!({ "start": now - 1000, "end": now + 3_600_000, "purpose": "x" });
    assert_eq!(server.api(&ann, "POST", "/reservations", &body).status, 201);
    let held = place(third.0).expect("queued");
    assert!(held["reason"].as_str().is_some_and(|why| why.contains("reserved by ann until")), "{held}");
    assert!(held["expected"].as_i64() >= Some(now + 3_600_000), "{held}");
    server.api(&boss, "POST", &format!("/jobs/{running}/cancel"), &Value::Null);
}

#[test]
fn notes_and_tags_are_kept_and_found() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let scenario = server.scenario(&ann, SCENARIO);
    let id = server.launch(&ann, &json!({ "scenario": scenario }));
    let path = format!("/jobs/{id}");
    let note = json!({ "note": "<b>first</b> try", "tags": "red fig-17" });
    assert_eq!(server.api(&ann, "PATCH", &path, &note).json()["tags"], json!(["fig-17", "red"]));
    assert_eq!(server.api(&ann, "PATCH", &path, &json!({ "tags": "a,b" })).status, 422);
    assert_eq!(
        server.api(&ann, "PATCH", &path, &json!({ "tags": "green" })).json()["note"],
        "<b>first</b> try"
    );
    let found = |text: &str| {
        let all = server.api(&ann, "GET", &format!("/jobs?search={text}"), &Value::Null).json();
        all.as_array().expect("a list").len()
    };
    assert_eq!(["first", "green", "red"].map(found), [1, 1, 0]);
    let page = server.send(&ann, ("GET", &path), &[], "");
    assert!(page.body.contains("&lt;b&gt;first") && !page.body.contains("<b>first"));
    server.wait_for(&ann, id, "done");
}
