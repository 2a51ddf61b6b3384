//! Links of Markdown pages, and the index of the book.

use std::path::{Path, PathBuf};

use super::words::pages;

/// Returns a message for each broken relative link and each unlisted page of `docs/`.
///
/// `docs/SUMMARY.md` lists the pages.
pub(super) fn breaches(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages(root) {
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let folder = page.parent().unwrap_or(root);
        let broken = links(&text).into_iter().filter(|link| !folder.join(link).exists());
        let shown = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        found.extend(broken.map(|link| format!("{shown}: no such file: {link}")));
    }
    found.extend(unlisted(root));
    found
}

fn unlisted(root: &Path) -> Vec<String> {
    let docs = root.join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap_or_default();
    let listed: Vec<PathBuf> = links(&summary).into_iter().map(|link| docs.join(link)).collect();
    let pages = crate::files(&docs, ".md").into_iter();
    let pages = pages.filter(|page| !page.ends_with("SUMMARY.md") && !listed.contains(page));
    pages
        .map(|page| {
            format!("{} is not in docs/SUMMARY.md", page.strip_prefix(root).unwrap_or(&page).display())
        })
        .collect()
}

/// Returns the relative links of a page, without their fragments; code is left out.
fn links(page: &str) -> Vec<String> {
    let mut is_code = false;
    let lines = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        !is_code && !fence && !line.starts_with("    ")
    });
    lines.flat_map(links_of_line).collect()
}

fn links_of_line(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_string()));
    let files = targets.map(|target| target.split('#').next().unwrap_or_default().to_string());
    files.filter(|file| !file.is_empty() && !file.contains(':')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_relative_links_outside_code() {
        let page = "[a](b.md#c), [`d`](e/f.md) `[g](h)`\n```\n[i](j)\n```\n    [k](l)\n[m](#n) ![o](p.png) [q](https://r.s)";
        assert_eq!(links(page), ["b.md", "e/f.md", "p.png"]);
    }

    #[test]
    fn reports_broken_links_and_unlisted_pages() {
        let root = std::env::temp_dir().join(format!("bentpipe-book-{}", std::process::id()));
        std::fs::create_dir_all(root.join("docs/decisions")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.join("docs").join(name), text).unwrap();
        write("SUMMARY.md", "[A](a.md) [1](decisions/1.md)");
        write("a.md", "[b](b.md) [c](gone.md)");
        write("b.md", "");
        write("decisions/1.md", "[2](2.md)");
        write("decisions/2.md", "");
        let found = breaches(&root);
        std::fs::remove_dir_all(&root).unwrap();
        let unlisted =
            ["b.md", "decisions/2.md"].map(|page| format!("docs/{page} is not in docs/SUMMARY.md"));
        assert_eq!(found, [&["docs/a.md: no such file: gone.md".to_string()][..], &unlisted].concat());
    }
}
