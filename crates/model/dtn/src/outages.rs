//! Outages of a link by a contact plan: the times in which nothing arrives.

use std::collections::HashMap;

use bentpipe_net::channel::{MAX_OUTAGES, Outage};
use bentpipe_units::{Span, Time};

use crate::network::{START, with_numbers};
use crate::plan::Plan;

/// Returns the times without reception at a node. The last one, after the last contact, has no end.
///
/// `text` is a contact plan in either form; `from` and `to` are names or numbers in it. A contact is open at the receiver from its start
/// to its end, each a light time later.
///
/// # Errors
/// Returns `from`, `to` or `file`, and the problem, if the plan cannot be read or has no contact of the pair with a range.
pub fn outages(text: &str, from: &str, to: &str) -> Result<Vec<Outage>, (&'static str, String)> {
    let mut names = Names::default();
    let numbered = with_numbers(text, &mut |name| names.number(name));
    let plan = Plan::parse(&numbered, START).map_err(|error| ("file", names.put_into(error.to_string())))?;
    let known = |key: &'static str, name: &str| {
        names.known(name).ok_or_else(|| (key, format!("no contact names \"{name}\"")))
    };
    let (sender, receiver) = (known("from", from)?, known("to", to)?);
    let contacts = plan
        .between(sender, receiver)
        .filter_map(|contact| contact.light_time.map(|light| (contact.start + light, contact.end + light)));
    let mut open: Vec<(Time, Time)> = contacts.collect();
    if open.is_empty() {
        let problem = format!("no contact with a range leads from \"{from}\" to \"{to}\"");
        return Err(("file", problem));
    }
    open.sort_unstable();
    let outages = between(&open);
    if outages.len() > MAX_OUTAGES {
        let problem = format!("expected contacts with at most {MAX_OUTAGES} outages, got {}", outages.len());
        return Err(("file", problem));
    }
    Ok(outages)
}

/// Numbers of the nodes that a plan names.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u64>,
}

impl Names {
    /// Returns the number of a node: that written, or one of the name's own.
    fn number(&mut self, name: &str) -> u64 {
        if let Ok(number) = name.parse() {
            return number;
        }
        // From the end of the numbers, which no plan uses.
        let free = u64::MAX - self.numbers.len() as u64;
        *self.numbers.entry(name.to_owned()).or_insert(free)
    }

    fn known(&self, name: &str) -> Option<u64> {
        name.parse().ok().or_else(|| self.numbers.get(name).copied())
    }

    /// Returns a problem with names in place of their numbers.
    fn put_into(&self, problem: String) -> String {
        let name = |word: &str| {
            let number: u64 = word.parse().ok()?;
            self.numbers.iter().find(|(_, known)| **known == number).map(|(name, _)| name.clone())
        };
        let words = problem.split(' ').map(|word| name(word).unwrap_or_else(|| word.to_owned()));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Returns the times between open ones, and that after the last.
fn between(open: &[(Time, Time)]) -> Vec<Outage> {
    let mut outages = Vec::new();
    let mut ended = Time::ZERO;
    for &(start, end) in open {
        if start > ended {
            outages.push(Outage { at: ended.since(Time::ZERO), lasts: start - ended });
        }
        ended = ended.max(end);
    }
    let at = ended.since(Time::ZERO);
    outages.push(Outage { at, lasts: Span::from_nanos(u64::MAX - at.as_nanos()) });
    outages
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "\
        a contact +100 +200 orbiter earth 1000\n\
        a contact +200 +250 orbiter earth 2000\n\
        a contact +900 +1000 orbiter earth 1000\n\
        a contact +0 +1000 earth orbiter 1000\n\
        a contact +0 +1000 3 orbiter 1000\n\
        a range +0 +500 orbiter earth 750\n\
        a range +500 +1000 orbiter earth 750.5\n\
        a range +0 +1000 3 orbiter 0.1\n";

    fn seconds(outages: &[Outage]) -> Vec<(f64, f64)> {
        outages.iter().map(|outage| (outage.at.as_secs_f64(), outage.lasts.as_secs_f64())).collect()
    }

    #[test]
    fn outages_are_what_contacts_leave_at_the_receiver() {
        let found = outages(PLAN, "orbiter", "earth").expect("a plan");
        let times = seconds(&found);
        assert_eq!(times[..2], [(0.0, 850.0), (1000.0, 650.5)]);
        assert_eq!((times.len(), times[2].0), (3, 1750.5));
        let found = outages(PLAN, "3", "orbiter").expect("a plan");
        assert_eq!(seconds(&found)[0], (0.0, 0.1));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |text, from, to| outages(text, from, to).expect_err("a problem");
        assert_eq!(problem(PLAN, "moon", "earth"), ("from", "no contact names \"moon\"".to_owned()));
        assert_eq!(problem(PLAN, "earth", "9").0, "file");
        assert_eq!(problem("a contact", "1", "2").0, "file");
        let twice = "a contact +0 +9 orbiter earth 1\na contact +8 +9 orbiter earth 1\n";
        assert_eq!(
            problem(twice, "orbiter", "earth").1,
            "line 2: contact overlaps another one from orbiter to earth"
        );
    }

    #[test]
    fn plans_of_many_contacts_or_names_are_bounded() {
        let many = |count: u32| {
            let contact = |n| format!("a contact +{} +{} a b 1\n", 2 * n + 1, 2 * n + 2);
            "a range +0 +100000 a b 1\n".to_owned() + &(0..count).map(contact).collect::<String>()
        };
        assert_eq!(outages(&many(9_999), "a", "b").expect("a plan").len(), 10_000);
        let problem = outages(&many(10_000), "a", "b").expect_err("a problem");
        assert_eq!(problem.1, "expected contacts with at most 10000 outages, got 10001");
        let names: String = (0..100_000).map(|n| format!("a contact +0 +1 a{n} b{n} 1\n")).collect();
        assert_eq!(outages(&names, "a7", "b7").expect_err("a problem").0, "file");
    }
}
