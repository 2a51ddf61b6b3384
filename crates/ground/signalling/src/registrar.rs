//! Registrar and location service (RFC 3261 10.3).

use std::collections::BTreeMap;

use bentpipe_units::{Span, Time};

use crate::digest::{Guard, Protected, Refusal};
use crate::response::response;
use crate::sip::{Message, NameAddr, SipUri, Uri, name};

/// Maximum number of contacts of an address.
const MAX_CONTACTS: usize = 16;
/// Maximum number of addresses.
const MAX_ADDRESSES: usize = 1_000_000;

/// Contact bound to an address.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// Contact.
    pub contact: Uri,
    /// Preference, 0 to 1.
    pub q: f64,
    /// Time until which the binding is valid.
    pub until: Time,
    call_id: String,
    number: u32,
}

/// Registrar of some domains.
#[derive(Debug)]
pub struct Registrar {
    domains: Vec<String>,
    /// Shortest time of a registration in seconds; shorter ones are refused with 423.
    pub min_expires: u32,
    /// Time of a registration without one, and the longest one, in seconds.
    pub max_expires: u32,
    guard: Option<Guard>,
    bindings: BTreeMap<String, Vec<Binding>>,
}

impl Registrar {
    /// Creates a registrar of domains. With a guard, users may register their own name only.
    pub fn new(domains: Vec<String>, guard: Option<Guard>) -> Registrar {
        Registrar { domains, min_expires: 60, max_expires: 3600, guard, bindings: BTreeMap::new() }
    }

    /// Returns `true` if the registrar serves the domain of the URI.
    pub fn serves(&self, uri: &SipUri) -> bool {
        self.domains.iter().any(|domain| domain.eq_ignore_ascii_case(&uri.host))
    }

    /// Returns the contacts of an address, preferred first.
    pub fn lookup(&self, now: Time, uri: &SipUri) -> Vec<Uri> {
        let bindings = self.bindings.get(&address_of_record(uri)).map_or(&[][..], |bindings| bindings);
        let mut valid: Vec<&Binding> = bindings.iter().filter(|binding| binding.until > now).collect();
        valid.sort_by(|one, two| two.q.total_cmp(&one.q));
        valid.into_iter().map(|binding| binding.contact.clone()).collect()
    }

    /// Handles a REGISTER and returns the response, with the tag in To.
    pub fn register(&mut self, now: Time, request: &Message, tag: &str) -> Message {
        match self.update(now, request) {
            Ok(address) => self.success(now, request, &address, tag),
            Err(Rejection::Challenge(text)) => {
                let mut refusal = response(request, 401, tag);
                refusal.headers.push(name::WWW_AUTHENTICATE, text);
                refusal
            }
            Err(Rejection::TooBrief) => {
                let mut refusal = response(request, 423, tag);
                refusal.headers.push(name::MIN_EXPIRES, self.min_expires);
                refusal
            }
            Err(Rejection::Status(status)) => response(request, status, tag),
        }
    }

    fn success(&self, now: Time, request: &Message, address: &str, tag: &str) -> Message {
        let mut ok = response(request, 200, tag);
        let bindings = self.bindings.get(address).into_iter().flatten();
        for binding in bindings.filter(|binding| binding.until > now) {
            let mut contact = NameAddr::new(binding.contact.clone());
            let seconds = binding.until.since(now).as_secs_f64().ceil() as u64;
            contact.params.set("expires", Some(&seconds.to_string()));
            ok.headers.push(name::CONTACT, contact);
        }
        ok
    }

