//! Lines of the security table.

use serde_json::{Value, json};

use super::client::{PASSWORD, SCENARIO, Server, User, initialised};

fn document(server: &Server) -> Value {
    server.api(&User::default(), "GET", "/openapi.json", &Value::Null).json()
}

/// Returns all operations: method, path with numbers of nothing, and level (-1 for public ones).
fn operations(server: &Server) -> Vec<(String, String, i64)> {
    let document = document(server);
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let mut address = path.clone();
            for name in ["{id}", "{number}", "{version}"] {
                address = address.replace(name, "999999");
            }
            all.push((method.to_uppercase(), address, operation["x-level"].as_i64().unwrap_or(-1)));
        }
    }
    assert!(all.len() > 30);
    all
}

#[test]
fn nothing_is_open_before_there_is_an_administrator_and_other_machines_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |listen: &str, data: &std::path::Path| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
            .args(["serve", "--listen", listen, "--data"])
            .arg(data)
            .output()
            .expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run("127.0.0.1:0", &folder.path().join("data"));
    assert!(code == Some(2) && text.contains("bentpipe serve init"), "{text}");
    let ready = initialised();
    let (code, text) = run("0.0.0.0:0", &ready.path().join("data"));
    assert!(code == Some(2) && text.contains("TLS"), "{text}");
}

#[test]
fn a_port_in_use_and_a_folder_of_another_user_are_refused_with_what_helps() {
    let serve = |listen: &str, data: &std::path::Path| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"));
        command.args(["serve", "--listen", listen, "--data"]).arg(data);
        command
    };
    let refused = |mut command: std::process::Command| {
        let output = command.output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("an address").to_string();
    let ready = initialised();
    let data = ready.path().join("data");
    let text = refused(serve(&address, &data));
    assert!(
        text.contains(&address) && text.contains("another program listens there: take another port"),
        "{text}"
    );
    // Nothing of the folder is kept in use by the one that was refused.
    let server = Server::in_folder(ready, &[]);
    let text = refused(serve("127.0.0.1:0", &server.data()));
    assert!(text.contains("another server uses this data folder"), "{text}");
    foreign_folder(&serve, &refused);
}

/// Starts a server of another user in a folder of root.
fn foreign_folder(
    serve: &dyn Fn(&str, &std::path::Path) -> std::process::Command,
    refused: &dyn Fn(std::process::Command) -> String,
) {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let folder = tempfile::tempdir().expect("a folder");
    if std::fs::metadata(folder.path()).expect("there").uid() != 0 {
        let text = refused(serve("127.0.0.1:0", std::path::Path::new("/usr")));
        assert!(text.contains("/usr: it belongs to user 0"), "{text}");
        return;
    }
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("set");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("made");
    let mut command = serve("127.0.0.1:0", &data);
    command.uid(65534).gid(65534);
    let text = refused(command);
    let words = ["it belongs to user 0, and this is user 65534", "--data"];
    assert!(words.iter().all(|words| text.contains(words)), "{text}");
}

#[test]
fn every_operation_is_closed_below_its_level() {
    let server = Server::new();
    let boss = server.boss();
    let users: Vec<User> = (0..3).map(|level| server.user(&boss, &format!("u{level}"), level)).collect();
    for (method, path, level) in operations(&server) {
        let ask = || server.api(&User::default(), &method, &path, &json!({})).status;
        let mut nobody = ask();
        // There are more operations than a stranger may try at once.
        while nobody == 429 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            nobody = ask();
        }
        if level >= 0 {
            assert_eq!(nobody, 401, "{method} {path}");
        }
        for (has, user) in users.iter().enumerate() {
            if path == "/session" {
                continue;
            }
            let status = server.api(user, &method, &path, &json!({})).status;
            let is_closed = i64::try_from(has).expect("small") < level;
            assert_eq!(status == 403, is_closed, "{method} {path}: level {has} of {level} gives {status}");
            assert!(status < 500 && status != 429, "{method} {path}: {status}");
        }
    }
}

