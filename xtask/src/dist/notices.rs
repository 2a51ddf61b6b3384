//! The file `copyright`: holders and licences of everything that is linked, in Debian's machine-readable form (DEP 5).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::linked::Crate;
use crate::root;

/// First words of names of files with notices.
const NAMES: &[&str] = &["licence", "license", "copying", "copyright", "notice", "unlicense"];

/// Texts that stand in a file of their own next to the notices: a phrase of the text, and the file.
const APART: (&str, &str) =
    ("TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION", "LICENSE-APACHE");

/// Returns the text of `contrib/debian/copyright`, a paragraph for each linked crate, and the texts of licences once each.
pub(super) fn write(crates: &[Crate]) -> Result<String> {
    let mut text = fs::read_to_string(root().join("contrib/debian/copyright"))?;
    let mut licences = Licences::default();
    for part in crates.iter().filter(|part| part.is_linked && part.is_foreign()) {
        let notices = notices(part)?;
        let name = licences.name(&base(part), &notices.licence);
        write!(
            text,
            "\nFiles: {}-{}/*\nCopyright: {}\n",
            part.name,
            part.version,
            notices.holders.join("\n ")
        )?;
        write!(text, "License: {name}\nComment: {}\n", part.licence)?;
    }
    for (licence, name) in &licences.names {
        write!(text, "\nLicense: {name}\n{}", indented(licence))?;
    }
    text.push_str(OTHERS);
    Ok(text)
}

