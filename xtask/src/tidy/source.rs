//! Rust source split into code, comments and string literals, and into tokens.

use std::path::{Path, PathBuf};

/// Class of a stretch of source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Code outside comments and literals.
    Code,
    /// Line or block comment, documentation included.
    Comment,
    /// String literal, without its quotes.
    Literal,
}

/// Stretch of source text of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// Class of the text.
    pub(super) class: Class,
    /// The text itself.
    pub(super) text: &'a str,
    /// Byte offset of the text in its file.
    pub(super) offset: usize,
}

/// Splits `source` into pieces, in order.
pub(super) fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut splitter = Splitter { source, at: 0, code: 0, pieces: Vec::new() };
    while splitter.at < source.len() {
        splitter.step();
    }
    splitter.end_code(source.len());
    splitter.pieces
}

struct Splitter<'a> {
    source: &'a str,
    at: usize,
    /// Start of the code that is not in `pieces` yet.
    code: usize,
    pieces: Vec<Piece<'a>>,
}

impl<'a> Splitter<'a> {
    fn step(&mut self) {
        let rest = &self.source[self.at..];
        match rest.as_bytes() {
            [b'/', b'/', ..] => self.push(Class::Comment, 0, rest.find('\n').unwrap_or(rest.len()), 0),
            [b'/', b'*', ..] => self.push(Class::Comment, 0, block_comment_len(rest), 0),
            [b'"', ..] => self.push(Class::Literal, 1, quoted_len(&rest[1..]), 1),
            [b'r', b'"' | b'#', ..] if !self.follows_word() => self.raw(rest),
            [b'\'', ..] => self.at += char_or_lifetime_len(rest),
            _ => self.at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }

    /// Adds the piece of `len` bytes after `open` bytes, with `close` bytes after it. These belong to neither
    /// class.
    fn push(&mut self, class: Class, open: usize, len: usize, close: usize) {
        self.end_code(self.at);
        let start = (self.at + open).min(self.source.len());
        let end = (start + len).min(self.source.len());
        self.pieces.push(Piece { class, text: &self.source[start..end], offset: start });
        self.at = (end + close).min(self.source.len());
        self.code = self.at;
    }

    fn end_code(&mut self, end: usize) {
        if self.code < end {
            let text = &self.source[self.code..end];
            self.pieces.push(Piece { class: Class::Code, text, offset: self.code });
        }
    }

    fn follows_word(&self) -> bool {
        let before = self.source[..self.at].chars().next_back();
        before.is_some_and(|c| c.is_alphanumeric() && c != 'b' || c == '_')
    }

    /// Handles `r"..."` and `r#"..."#`; a raw identifier (`r#type`) is code.
    fn raw(&mut self, rest: &str) {
        let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
        if rest.as_bytes().get(1 + hashes) != Some(&b'"') {
            self.at += 1 + hashes;
            return;
        }
        let end = format!("\"{}", "#".repeat(hashes));
        let body = &rest[hashes + 2..];
        self.push(Class::Literal, hashes + 2, body.find(&end).unwrap_or(body.len()), end.len());
    }
}

fn block_comment_len(text: &str) -> usize {
    let (bytes, mut depth, mut at) = (text.as_bytes(), 0_usize, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_len(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

fn char_or_lifetime_len(text: &str) -> usize {
    let mut chars = text[1..].char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, _))) => {
            let after = 1 + at + 1;
            text.get(after..).and_then(|rest| rest.find('\'')).map_or(1, |end| after + end + 1)
        }
        (Some(_), Some((at, '\''))) => 1 + at + 1,
        _ => 1,
    }
}

/// Returns `source` without its `mod tests { ... }` at the end.
pub(super) fn without_tests(source: &str) -> &str {
    source.find("\nmod tests {").map_or(source, |end| &source[..=end])
}

/// Returns `true` if the file holds tests only.
pub(super) fn is_test(path: &Path) -> bool {
    let folder =
        path.components().any(|part| ["tests", "benches"].iter().any(|name| part.as_os_str() == *name));
    folder || path.ends_with("tests.rs")
}

/// Returns the source files of all crates, tests and benches excluded, in a fixed order.
pub(super) fn sources(root: &Path) -> Vec<PathBuf> {
    let mut files = crate::files(&root.join("crates"), ".rs");
    files.retain(|path| !is_test(path.strip_prefix(root).unwrap_or(path)));
    files
}

/// Token of Rust code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Identifier or keyword.
    Word(&'a str),
    /// `::`.
    Path,
    /// Any other character that is not white space.
    Mark(char),
}

/// Splits the code of `source` into tokens; comments and literals are left out.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let code = pieces(source).into_iter().filter(|piece| piece.class == Class::Code);
    code.flat_map(|piece| words(piece.text)).collect()
}

fn words(text: &str) -> Vec<Token<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (token, len) = match first {
            _ if word > 0 => (Some(Token::Word(&rest[..word])), word),
            ':' if rest.starts_with("::") => (Some(Token::Path), 2),
            _ => ((!first.is_whitespace()).then_some(Token::Mark(first)), first.len_utf8()),
        };
        found.extend(token);
        at += len;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_code_comments_and_literals() {
        let source = r##"let a = "x \" y"; // tail
/* one /* two */ */ let b = r#"raw " it"#; let c = '"'; let d: &'static str = b"z"; '\'' r#type"##;
        let split: Vec<(Class, &str)> =
            pieces(source).iter().filter(|p| p.class != Class::Code).map(|p| (p.class, p.text)).collect();
        let expected = [
            (Class::Literal, r#"x \" y"#),
            (Class::Comment, "// tail"),
            (Class::Comment, "/* one /* two */ */"),
            (Class::Literal, r#"raw " it"#),
            (Class::Literal, "z"),
        ];
        assert_eq!(split, expected);
    }

    #[test]
    fn survives_sources_that_end_early() {
        for source in ["\"", "r#\"", "/*", "'", "'\\", "//", "r#", "\"\\"] {
            let length: usize = pieces(source).iter().map(|piece| piece.text.len()).sum();
            assert!(length <= source.len(), "{source}");
        }
    }

    #[test]
    fn tokenizes_paths() {
        use Token::{Mark, Path, Word};
        let expected = [
            Word("use"),
            Path,
            Word("a_1"),
            Path,
            Mark('{'),
            Word("b"),
            Mark(','),
            Mark('*'),
            Mark('}'),
            Mark(';'),
        ];
        assert_eq!(tokens("use ::a_1::{b, *}; // c::d"), expected);
    }
}
