//! Checks on `bentpipe-lab`: whatever the bytes of a scenario file, it is read or refused with a reason.

use bentpipe_lab::scenario::Document;

/// Reads a scenario file, and everything in it up to a network.
pub fn fuzz_scenario(data: &[u8]) {
    let Ok(document) = Document::parse("fuzz.toml", data) else { return };
    if let Err(refusal) = document.scenario() {
        assert!(!refusal.mistakes().is_empty());
        assert!(!refusal.to_string().is_empty());
    }
}
