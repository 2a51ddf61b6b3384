//! Published studies that jobs reproduce.

use std::path::Path;

/// Returns the names of the studies in a folder with their titles, in alphabetical order.
pub(crate) fn list(folder: Option<&Path>) -> Vec<(String, String)> {
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut all: Vec<(String, String)> = entries
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.path().join("study.toml")).ok()?;
            let document: toml_edit::DocumentMut = text.parse().ok()?;
            let title = document.get("title")?.as_str()?.to_owned();
            Some((entry.file_name().into_string().ok()?, title))
        })
        .filter(|(name, _)| is_name(name))
        .collect();
    all.sort();
    all
}

/// Returns `true` for a folder name that cannot be an option.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_with_a_study_file_are_studies() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies");
        let all = list(Some(&folder));
        assert!(all.iter().any(|(name, title)| name == "tatpa" && title.contains("UCIT")), "{all:?}");
        assert!(list(None).is_empty());
        for bad in ["", "--help", "..", "a/b", ".git"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
