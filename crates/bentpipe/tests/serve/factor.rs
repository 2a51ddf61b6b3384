//! Second factor: one-time codes, recovery codes, and administrators who need one.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use totp_rs::{Algorithm, Secret, TOTP};

use super::client::{Answer, PASSWORD, Server, User};

/// Returns the code that a phone shows some seconds from now.
fn code(secret: &str, later_s: u64) -> String {
    let bytes = Secret::Encoded(secret.to_owned()).to_bytes().expect("Base32");
    let totp = TOTP::new_unchecked(Algorithm::SHA1, 6, 0, 30, bytes);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    totp.generate(now + later_s)
}

fn log_in(server: &Server, code: &str) -> Answer {
    let body = json!({ "name": "ann", "password": PASSWORD, "code": code });
    server.api(&User::default(), "POST", "/session", &body)
}

/// Sets up the second factor of a user. Returns the secret and the recovery codes.
fn set_up(server: &Server, user: &User) -> (String, Vec<String>) {
    let offered = server.api(user, "POST", "/me/second-factor", &json!({ "password": PASSWORD }));
    assert_eq!(offered.status, 201, "{offered:?}");
    let secret = offered.json()["secret"].as_str().expect("a secret").to_owned();
    let wrong = server.api(user, "PUT", "/me/second-factor", &json!({ "code": "12345" }));
    assert_eq!(wrong.status, 422, "{wrong:?}");
    let made = server.api(user, "PUT", "/me/second-factor", &json!({ "code": code(&secret, 0) })).json();
    let codes = made["codes"].as_array().unwrap_or_else(|| panic!("{made}"));
    (secret, codes.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

#[test]
fn a_login_needs_a_code_that_was_not_used_and_recovery_codes_stand_in_once() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    assert_eq!(server.api(&ann, "POST", "/me/second-factor", &json!({ "password": "no" })).status, 403);
    let (secret, recovery) = set_up(&server, &ann);
    assert_eq!(recovery.len(), 10);
    let without = log_in(&server, "");
    assert!(without.status == 401 && without.body.contains("second factor"), "{without:?}");
    // The one that set it up is used.
    let next = code(&secret, 30);
    assert_eq!(log_in(&server, &next).status, 200);
    assert_eq!([&next, "000000x", &recovery[0]].map(|code| log_in(&server, code).status), [401, 401, 200]);
    assert_eq!(log_in(&server, &recovery[0]).status, 401);
    let again = server.api(&ann, "POST", "/me/second-factor", &json!({ "password": PASSWORD }));
    assert_eq!(again.status, 409);
    let page = server.send(&ann, ("GET", "/account"), &[], "").body;
    assert!(page.contains("9 recovery codes are left"), "{page}");
    // An administrator ends that of a user who lost all.
    let id = server.api(&ann, "GET", "/me", &Value::Null).json()["id"].clone();
    let change = json!({ "end_second_factor": true });
    assert_eq!(server.api(&boss, "PATCH", &format!("/users/{id}"), &change).status, 200);
    assert_eq!(log_in(&server, "").status, 200);
    let audit = server.api(&boss, "GET", "/audit", &Value::Null).body;
    assert!(
        audit.contains("set up second factor") && !audit.contains(&secret) && !audit.contains(&recovery[1])
    );
}

#[test]
fn administrators_need_a_second_factor_where_it_is_required() {
    let server = Server::with(&["--second-factor"]);
    let boss = server.boss();
    let users = || server.api(&boss, "GET", "/users", &Value::Null);
    let refused = users();
    assert!(refused.status == 403 && refused.body.contains("second factor"), "{refused:?}");
    set_up(&server, &boss);
    assert_eq!(users().status, 200);
    let offer = server.send(&boss, ("GET", "/account"), &[], "").body;
    assert!(offer.contains("Logins need a code"), "{offer}");
}

#[test]
fn the_page_draws_the_address_for_the_phone() {
    let server = Server::new();
    let boss = server.boss();
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let body = format!("password={}", PASSWORD.replace(' ', "+"));
    let page = server.send(&boss, ("POST", "/account/second-factor"), &headers, &body).body;
    assert!(page.contains("<svg class=\"qr\"") && page.contains("otpauth://totp/bentpipe:boss?"), "{page}");
}
