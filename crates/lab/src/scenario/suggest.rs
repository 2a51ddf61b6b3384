//! "Did you mean": the nearest of the names that exist.

/// How many names a message lists at most.
const LISTED: usize = 30;

/// What to say after an unknown name: the nearest of `names` if one is near, and all of them.
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

/// The one of `names` that is nearest to `unknown`, if it is near enough to be what was meant.
pub(crate) fn nearest<'a>(unknown: &str, names: &[&'a str]) -> Option<&'a str> {
    // Long texts are no misspelt names, and comparing them would cost.
    if unknown.len() > 64 {
        return None;
    }
    let unknown = unknown.to_lowercase();
    let near = |name: &&str| {
        let distance = distance(&unknown, &name.to_lowercase());
        let within =
            unknown.len().min(name.len()) > 2 && (name.starts_with(&unknown) || unknown.starts_with(*name));
        if within { distance.min(1) } else { distance }
    };
    let allowed = 1 + unknown.chars().count() / 4;
    names.iter().copied().filter(|name| near(name) <= allowed && near(name) < name.len()).min_by_key(near)
}

/// Edits (insert, delete, replace, swap neighbours) between two words: optimal string alignment.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().take(128).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
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

    #[test]
    fn edits_are_counted() {
        for (a, b, edits) in [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 1)] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
        }
    }
}
