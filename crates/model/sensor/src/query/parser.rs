//! Parser of queries by recursive descent.

use bentpipe_units::Span;

use super::lexer::{Token, tokens};
use super::{
    Column, Comparison, Condition, Function, Group, Input, Item, MAX_BUCKETS, MAX_ITEMS, MAX_WINDOW, Match,
    Pairing, Query, QueryError, Sensor, Side,
};

/// Name of a column that matches any word.
pub(super) const ANY: &str = "*";
/// Bounds of a sample period.
const PERIODS: [Span; 2] = [Span::from_millis(10), Span::from_secs(86_400)];

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    /// Columns of the joined table.
    joined: Vec<String>,
    /// Names of the motes of a pair.
    pair: Option<[String; 2]>,
    /// Place and time of the window of pairs; without one they are of one epoch.
    window: Option<(usize, Span)>,
    matches: Vec<Match>,
}

/// Parses a query.
pub(super) fn parse(text: &str, columns: &dyn Fn(&str) -> Option<Vec<String>>) -> Result<Query, QueryError> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        joined: Vec::new(),
        pair: None,
        window: None,
        matches: Vec::new(),
    };
    parser.expect("select")?;
    // Items may name columns of a table that is named later.
    let items_at = parser.at;
    parser.skip_to("from")?;
    parser.expect("from")?;
    parser.expect("sensors")?;
    let table = parser.join(columns)?;
    let after = std::mem::replace(&mut parser.at, items_at);
    let items = parser.items()?;
    parser.at = after;
    let conditions = parser.conditions()?;
    let group = parser.group(&items)?;
    let (period, duration) = parser.times()?;
    parser.end()?;
    Ok(Query {
        pairing: parser.pairing(period)?,
        matches: parser.matches,
        items: items.into_iter().map(|(_, item)| item).collect(),
        table,
        joined: parser.joined,
        conditions,
        group,
        period,
        duration,
    })
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    fn place(&self) -> usize {
        self.tokens[self.at].0
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn refuse<T>(&self, expected: &str) -> Result<T, QueryError> {
        let problem = format!("expected {expected}, got {}", self.peek().shown());
        Err(QueryError { column: self.place(), problem })
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found == word)
    }

    /// Returns `true` if a word is next, and skips it.
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.is_word(word);
        if is_next {
            self.next();
        }
        is_next
    }

    fn expect(&mut self, word: &str) -> Result<(), QueryError> {
        if self.take(word) { Ok(()) } else { self.refuse(&word.to_uppercase().replace("SENSORS", "sensors")) }
    }

    fn sign(&mut self, sign: &str) -> Result<(), QueryError> {
        match self.peek() {
            Token::Sign(found) if *found == sign => {
                self.next();
                Ok(())
            }
            _ => self.refuse(&format!("\"{sign}\"")),
        }
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    fn skip_to(&mut self, word: &str) -> Result<(), QueryError> {
        while !self.is_word(word) {
            if *self.peek() == Token::End {
                return self.refuse(&word.to_uppercase());
            }
            self.next();
        }
        Ok(())
    }

    fn join(&mut self, columns: &dyn Fn(&str) -> Option<Vec<String>>) -> Result<Option<String>, QueryError> {
        if let Token::Word(left) = self.peek()
            && !["join", "where", "group", "sample"].contains(&left.as_str())
        {
            let left = left.clone();
            self.next();
            self.motes(left)?;
            return Ok(None);
        }
        if !self.take("join") {
            return Ok(None);
        }
        let place = self.place();
        let Token::Word(table) = self.next() else {
            self.at -= 1;
            return self.refuse("the name of a table");
        };
        let problem = format!("no table is called \"{table}\"");
        self.joined = columns(&table).ok_or(QueryError { column: place, problem })?;
        self.expect("on")?;
        self.expect("node")?;
        Ok(Some(table))
    }

    /// Parses the rest of a join of motes after the name of the first.
    fn motes(&mut self, left: String) -> Result<(), QueryError> {
        self.expect("join")?;
        self.expect("sensors")?;
        let right = match self.peek() {
            Token::Word(right) if *right != left => right.clone(),
            _ => return self.refuse("another name for the second mote"),
        };
        self.next();
        if self.take("within") {
            self.window = Some((self.place(), self.span()?));
        } else if self.take("on") {
            self.expect("epoch")?;
        } else {
            return self.refuse("ON epoch or WITHIN and a time");
        }
        self.pair = Some([left, right]);
        Ok(())
    }

    /// Returns how rows are paired.
    fn pairing(&self, period: Span) -> Result<Option<Pairing>, QueryError> {
        let Some((column, window)) = self.window else {
            return Ok(self.pair.as_ref().map(|_| Pairing::Epoch));
        };
        let longest = period * u64::from(MAX_WINDOW);
        if window < period || window > longest {
            let problem = format!(
                "expected a window of one to {MAX_WINDOW} sample periods, {period} to {longest}, got {window}"
            );
            return Err(QueryError { column, problem });
        }
        Ok(Some(Pairing::Within(window)))
    }

    /// Returns the column of one mote of a pair: "a.light".
    fn column_of_pair(&mut self, name: &str, [left, right]: &[String; 2]) -> Result<Column, QueryError> {
        let split = name.split_once('.');
        let side = split.and_then(|(mote, _)| match mote {
            _ if mote == left => Some(Side::Left),
            _ if mote == right => Some(Side::Right),
            _ => None,
        });
        let input = split.and_then(|(_, column)| match column {
            "node" => Some(Input::Node),
            "epoch" => Some(Input::Epoch),
            _ => Sensor::ALL.into_iter().find(|sensor| sensor.name() == column).map(Input::Sensor),
        });
        let (Some(side), Some(input)) = (side, input) else {
            return self.refuse(&format!("a column of \"{left}\" or \"{right}\", such as {left}.light"));
        };
        self.next();
        Ok(Column::Of(side, input))
    }

    fn items(&mut self) -> Result<Vec<(usize, Item)>, QueryError> {
        let mut items = Vec::new();
        loop {
            if items.len() == MAX_ITEMS {
                return self.refuse(&format!("at most {MAX_ITEMS} items"));
            }
            let place = self.place();
            items.push((place, self.item()?));
            if !self.is_sign(",") {
                break;
            }
            self.next();
        }
        if !self.is_word("from") {
            return self.refuse("\",\" or FROM");
        }
        Ok(items)
    }

    fn item(&mut self) -> Result<Item, QueryError> {
        let is_call =
            self.pair.is_none() && matches!(self.tokens.get(self.at + 1), Some((_, Token::Sign("("))));
        if !is_call {
            return self.column().map(Item::Column);
        }
        let (place, name) = (self.at, self.next());
        self.next();
        let function = match &name {
            Token::Word(word) if word == "histogram" => return self.histogram(),
            Token::Word(word) => match word.as_str() {
                "avg" => Some(Function::Avg),
                "min" => Some(Function::Min),
                "max" => Some(Function::Max),
                "sum" => Some(Function::Sum),
                "count" => Some(Function::Count),
                _ => None,
            },
            _ => None,
        };
        let Some(function) = function else {
            self.at = place;
            return self.refuse("avg, min, max, sum, count or histogram");
        };
        let column = if function == Function::Count && self.is_sign("*") {
            self.next();
            Column::Node
        } else {
            self.column()?
        };
        self.sign(")")?;
        Ok(Item::Aggregate(function, column))
    }

    fn histogram(&mut self) -> Result<Item, QueryError> {
        let column = self.column()?;
        self.sign(",")?;
        let low = self.number()?;
        self.sign(",")?;
        let place = self.at;
        let high = self.number()?;
        if high <= low {
            self.at = place;
            return self.refuse(&format!("a number above {low}"));
        }
        self.sign(",")?;
        let place = self.at;
        let buckets = self.number()?;
        if !(1.0..=f32::from(MAX_BUCKETS)).contains(&buckets) || libm::floorf(buckets) != buckets {
            self.at = place;
            return self.refuse(&format!("1 to {MAX_BUCKETS} buckets"));
        }
        self.sign(")")?;
        Ok(Item::Aggregate(Function::Histogram { low, high, buckets: buckets as u8 }, column))
    }

    fn number(&mut self) -> Result<f32, QueryError> {
        match *self.peek() {
            Token::Number(number) => {
                self.next();
                Ok(number)
            }
            _ => self.refuse("a number"),
        }
    }

    fn column(&mut self) -> Result<Column, QueryError> {
        let name = match self.peek() {
            Token::Word(word) => word.clone(),
            _ => return self.refuse("a column"),
        };
        if let Some(pair) = self.pair.clone() {
            return self.column_of_pair(&name, &pair);
        }
        let sensor = Sensor::ALL.into_iter().find(|sensor| sensor.name() == name);
        let column = match name.as_str() {
            "node" => Some(Column::Node),
            "epoch" => Some(Column::Epoch),
            _ => sensor.map(Column::Sensor),
        };
        let joined = || self.joined.iter().position(|column| *column == name || column == ANY);
        let column = column.or_else(|| joined().map(|n| Column::Joined(n as u8)));
        let Some(column) = column else {
            let mut known: Vec<&str> = vec!["node", "epoch"];
            known.extend(Sensor::ALL.map(Sensor::name));
            known.extend(self.joined.iter().map(String::as_str));
            return self.refuse(&format!("a column ({})", known.join(", ")));
        };
        self.next();
        Ok(column)
    }

    fn conditions(&mut self) -> Result<Vec<Condition>, QueryError> {
        let mut conditions = Vec::new();
        if !self.take("where") {
            return Ok(conditions);
        }
        loop {
            if conditions.len() + self.matches.len() == MAX_ITEMS {
                return self.refuse(&format!("at most {MAX_ITEMS} conditions"));
            }
            let column = self.column()?;
            let comparison = match self.peek() {
                Token::Sign("<") => Comparison::Below,
                Token::Sign("<=") => Comparison::AtMost,
                Token::Sign(">") => Comparison::Above,
                Token::Sign(">=") => Comparison::AtLeast,
                Token::Sign("=") => Comparison::Equal,
                Token::Sign("<>" | "!=") => Comparison::Unequal,
                _ => return self.refuse("a comparison (<, <=, >, >=, =, <>)"),
            };
            self.next();
            match (&self.pair, self.peek()) {
                (Some(_), Token::Word(_)) => {
                    let right = self.column()?;
                    self.matches.push(Match { left: column, comparison, right });
                }
                _ => conditions.push(Condition { column, comparison, number: self.number()? }),
            }
            if !self.take("and") {
                return Ok(conditions);
            }
        }
    }

    fn group(&mut self, items: &[(usize, Item)]) -> Result<Option<Group>, QueryError> {
        let is_aggregate = items.iter().any(|(_, item)| matches!(item, Item::Aggregate(..)));
        let place = self.place();
        if self.pair.is_some() && self.is_word("group") {
            return self.refuse("SAMPLE, as pairs have no groups");
        }
        let group = if self.take("group") {
            self.expect("by")?;
            let column = self.column()?;
            let width = if self.is_sign("/") {
                self.next();
                let place = self.at;
                let width = self.number()?;
                if width <= 0.0 {
                    self.at = place;
                    return self.refuse("a number above zero");
                }
                Some(width)
            } else {
                None
            };
            Some(Group { column, width })
        } else {
            None
        };
        if group.is_some() && !is_aggregate {
            let problem = "GROUP BY without an aggregate in SELECT".to_owned();
            return Err(QueryError { column: place, problem });
        }
        let is_bare = |item: &Item| match item {
            Item::Column(column) => {
                is_aggregate && *column != Column::Epoch && group.map(|group| group.column) != Some(*column)
            }
            Item::Aggregate(..) => false,
        };
        if let Some((column, _)) = items.iter().find(|(_, item)| is_bare(item)) {
            let problem = "a column next to an aggregate: expected it in GROUP BY".to_owned();
            return Err(QueryError { column: *column, problem });
        }
        Ok(group)
    }

    fn times(&mut self) -> Result<(Span, Option<Span>), QueryError> {
        self.expect("sample")?;
        self.expect("period")?;
        let place = self.place();
        let period = self.span()?;
        if period < PERIODS[0] || period > PERIODS[1] {
            let problem = format!("expected a period of {} to {}, got {period}", PERIODS[0], PERIODS[1]);
            return Err(QueryError { column: place, problem });
        }
        if !self.take("for") {
            return Ok((period, None));
        }
        let place = self.place();
        let duration = self.span()?;
        if duration < period {
            let problem = format!("expected a time of at least the sample period, {period}, got {duration}");
            return Err(QueryError { column: place, problem });
        }
        Ok((period, Some(duration)))
    }

    fn span(&mut self) -> Result<Span, QueryError> {
        let number = self.number()?;
        let unit = match self.peek() {
            Token::Word(unit) => unit.clone(),
            _ => return self.refuse("a unit of time (ms, s, min, h, d)"),
        };
        let is_unit = format!("1 {unit}").parse::<Span>().is_ok();
        match format!("{number} {unit}").parse() {
            Ok(span) => {
                self.next();
                Ok(span)
            }
            Err(_) if is_unit => {
                let problem = format!("expected a time up to 213503 d, got {number} {unit}");
                Err(QueryError { column: self.tokens[self.at - 1].0, problem })
            }
            Err(_) => self.refuse("a unit of time (ms, s, min, h, d)"),
        }
    }

    fn end(&mut self) -> Result<(), QueryError> {
        if *self.peek() == Token::End { Ok(()) } else { self.refuse("the end of the query") }
    }
}
