//! Tokens and passwords: what they can do, and what ends them.

use serde_json::{Value, json};

use super::client::{PASSWORD, Server, User};

const NEXT: &str = "another correct horse";

fn token(server: &Server, user: &User, scope: &str) -> User {
    let made = server.api(user, "POST", "/me/tokens", &json!({ "name": "t", "scope": scope }));
    let secret = made.json()["secret"].as_str().expect("a secret").to_owned();
    User(vec![("authorization".to_owned(), format!("Bearer {secret}"))])
}

fn me(server: &Server, user: &User) -> u16 {
    server.api(user, "GET", "/me", &Value::Null).status
}

fn number(server: &Server, user: &User) -> i64 {
    server.api(user, "GET", "/me", &Value::Null).json()["id"].as_i64().expect("a number")
}

#[test]
fn a_token_gives_nobody_more_than_there_was() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 2);
    let path = format!("/users/{}", number(&server, &ann));
    let program = token(&server, &boss, "admin");
    let change = |change: Value| server.api(&program, "PATCH", &path, &change).status;
    let add = json!({ "name": "eve", "password": PASSWORD, "level": 3 });
    assert_eq!(server.api(&program, "POST", "/users", &add).status, 403);
    assert_eq!(
        server.api(&program, "POST", "/me/tokens", &json!({ "name": "x", "scope": "read" })).status,
        403
    );
    let own = json!({ "old": PASSWORD, "new": NEXT });
    assert_eq!(server.api(&program, "PUT", "/me/password", &own).status, 403);
    assert_eq!(change(json!({ "password": NEXT })), 403);
    assert_eq!(change(json!({ "level": 3 })), 403);
    // The key of a site outlives the token that invited it.
    let invited = server.api(&program, "POST", "/sites", &json!({ "name": "east" }));
    assert!(invited.status == 403 && invited.body.contains("needs a session"), "{invited:?}");
    assert_eq!(server.api(&boss, "POST", "/sites", &json!({ "name": "east" })).status, 409, "no TLS here");
    // What takes away is left to programs: a script may lock an account.
    assert_eq!(change(json!({ "level": 1 })), 200);
    assert_eq!(change(json!({ "disabled": true })), 200);
    assert_eq!(change(json!({ "disabled": false })), 403);
    assert_eq!(server.api(&boss, "PATCH", &path, &json!({ "disabled": false })).status, 200);
}

#[test]
fn tokens_end_with_the_password_unless_they_are_kept_by_choice() {
    let server = Server::new();
    let boss = server.boss();
    let mut ann = server.user(&boss, "ann", 1);
    let path = format!("/users/{}", number(&server, &ann));
    let same = server.api(&ann, "PUT", "/me/password", &json!({ "old": PASSWORD, "new": PASSWORD }));
    assert!(same.status == 422 && same.body.contains("another password than the present one"), "{same:?}");
    for keeps in [false, true] {
        let program = token(&server, &ann, "run");
        let body = json!({ "old": PASSWORD, "new": NEXT, "keep_tokens": keeps });
        assert_eq!(server.api(&ann, "PUT", "/me/password", &body).status, 204);
        assert_eq!(me(&server, &program) == 200, keeps);
        assert_eq!(me(&server, &ann), 401, "sessions end");
        // The same by an administrator.
        ann = server.log_in("ann", NEXT).expect("logged in");
        let program = token(&server, &ann, "run");
        let reset = json!({ "password": PASSWORD, "keep_tokens": keeps });
        assert_eq!(server.api(&boss, "PATCH", &path, &reset).status, 200);
        assert_eq!(me(&server, &program) == 200, keeps);
        ann = server.log_in("ann", PASSWORD).expect("logged in");
    }
}

#[test]
fn tokens_live_ninety_days_and_a_year_at_most_and_show_their_last_use() {
    let server = Server::new();
    let boss = server.boss();
    let make = |days: Value| {
        let body = json!({ "name": "t", "scope": "read", "days": days });
        server.api(&boss, "POST", "/me/tokens", &body).status
    };
    assert_eq!([json!(0), json!(366), json!(3650)].map(make), [422; 3]);
    assert_eq!(make(json!(365)), 201);
    let program = token(&server, &boss, "read");
    let list = || server.api(&boss, "GET", "/me/tokens", &Value::Null).json();
    let days = |token: &Value| {
        let time = |name: &str| token[name].as_i64().expect("a time");
        (time("expires") - time("created")) / 86_400_000
    };
    assert_eq!((days(&list()[0]), days(&list()[1])), (365, 90));
    assert_eq!(list()[1]["seen"], Value::Null);
    assert_eq!(me(&server, &program), 200);
    let refused = server.api(&program, "POST", "/scenarios", &json!({ "name": "x", "text": "" }));
    let why = "this needs a token of scope \"run\"; that of this one is \"read\"";
    assert_eq!((refused.status, &refused.json()["detail"]), (403, &json!(why)));
    assert!(list()[1]["seen"].as_i64() > list()[1]["created"].as_i64().map(|at| at - 1));
    let page = server.send(&boss, ("GET", "/account"), &[], "").body;
    assert!(page.contains("Last request (UTC)") && page.contains("value=\"90\""), "{page}");
}

#[test]
fn short_names_forbid_no_good_password() {
    let server = Server::new();
    let boss = server.boss();
    for (name, password, status) in [
        ("c", "correct horse battery", 201),
        ("ho", "correct horse battery", 201),
        ("battery", "correct horse battery", 422),
    ] {
        let body = json!({ "name": name, "password": password, "level": 1 });
        assert_eq!(server.api(&boss, "POST", "/users", &body).status, status, "{name}");
    }
}

#[test]
fn parameters_that_an_operation_does_not_have_are_refused() {
    let server = Server::new();
    let boss = server.boss();
    let get = |path: &str| {
        let answer = server.api(&boss, "GET", path, &Value::Null);
        (answer.status, answer.json()["detail"].as_str().unwrap_or_default().to_owned())
    };
    for (path, words) in [
        ("/audit?limit=3", "unknown parameter \"limit\": expected before"),
        (
            "/jobs?state=done&nonsense=1",
            "unknown parameter \"nonsense\": expected before, limit, state, search, scenario",
        ),
        ("/users?x", "unknown parameter \"x\": expected none"),
    ] {
        assert_eq!(get(path), (422, words.to_owned()));
    }
    for path in ["/audit?before=3", "/jobs?state=done&limit=2", "/users?", "/scenarios?archived=true"] {
        assert_eq!(get(path).0, 200, "{path}");
    }
}
