//! Second factor: one-time codes by time (RFC 6238), and their QR code.

use maud::{Markup, html};
use qrcodegen::{QrCode, QrCodeEcc};
use totp_rs::{Algorithm, Secret, TOTP};

/// Digits of a code. Programs on phones know no other number for certain.
const DIGITS: usize = 6;
/// Time for which a code is valid, in seconds.
const STEP_S: i64 = 30;
/// Bytes of a secret: those of the hash (RFC 4226, section 4).
const SECRET: usize = 20;
/// Steps by which the clock of a phone may differ.
const SKEW: i64 = 1;
/// Modules of the quiet zone around a QR code (ISO/IEC 18004).
const QUIET: i32 = 4;

/// Returns a new secret.
///
/// # Panics
/// Panics if the operating system has no random numbers.
pub(crate) fn secret() -> Vec<u8> {
    let mut bytes = vec![0; SECRET];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    bytes
}

/// Returns the code of a time step.
fn code(secret: &[u8], step: i64) -> String {
    let totp = TOTP::new_unchecked(Algorithm::SHA1, DIGITS, 0, STEP_S.unsigned_abs(), secret.to_vec());
    totp.generate((step * STEP_S).unsigned_abs())
}

/// Returns the time step of a code, if it is later than the last one.
///
/// So a code is taken once.
pub(crate) fn step_of(secret: &[u8], given: &str, now_ms: i64, last: Option<i64>) -> Option<i64> {
    let now = now_ms.div_euclid(1000 * STEP_S);
    let is_new = |step: &i64| last.is_none_or(|last| *step > last);
    // All are compared, each in the same time wherever it differs.
    let same = |step: &i64| is_equal(&code(secret, *step), given);
    let found: Vec<i64> = (now - SKEW..=now + SKEW).filter(same).collect();
    found.into_iter().find(is_new)
}

/// Returns `true` if a text is as short as a code: recovery codes are longer.
pub(crate) fn may_be_code(text: &str) -> bool {
    text.chars().filter(char::is_ascii_alphanumeric).count() <= DIGITS
}

fn is_equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Returns a secret as people type it.
pub(crate) fn shown(secret: &[u8]) -> String {
    Secret::Raw(secret.to_vec()).to_encoded().to_string()
}

/// Returns the address by which programs on phones take a secret over.
pub(crate) fn uri(name: &str, secret: &[u8]) -> String {
    let name = name.replace('@', "%40");
    let secret = shown(secret);
    format!(
        "otpauth://totp/bentpipe:{name}?secret={secret}&issuer=bentpipe&algorithm=SHA1&digits={DIGITS}&period={STEP_S}"
    )
}

/// Returns a text as a QR code, black on white in any colour scheme.
pub(crate) fn qr(text: &str) -> Markup {
    let Ok(code) = QrCode::encode_text(text, QrCodeEcc::Medium) else { return html! {} };
    let (size, mut path) = (code.size(), String::new());
    for y in 0..size {
        for x in (0..size).filter(|x| code.get_module(*x, y)) {
            path.push_str(&format!("M{},{}h1v1h-1z", x + QUIET, y + QUIET));
        }
    }
    let side = size + 2 * QUIET;
    html! {
        svg.qr viewBox={ "0 0 " (side) " " (side) } width="240" height="240" role="img" aria-label="QR code of the address" {
            rect width=(side) height=(side) fill="#fff" {}
            path d=(path) fill="#000" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 6238, appendix B, of which the last six of eight digits.
        for (second, expected) in
            [(59, "287082"), (1_111_111_109, "081804"), (1_234_567_890, "005924"), (20_000_000_000, "353130")]
        {
            assert_eq!(code(b"12345678901234567890", second / STEP_S), expected);
        }
    }

    #[test]
    fn a_code_is_taken_once_and_near_its_time() {
        let (secret, now) = (secret(), 1_795_595_787_123);
        let step = now / 30_000;
        for (of, expected) in [(step - 2, None), (step - 1, Some(step - 1)), (step + 1, Some(step + 1))] {
            assert_eq!(step_of(&secret, &code(&secret, of), now, None), expected);
        }
        assert_eq!(step_of(&secret, &code(&secret, step), now, Some(step)), None);
        assert_eq!(step_of(&secret, &code(&secret, step), now, Some(step - 1)), Some(step));
        for bad in ["", "1", "1234567", "abcdef"] {
            assert_eq!(step_of(&secret, bad, now, None), None, "{bad}");
        }
    }

    #[test]
    fn a_secret_is_typed_in_base_32() {
        // RFC 4648, section 10.
        assert_eq!(shown(b"foobar"), "MZXW6YTBOI");
        let uri = uri("ann@lab", b"foobar");
        assert!(uri.starts_with("otpauth://totp/bentpipe:ann%40lab?secret=MZXW6YTBOI&"), "{uri}");
        let drawn = qr(&uri).into_string();
        assert!(drawn.starts_with("<svg") && drawn.contains("M4,4h1v1h-1z"), "{drawn}");
    }
}
