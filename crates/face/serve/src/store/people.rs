//! Users, sessions and tokens.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Result;
use crate::clock::{now_ms, secret};
use crate::totp;

/// Idle time after which a session ends, in milliseconds.
const SESSION_IDLE_MS: i64 = 8 * 3_600_000;
/// Longest life of a session, in milliseconds.
const SESSION_MS: i64 = 7 * 86_400_000;
/// Most sessions of a user.
pub(crate) const MAX_SESSIONS: u32 = 20;
/// Shortest time between two updates of "last seen", in milliseconds.
const SEEN_MS: i64 = 60_000;

/// Prefix of API tokens, which makes leaked ones findable.
pub(crate) const TOKEN_PREFIX: &str = "bpt_";

/// User of the controller.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct User {
    /// Number.
    pub(crate) id: i64,
    /// Name.
    pub(crate) name: String,
    /// Level: 0 looks, 1 runs tests, 2 configures what is shared, 3 administers users.
    pub(crate) level: u8,
    /// Set if the user cannot log in.
    pub(crate) disabled: bool,
    /// Time of creation in milliseconds since 1970, UTC.
    pub(crate) created: i64,
    /// Set if a login needs a one-time code too.
    pub(crate) second_factor: bool,
}

/// Session of a browser.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Session {
    /// Number.
    pub(crate) id: i64,
    /// Start in milliseconds since 1970, UTC.
    pub(crate) created: i64,
    /// Last request in milliseconds since 1970, UTC.
    pub(crate) seen: i64,
    /// Address of the browser.
    pub(crate) address: String,
    /// Name that the browser gives itself.
    pub(crate) agent: String,
}

/// Token of a program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Token {
    /// Number.
    pub(crate) id: i64,
    /// Name.
    pub(crate) name: String,
    /// Scope: "read", "run" or "admin".
    pub(crate) scope: String,
    /// Time of creation in milliseconds since 1970, UTC.
    pub(crate) created: i64,
    /// End of validity in milliseconds since 1970, UTC.
    pub(crate) expires: i64,
    /// Last request in milliseconds since 1970, UTC.
    pub(crate) seen: Option<i64>,
}

fn digest(secret: &str) -> Vec<u8> {
    Sha256::digest(secret).to_vec()
}

const USER: &str = "user.id, user.name, user.level, user.disabled, user.created, user.totp_step IS NOT NULL";

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    Ok(User {
        id: row.get(0)?,
        name: row.get(1)?,
        level: row.get(2)?,
        disabled: row.get(3)?,
        created: row.get(4)?,
        second_factor: row.get(5)?,
    })
}

/// Returns the number of users.
pub(crate) fn count(db: &Transaction<'_>) -> Result<i64> {
    Ok(db.query_row("SELECT count(*) FROM user", [], |row| row.get(0))?)
}

