//! Dial plans of exchanges, and the way of a number through them.

use bentpipe_signalling::digest::{Algorithm, Guard, Qop};
use bentpipe_site::{Named, Review, SharedTable};
use bentpipe_units::Span;
use bentpipe_voice::conference::{Mixing, Role};
use bentpipe_voice::{Playout, Speech};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number::Pattern;
use crate::protocol::Voice;

/// Maximum number of ways of a pattern through all exchanges that are checked.
const MAX_WAYS: u32 = 10_000;
/// Maximum number of exchanges that a call passes.
pub(crate) const MAX_HOPS: usize = 64;

/// Exchanges by the names of their nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Exchanges(pub Named<Exchange>);

/// Exchange of a site: its extensions, and its rules for the numbers of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Pabx")]
pub struct Exchange {
    /// Patterns of extensions.
    ///
    /// They have digits, `X` (0 to 9), `Z` (1 to 9), `N` (2 to 9), and `.` at the end (one or more digits).
    pub extensions: Vec<String>,
    /// Rules for numbers other than extensions. No two patterns of an exchange may overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dial: Vec<Rule>,
    /// Conferences of the exchange, which callers join by dialling a number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conferences: Vec<Conference>,
    /// Codec of trunks. Default: "gsm".
    #[serde(default)]
    pub codec: Voice,
    /// Enables RTCP reports about the voice that the exchange relays. Default: true.
    #[serde(default = "yes")]
    pub rtcp: bool,
    /// Period of trunk frames, which gather the voice of all IAX2 calls to a site. Default: a mini frame each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk_period: Option<Span>,
    /// Password that phones prove by digest, in REGISTER and INVITE. Default: none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Estimate of the round-trip time for all timers of SIP (RFC 3261 T1). Default: 500 ms.
    #[serde(default = "t1")]
    pub t1: Span,
    /// Longest retransmission interval of SIP (RFC 3261 T2). Default: 4 s.
    #[serde(default = "t2")]
    pub t2: Span,
}

/// Conference of an exchange. Its bridge answers each call to its number, until the caller hangs up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PabxConference")]
pub struct Conference {
    /// Number.
    pub number: String,
    /// Sources of a mix. Default: "loudest".
    #[serde(default)]
    pub mixing: Mixing,
    /// Lists up to 15 sources in the RTP header of a mix (RFC 3550). Default: true.
    #[serde(default = "yes")]
    pub contributors: bool,
    /// Playout buffer of the bridge for each member. Default: fixed, 60 ms.
    #[serde(default)]
    pub playout: Playout,
    /// Number that the bridge dials while it has members. Default: none.
    ///
    /// It is a conference of another exchange, with which it shares one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<String>,
    /// Maximum number of members, a linked bridge among them. Further callers are busy (486). Default: 100.
    #[serde(default = "hundred")]
    #[schemars(range(min = 1, max = 1000))]
    pub members: u32,
}

const fn yes() -> bool {
    true
}

const fn hundred() -> u32 {
    100
}

impl Conference {
    /// Returns the role of its bridge.
    pub(super) fn role(&self) -> Role {
        Role { mixing: self.mixing, contributors: self.contributors }
    }

    /// Returns the mean number of contributing sources in the headers of its mixes.
    ///
    /// Each of its members sends for a share of the time.
    pub(crate) fn sources(&self, members: f64, sends: f64) -> f64 {
        self.role().mean_sources(members - 1.0, sends)
    }

    fn check(&self, key: &str, review: &mut Review<'_>) {
        let digits = self.number.chars().all(|digit| digit.is_ascii_digit());
        let problem = format!("expected digits alone, got \"{}\"", self.number);
        review.ensure(digits, &format!("{key}.number"), problem);
        let members = (1..=1000).contains(&self.members);
        review.ensure(members, &format!("{key}.members"), "expected 1 to 1000");
        if let Err(error) = Voice::default().settings(self.playout, None, Speech::default()) {
            review.refuse(&format!("{key}.{}", error.path()), format!("expected {}", error.expected));
        }
    }
}

/// Digest authentication of an exchange's phones (RFC 7616).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PabxDigest")]
pub struct Digest {
    /// Password of the phones. A caller may have another one, to see it refused.
    pub password: String,
    /// Hash function. Default: "sha-256".
    #[serde(default)]
    pub algorithm: DigestAlgorithm,
    /// Quality of protection; "none" is that of RFC 2069. Default: "auth".
    #[serde(default)]
    pub qop: DigestQop,
}