#[test]
fn objects_of_others_are_not_there() {
    let server = Server::new();
    let boss = server.boss();
    let (ann, bob) = (server.user(&boss, "ann", 1), server.user(&boss, "bob", 1));
    let scenario = server.scenario(&ann, SCENARIO);
    let job = server.launch(&ann, &json!({ "scenario": scenario }));
    server.wait_for(&ann, job, "done");
    let preset = json!({ "section": "link", "name": "slow", "text": "rate = \"1 Mbit/s\"" });
    let preset = server.api(&ann, "POST", "/presets", &preset).json()["id"].as_i64().expect("a number");
    let foreign = [
        ("GET", format!("/scenarios/{scenario}"), Value::Null),
        ("PUT", format!("/scenarios/{scenario}"), json!({ "text": "" })),
        ("PATCH", format!("/scenarios/{scenario}"), json!({ "name": "x", "shared": false })),
        ("DELETE", format!("/scenarios/{scenario}"), Value::Null),
        ("GET", format!("/scenarios/{scenario}/versions"), Value::Null),
        ("POST", "/jobs".to_owned(), json!({ "scenario": scenario })),
        ("DELETE", format!("/presets/{preset}"), Value::Null),
        ("GET", format!("/jobs/{job}"), Value::Null),
        ("POST", format!("/jobs/{job}/cancel"), Value::Null),
        ("GET", format!("/jobs/{job}/events"), Value::Null),
        ("GET", format!("/jobs/{job}/measures"), Value::Null),
        ("GET", format!("/jobs/{job}/artifacts"), Value::Null),
        ("GET", format!("/jobs/{job}/artifacts/0"), Value::Null),
    ];
    for (method, path, body) in &foreign {
        assert_eq!(server.api(&bob, method, path, body).status, 404, "{method} {path}");
    }
    for page in
        [format!("/scenarios/{scenario}/system"), format!("/jobs/{job}"), format!("/jobs/{job}/report")]
    {
        assert_eq!(server.send(&bob, ("GET", &page), &[], "").status, 404, "{page}");
        assert_eq!(server.send(&ann, ("GET", &page), &[], "").status, 200, "{page}");
    }
    let shared = server.api(&ann, "POST", "/scenarios", &json!({ "name": "x", "text": "", "shared": true }));
    assert_eq!(shared.status, 403, "sharing needs level 2");
}

