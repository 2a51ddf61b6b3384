//! Reader of the notation's text: methods, blocks, statements, expressions.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expr {
    Number(u128),
    /// Bits, as '101'.
    Bits(String),
    /// A field or parameter, as such or with one of `UVALUE`, `CVALUE`, `ULENGTH`.
    Name(String, Option<String>),
    Call(String, Vec<Expr>),
    Op(&'static str, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Enforce(Expr),
    /// Fields, their encoding, and their lengths in bits where it is one number or expression.
    Field {
        names: Vec<String>,
        encoding: Option<Expr>,
        len: Option<Expr>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) statements: Vec<Statement>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Method {
    pub(crate) parameters: Vec<String>,
    pub(crate) blocks: Vec<Block>,
}

impl Method {
    pub(crate) fn blocks<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Block> {
        self.blocks.iter().filter(move |block| block.kind == kind)
    }
}

/// The notation of an RFC.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notation {
    pub(crate) constants: BTreeMap<String, u128>,
    /// Control fields and their lengths.
    pub(crate) control: BTreeMap<String, u128>,
    pub(crate) methods: BTreeMap<String, Method>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name(String),
    Number(u128),
    Bits(String),
    Prose,
    Mark(&'static str),
}

const MARKS: [&str; 24] = [
    "=:=", "==", "!=", "<=", ">=", "&&", "||", "{", "}", "(", ")", "[", "]", ",", ";", ":", ".", "+", "-",
    "*", "/", "%", "^", "<",
];

impl Notation {
    /// Reads the notation in the text of RFC 5225.
    pub(crate) fn of_rfc5225(text: &str) -> Self {
        let lines = text.lines().skip_while(|line| !line.starts_with("IP_ID_BEHAVIOR_SEQUENTIAL "));
        let lines = lines.take_while(|line| !line.starts_with("6.8.3.") && !line.starts_with("6.9. "));
        let is_text = |line: &&str| !line.starts_with("Pelletier") && !line.starts_with("RFC 5225 ");
        let code = lines.filter(is_text).map(|line| line.split("//").next().unwrap_or(""));
        let mut reader = Reader { tokens: tokens(&code.collect::<Vec<_>>().join("\n")), at: 0 };
        let mut notation = Self::default();
        while reader.at < reader.tokens.len() {
            reader.item(&mut notation);
        }
        notation
    }
}

fn tokens(mut text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    loop {
        text = text.trim_start();
        let Some(first) = text.chars().next() else { return tokens };
        let word = |is: fn(char) -> bool| text.find(|c: char| !is(c)).unwrap_or(text.len());
        let (token, len) = match first {
            '0'..='9' => {
                let len = word(|c| c.is_ascii_alphanumeric());
                let word = &text[..len];
                let number =
                    word.strip_prefix("0x").map_or(word.parse(), |hex| u128::from_str_radix(hex, 16));
                (Token::Number(number.expect("a number")), len)
            }
            'a'..='z' | 'A'..='Z' => {
                let len = word(|c| c.is_ascii_alphanumeric() || c == '_');
                (Token::Name(text[..len].to_owned()), len)
            }
            '\'' => {
                let end = text[1..].find('\'').expect("the end of bits") + 1;
                (Token::Bits(text[1..end].to_owned()), end + 1)
            }
            '"' => (Token::Prose, text[1..].find('"').expect("the end of prose") + 2),
            '>' if !text.starts_with(">=") => (Token::Mark(">"), 1),
            '=' if !text.starts_with("==") && !text.starts_with("=:=") => (Token::Mark("="), 1),
            _ => {
                let mark = MARKS.into_iter().find(|mark| text.starts_with(mark));
                let mark = mark.unwrap_or_else(|| panic!("no token: {}", &text[..text.len().min(40)]));
                (Token::Mark(mark), mark.len())
            }
        };
        tokens.push(token);
        text = &text[len..];
    }
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
}

impl Reader {
    fn is(&self, mark: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Mark(found)) if *found == mark)
    }

    fn take(&mut self, mark: &str) -> bool {
        let is = self.is(mark);
        self.at += usize::from(is);
        is
    }

    fn need(&mut self, mark: &str) {
        let rest = &self.tokens[self.at..(self.at + 8).min(self.tokens.len())];
        assert!(self.is(mark), "{mark} expected at {rest:?}");
        self.at += 1;
    }

    fn name(&mut self) -> String {
        let Some(Token::Name(name)) = self.tokens.get(self.at).cloned() else {
            panic!("a name expected at {:?}", &self.tokens[self.at..(self.at + 8).min(self.tokens.len())])
        };
        self.at += 1;
        name
    }

    fn item(&mut self, notation: &mut Notation) {
        let name = self.name();
        if self.take("=") {
            let Expr::Number(value) = self.primary() else { panic!("a number for {name}") };
            self.need(";");
            notation.constants.insert(name, value);
            return;
        }
        if name == "CONTROL" {
            for statement in self.statements() {
                if let Statement::Field { names, len: Some(Expr::Number(len)), .. } = statement {
                    notation.control.insert(names[0].clone(), len);
                }
            }
            return;
        }
        let mut method = Method::default();
        if self.take("(") {
            while !self.take(")") {
                method.parameters.push(self.name());
                self.take(",");
            }
        }
        if self.tokens.get(self.at) == Some(&Token::Prose) {
            self.at += 1;
            self.need(";");
            return;
        }
        self.need("{");
        while !self.take("}") {
            let kind = self.name();
            let name = if self.is("{") { String::new() } else { self.name() };
            method.blocks.push(Block { kind, name, statements: self.statements() });
        }
        notation.methods.insert(name, method);
    }

    fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        self.need("{");
        while !self.take("}") {
            statements.push(self.statement());
        }
        statements
    }

    fn statement(&mut self) -> Statement {
        let mut names = vec![self.name()];
        if names[0] == "ENFORCE" {
            let condition = self.primary();
            self.need(";");
            return Statement::Enforce(condition);
        }
        while self.take(":") {
            names.push(self.name());
        }
        let encoding = self.take("=:=").then(|| self.expr(0));
        let mut lens = Vec::new();
        if self.take("[") {
            while !self.take("]") {
                lens.push(self.expr(0));
                self.take(",");
            }
        }
        self.need(";");
        Statement::Field { names, encoding, len: if lens.len() == 1 { lens.pop() } else { None } }
    }

    fn expr(&mut self, level: usize) -> Expr {
        const LEVELS: [&[&str]; 6] =
            [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"], &["^"]];
        let Some(marks) = LEVELS.get(level) else { return self.primary() };
        let mut left = self.expr(level + 1);
        while let Some(mark) = marks.iter().find(|mark| self.is(mark)) {
            self.at += 1;
            left = Expr::Op(mark, Box::new(left), Box::new(self.expr(level + 1)));
        }
        left
    }

    fn primary(&mut self) -> Expr {
        if self.take("(") {
            let inner = self.expr(0);
            self.need(")");
            return inner;
        }
        let token = self.tokens[self.at].clone();
        match token {
            Token::Number(number) => {
                self.at += 1;
                Expr::Number(number)
            }
            Token::Bits(bits) => {
                self.at += 1;
                Expr::Bits(bits)
            }
            _ => self.call(),
        }
    }

    fn call(&mut self) -> Expr {
        let name = self.name();
        if self.take(".") {
            return Expr::Name(name, Some(self.name()));
        }
        if !self.take("(") {
            return Expr::Name(name, None);
        }
        let mut arguments = Vec::new();
        while !self.take(")") {
            arguments.push(self.expr(0));
            self.take(",");
        }
        Expr::Call(name, arguments)
    }
}
