//! Server's side of digest authentication.

use std::collections::{HashMap, VecDeque};

use bentpipe_units::{Span, Time};

use super::{Algorithm, Challenge, Credentials, Protected, Qop};

/// Number of nonces whose request counts are kept.
const NONCES: usize = 16_384;

/// Reason for a request not being let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The client must answer this challenge: no credentials, or wrong or old ones.
    Challenge(Challenge),
    /// The user may not do this.
    Forbidden,
}

/// Protection domain with its users.
///
/// A nonce holds the time and a hash of it with a secret. It is valid for a time, and each of its request counts once.
#[derive(Clone, Debug)]
pub struct Guard {
    realm: String,
    users: HashMap<String, String>,
    secret: String,
    algorithm: Algorithm,
    qop: Vec<Qop>,
    lifetime: Span,
    counts: HashMap<String, u32>,
    order: VecDeque<String>,
}

impl Guard {
    /// Creates a domain without users. The secret must be random.
    pub fn new(realm: &str, secret: u128, algorithm: Algorithm, qop: &[Qop]) -> Guard {
        Guard {
            realm: realm.to_owned(),
            users: HashMap::new(),
            secret: format!("{secret:032x}"),
            algorithm,
            qop: qop.to_vec(),
            lifetime: Span::from_secs(300),
            counts: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Adds a user.
    pub fn add_user(&mut self, user: &str, password: &str) {
        self.users.insert(user.to_owned(), password.to_owned());
    }

    /// Checks the credentials of a request and returns the user.
    ///
    /// # Errors
    /// Returns the challenge to send unless the request has valid credentials of this domain.
    pub fn admit<'a>(
        &mut self,
        now: Time,
        credentials: impl Iterator<Item = &'a str>,
        request: Protected<'_>,
    ) -> Result<String, Refusal> {
        let parsed =
            credentials.filter_map(Credentials::parse).find(|credentials| credentials.realm == self.realm);
        let Some(credentials) = parsed else { return Err(self.challenge(now, false)) };
        let is_proven = credentials.algorithm == self.algorithm
            && credentials.uri == request.uri
            && self.offers(&credentials)
            && self
                .users
                .get(&credentials.user)
                .is_some_and(|password| credentials.proves(password, request));
        if !is_proven {
            return Err(self.challenge(now, false));
        }
        if !self.is_fresh(now, &credentials) {
            return Err(self.challenge(now, true));
        }
        Ok(credentials.user)
    }

    /// Returns `true` if the protection of the credentials is one on offer.
    fn offers(&self, credentials: &Credentials) -> bool {
        match &credentials.protection {
            None => self.qop.is_empty(),
            Some(protection) => self.qop.contains(&protection.qop),
        }
    }

    fn challenge(&self, now: Time, stale: bool) -> Refusal {
        Refusal::Challenge(Challenge {
            realm: self.realm.clone(),
            nonce: self.nonce(now),
            opaque: None,
            algorithm: self.algorithm,
            qop: self.qop.clone(),
            stale,
        })
    }

    fn nonce(&self, made: Time) -> String {
        let stamp = format!("{:016x}", made.as_nanos());
        let proof = Algorithm::Sha256.hash(format!("{stamp}:{}", self.secret).as_bytes());
        stamp + &proof[..32]
    }

    /// Returns `true` if this server made the nonce lately and the count is new.
    fn is_fresh(&mut self, now: Time, credentials: &Credentials) -> bool {
        let made = credentials.nonce.get(..16).and_then(|stamp| u64::from_str_radix(stamp, 16).ok());
        let Some(made) = made.map(Time::from_nanos) else { return false };
        let is_valid =
            self.nonce(made) == credentials.nonce && made <= now && now.since(made) <= self.lifetime;
        is_valid && self.count(credentials)
    }

    /// Returns `true` if the count of a request is new, and records it.
    fn count(&mut self, credentials: &Credentials) -> bool {
        let Some(protection) = &credentials.protection else { return true };
        if let Some(last) = self.counts.get_mut(&credentials.nonce) {
            let is_new = protection.count > *last;
            *last = protection.count.max(*last);
            return is_new;
        }
        if self.order.len() == NONCES {
            self.order.pop_front().map(|oldest| self.counts.remove(&oldest));
        }
        self.order.push_back(credentials.nonce.clone());
        self.counts.insert(credentials.nonce.clone(), protection.count);
        protection.count > 0
    }
}