/// Hash function of digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum DigestAlgorithm {
    /// MD5.
    Md5,
    /// SHA-256.
    #[default]
    #[serde(rename = "sha-256")]
    Sha256,
}

/// Quality of protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub enum DigestQop {
    /// Method and URI are protected, without a count of requests.
    None,
    /// Method and URI are protected.
    #[default]
    Auth,
    /// The body is protected too.
    AuthInt,
}

impl Digest {
    /// Returns a guard of a domain that lets these users in.
    pub(super) fn guard<'u>(
        &self,
        realm: &str,
        secret: u128,
        users: impl Iterator<Item = &'u String>,
    ) -> Guard {
        let algorithm = match self.algorithm {
            DigestAlgorithm::Md5 => Algorithm::Md5,
            DigestAlgorithm::Sha256 => Algorithm::Sha256,
        };
        let qop = match self.qop {
            DigestQop::None => &[][..],
            DigestQop::Auth => &[Qop::Auth],
            DigestQop::AuthInt => &[Qop::AuthInt],
        };
        let mut guard = Guard::new(realm, secret, algorithm, qop);
        users.for_each(|user| guard.add_user(user, &self.password));
        guard
    }
}

/// Rule of a dial plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PabxRule")]
pub struct Rule {
    /// Pattern of the numbers, as of extensions.
    pub pattern: String,
    /// Exchange that calls go to.
    pub trunk: String,
    /// Protocol of the trunk. Default: "iax".
    #[serde(default)]
    pub protocol: TrunkProtocol,
    /// Number of leading digits that are removed. Default: 0.
    #[serde(default)]
    pub strip: u8,
    /// Digits that are put in front after that. Default: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prepend: String,
    /// Maximum number of calls at a time that the exchange places by this rule. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub calls: Option<u32>,
}

/// Protocol of a trunk between exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrunkProtocol {
    /// IAX2, signalling and voice over one UDP port.
    #[default]
    Iax,
    /// SIP and RTP over UDP.
    Sip,
}

impl TrunkProtocol {
    /// Returns the word in files and call records.
    pub fn word(self) -> &'static str {
        match self {
            TrunkProtocol::Iax => "iax",
            TrunkProtocol::Sip => "sip",
        }
    }
}

const fn t1() -> Span {
    Span::from_millis(500)
}

const fn t2() -> Span {
    Span::from_secs(4)
}

/// Next step of a number at an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Extension of the exchange.
    Extension,
    /// Conference of the exchange, by its place.
    Conference(usize),
    /// Number that another exchange gets.
    Trunk {
        /// Name of the exchange.
        to: String,
        /// Protocol.
        protocol: TrunkProtocol,
        /// Number there.
        number: String,
        /// Place of the rule.
        rule: usize,
    },
    /// No rule.
    Unknown,
}

/// Line of a dial plan, for budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialLine {
    /// Exchange.
    pub exchange: String,
    /// Pattern of numbers.
    pub numbers: String,
    /// Exchange that they go to over a trunk, and its protocol. None: extensions and conferences.
    pub trunk: Option<(String, &'static str)>,
    /// Pattern of the numbers there.
    pub there: String,
}

impl Exchange {
    /// Returns the lines of the dial plan.
    fn lines(&self, name: &str) -> Vec<DialLine> {
        let line = |(_, pattern, rule): (String, Pattern, Option<&Rule>)| DialLine {
            exchange: name.to_owned(),
            numbers: pattern.to_string(),
            trunk: rule.map(|rule| (rule.trunk.clone(), rule.protocol.word())),
            there: rule.and_then(|rule| rule.image(&pattern)).unwrap_or(pattern).to_string(),
        };
        self.read(name).into_iter().map(line).collect()
    }

    /// Returns the next step of a number.
    pub fn step(&self, number: &str) -> Step {
        let has = |text: &String| Pattern::parse(text).is_ok_and(|pattern| pattern.matches(number));
        if self.extensions.iter().any(has) {
            return Step::Extension;
        }
        if let Some(place) = self.conferences.iter().position(|conference| conference.number == number) {
            return Step::Conference(place);
        }
        let Some(place) = self.dial.iter().position(|rule| has(&rule.pattern)) else { return Step::Unknown };
        let rule = &self.dial[place];
        let kept = number.get(usize::from(rule.strip)..).unwrap_or_default();
        Step::Trunk {
            to: rule.trunk.clone(),
            protocol: rule.protocol,
            number: format!("{}{kept}", rule.prepend),
            rule: place,
        }
    }

