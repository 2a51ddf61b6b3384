//! Operations on reservations: of the testbed, or by capability.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use bentpipe_agent::protocol::Program;
use rusqlite::Transaction;
use schemars::JsonSchema;
use serde::Deserialize;

use super::access::may_change;
use super::body::{Body, Ids};
use super::people::checked_title;
use crate::app::App;
use crate::audited::log;
use crate::children::{DAY_MS, MAX_AHEAD, Reserving};
use crate::clock::{now_ms, shown};
use crate::guard::Caller;
use crate::problem::{Problem, Result};
use crate::store::reservations::{self, Reservation, What};
use crate::store::sites;

/// Most reservations of a user that are not over.
pub(crate) const MAX_OWN: usize = 50;
/// Most reservations of a user in the time in which they count.
///
/// Those that are over are among them. Each has a row, however short it is.
pub(crate) const MAX_COUNTED: usize = 500;
/// Shortest reservation in milliseconds.
const SHORTEST_MS: i64 = 60_000;
/// Days after which a reservation that is over is forgotten. It counts for half as long at most.
const KEPT_DAYS: i64 = MAX_AHEAD;

/// Returns a time in days.
pub(crate) fn days(ms: i64) -> String {
    format!("{} d", (ms as f64 / DAY_MS as f64 * 100.0).round() / 100.0)
}

impl Reserving {
    /// Returns the time from which reservations count that are over.
    fn since(self, now: i64) -> i64 {
        now - self.ahead_ms / 2
    }

    /// Returns why a user with reservations gets no other one, if so.
    ///
    /// Those that are over count: who reserves again as time passes would have the testbed for good.
    fn refusal(self, own: &[(i64, i64)], (start, end): (i64, i64), now: i64) -> Option<String> {
        if own.iter().filter(|(_, end)| *end > now).count() >= MAX_OWN {
            return Some(format!("end: you have {MAX_OWN} reservations, the most"));
        }
        if own.len() >= MAX_COUNTED {
            let last = days(self.ahead_ms / 2);
            return Some(format!(
                "end: you have made {MAX_COUNTED} reservations in the last {last}, the most"
            ));
        }
        let sum = |since: i64| -> i64 {
            let times = own.iter().copied().chain([(start.max(now), end)]);
            times.map(|(start, end)| (end - start.max(since)).max(0)).sum()
        };
        if sum(now) > self.sum_ms {
            let most = days(self.sum_ms);
            return Some(format!("end: your reservations that are not over have at most {most} together"));
        }
        (sum(self.since(now)) > 2 * self.sum_ms).then(|| {
            let (last, most) = (days(self.ahead_ms / 2), days(2 * self.sum_ms));
            format!("end: your reservations of the last {last} and those that are not over have at most {most} together")
        })
    }

    /// Returns why a time cannot be reserved at the level, if so.
    fn wrong_time(self, (start, end): (i64, i64), now: i64) -> Option<String> {
        let length = end.saturating_sub(start);
        match () {
            () if length < SHORTEST_MS => Some("end: expected a minute or more after the start".to_owned()),
            () if end <= now => Some("end: expected a time after now".to_owned()),
            () if length > self.length_ms => {
                let [asked, most] = [length, self.length_ms].map(days);
                Some(format!("end: the reservation has {asked}: expected at most {most}"))
            }
            () if end - now > self.ahead_ms => {
                let [asked, most] = [end - now, self.ahead_ms].map(days);
                Some(format!("end: it is in {asked}: expected at most {most} from now"))
            }
            () => None,
        }
    }
}

/// Reservation to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewReservation {
    /// Start in milliseconds since 1970, UTC.
    pub(crate) start: i64,
    /// End in milliseconds since 1970, UTC.
    ///
    /// By default at most a day later with level 1, else a week.
    pub(crate) end: i64,
    /// Purpose.
    pub(crate) purpose: String,
    /// Subject of the reservation.
    ///
    /// Expected are "testbed" for all of it, "emulation" for emulations on the server, "2 processors" for as many of its places of
    /// jobs, "site NAME", or "site with gateway, emulate" for any site that permits these programs. Default: "testbed".
    #[serde(default)]
    pub(crate) capability: Option<String>,
}

/// Capability that is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    One(What),
    Site(String),
    SiteWith(Vec<String>),
}

