//! Vectors of RFC 2617 and RFC 7616, and a server against a client.

use bentpipe_units::{Span, Time};
use proptest::prelude::*;

use super::*;

fn account(password: &str) -> Account {
    Account { user: "Mufasa".into(), password: password.into() }
}

const GET: Protected<'_> = Protected { method: "GET", uri: "/dir/index.html", body: b"" };

#[test]
fn rfc_7616_example() {
    for (algorithm, response) in [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ] {
        let challenge = Challenge::parse(&format!(
            "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={algorithm},
             nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
        ));
        let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let credentials = challenge.expect("well-formed").answer(&account("Circle of Life"), GET, cnonce, 1);
        assert_eq!(credentials.response, response);
        assert_eq!(Credentials::parse(&credentials.to_string()), Some(credentials));
    }
}

#[test]
fn rfc_2617_example() {
    let challenge = Challenge::parse(
        "Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\",
         opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"",
    );
    let credentials = challenge.expect("well-formed").answer(&account("Circle Of Life"), GET, "0a4f113b", 1);
    assert_eq!(credentials.response, "6629fae49393a05397450978507c4ef1");
    assert_eq!(credentials.opaque.as_deref(), Some("5ccc069c403ebaf9f0171e9517f40e41"));
}

/// The definitions of RFC 2617 3.2.2, written out by hand.
#[test]
fn forms_without_qop_with_sessions_and_with_bodies() {
    let md5 = |text: &str| Algorithm::Md5.hash(text.as_bytes());
    let (a1, a2) = (md5("Mufasa:r:p"), md5("INVITE:sip:b"));
    let request = Protected { method: "INVITE", uri: "sip:b", body: b"v=0" };
    let response = |text: &str| {
        Challenge::parse(text).expect("well-formed").answer(&account("p"), request, "c", 2).response
    };
    assert_eq!(response("Digest realm=\"r\", nonce=\"n\""), md5(&format!("{a1}:n:{a2}")));
    let session = md5(&format!("{a1}:n:c"));
    let text = "digest realm=\"r\",nonce=\"n\" , algorithm=\"md5-SESS\",qop=\"auth\"";
    assert_eq!(response(text), md5(&format!("{session}:n:00000002:c:auth:{a2}")));
    let whole = md5(&format!("INVITE:sip:b:{}", md5("v=0")));
    let text = "Digest qop=\"auth-int\", realm=\"r\", nonce=\"n\"";
    assert_eq!(response(text), md5(&format!("{a1}:n:00000002:c:auth-int:{whole}")));
}

#[test]
fn malformed_challenges_are_refused() {
    for text in [
        "",
        "Basic realm=\"r\"",
        "NoOneKnowsThisScheme opaque-data=here",
        "Digest",
        "Digest realm=\"r\"",
        "Digest realm=\"r, nonce=\"n\"",
        "Digest realm=\"r\", realm=\"s\", nonce=\"n\"",
        "Digest realm=\"r\" nonce=\"n\"",
        "Digest realm=\"r\", nonce=\"n\", algorithm=SHA-3",
        "Digest realm=\"r\", nonce=\"n\", qop=\"none\"",
    ] {
        assert_eq!(Challenge::parse(text), None, "{text}");
    }
}

fn challenge_of(refusal: Result<String, Refusal>) -> Challenge {
    match refusal {
        Err(Refusal::Challenge(challenge)) => challenge,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_guard_refuses_replays_old_nonces_and_wrong_passwords() {
    let mut guard = Guard::new("bentpipe", 7, Algorithm::Sha256, &[Qop::Auth]);
    guard.add_user("Mufasa", "right");
    let at = |seconds| Time::ZERO + Span::from_secs(seconds);
    let challenge = challenge_of(guard.admit(at(1), [].into_iter(), GET));
    let answer = |password, count| challenge.answer(&account(password), GET, "c", count).to_string();
    let mut admit = |now, text: &str| guard.admit(now, [text].into_iter(), GET);
    assert!(!challenge_of(admit(at(2), &answer("wrong", 1))).stale);
    assert_eq!(admit(at(2), &answer("right", 1)), Ok("Mufasa".into()));
    assert!(challenge_of(admit(at(2), &answer("right", 1))).stale, "the same count");
    assert_eq!(admit(at(2), &answer("right", 2)), Ok("Mufasa".into()));
    assert!(challenge_of(admit(at(302), &answer("right", 3))).stale, "too old");
    let forged = Challenge { nonce: "0".repeat(48), ..challenge.clone() };
    let text = forged.answer(&account("right"), GET, "c", 1).to_string();
    assert!(challenge_of(admit(at(3), &text)).stale, "not this server's nonce");
    let other = Protected { uri: "/other", ..GET };
    let text = challenge.answer(&account("right"), other, "c", 9).to_string();
    assert!(!challenge_of(admit(at(3), &text)).stale, "credentials of another request");
}

proptest! {
    #[test]
    fn values_survive_a_round_trip(realm in "\\PC{0,20}", nonce in "\\PC{0,20}", opaque in proptest::option::of("\\PC{0,9}"), stale: bool) {
        let challenge = Challenge { realm, nonce, opaque, algorithm: Algorithm::Sha256Sess, qop: vec![Qop::Auth, Qop::AuthInt], stale };
        prop_assert_eq!(Challenge::parse(&challenge.to_string()), Some(challenge.clone()));
        let credentials = challenge.answer(&account("p"), GET, "c\"\\", u32::MAX);
        prop_assert!(credentials.proves("p", GET) && !credentials.proves("q", GET));
        prop_assert_eq!(Credentials::parse(&credentials.to_string()), Some(credentials));
    }
}