    /// Returns the patterns, for messages.
    pub fn patterns(&self) -> String {
        let conferences = self.conferences.iter().map(|conference| &conference.number);
        let extensions = self.extensions.iter().chain(conferences).cloned();
        let rules = self.dial.iter().map(|rule| format!("{} (to \"{}\")", rule.pattern, rule.trunk));
        extensions.chain(rules).collect::<Vec<String>>().join(", ")
    }

    /// Returns all patterns that can be read, with their keys.
    fn read(&self, name: &str) -> Vec<(String, Pattern, Option<&Rule>)> {
        let key = |rest: String| format!("pabx.{name}.{rest}");
        let extensions =
            self.extensions.iter().enumerate().filter_map(|(n, text)| {
                Some((key(format!("extensions.{n}")), Pattern::parse(text).ok()?, None))
            });
        let rules = self.dial.iter().enumerate().filter_map(|(n, rule)| {
            Some((key(format!("dial.{n}.pattern")), Pattern::parse(&rule.pattern).ok()?, Some(rule)))
        });
        let conferences = self.conferences.iter().enumerate().filter_map(|(n, of)| {
            Some((key(format!("conferences.{n}.number")), Pattern::parse(&of.number).ok()?, None))
        });
        extensions.chain(conferences).chain(rules).collect()
    }

    fn check(&self, name: &str, review: &mut Review<'_>) {
        let key = |rest: &str| format!("pabx.{name}.{rest}");
        let extensions =
            self.extensions.iter().enumerate().map(|(n, text)| (key(&format!("extensions.{n}")), text));
        let rules =
            self.dial.iter().enumerate().map(|(n, rule)| (key(&format!("dial.{n}.pattern")), &rule.pattern));
        let conferences = self.conferences.iter().enumerate();
        let numbers =
            conferences.clone().map(|(n, of)| (key(&format!("conferences.{n}.number")), &of.number));
        conferences.for_each(|(n, of)| of.check(&key(&format!("conferences.{n}")), review));
        for (key, text) in extensions.chain(numbers).chain(rules) {
            if let Err(expected) = Pattern::parse(text) {
                review.refuse(&key, format!("expected {expected}, got \"{text}\""));
            }
        }
        let patterns = self.read(name);
        for (n, (key, pattern, _)) in patterns.iter().enumerate() {
            let overlap =
                patterns[..n].iter().find_map(|(_, other, _)| Some((other, pattern.intersection(other)?)));
            if let Some((other, both)) = overlap {
                review.refuse(key, format!("overlaps the pattern {other}: both have {both}"));
            }
        }
        for (n, rule) in self.dial.iter().enumerate() {
            rule.check(&key(&format!("dial.{n}")), review);
        }
        let millis = Span::from_millis(1);
        let is_possible =
            self.trunk_period.is_none_or(|period| period >= millis && period <= Span::from_secs(1));
        review.ensure(is_possible, &key("trunk_period"), "expected 1 ms to 1 s");
        review.ensure(
            self.t1 >= millis && self.t1 <= Span::from_secs(60),
            &key("t1"),
            "expected 1 ms to 60 s",
        );
        review.ensure(self.t2 >= self.t1, &key("t2"), "expected at least `t1`");
        let has_password = self.digest.as_ref().is_none_or(|digest| !digest.password.is_empty());
        review.ensure(has_password, &key("digest.password"), "expected a password, got none");
    }
}

impl Rule {
    fn check(&self, key: &str, review: &mut Review<'_>) {
        let digits = self.prepend.chars().all(|digit| digit.is_ascii_digit()) && self.prepend.len() <= 16;
        review.ensure(digits, &format!("{key}.prepend"), "expected at most 16 digits");
        let places = Pattern::parse(&self.pattern).map_or(usize::MAX, |pattern| pattern.places());
        let problem = format!("the pattern has {places} digits: expected at most as many");
        review.ensure(usize::from(self.strip) <= places, &format!("{key}.strip"), problem);
    }

    /// Returns the pattern of the numbers that the next exchange gets.
    fn image(&self, pattern: &Pattern) -> Option<Pattern> {
        let prepend = if self.prepend.is_empty() { None } else { Some(Pattern::parse(&self.prepend).ok()?) };
        let strip = usize::from(self.strip);
        if strip > pattern.places() {
            return None;
        }
        let none = Pattern::default();
        Some(pattern.translated(strip, prepend.as_ref().unwrap_or(&none)))
    }
}

