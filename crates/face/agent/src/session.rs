//! Login of a site: a connection to the controller over which it is known.

use std::path::Path;

use serde::Serialize;

use crate::identity::Key;
use crate::link::{Answer, Link, problem, refusal};
use crate::protocol::{Hello, VERSION, Welcome, parse};
use crate::{Enrolment, Error};

/// Connection over which a site logged in.
pub struct Session {
    link: Link,
    /// Number after which commands go on, if that of the site is to be forgotten.
    pub(crate) after: Option<u64>,
}

impl Session {
    /// Connects to the controller of an enrolled site, and logs in. `change` may alter what the site says of itself.
    ///
    /// # Errors
    /// Returns an error if the controller cannot be reached, is another one, or refuses the site.
    pub fn log_in(folder: &Path, change: impl FnOnce(&mut Hello)) -> Result<Session, Error> {
        let enrolment = Enrolment::read(folder)?;
        let key = Key::read(folder)?;
        let mut link = Link::open(&enrolment.controller, &enrolment.trust()?)?;
        let mut hello = Hello {
            version: VERSION,
            signature: key.sign(&link.binding, &enrolment.name),
            name: enrolment.name,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            last: 0,
        };
        change(&mut hello);
        let welcome: Welcome = parse(&link.send_json("login", &hello)?).map_err(Error::Connection)?;
        if welcome.version != VERSION {
            let why = format!(
                "the controller speaks version {} of the protocol: expected {VERSION}",
                welcome.version
            );
            return Err(Error::Refused(why));
        }
        Ok(Session { link, after: welcome.after })
    }

    /// Sends a message, and returns the body of the answer.
    ///
    /// # Errors
    /// Returns an error if the connection ends, or the controller refuses the message.
    pub fn send(&mut self, what: &str, message: &impl Serialize) -> Result<Vec<u8>, Error> {
        self.link.send_json(what, message)
    }

    /// Returns a piece of a file of a scenario, by the number of the file.
    ///
    /// The inner error is the controller's reason to refuse it.
    ///
    /// # Errors
    /// Returns an error if the connection ends.
    pub fn piece(&mut self, (task, file, piece): (u64, u32, u32)) -> Result<Result<Vec<u8>, String>, Error> {
        let path = format!("input?task={task}&file={file}&piece={piece}");
        let Answer { status, body } = self.link.post(&path, "application/octet-stream", &[])?;
        match status {
            200..=299 => Ok(Ok(body)),
            404 | 409 | 422 => Ok(Err(problem(&body))),
            _ => Err(refusal(self.link.host(), status, &body)),
        }
    }

    /// Sends a chunk of a file, and returns status and body of the answer.
    ///
    /// # Errors
    /// Returns an error if the connection ends.
    pub fn send_chunk(
        &mut self,
        (task, file, chunk): (u64, u32, u32),
        bytes: &[u8],
    ) -> Result<(u16, Vec<u8>), Error> {
        let path = format!("chunk?task={task}&file={file}&chunk={chunk}");
        let Answer { status, body } = self.link.post(&path, "application/octet-stream", bytes)?;
        Ok((status, body))
    }
}