/// Reads the name of a capability.
fn wanted(text: &str) -> Result<Wanted> {
    let wrong = || {
        Problem::bad(
            "capability: expected \"testbed\", \"emulation\", \"2 processors\", \"site NAME\", or \"site with\" and programs such as \
             \"gateway, emulate\"",
        )
    };
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    match words[..] {
        [] | ["testbed"] => Ok(Wanted::One(What::Testbed)),
        ["emulation"] => Ok(Wanted::One(What::Emulation)),
        ["site", "with", ref programs @ ..] if !programs.is_empty() => {
            match programs.iter().find(|program| !Program::NAMES.contains(program)) {
                None => Ok(Wanted::SiteWith(programs.iter().map(|&program| program.to_owned()).collect())),
                Some(_) => Err(Problem::bad(format!(
                    "capability: programs of sites: expected some of {}",
                    Program::NAMES.join(", ")
                ))),
            }
        }
        ["site", name] if name != "with" => Ok(Wanted::Site(name.to_owned())),
        [count, "processor" | "processors"] => {
            let count = count.parse().ok().filter(|count| (1..=100_000).contains(count));
            Ok(Wanted::One(What::Processors(count.ok_or_else(wrong)?)))
        }
        _ => Err(wrong()),
    }
}

/// Returns what fits a capability and is free in a time.
fn free(db: &Transaction<'_>, wanted: Wanted, time: (i64, i64)) -> Result<What> {
    let all = sites::list(db)?;
    let what = match wanted {
        Wanted::One(what) => what,
        Wanted::Site(name) => {
            let site = all.iter().find(|site| site.name == name);
            What::Site(site.ok_or_else(|| Problem::bad("capability: no such site: see the page Sites"))?.id)
        }
        Wanted::SiteWith(programs) => {
            let has = |site: &&sites::Site| programs.iter().all(|program| site.programs.contains(program));
            let fitting: Vec<What> = all.iter().filter(has).map(|site| What::Site(site.id)).collect();
            let missing = || {
                Problem::bad(format!(
                    "capability: no site permits {}: see the page Sites",
                    programs.join(", ")
                ))
            };
            let first = *fitting.first().ok_or_else(missing)?;
            let mut found = first;
            for one in fitting.into_iter().rev() {
                if reservations::clash(db, one, time)?.is_none() {
                    found = one;
                }
            }
            found
        }
    };
    if let Some(other) = reservations::clash(db, what, time)? {
        let (from, to) = (shown(other.start), shown(other.end));
        let detail = format!(
            "{} reserved by {} from {from} to {to} (UTC): {}",
            other.words(),
            other.owner,
            other.purpose
        );
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    if let What::Processors(count) = what {
        let (all, free) = reservations::free(db, time)?;
        if count > free {
            let detail = format!(
                "{free} of {all} processors are free in all of this time: ask for fewer, or for another time"
            );
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
    }
    Ok(what)
}

pub(crate) async fn list(State(app): State<App>) -> Result<Json<Vec<Reservation>>> {
    Ok(Json(app.read(|db| Ok(reservations::after(db, now_ms())?)).await?))
}

/// Reserves the testbed for the caller.
pub(crate) async fn make(app: &App, caller: &Caller, new: NewReservation) -> Result<Reservation> {
    let now = now_ms();
    let level = caller.user.level;
    let most = app.settings.limits.of(level).reservation;
    if let Some(why) = most.wrong_time((new.start, new.end), now) {
        return Err(Problem::bad(format!("{why} at level {level}")));
    }
    let wanted = wanted(new.capability.as_deref().unwrap_or_default())?;
    let (purpose, user) = (checked_title(&new.purpose)?, caller.user.clone());
    let made = app
        .write(move |db| {
            reservations::forget(db, now - KEPT_DAYS * DAY_MS)?;
            let what = free(db, wanted, (new.start, new.end))?;
            let own = reservations::times(db, user.id, most.since(now))?;
            if let Some(why) = most.refusal(&own, (new.start, new.end), now) {
                return Err(Problem::bad(format!("{why} at level {level}")));
            }
            let id = reservations::add(db, user.id, what, (new.start, new.end), &purpose)?;
            reservations::find(db, id)?.ok_or_else(Problem::not_found)
        })
        .await?;
    log(
        app,
        &caller.user.name,
        &caller.address,
        ("reserve", &format!("{} {}", made.id, made.words()), "done"),
    )
    .await?;
    Ok(made)
}

pub(crate) async fn add(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(body): Body<NewReservation>,
) -> Result<impl IntoResponse> {
    Ok((StatusCode::CREATED, Json(make(&app, &caller, body).await?)))
}

/// Removes a reservation of the caller, or of others with level 2.
pub(crate) async fn cancel(app: &App, caller: &Caller, id: i64) -> Result<()> {
    let user = caller.user.clone();
    app.write(move |db| {
        let reservation = reservations::find(db, id)?.ok_or_else(Problem::not_found)?;
        may_change(&user, reservation.owner_id)?;
        Ok(reservations::release(db, id, now_ms())?)
    })
    .await?;
    log(app, &caller.user.name, &caller.address, ("release", &id.to_string(), "done")).await
}

pub(crate) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<StatusCode> {
    cancel(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children::LimitsFile;

    /// Limits of level 1.
    fn usual() -> Reserving {
        LimitsFile::default().of(1).reservation
    }

    #[test]
    fn time_that_is_over_counts_so_that_nobody_keeps_the_testbed() {
        let (most, day, now) = (usual(), DAY_MS, 100 * DAY_MS);
        let refused = |own: &[(i64, i64)], start: i64, end: i64| most.refusal(own, (start, end), now);
        let next = [(now + 2 * day, now + 3 * day)];
        assert_eq!(refused(&next, now, now + day), None);
        assert!(
            refused(&next, now, now + 2 * day).is_some_and(|why| why.contains("not over have at most 2 d"))
        );
        // A day of each of the last days: a student that reserves the next one again and again.
        let past: Vec<(i64, i64)> = (1..15).map(|ago| (now - ago * day, now - (ago - 1) * day)).collect();
        let why = refused(&past, now, now + day).unwrap_or_default();
        assert!(why.contains("of the last 7 d") && why.contains("4 d together"), "{why}");
        assert_eq!(refused(&past[..3], now, now + day), None);
        assert_eq!(refused(&past[8..], now, now + day), None, "a week later");
        assert_eq!(refused(&[(now - day, now + day)], now + day, now + 2 * day), None);
    }

    #[test]
    fn the_condition_that_fails_is_named() {
        let (most, day, now) = (usual(), DAY_MS, 100 * DAY_MS);
        let why = |start: i64, end: i64| most.wrong_time((now + start, now + end), now).unwrap_or_default();
        assert_eq!(why(0, day), "");
        assert_eq!(why(0, 59_999), "end: expected a minute or more after the start");
        assert_eq!(why(-day, 0), "end: expected a time after now");
        assert_eq!(why(0, 36 * 3_600_000), "end: the reservation has 1.5 d: expected at most 1 d");
        assert_eq!(why(14 * day, 15 * day), "end: it is in 15 d: expected at most 14 d from now");
        assert!(most.wrong_time((i64::MIN, i64::MAX), now).is_some());
    }

    #[test]
    fn short_reservations_are_as_many_as_long_ones() {
        let (most, now) = (usual(), 100 * DAY_MS);
        let over = |count: usize| vec![(now - SHORTEST_MS, now); count];
        let refused = |own: &[(i64, i64)]| most.refusal(own, (now, now + SHORTEST_MS), now);
        assert_eq!(refused(&over(MAX_COUNTED - 1)), None);
        let why = refused(&over(MAX_COUNTED)).unwrap_or_default();
        assert!(why.contains("500 reservations in the last 7 d"), "{why}");
        let next = vec![(now, now + SHORTEST_MS); MAX_OWN];
        assert!(refused(&next).is_some_and(|why| why.contains("50 reservations, the most")));
    }

    #[test]
    fn capabilities_are_named_in_words() {
        let read = |text: &str| wanted(text).ok();
        assert_eq!(read(""), Some(Wanted::One(What::Testbed)));
        assert_eq!(read("emulation"), Some(Wanted::One(What::Emulation)));
        assert_eq!(read(" 12 processors "), Some(Wanted::One(What::Processors(12))));
        assert_eq!(read("site east"), Some(Wanted::Site("east".to_owned())));
        let both = vec!["gateway".to_owned(), "emulate".to_owned()];
        assert_eq!(read("site with gateway, emulate"), Some(Wanted::SiteWith(both)));
        for bad in [
            "all",
            "0 processors",
            "-1 processors",
            "9e9 processors",
            "site",
            "site with",
            "site with sh",
            "site a b",
        ] {
            assert!(wanted(bad).is_err(), "{bad}");
        }
    }
}