impl SharedTable for Exchanges {
    fn check(&self, review: &mut Review<'_>) {
        for (name, exchange) in &self.0 {
            review.ensure_node(&format!("pabx.{name}"), name);
            exchange.check(name, review);
            for (n, rule) in exchange.dial.iter().enumerate() {
                let key = format!("pabx.{name}.dial.{n}.trunk");
                review.ensure_named(&self.0, "exchange", &key, &rule.trunk);
            }
            for (n, conference) in exchange.conferences.iter().enumerate() {
                if let Some(problem) = self.link_fault(name, conference) {
                    review.refuse(&format!("pabx.{name}.conferences.{n}.linked"), problem);
                }
            }
            for (key, pattern, rule) in exchange.read(name) {
                let Some(rule) = rule else { continue };
                let mut ways = 0;
                if let Some(problem) = self.fault(&mut vec![name], (&pattern, rule), &mut ways) {
                    review.refuse(&key, problem);
                }
            }
        }
    }
}

/// Way of the call that links a conference to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkWay<'a> {
    /// Exchanges, each with the number as it is dialled there.
    pub(crate) steps: Vec<(&'a str, String)>,
    /// Exchange and place of the other conference.
    pub(crate) end: Result<(&'a str, usize), String>,
}

impl Exchanges {
    /// Returns the way of a conference's link, if it has one.
    pub(crate) fn link_of<'a>(&'a self, name: &'a str, conference: &Conference) -> Option<LinkWay<'a>> {
        let (mut at, mut number) = (name, conference.linked.clone()?);
        let mut steps = Vec::new();
        while let (Some(exchange), true) = (self.0.get(at), steps.len() < MAX_HOPS) {
            steps.push((at, number.clone()));
            match exchange.step(&number) {
                Step::Trunk { to, number: there, .. } => {
                    let Some((to, _)) = self.0.get_key_value(&to) else { break };
                    (at, number) = (to, there);
                }
                Step::Conference(place) if at != name => {
                    return Some(LinkWay { steps, end: Ok((at, place)) });
                }
                _ => break,
            }
        }
        let patterns = self.0.get(at).map(Exchange::patterns).unwrap_or_default();
        let problem = format!(
            "\"{number}\" is not a conference of another exchange at \"{at}\": expected a number of one; there are {patterns}"
        );
        Some(LinkWay { steps, end: Err(problem) })
    }

    /// Returns the fault of a linked conference: its number, or links that come back.
    fn link_fault(&self, name: &str, conference: &Conference) -> Option<String> {
        let (mut at, mut present) = (name, conference);
        let mut path = vec![(name, conference.number.as_str())];
        while let Some(way) = self.link_of(at, present) {
            let (to, place) = match way.end {
                Ok(end) => end,
                Err(problem) => return (path.len() == 1).then_some(problem),
            };
            present = &self.0[to].conferences[place];
            let comes_back = path.contains(&(to, &present.number));
            path.push((to, &present.number));
            if comes_back {
                let way: Vec<String> = path.iter().map(|(at, number)| format!("{number} of {at}")).collect();
                return Some(format!(
                    "bridges are linked in a circle: {}; expected links without loops",
                    way.join(" - ")
                ));
            }
            at = to;
        }
        None
    }

    /// Returns the lines of all dial plans.
    pub fn lines(&self) -> Vec<DialLine> {
        self.0.iter().flat_map(|(name, exchange)| exchange.lines(name)).collect()
    }

    /// Returns the fault of a rule: its numbers come back, or exist nowhere.
    ///
    /// A path never has an exchange twice, so that it ends.
    fn fault<'s>(
        &'s self,
        path: &mut Vec<&'s str>,
        (pattern, rule): (&Pattern, &'s Rule),
        ways: &mut u32,
    ) -> Option<String> {
        *ways += 1;
        if *ways > MAX_WAYS {
            return Some(format!("leads on in more than {MAX_WAYS} ways: expected fewer rules"));
        }
        let next = self.0.get(&rule.trunk)?;
        if path.contains(&rule.trunk.as_str()) {
            let way = path.iter().copied().chain([rule.trunk.as_str()]).collect::<Vec<_>>().join(" - ");
            return Some(format!("calls come back: {way}; expected rules without loops"));
        }
        let image = rule.image(pattern)?;
        path.push(&rule.trunk);
        let mut is_known = false;
        for (_, there, onward) in next.read(&rule.trunk) {
            let Some(both) = image.intersection(&there) else { continue };
            is_known = true;
            let fault = onward.and_then(|onward| self.fault(path, (&both, onward), ways));
            if fault.is_some() {
                return fault;
            }
        }
        path.pop();
        let patterns = next.patterns();
        (!is_known).then(|| {
            format!(
                "\"{}\" has no number {image}: expected one of {patterns} after `strip` and `prepend`",
                rule.trunk
            )
        })
    }
}
