//! Things that a user makes in any number, and their bounds.
//!
//! Lists answer with all of them, so their number is bounded next to their bytes. Other things of a user have bounds elsewhere: sessions
//! (the oldest ends), files, reservations and unfinished jobs by number; scenarios, versions and jobs by [`super::usage`], which counts
//! each row; entries of the audit log by their rate.

use rusqlite::{Transaction, params};

use super::Result;
use crate::clock::now_ms;

/// Thing whose number is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Token of a program.
    Token,
    /// Preset of a scenario's entry.
    Preset,
}

impl Counted {
    #[cfg(test)]
    pub(crate) const ALL: [Counted; 2] = [Counted::Token, Counted::Preset];

    /// Returns the maximum number of a user.
    pub(crate) const fn most(self) -> i64 {
        match self {
            Counted::Token => 100,
            Counted::Preset => 1000,
        }
    }

    fn query(self) -> &'static str {
        match self {
            Counted::Token => "SELECT count(*) FROM token WHERE user = ?1",
            Counted::Preset => "SELECT count(*) FROM preset WHERE owner = ?1",
        }
    }

    /// Returns the reason for which a user makes no more, if there are too many.
    ///
    /// It is asked in the transaction that added one.
    pub(crate) fn excess(self, db: &Transaction<'_>, user: i64) -> Result<Option<String>> {
        if self == Counted::Token {
            db.execute("DELETE FROM token WHERE user = ?1 AND expires <= ?2", params![user, now_ms()])?;
        }
        let count: i64 = db.query_row(self.query(), [user], |row| row.get(0))?;
        let most = self.most();
        Ok((count > most).then(|| match self {
            Counted::Token => format!("you have {most} tokens: revoke some"),
            Counted::Preset => format!("you have {most} presets: remove some"),
        }))
    }
}
