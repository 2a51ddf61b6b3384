//! Tokens of a query with their places.

use super::{MAX_TEXT, QueryError};

/// Token of a query.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Word, in lower case.
    Word(String),
    /// Number.
    Number(f32),
    /// Punctuation or comparison.
    Sign(&'static str),
    /// End of the text.
    End,
}

impl Token {
    /// Returns the token as messages have it.
    pub(super) fn shown(&self) -> String {
        match self {
            Token::Word(word) => format!("\"{word}\""),
            Token::Number(number) => number.to_string(),
            Token::Sign(sign) => format!("\"{sign}\""),
            Token::End => "the end".to_owned(),
        }
    }
}

const SIGNS: [&str; 12] = ["<=", ">=", "<>", "!=", "<", ">", "=", ",", "(", ")", "*", "/"];

/// Returns the tokens of a text with their places from 1, the end included.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, QueryError> {
    if text.len() > MAX_TEXT {
        let problem = format!("expected at most {MAX_TEXT} bytes, got {}", text.len());
        return Err(QueryError { column: MAX_TEXT + 1, problem });
    }
    let mut tokens = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let first = chars[at];
        let run = |is_part: &dyn Fn(char) -> bool| {
            at + 1 + chars[at + 1..].iter().take_while(|char| is_part(**char)).count()
        };
        let (end, token) = match first {
            _ if first.is_whitespace() => {
                at += 1;
                continue;
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = run(&|char| char.is_ascii_alphanumeric() || "_-.".contains(char));
                (end, Token::Word(chars[at..end].iter().collect::<String>().to_lowercase()))
            }
            '0'..='9' | '.' | '-' | '+' => {
                let end = run(&|char| char.is_ascii_digit() || char == '.');
                let number: String = chars[at..end].iter().collect();
                let value = number.parse::<f32>().ok().filter(|value| value.is_finite());
                let wrong =
                    || QueryError { column: at + 1, problem: format!("\"{number}\" is not a number") };
                (end, Token::Number(value.ok_or_else(wrong)?))
            }
            _ => {
                let is_here = |sign: &&&str| sign.chars().eq(chars[at..].iter().take(sign.len()).copied());
                let sign = SIGNS.iter().find(is_here).ok_or_else(|| QueryError {
                    column: at + 1,
                    problem: format!("unexpected character {first:?}"),
                })?;
                (at + sign.len(), Token::Sign(sign))
            }
        };
        tokens.push((at + 1, token));
        at = end;
    }
    tokens.push((chars.len() + 1, Token::End));
    Ok(tokens)
}
