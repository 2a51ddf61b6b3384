//! "Did you mean": the nearest of the names that exist.

/// Maximum number of names in a message.
const LISTED: usize = 30;

/// Returns the text after an unknown name: the nearest of `names`, and all of them.
pub(crate) fn instead<'a>(unknown: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match nearest(unknown, &names) {
        _ if names.is_empty() => "there is none".to_owned(),
        Some(name) if names.len() == 1 => format!("did you mean \"{name}\"?"),
        Some(name) => format!("did you mean \"{name}\"? ({})", list(&names)),
        None => format!("expected one of {}", list(&names)),
    }
}

/// Names in quotes with commas, the first [`LISTED`] of them.
pub(crate) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().take(LISTED).map(|name| format!("\"{name}\"")).collect();
    let more = names.len().saturating_sub(LISTED);
    if more == 0 { quoted.join(", ") } else { format!("{} and {more} more", quoted.join(", ")) }
}

/// Returns the name nearest to `unknown`, if it is near enough for a misspelling.
pub(crate) fn nearest<'a>(unknown: &str, names: &[&'a str]) -> Option<&'a str> {
    // Long texts are not misspelt names, and comparing them is slow.
    if unknown.len() > 64 {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let near = |name: &&str| {
        let distance = strsim::osa_distance(&unknown, &name.to_lowercase());
        let within =
            unknown.len().min(name.len()) > 2 && (name.starts_with(&unknown) || unknown.starts_with(*name));
        if within { distance.min(1) } else { distance }
    };
    let allowed = 1 + unknown.chars().count() / 4;
    names.iter().copied().filter(|name| near(name) <= allowed && near(name) < name.len()).min_by_key(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["rate", "delay", "queue", "receive_buffer"];
        assert_eq!(nearest("rte", &names), Some("rate"));
        assert_eq!(nearest("dealy", &names), Some("delay"));
        assert_eq!(nearest("recieve_bufer", &names), Some("receive_buffer"));
        assert_eq!(nearest("receive", &names), Some("receive_buffer"));
        assert_eq!(nearest("colour", &names), None);
        assert_eq!(nearest("", &names), None);
        assert_eq!(nearest(&"x".repeat(10_000), &names), None);
    }
}
