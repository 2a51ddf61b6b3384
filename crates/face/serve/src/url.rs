//! Texts in addresses.

/// Returns a text as it is written in a query.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Returns the address of the form of a part of a scenario.
pub(crate) fn form_address(scenario: i64, path: &[&str]) -> String {
    let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
    format!("/scenarios/{scenario}/form?path={}", encoded(&crate::drafts::key_of(&path)))
}