#[test]
fn changes_that_other_origins_ask_for_are_refused() {
    let server = Server::new();
    let boss = server.boss();
    let own = format!("http://{}", server.host);
    let post = |headers: &[(&str, &str)]| {
        let body = json!({ "text": SCENARIO }).to_string();
        server.send(&boss, ("POST", "/api/v1/check"), headers, &body).status
    };
    assert_eq!(post(&[("sec-fetch-site", "same-origin")]), 200);
    for method in ["TRACE", "PROPFIND"] {
        assert_eq!(server.send(&boss, (method, "/api/v1/check"), &[], "").status, 405, "{method}");
        // Whoever asks, and wherever.
        let reader = User::default();
        assert_eq!(server.send(&reader, (method, "/api/v1/users"), &[], "").status, 405, "{method}");
    }
    assert_eq!(post(&[("sec-fetch-site", "none")]), 200);
    assert_eq!(post(&[("origin", &own)]), 200);
    assert_eq!(post(&[("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(post(&[("sec-fetch-site", "same-site"), ("origin", &own)]), 403);
    assert_eq!(post(&[("origin", "http://evil.example")]), 403);
    assert_eq!(post(&[("origin", "null")]), 403);
    assert_eq!(post(&[]), 403);
    let rebound = server.send(&boss, ("GET", "/api/v1/me"), &[("host", "evil.example:80")], "");
    assert_eq!(rebound.status, 421);
}

#[test]
fn sessions_and_tokens_end_when_they_are_told_to() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let id = server.api(&ann, "GET", "/me", &Value::Null).json()["id"].clone();
    // A cookie of the client's own choice is never one of a session.
    let fixed = User(vec![("cookie".to_owned(), "bentpipe-session=0123456789".to_owned())]);
    let body = json!({ "name": "ann", "password": PASSWORD });
    assert_eq!(server.api(&fixed, "POST", "/session", &body).status, 200);
    assert_eq!(server.api(&fixed, "GET", "/me", &Value::Null).status, 401);
    let token = |scope: &str| {
        let made =
            server.api(&ann, "POST", "/me/tokens", &json!({ "name": "ci", "scope": scope, "days": 1 }));
        let secret = made.json()["secret"].as_str().expect("a secret").to_owned();
        User(vec![("authorization".to_owned(), format!("Bearer {secret}"))])
    };
    let (reader, runner) = (token("read"), token("run"));
    let add = json!({ "name": "x", "text": "" });
    // A program sends no Origin and needs none.
    let bare = |user: &User| server.send(user, ("POST", "/api/v1/scenarios"), &[], &add.to_string()).status;
    assert_eq!([bare(&reader), bare(&runner)], [403, 201]);
    let more =
        server.api(&runner, "POST", "/me/tokens", &json!({ "name": "x", "scope": "admin", "days": 1 }));
    assert_eq!(more.status, 403, "a token makes no tokens");
    assert_eq!(server.api(&ann, "DELETE", "/me/tokens/1", &Value::Null).status, 204);
    assert_eq!(server.api(&reader, "GET", "/me", &Value::Null).status, 401);
    let raised = server.api(&boss, "PATCH", &format!("/users/{id}"), &json!({ "level": 2 }));
    assert_eq!((raised.status, server.api(&ann, "GET", "/me", &Value::Null).status), (200, 401));
    let ann = server.log_in("ann", PASSWORD).expect("logged in");
    let out = server.api(&ann, "DELETE", "/session", &Value::Null);
    assert_eq!((out.status, out.header("clear-site-data")), (204, Some("\"cache\", \"storage\"")));
    assert_eq!(server.api(&ann, "GET", "/me", &Value::Null).status, 401);
    let own = server.api(&boss, "GET", "/me", &Value::Null).json()["id"].clone();
    let last = server.api(&boss, "PATCH", &format!("/users/{own}"), &json!({ "level": 1 }));
    assert_eq!(last.status, 409, "the last administrator stays");
    let audit = server.api(&boss, "GET", "/audit", &Value::Null).body;
    for action in ["log in", "add user", "change user", "make token", "revoke token"] {
        assert!(audit.contains(action), "{action}");
    }
    assert!(!audit.contains(PASSWORD) && !audit.contains("bpt_"));
}

#[test]
fn guesses_of_passwords_are_slowed_and_names_are_not_told() {
    let server = Server::new();
    let boss = server.boss();
    let wrong = |name: &str| server.log_in(name, "wrong password 1").expect_err("refused");
    let (known, unknown) = (wrong("boss"), wrong("nobody"));
    assert_eq!((known.status, &known.body), (unknown.status, &unknown.body));
    let statuses: Vec<u16> = (0..20).map(|_| wrong("boss").status).collect();
    assert!(statuses.iter().filter(|status| **status == 401).count() <= 6, "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429));
    assert_eq!(server.api(&boss, "GET", "/me", &Value::Null).status, 200, "a session goes on");
}

#[test]
fn markup_in_names_stays_text() {
    let server = Server::new();
    let boss = server.boss();
    let evil = "<img src=x onerror=alert(1)>\"'{{7*7}}";
    let text = SCENARIO.replace("Test", "</title><script>");
    // What would turn the direction of a page's text is refused in names.
    let turned = json!({ "name": format!("{evil}\u{202e}"), "text": text });
    assert_eq!(server.api(&boss, "POST", "/scenarios", &turned).status, 422);
    let body = json!({ "name": evil, "text": text });
    let id = server.api(&boss, "POST", "/scenarios", &body).json()["id"].as_i64().expect("a number");
    let job = server.launch(&boss, &json!({ "scenario": id }));
    server.wait_for(&boss, job, "done");
    let steps = ["system", "connections", "test", "launch", "report", "text", "history"];
    let pages = steps.map(|step| format!("/scenarios/{id}/{step}"));
    let more = [
        "/".to_owned(),
        "/jobs".to_owned(),
        format!("/jobs/{job}"),
        format!("/compare?job={job}&plots=yes"),
        format!("/jobs/{job}/report"),
    ];
    for page in pages.iter().chain(&more) {
        let answer = server.send(&boss, ("GET", page), &[], "");
        assert_eq!(answer.status, 200, "{page}");
        for markup in ["<img src=x", "</title><script>"] {
            assert!(!answer.body.contains(markup), "{page}: {markup}");
        }
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("sandbox") || !policy.contains("unsafe"), "{page}: {policy}");
        for name in
            ["x-content-type-options", "referrer-policy", "cross-origin-opener-policy", "cache-control"]
        {
            assert!(answer.header(name).is_some(), "{page}: {name}");
        }
    }
}

#[test]
fn paths_and_files_of_the_server_are_out_of_reach() {
    let server = Server::new();
    let boss = server.boss();
    for path in [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/jobs/..%5c..%5cx",
        "/jobs/%00",
        "/jobs/1/files/..%2f..%2fdata.sqlite",
        "/style.css/../data.sqlite",
    ] {
        let answer = server.send(&boss, ("GET", path), &[], "");
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.status);
        assert!(!answer.body.contains("root:"), "{path}");
    }
    for file in ["/etc/shadow", "../../x", "/dev/zero", "x.pcap"] {
        let traffic = format!("{{ kind = \"replay\", file = \"{file}\" }}");
        let text = SCENARIO.replace("{ kind = \"tcp\" }", &traffic);
        let verdict = server.api(&boss, "POST", "/check", &json!({ "text": text })).json();
        assert!(
            verdict["problems"][0]["message"].as_str().is_some_and(|text| text.contains("cannot be named")),
            "{verdict}"
        );
        let scenario = server.scenario(&boss, &text);
        assert_eq!(
            server.api(&boss, "POST", "/jobs", &json!({ "scenario": scenario })).status,
            422,
            "{file}"
        );
    }
    // A link planted in a folder of results is not followed.
    let scenario = server.scenario(&boss, SCENARIO);
    let job = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, job, "done");
    let files = server.api(&boss, "GET", &format!("/jobs/{job}/artifacts"), &Value::Null).json();
    let results = server.data().join(format!("jobs/{job}/results"));
    let results =
        std::fs::read_dir(results).expect("results").next().expect("a folder").expect("a folder").path();
    let first = &files[0];
    let path = results.join(first["path"].as_str().expect("a path"));
    std::fs::remove_file(&path).expect("removed");
    std::os::unix::fs::symlink("/etc/passwd", &path).expect("linked");
    let answer =
        server.api(&boss, "GET", &format!("/jobs/{job}/artifacts/{}", first["number"]), &Value::Null);
    assert!(answer.status == 404 && !answer.body.contains("root:"), "{answer:?}");
}

#[test]
fn hostile_bodies_end_in_words() {
    let server = Server::new();
    let boss = server.boss();
    let check = |body: &str| {
        let headers = [("content-type", "application/json"), ("sec-fetch-site", "same-origin")];
        server.send(&boss, ("POST", "/api/v1/check"), &headers, body).status
    };
    assert_eq!(check(&"[".repeat(100_000)), 422);
    assert_eq!(check(&format!("{{\"text\":\"{}\"}}", "x".repeat(2 << 20))), 413);
    assert_eq!(check("{\"text\":3}"), 422);
    assert_eq!(check(""), 422);
    let deep = json!({ "text": format!("x = {}1{}", "[".repeat(5000), "]".repeat(5000)) });
    assert_eq!(check(&deep.to_string()), 200);
    let many = json!({ "text": (0..20_000).map(|n| format!("k{n}=1\n")).collect::<String>() });
    assert_eq!(check(&many.to_string()), 200);
    let sweep = SCENARIO.to_owned()
        + "[sweep]\n\"link.l.delay\" = \"1 to 1000 ms by 1\"\n\"link.l.mtu\" = \"600 to 1000 B by 1\"\n";
    let scenario = server.scenario(&boss, &sweep);
    assert_eq!(server.api(&boss, "POST", "/jobs", &json!({ "scenario": scenario })).status, 422);
    let long = format!("GET / HTTP/1.1\r\nhost: {}\r\nx: {}\r\n\r\n", server.host, "y".repeat(100_000));
    assert!(matches!(server.raw(long.as_bytes()).status, 0 | 400 | 431));
}
