//! Files of users, which their scenarios name: uploads, jobs that keep what they read, refusals.

use serde_json::{Value, json};

use super::client::{Answer, SCENARIO, Server, User};

/// What a browser says of its own page.
const SAME: (&str, &str) = ("sec-fetch-site", "same-origin");

/// Scenario whose delay comes from a file.
fn scenario() -> String {
    let udp = "traffic = { kind = \"udp\", payload = \"60 B\", pattern = { kind = \"constant\", interval = \"20 ms\" } }";
    let text = SCENARIO.replace("delay = \"10 ms\"", "delay_changes = { file = \"leo.csv\" }");
    text.replace("traffic = { kind = \"tcp\" }", udp)
}

fn changes(delay_ms: u32) -> String {
    format!("time,delay\n0 s,{delay_ms} ms\n1 s,{delay_ms} ms\n")
}

fn upload(server: &Server, user: &User, name: &str, content: &str) -> Answer {
    let path = format!("/api/v1/files?name={name}");
    server.send(user, ("POST", &path), &[("content-type", "application/octet-stream"), SAME], content)
}

/// Sends the page's form, as a browser does.
fn form(server: &Server, user: &User, (field, file): (&str, &str), content: &str) -> Answer {
    let body = format!(
        "--xx\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n{field}\r\n--xx\r\nContent-Disposition: form-data; \
         name=\"file\"; filename=\"{file}\"\r\nContent-Type: text/csv\r\n\r\n{content}\r\n--xx--\r\n"
    );
    server.send(
        user,
        ("POST", "/files/add"),
        &[("content-type", "multipart/form-data; boundary=xx"), SAME],
        &body,
    )
}

fn files(server: &Server, user: &User) -> Vec<Value> {
    server.api(user, "GET", "/files", &Value::Null).json().as_array().expect("a list").clone()
}

fn delay(server: &Server, user: &User, job: i64) -> f64 {
    let path = format!("/jobs/{job}/measures?search=flow.f.delay-mean");
    let measures = server.api(user, "GET", &path, &Value::Null).json();
    measures[0]["mean"].as_f64().unwrap_or_else(|| panic!("{measures}"))
}

#[test]
fn a_job_reads_an_uploaded_file_and_keeps_it() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let scenario = server.scenario(&ann, &scenario());
    let launch = json!({ "scenario": scenario });
    let refused = server.api(&ann, "POST", "/jobs", &launch);
    assert_eq!(refused.status, 422, "{refused:?}");
    assert_eq!(refused.json()["problems"][0]["key"], "link.l.delay_changes.file", "{refused:?}");
    let made = upload(&server, &ann, "leo.csv", &changes(10));
    assert_eq!(made.status, 201, "{made:?}");
    let first = server.launch(&ann, &launch);
    server.wait_for(&ann, first, "done");
    // By the form of the page: another content under the same name.
    let sent = form(&server, &ann, ("leo.csv", "other.csv"), &changes(50));
    assert_eq!((sent.status, sent.header("location")), (303, Some("/files")), "{sent:?}");
    let second = server.launch(&ann, &launch);
    server.wait_for(&ann, second, "done");
    let (before, after) = (delay(&server, &ann, first), delay(&server, &ann, second));
    assert!((0.010..0.012).contains(&before) && (0.050..0.052).contains(&after), "{before} {after}");
    let all = files(&server, &ann);
    assert_eq!(
        (all.len(), &all[0]["name"], &all[0]["size"]),
        (1, &json!("leo.csv"), &json!(changes(50).len()))
    );
    // The first job still has what it read, also after the file is gone.
    let removed = server.api(&ann, "DELETE", &format!("/files/{}", all[0]["id"]), &Value::Null);
    assert_eq!(removed.status, 204, "{removed:?}");
    let artifacts = server.api(&ann, "GET", &format!("/jobs/{first}/artifacts"), &Value::Null).json();
    let kept = artifacts.as_array().expect("a list").iter().find(|one| one["path"] == "input/leo.csv");
    let number = kept.expect("the file")["number"].as_i64().expect("a number");
    let path = format!("/api/v1/jobs/{first}/artifacts/{number}");
    assert_eq!(server.send(&ann, ("GET", &path), &[], "").body, changes(10));
    let again = server.api(&ann, "POST", "/jobs", &launch);
    assert_eq!(again.status, 422, "{again:?}");
}