    /// Changes the bindings, all or none (RFC 3261 10.3, steps 1 to 7).
    fn update(&mut self, now: Time, request: &Message) -> Result<String, Rejection> {
        let to = request.headers.address(name::TO).ok_or(Rejection::Status(400))?;
        let uri = to.uri.as_sip().filter(|uri| self.serves(uri)).ok_or(Rejection::Status(404))?;
        self.admit(now, request, uri)?;
        let address = address_of_record(uri);
        let (call_id, number) =
            (request.call_id().unwrap_or_default(), request.cseq().map_or(0, |cseq| cseq.number));
        let changes = self.changes(now, request)?;
        if self.bindings.len() >= MAX_ADDRESSES && !self.bindings.contains_key(&address) {
            return Err(Rejection::Status(503));
        }
        let mut bindings = self.bindings.get(&address).cloned().unwrap_or_default();
        bindings.retain(|binding| binding.until > now);
        let is_old = |binding: &Binding| binding.call_id == call_id && binding.number >= number;
        for change in changes {
            let matches = |binding: &Binding| {
                change.as_ref().is_none_or(|new| new.contact.is_equivalent(&binding.contact))
            };
            if bindings.iter().any(|binding| matches(binding) && is_old(binding)) {
                return Err(Rejection::Status(500));
            }
            bindings.retain(|binding| !matches(binding));
            bindings.extend(change.filter(|new| new.until > now));
        }
        if bindings.len() > MAX_CONTACTS {
            return Err(Rejection::Status(503));
        }
        self.bindings.remove(&address);
        if !bindings.is_empty() {
            self.bindings.insert(address.clone(), bindings);
        }
        Ok(address)
    }

    fn admit(&mut self, now: Time, request: &Message, address: &SipUri) -> Result<(), Rejection> {
        let Some(guard) = &mut self.guard else { return Ok(()) };
        let uri = request.uri().map(ToString::to_string).unwrap_or_default();
        let protected = Protected { method: "REGISTER", uri: &uri, body: &request.body };
        match guard.admit(now, request.headers.all(name::AUTHORIZATION), protected) {
            Ok(user) if address.user_bytes().is_some_and(|own| own == user.as_bytes()) => Ok(()),
            Ok(_) | Err(Refusal::Forbidden) => Err(Rejection::Status(403)),
            Err(Refusal::Challenge(challenge)) => Err(Rejection::Challenge(challenge.to_string())),
        }
    }

    /// Returns new bindings, and `None` for the removal of all.
    fn changes(&self, now: Time, request: &Message) -> Result<Vec<Option<Binding>>, Rejection> {
        let default = request.headers.get(name::EXPIRES).and_then(|text| text.parse().ok());
        if request.headers.get(name::CONTACT) == Some("*") {
            return if default == Some(0) { Ok(vec![None]) } else { Err(Rejection::Status(400)) };
        }
        let contacts = request.headers.addresses(name::CONTACT).ok_or(Rejection::Status(400))?;
        contacts.into_iter().map(|contact| self.binding(now, request, &contact, default).map(Some)).collect()
    }

    fn binding(
        &self,
        now: Time,
        request: &Message,
        contact: &NameAddr,
        default: Option<u32>,
    ) -> Result<Binding, Rejection> {
        let asked = contact.params.get("expires").and_then(|text| text.parse().ok()).or(default);
        let seconds = asked.unwrap_or(self.max_expires).min(self.max_expires);
        if seconds > 0 && seconds < self.min_expires {
            return Err(Rejection::TooBrief);
        }
        let q = contact.params.get("q").and_then(|text| text.parse().ok()).unwrap_or(1.0_f64);
        Ok(Binding {
            contact: contact.uri.clone(),
            q: q.clamp(0.0, 1.0),
            until: now + Span::from_secs(u64::from(seconds)),
            call_id: request.call_id().unwrap_or_default().to_owned(),
            number: request.cseq().map_or(0, |cseq| cseq.number),
        })
    }
}

enum Rejection {
    Challenge(String),
    TooBrief,
    Status(u16),
}

/// Returns the canonical form of an address: user and host, without parameters (RFC 3261 10.3).
fn address_of_record(uri: &SipUri) -> String {
    let user = String::from_utf8_lossy(&uri.user_bytes().unwrap_or_default()).into_owned();
    format!("{user}@{}", uri.host.to_ascii_lowercase())
}
