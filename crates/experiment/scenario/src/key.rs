//! Normal form of dotted keys.
//!
//! Sweeps, settings, searches and events name keys as texts. Each text is brought into this form where it enters, so that two
//! spellings of a key are one key wherever keys are compared.

/// Returns a dotted key without quotation marks, and without white space around its parts.
pub(crate) fn normal(key: &str) -> String {
    key.split('.').map(|part| part.replace('"', "").trim().to_owned()).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_key_are_one_key() {
        for key in [
            "event.0.file",
            " event.0.file ",
            "event.0.\tfile",
            "event.0.\u{a0}file",
            "event.0.\u{2003}file\u{3000}",
            "event . 0 . file",
            "\"event\".0.\"file\"",
            "event.0.fi\"le",
            "event.0.\" file \"",
            "event.0.\"\tfile",
        ] {
            assert_eq!(normal(key), "event.0.file", "{key:?}");
        }
        // A part stays a part: the form is the same after it was taken once.
        for key in ["", ".", "a..b", "Event.0.File", "event.0.f\u{131}le", "event.0.fi le", "event.0.'file'"]
        {
            assert_eq!(normal(&normal(key)), normal(key));
            assert_ne!(normal(key), "event.0.file");
        }
    }
}
