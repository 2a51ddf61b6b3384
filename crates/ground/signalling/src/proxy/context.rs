//! Responses to one forwarded request.

use crate::sip::{Message, name};
use crate::transaction::ClientId;

#[derive(Debug)]
pub(super) struct Branch {
    pub(super) client: ClientId,
    pub(super) is_provisional: bool,
    pub(super) is_cancelled: bool,
    is_done: bool,
    failure: Option<Message>,
}

impl Branch {
    pub(super) fn new(client: ClientId) -> Branch {
        Branch { client, is_provisional: false, is_cancelled: false, is_done: false, failure: None }
    }

    /// Returns `true` while no final response has come.
    pub(super) fn is_pending(&self) -> bool {
        !self.is_done
    }
}

/// Request that was forwarded, with its branches.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) request: Message,
    pub(super) branches: Vec<Branch>,
    /// Set once a 2xx was forwarded.
    pub(super) is_answered: bool,
}

impl Context {
    pub(super) fn new(request: Message) -> Context {
        Context { request, branches: vec![], is_answered: false }
    }

    pub(super) fn branch(&mut self, client: ClientId) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.client == client)
    }

    /// Records the final response of a branch.
    pub(super) fn finish(&mut self, client: ClientId, failure: Option<Message>) {
        if let Some(branch) = self.branch(client) {
            (branch.is_done, branch.failure) = (true, failure);
        }
    }

    /// Returns the best failure: 6xx, else the lowest class (RFC 3261 16.7). Challenges of all branches are joined.
    pub(super) fn best(&self) -> Option<Message> {
        let failures = || self.branches.iter().filter_map(|branch| branch.failure.as_ref());
        let rank = |message: &&Message| {
            let status = message.status().unwrap_or(699);
            // Challenges come first within a class, as the caller can do something about them.
            (status < 600, status / 100, !matches!(status, 401 | 407), status)
        };
        let chosen = failures().min_by_key(rank)?;
        let mut best = chosen.clone();
        if matches!(best.status(), Some(401 | 407)) {
            let others = failures().filter(|other| !std::ptr::eq(*other, chosen));
            for other in others {
                for field in [name::WWW_AUTHENTICATE, name::PROXY_AUTHENTICATE] {
                    other.headers.all(field).for_each(|challenge| best.headers.push(field, challenge));
                }
            }
        }
        Some(best)
    }
}
