//! Conditions of the notation, and what follows from them.

use super::parse::Expr;
use super::relation::{Scope, State, mask};

impl State<'_> {
    pub(super) fn defer(&mut self, scope: &Scope, condition: &Expr) {
        self.deferred.push((scope.clone(), condition.clone()));
    }

    /// Decides what can be decided by now.
    pub(super) fn retry(&mut self) -> Result<(), String> {
        for _ in 0..4 {
            for (scope, condition) in std::mem::take(&mut self.deferred) {
                self.enforce(&scope, &condition)?;
            }
        }
        Ok(())
    }

    pub(super) fn enforce(&mut self, scope: &Scope, condition: &Expr) -> Result<(), String> {
        match condition {
            Expr::Op("&&", first, second) => {
                self.enforce(scope, first)?;
                self.enforce(scope, second)
            }
            Expr::Op("==", left, right) => self.equal(scope, left, right, condition),
            _ => match self.eval(scope, condition) {
                Some(0) => Err(format!("not so: {condition:?}")),
                Some(_) => Ok(()),
                None => {
                    self.defer(scope, condition);
                    Ok(())
                }
            },
        }
    }

    pub(super) fn equal(
        &mut self,
        scope: &Scope,
        left: &Expr,
        right: &Expr,
        condition: &Expr,
    ) -> Result<(), String> {
        let width = self.width(scope, left).or_else(|| self.width(scope, right));
        match (self.eval(scope, left), self.eval(scope, right)) {
            (Some(left), Some(right)) if left & mask(width) == right & mask(width) => Ok(()),
            (Some(left), Some(right)) => Err(format!("{left:#x} is not {right:#x}: {condition:?}")),
            (None, Some(value)) if self.solve(scope, left, value & mask(width), width)? => Ok(()),
            (Some(value), None) if self.solve(scope, right, value & mask(width), width)? => Ok(()),
            _ => {
                self.defer(scope, condition);
                Ok(())
            }
        }
    }

    pub(super) fn width(&self, scope: &Scope, expr: &Expr) -> Option<u32> {
        let Expr::Name(name, _) = expr else { return None };
        self.cells[self.place(scope, name)?].width
    }

    /// Finds the one unknown of an expression with this value. Returns whether it could.
    pub(super) fn solve(
        &mut self,
        scope: &Scope,
        expr: &Expr,
        value: u128,
        width: Option<u32>,
    ) -> Result<bool, String> {
        let (mark, left, right) = match expr {
            Expr::Name(name, _) => {
                let Some(cell) = self.place(scope, name) else { return Ok(false) };
                return self.set(cell, value).map(|()| true);
            }
            Expr::Op(mark, left, right) => (*mark, left, right),
            _ => return Ok(false),
        };
        let (rest, other) = match (mark, self.eval(scope, left), self.eval(scope, right)) {
            ("+", None, Some(known)) => (left, value.wrapping_sub(known)),
            ("+", Some(known), None) => (right, value.wrapping_sub(known)),
            ("-", None, Some(known)) => (left, value.wrapping_add(known)),
            ("-", Some(known), None) => (right, known.wrapping_sub(value)),
            ("*", None, Some(known)) if known > 0 && value.is_multiple_of(known) => (left, value / known),
            ("*", Some(known), None) if known > 0 && value.is_multiple_of(known) => (right, value / known),
            _ => return Ok(false),
        };
        self.solve(scope, rest, other & mask(width), width)
    }

    pub(super) fn eval(&self, scope: &Scope, expr: &Expr) -> Option<u128> {
        match expr {
            Expr::Number(number) => Some(*number),
            Expr::Name(name, attribute) => match (self.place(scope, name), attribute.as_deref()) {
                (Some(cell), Some("ULENGTH")) => self.cells[cell].width.map(u128::from),
                (Some(cell), _) => self.cells[cell].value,
                (None, _) => self.notation.constants.get(name).copied(),
            },
            Expr::Op(mark, left, right) => operate(mark, self.eval(scope, left), self.eval(scope, right)),
            Expr::Bits(_) | Expr::Call(..) => None,
        }
    }
}

fn operate(mark: &str, left: Option<u128>, right: Option<u128>) -> Option<u128> {
    match (mark, left, right) {
        ("&&", Some(0), _) | ("&&", _, Some(0)) => return Some(0),
        ("||", Some(1..), _) | ("||", _, Some(1..)) => return Some(1),
        _ => {}
    }
    let (left, right) = (left?, right?);
    Some(match mark {
        "&&" => u128::from(left > 0 && right > 0),
        "||" => u128::from(left > 0 || right > 0),
        "==" => (left == right).into(),
        "!=" => (left != right).into(),
        "<" => (left < right).into(),
        ">" => (left > right).into(),
        "<=" => (left <= right).into(),
        ">=" => (left >= right).into(),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        _ => left.checked_pow(right as u32)?,
    })
}