/// Runs `bentpipe remote` as a user. Returns its answer, or its error.
fn remote(server: &Server, user: &User, arguments: &[&str]) -> Result<Value, String> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["remote", "--server", &format!("http://{}", server.host)])
        .args(arguments)
        .env("BENTPIPE_SESSION", &user.0[0].1)
        .output()
        .expect("runs");
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn a_job_goes_to_another_server_and_is_reproduced_there() {
    let here = Server::new();
    let boss = here.boss();
    upload(&here, &boss, "leo.csv", &changes(10));
    let scenario = here.scenario(&boss, &scenario());
    let id = here.launch(&boss, &json!({ "scenario": scenario, "seeds": 2, "duration": "1 s" }));
    here.wait_for(&boss, id, "done");
    here.api(&boss, "PATCH", &format!("/jobs/{id}"), &json!({ "note": "to you", "tags": "red" }));
    let archive = here.folder.path().join("job.zip").display().to_string();
    remote(&here, &boss, &["get-archive", &id.to_string(), "--output", &archive]).expect("saved");
    let (there, goodput) = (Server::new(), delay(&here, &boss, id));
    let ann = there.user(&there.boss(), "ann", 1);
    // Cut in half, and with one byte changed.
    let bytes = std::fs::read(&archive).expect("read");
    let bad = there.folder.path().join("bad.zip").display().to_string();
    std::fs::write(&bad, &bytes[..bytes.len() / 2]).expect("written");
    let refused = remote(&there, &ann, &["import-job", &bad]).expect_err("half");
    assert!(refused.contains("not a whole zip file") && refused.contains("422"), "{refused}");
    assert_eq!(files(&there, &ann), Vec::<Value>::new());
    let job = remote(&there, &ann, &["import-job", &archive]).expect("imported");
    assert_eq!(
        (&job["state"], &job["origin"]["job"], &job["note"]),
        (&json!("done"), &json!(id), &json!("to you"))
    );
    let imported = job["id"].as_i64().expect("a number");
    assert_eq!(delay(&there, &ann, imported), goodput);
    let page = there.send(&ann, ("GET", &format!("/jobs/{imported}")), &[], "");
    assert!(page.body.contains("as its archive states them") && page.body.contains("leo.csv"), "{page:?}");
    let again = remote(&there, &ann, &["repeat-job", &imported.to_string()]).expect("launched");
    let again = there.wait_for(&ann, again["id"].as_i64().expect("a number"), "done");
    assert_eq!((&again["equal"], &again["repeats"]), (&json!(true), &json!(imported)), "{again}");
    // What it became goes on; a second import of the same text is of the same scenario.
    let second = remote(&there, &ann, &["import-job", &archive]).expect("imported");
    assert_eq!((&second["version"], &second["tags"]), (&job["version"], &json!(["red"])));
    let running = there.launch(&ann, &json!({ "scenario": job["scenario"], "version": job["version"] }));
    assert!(running > 0, "{job}");
}

#[test]
fn searches_and_campaigns_read_files_too() {
    let server = Server::new();
    let boss = server.boss();
    upload(&server, &boss, "leo.csv", &changes(10));
    let id = server.scenario(&boss, &scenario());
    let over =
        json!({ "over": "link.l.rate='1000 to 800 kbit/s by 100'", "while": ["flow.f.goodput >= 1 bit/s"] });
    let search = server.launch(&boss, &json!({ "scenario": id, "search": over }));
    server.wait_for(&boss, search, "done");
    let swept = scenario() + "[sweep]\n\"link.l.rate\" = [\"1 Mbit/s\", \"2 Mbit/s\"]\n";
    let id = server.scenario(&boss, &swept);
    let campaign = server.launch(&boss, &json!({ "scenario": id, "campaign": true }));
    let job = server.wait_for(&boss, campaign, "done");
    assert_eq!((&job["finished"], &job["message"]), (&json!(2), &json!("")), "{job}");
}

#[test]
fn files_belong_to_their_users_and_names_lead_nowhere() {
    let server = Server::new();
    let boss = server.boss();
    let [ann, bob] = ["ann", "bob"].map(|name| server.user(&boss, name, 1));
    assert_eq!(upload(&server, &ann, "leo.csv", &changes(10)).status, 201);
    let id = files(&server, &ann)[0]["id"].clone();
    assert!(files(&server, &bob).is_empty());
    for (method, path) in [("GET", format!("/files/{id}")), ("DELETE", format!("/files/{id}"))] {
        assert_eq!(server.api(&bob, method, &path, &Value::Null).status, 404, "{method}");
    }
    let check = |user: &User| {
        server.api(user, "POST", "/check", &json!({ "text": scenario() })).json()["problems"].clone()
    };
    assert_eq!((check(&ann), check(&bob)[0]["line"].as_i64()), (json!([]), Some(8)));
    // What all may read needs level 2.
    let path = "/api/v1/files?name=leo.csv&shared=true";
    assert_eq!(server.send(&ann, ("POST", path), &[SAME], "x").status, 403);
    assert_eq!(server.send(&boss, ("POST", path), &[SAME], &changes(20)).status, 201);
    assert_eq!(check(&bob), json!([]));
    for name in ["..", "%2e%2e%2fx", "a%2fb", ".x", "scenario.toml", "", "a%00b", "%C3%A9"] {
        assert_eq!(upload(&server, &ann, name, "x").status, 422, "{name}");
    }
    for file in ["../x", "/etc/passwd", "..\\x"] {
        assert_eq!(form(&server, &ann, ("", file), "x").status, 422, "{file}");
    }
    for (key, text) in [
        ("sizes", "traffic = { kind = \"stream\", model = { sizes = \"/etc/passwd\" } }"),
        ("file", "traffic = { kind = \"replay\", file = \"/etc/passwd\" }"),
    ] {
        let text = SCENARIO.replace("traffic = { kind = \"tcp\" }", text);
        let found = server.api(&ann, "POST", "/check", &json!({ "text": text })).json();
        let refused = found["problems"][0]["key"].as_str().unwrap_or_default().to_owned();
        assert!(refused.ends_with(key), "{found}");
    }
    // Nothing is left of what was refused.
    let left = std::fs::read_dir(server.data().join("files")).expect("a folder").count();
    assert_eq!(left, 2);
}

#[test]
fn too_much_is_refused_while_it_comes() {
    let server = Server::new();
    let boss = server.boss();
    let large = "x".repeat((64 << 20) + 1);
    let refused = upload(&server, &boss, "large.ts", &large);
    assert!(refused.status == 413 && refused.body.contains("64 MiB"), "{} {}", refused.status, refused.body);
    assert_eq!(upload(&server, &boss, "large.ts", &large[1..]).status, 201);
    let left = std::fs::read_dir(server.data().join("files")).expect("a folder").count();
    assert_eq!(left, 1);
}