/// Returns all users by name.
pub(crate) fn list(db: &Transaction<'_>) -> Result<Vec<User>> {
    let mut query = db.prepare(&format!("SELECT {USER} FROM user ORDER BY name COLLATE NOCASE"))?;
    let rows = query.query_map([], user)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a user.
pub(crate) fn find(db: &Transaction<'_>, id: i64) -> Result<Option<User>> {
    Ok(db.query_row(&format!("SELECT {USER} FROM user WHERE id = ?1"), [id], user).optional()?)
}

/// Returns a user who may log in, and the hash of the password.
pub(crate) fn by_name(db: &Transaction<'_>, name: &str) -> Result<Option<(User, String)>> {
    let query = format!("SELECT {USER}, hash FROM user WHERE name = ?1 AND disabled = 0");
    Ok(db.query_row(&query, [name], |row| Ok((user(row)?, row.get(6)?))).optional()?)
}

/// Adds a user and returns the number. Returns `None` if the name is taken.
pub(crate) fn add(db: &Transaction<'_>, name: &str, hash: &str, level: u8) -> Result<Option<i64>> {
    let added = db.execute(
        "INSERT INTO user(name, hash, level, created) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        params![name, hash, level, now_ms()],
    )?;
    Ok((added == 1).then(|| db.last_insert_rowid()))
}

/// Sets the level of a user and ends the sessions.
pub(crate) fn set_level(db: &Transaction<'_>, id: i64, level: u8) -> Result<()> {
    db.execute("UPDATE user SET level = ?2 WHERE id = ?1", params![id, level])?;
    end_sessions(db, id)
}

/// Sets whether a user may log in, and ends the sessions.
pub(crate) fn set_disabled(db: &Transaction<'_>, id: i64, disabled: bool) -> Result<()> {
    db.execute("UPDATE user SET disabled = ?2 WHERE id = ?1", params![id, disabled])?;
    end_sessions(db, id)
}

/// Sets the hash of a user's password, and ends the sessions.
///
/// Tokens end too, unless they are kept.
pub(crate) fn set_password(db: &Transaction<'_>, id: i64, hash: &str, keeps_tokens: bool) -> Result<()> {
    db.execute("UPDATE user SET hash = ?2 WHERE id = ?1", params![id, hash])?;
    if !keeps_tokens {
        db.execute("DELETE FROM token WHERE user = ?1", [id])?;
    }
    end_sessions(db, id)
}

/// Returns the number of administrators who may log in.
pub(crate) fn administrators(db: &Transaction<'_>) -> Result<i64> {
    Ok(db.query_row("SELECT count(*) FROM user WHERE level = 3 AND disabled = 0", [], |row| row.get(0))?)
}

/// Starts a session and returns its secret. Beyond the most, the one that was used the longest ago ends.
pub(crate) fn start_session(db: &Transaction<'_>, user: i64, address: &str, agent: &str) -> Result<String> {
    let (secret, now) = (secret(), now_ms());
    let agent: String = agent.chars().filter(|c| !c.is_control()).take(200).collect();
    db.execute("DELETE FROM session WHERE expires <= ?1 OR seen <= ?2", params![now, now - SESSION_IDLE_MS])?;
    db.execute(
        "INSERT INTO session(hash, user, created, seen, expires, address, agent) VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6)",
        params![digest(&secret), user, now, now + SESSION_MS, address, agent],
    )?;
    let surplus = "DELETE FROM session WHERE user = ?1 AND id NOT IN
        (SELECT id FROM session WHERE user = ?1 ORDER BY seen DESC, id DESC LIMIT ?2)";
    db.execute(surplus, params![user, MAX_SESSIONS])?;
    Ok(secret)
}

/// Returns the user and the number of the session with a secret. The last value is set if its last use is to be noted.
pub(crate) fn session(db: &Transaction<'_>, secret: &str) -> Result<Option<(User, i64, bool)>> {
    let now = now_ms();
    let query = format!(
        "SELECT {USER}, session.id, session.seen FROM session JOIN user ON user.id = session.user
         WHERE session.hash = ?1 AND expires > ?2 AND seen > ?3 AND disabled = 0"
    );
    let found = db
        .query_row(&query, params![digest(secret), now, now - SESSION_IDLE_MS], |row| {
            Ok((user(row)?, row.get(6)?, row.get::<_, i64>(7)? < now - SEEN_MS))
        })
        .optional()?;
    Ok(found)
}

/// Notes the use of a session.
pub(crate) fn touch_session(db: &Transaction<'_>, id: i64) -> Result<()> {
    db.execute("UPDATE session SET seen = ?2 WHERE id = ?1", params![id, now_ms()])?;
    Ok(())
}

/// Returns the sessions of a user.
pub(crate) fn sessions(db: &Transaction<'_>, user: i64) -> Result<Vec<Session>> {
    let mut query = db.prepare(
        "SELECT id, created, seen, address, agent FROM session WHERE user = ?1 ORDER BY seen DESC",
    )?;
    let rows = query.query_map([user], |row| {
        Ok(Session {
            id: row.get(0)?,
            created: row.get(1)?,
            seen: row.get(2)?,
            address: row.get(3)?,
            agent: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Ends a session of a user. Returns `false` if there is none.
pub(crate) fn end_session(db: &Transaction<'_>, user: i64, id: i64) -> Result<bool> {
    Ok(db.execute("DELETE FROM session WHERE id = ?1 AND user = ?2", params![id, user])? == 1)
}

/// Ends the sessions of a user but one.
pub(crate) fn end_other_sessions(db: &Transaction<'_>, user: i64, kept: i64) -> Result<()> {
    db.execute("DELETE FROM session WHERE user = ?1 AND id <> ?2", params![user, kept])?;
    Ok(())
}

/// Ends all sessions of a user.
pub(crate) fn end_sessions(db: &Transaction<'_>, user: i64) -> Result<()> {
    db.execute("DELETE FROM session WHERE user = ?1", [user])?;
    Ok(())
}

/// Creates a token and returns its number and its secret, which is stored nowhere.
pub(crate) fn add_token(
    db: &Transaction<'_>,
    user: i64,
    (name, scope): (&str, &str),
    days: u32,
) -> Result<(i64, String)> {
    let (secret, now) = (format!("{TOKEN_PREFIX}{}", secret()), now_ms());
    db.execute(
        "INSERT INTO token(hash, user, name, scope, created, expires) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![digest(&secret), user, name, scope, now, now + i64::from(days) * 86_400_000],
    )?;
    Ok((db.last_insert_rowid(), secret))
}

/// Returns the user, the scope and the number of a token. The last value is set if its last use is to be noted.
pub(crate) fn token(db: &Transaction<'_>, secret: &str) -> Result<Option<(User, String, i64, bool)>> {
    let query = format!(
        "SELECT {USER}, token.scope, token.id, coalesce(token.seen, 0) FROM token JOIN user ON user.id = token.user
         WHERE token.hash = ?1 AND expires > ?2 AND disabled = 0"
    );
    let now = now_ms();
    let found = db.query_row(&query, params![digest(secret), now], |row| {
        Ok((user(row)?, row.get(6)?, row.get(7)?, row.get::<_, i64>(8)? < now - SEEN_MS))
    });
    Ok(found.optional()?)
}

/// Notes the use of a token.
pub(crate) fn touch_token(db: &Transaction<'_>, id: i64) -> Result<()> {
    db.execute("UPDATE token SET seen = ?2 WHERE id = ?1", params![id, now_ms()])?;
    Ok(())
}

/// Returns `true` while a user has a level, and the session or token lasts.
pub(crate) fn lasts(
    db: &Transaction<'_>,
    (user, level): (i64, u8),
    (session, token): (Option<i64>, Option<i64>),
) -> Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM user WHERE id = ?1 AND disabled = 0 AND level >= ?2)
        AND (?3 IS NULL OR EXISTS (SELECT 1 FROM session WHERE id = ?3 AND user = ?1 AND expires > ?5))
        AND (?4 IS NULL OR EXISTS (SELECT 1 FROM token WHERE id = ?4 AND user = ?1 AND expires > ?5))";
    Ok(db.query_row(query, params![user, level, session, token, now_ms()], |row| row.get(0))?)
}

/// Returns the tokens of a user.
pub(crate) fn tokens(db: &Transaction<'_>, user: i64) -> Result<Vec<Token>> {
    let mut query =
        db.prepare("SELECT id, name, scope, created, expires, seen FROM token WHERE user = ?1 ORDER BY id")?;
    let rows = query.query_map([user], |row| {
        Ok(Token {
            id: row.get(0)?,
            name: row.get(1)?,
            scope: row.get(2)?,
            created: row.get(3)?,
            expires: row.get(4)?,
            seen: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Revokes a token of a user. Returns `false` if there is none.
pub(crate) fn revoke_token(db: &Transaction<'_>, user: i64, id: i64) -> Result<bool> {
    Ok(db.execute("DELETE FROM token WHERE id = ?1 AND user = ?2", params![id, user])? == 1)
}

/// Sets the secret of a user's second factor, which counts after its first code. Returns `false` if there is one.
pub(crate) fn offer_second_factor(db: &Transaction<'_>, user: i64, secret: &[u8]) -> Result<bool> {
    let query = "UPDATE user SET totp = ?2 WHERE id = ?1 AND totp_step IS NULL";
    Ok(db.execute(query, params![user, secret])? == 1)
}

fn second_factor(db: &Transaction<'_>, user: i64) -> Result<Option<(Vec<u8>, Option<i64>)>> {
    let query = "SELECT totp, totp_step FROM user WHERE id = ?1 AND totp IS NOT NULL";
    Ok(db.query_row(query, [user], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn take_code(db: &Transaction<'_>, user: i64, (code, now): (&str, i64)) -> Result<bool> {
    let Some((secret, last)) = second_factor(db, user)? else { return Ok(false) };
    let Some(step) = totp::step_of(&secret, code, now, last) else { return Ok(false) };
    db.execute("UPDATE user SET totp_step = ?2 WHERE id = ?1", params![user, step])?;
    Ok(true)
}

/// Confirms a second factor by its first code, and stores recovery codes. Returns `false` if it is another code.
pub(crate) fn confirm_second_factor(
    db: &Transaction<'_>,
    user: i64,
    code: (&str, i64),
    recovery: &[String],
) -> Result<bool> {
    let is_first = second_factor(db, user)?.is_some_and(|(_, last)| last.is_none());
    if !is_first || !take_code(db, user, code)? {
        return Ok(false);
    }
    let mut query = db.prepare("INSERT INTO recovery_code(user, hash) VALUES (?1, ?2)")?;
    for code in recovery {
        query.execute(params![user, digest(code)])?;
    }
    Ok(true)
}

/// Checks a code of a second factor, or one of the recovery codes. Returns `false` if it is none, or was taken before.
pub(crate) fn take_second_factor(db: &Transaction<'_>, user: i64, (code, now): (&str, i64)) -> Result<bool> {
    let code: String =
        code.chars().filter(|c| !c.is_whitespace() && *c != '-').collect::<String>().to_lowercase();
    if take_code(db, user, (&code, now))? {
        return Ok(true);
    }
    let query = "DELETE FROM recovery_code WHERE user = ?1 AND hash = ?2";
    Ok(db.execute(query, params![user, digest(&code)])? == 1)
}

/// Ends the second factor of a user.
pub(crate) fn end_second_factor(db: &Transaction<'_>, user: i64) -> Result<()> {
    db.execute("UPDATE user SET totp = NULL, totp_step = NULL WHERE id = ?1", [user])?;
    db.execute("DELETE FROM recovery_code WHERE user = ?1", [user])?;
    Ok(())
}

/// Returns the number of recovery codes that a user has left.
pub(crate) fn recovery_codes(db: &Transaction<'_>, user: i64) -> Result<i64> {
    Ok(db.query_row("SELECT count(*) FROM recovery_code WHERE user = ?1", [user], |row| row.get(0))?)
}
