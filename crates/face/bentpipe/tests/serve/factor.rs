//! Second factor: one-time codes, recovery codes, and administrators who need one.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use totp_rs::{Algorithm, Secret, TOTP};

use super::client::{Answer, PASSWORD, Server, User};

/// Returns the code that a phone shows some seconds from now, or did before.
fn code(secret: &str, later_s: i64) -> String {
    let bytes = Secret::Encoded(secret.to_owned()).to_bytes().expect("Base32");
    let totp = TOTP::new_unchecked(Algorithm::SHA1, 6, 0, 30, bytes);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    totp.generate(now.saturating_add_signed(later_s))
}

fn log_in(server: &Server, code: &str) -> Answer {
    let body = json!({ "name": "ann", "password": PASSWORD, "code": code });
    server.api(&User::default(), "POST", "/session", &body)
}

/// Logs in with a code from an address behind a proxy, and with a cookie.
fn log_in_from(server: &Server, code: &str, (address, cookie): (&str, &str)) -> Answer {
    let body = json!({ "name": "ann", "password": PASSWORD, "code": code }).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("sec-fetch-site", "same-origin"),
        ("x-forwarded-for", address),
        ("cookie", cookie),
    ];
    server.send(&User::default(), ("POST", "/api/v1/session"), &headers, &body)
}

/// Logs in with a code several times at once. Returns how often it was taken.
fn taken_at_once(server: &Server, code: &str) -> usize {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..5).map(|_| scope.spawn(|| log_in(server, code).status)).collect();
        let statuses: Vec<u16> = all.into_iter().map(|one| one.join().expect("answered")).collect();
        assert!(statuses.iter().all(|status| matches!(status, 200 | 401 | 429)), "{statuses:?}");
        statuses.iter().filter(|status| **status == 200).count()
    })
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
    let before = server.log_in("ann", PASSWORD).expect("logged in");
    let (secret, recovery) = set_up(&server, &ann);
    // A session that the password alone began has ended.
    let me = |user: &User| server.api(user, "GET", "/me", &Value::Null).status;
    assert_eq!((me(&before), me(&ann)), (401, 200));
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
fn a_code_is_taken_once_however_many_log_in_with_it_at_once() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let (secret, recovery) = set_up(&server, &ann);
    assert_eq!(taken_at_once(&server, &recovery[0]), 1);
    let next = code(&secret, 30);
    assert_eq!(taken_at_once(&server, &next), 1);
    assert_eq!(log_in(&server, &next).status, 401, "nor after that");
}

#[test]
fn a_clock_may_differ_by_one_step_and_no_more() {
    let server = Server::new();
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let (secret, _) = set_up(&server, &ann);
    // Three steps, as the next one may begin while this is sent.
    for later_s in [-90, 90, 3600, -3600] {
        assert_eq!(log_in(&server, &code(&secret, later_s)).status, 401, "{later_s}");
    }
    assert_eq!(log_in(&server, &code(&secret, 30)).status, 200);
    assert_eq!(log_in(&server, &code(&secret, 0)).status, 401, "earlier than one that was taken");
}

#[test]
fn who_has_the_password_and_not_the_phone_guesses_few_codes_from_any_number_of_addresses() {
    let server = Server::with(&["--trusted-proxy", "127.0.0.1/32"]);
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let (secret, recovery) = set_up(&server, &ann);
    let own = log_in_from(&server, &recovery[0], ("198.51.100.200", ""));
    let device = own.cookie("bentpipe-device").expect("logged in");
    let guess = |n: usize| log_in_from(&server, &format!("{n:06}"), (&format!("198.51.100.{n}"), "")).status;
    let guesses: Vec<u16> = (0..20).map(guess).collect();
    assert_eq!((&guesses[..10], &guesses[10..]), (&[401; 10][..], &[429; 10][..]));
    let refused = log_in_from(&server, &code(&secret, 30), ("198.51.100.99", ""));
    assert!(refused.status == 429 && refused.body.contains("recovery code"), "{refused:?}");
    let wait: i64 = refused.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a time");
    assert!((60..=600).contains(&wait), "{wait}");
    // A device of the account has codes of its own, and recovery codes cannot be guessed.
    assert_eq!(log_in_from(&server, &code(&secret, 30), ("198.51.100.98", &device)).status, 200);
    assert_eq!(log_in_from(&server, &recovery[1], ("198.51.100.97", "")).status, 200);
    assert!(server.api(&boss, "GET", "/audit", &Value::Null).body.contains("too many wrong codes"));
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