/// What is linked and is not a crate.
const OTHERS: &str = "
Files: libsqlite3-sys/sqlite3/*
Copyright: none
License: public-domain
 SQLite is in the public domain: https://www.sqlite.org/copyright.html

Files: rust-std/*
Copyright: the Rust project's contributors
License: MIT or Apache-2.0
 The texts are in LICENSE-MIT and LICENSE-APACHE next to this file.

Files: glibc/*
Copyright: Free Software Foundation, Inc.
License: LGPL-2.1+
 The program of the archive has the GNU C Library linked in, and those of other
 packages use the system's. Its sources are Debian's package glibc in the version
 that the bill of materials names. `cargo xtask dist` links the program again,
 from the sources of this version and the C library of the building machine.
";

/// Names of licences by their text. Texts of the same licence differ, so each has a number.
#[derive(Default)]
struct Licences {
    names: BTreeMap<String, String>,
    counts: BTreeMap<String, usize>,
}

impl Licences {
    fn name(&mut self, base: &str, text: &str) -> String {
        if let Some(name) = self.names.get(text) {
            return name.clone();
        }
        let count = self.counts.entry(base.to_owned()).or_default();
        *count += 1;
        let name = format!("{base}-{count}");
        self.names.insert(text.to_owned(), name.clone());
        name
    }
}

/// Notices of a crate: holders of its copyright, and the text of its licence without them.
struct Notices {
    holders: Vec<String>,
    licence: String,
}

fn notices(part: &Crate) -> Result<Notices> {
    let mut texts = Vec::new();
    for path in paths(part).with_context(|| part.folder.display().to_string())? {
        texts.push(String::from_utf8_lossy(&fs::read(path)?).replace('\r', ""));
    }
    let mut holders: Vec<String> = texts.iter().flat_map(|text| text.lines()).filter_map(holder).collect();
    holders.sort();
    holders.dedup();
    if holders.is_empty() {
        holders = part.authors.clone();
    }
    if holders.is_empty() {
        holders.push(format!("the authors of {}", part.name));
    }
    Ok(Notices { holders, licence: licence(part, texts) })
}

fn paths(part: &Crate) -> std::io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&part.folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|start| name.starts_with(start)) && entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the holder and years of a line such as "Copyright (c) 2015 The Authors".
fn holder(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix("Copyright ")?;
    let rest = ["(c)", "(C)", "©"].iter().find_map(|sign| rest.strip_prefix(sign)).unwrap_or(rest).trim();
    let has_year = rest.starts_with(|first: char| first.is_ascii_digit());
    (has_year || line.contains("(c)") || line.contains("(C)") || line.contains('©')).then(|| rest.to_owned())
}

/// Returns the text that applies: MIT where it may be chosen, otherwise all texts of the crate.
fn licence(part: &Crate, texts: Vec<String>) -> String {
    let is_mit = |text: &&String| text.contains("Permission is hereby granted");
    let mit: Vec<&String> = texts.iter().filter(is_mit).take(1).collect();
    let chosen: Vec<&String> = if may_be_mit(part) { mit } else { texts.iter().collect() };
    let mut parts: Vec<String> = chosen.into_iter().map(|text| without_holders(text)).collect();
    parts.dedup();
    if parts.iter().all(String::is_empty) {
        let file = if may_be_mit(part) { "LICENSE-MIT" } else { APART.1 };
        return format!("The text is that of {file} next to this file, with the copyright of each crate.");
    }
    parts.join("\n\n")
}

/// Returns `true` if the expression has MIT as one of its alternatives.
fn may_be_mit(part: &Crate) -> bool {
    !part.licence.contains(" AND ") && part.licence.split(" OR ").any(|name| name == "MIT")
}

/// Returns the name of a licence before its number.
fn base(part: &Crate) -> String {
    if may_be_mit(part) { "MIT".into() } else { part.licence.replace(['(', ')'], "").replace(' ', "-") }
}

fn without_holders(text: &str) -> String {
    if text.contains(APART.0) {
        return format!("The Apache License 2.0 is in {} next to this file.", APART.1);
    }
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| holder(line).is_none()).collect();
    let paragraphs = lines.join("\n");
    let words = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraphs: Vec<String> =
        paragraphs.split("\n\n").map(words).filter(|text| !text.is_empty()).collect();
    paragraphs.join("\n\n")
}

/// Returns a text as the continuation of a field: a space before each line, and a full stop in empty ones.
fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(licence: &str) -> Crate {
        Crate {
            id: String::new(),
            name: "a".into(),
            version: "1.0.0".into(),
            licence: licence.into(),
            authors: vec!["Ada".into()],
            folder: PathBuf::new(),
            checksum: Some(String::new()),
            uses: vec![],
            is_linked: true,
        }
    }

    #[test]
    fn holders_are_lines_with_a_year_or_a_sign() {
        assert_eq!(holder(" Copyright (c) 2015 Ada").as_deref(), Some("2015 Ada"));
        assert_eq!(holder("Copyright 2015-2020 Ada").as_deref(), Some("2015-2020 Ada"));
        assert_eq!(holder("Copyright © The authors").as_deref(), Some("The authors"));
        assert_eq!(holder("Copyright notice and this permission notice"), None);
        assert_eq!(holder("The above copyright notice"), None);
    }

    #[test]
    fn mit_is_chosen_where_it_may_be() {
        let mit = "MIT License\n\nCopyright (c) 2015 Ada\n\nPermission is hereby granted,\n  free of charge"
            .to_owned();
        let apache = APART.0.to_owned();
        let texts = || vec![apache.clone(), mit.clone()];
        let chosen = "MIT License\n\nPermission is hereby granted, free of charge";
        assert_eq!(licence(&part("MIT OR Apache-2.0"), texts()), chosen);
        let both = licence(&part("(MIT OR Apache-2.0) AND ISC"), texts());
        assert!(both.starts_with("The Apache License 2.0 is in") && both.ends_with(chosen), "{both}");
        assert!(licence(&part("MIT"), vec![]).contains("LICENSE-MIT"));
        assert!(licence(&part("Apache-2.0"), vec![]).contains("LICENSE-APACHE"));
    }

    #[test]
    fn equal_texts_have_one_name() {
        let mut licences = Licences::default();
        assert_eq!(["x", "y", "x"].map(|text| licences.name("MIT", text)), ["MIT-1", "MIT-2", "MIT-1"]);
        assert_eq!(indented("a\n\nb"), " a\n .\n b\n");
    }
}
