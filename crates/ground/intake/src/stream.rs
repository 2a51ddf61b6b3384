//! Identity of a stream.

use std::fmt;
use std::net::SocketAddr;

use crate::Link;

/// Identity of a stream. Streams with different ones are never merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamId {
    /// Interface of the capture and VLAN.
    pub link: Link,
    /// Source and destination of its datagrams; `None` for TS packets without datagrams.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// Synchronisation source, if the datagrams are RTP.
    pub ssrc: Option<u32>,
    /// Input stream identifier of baseband frames.
    pub isi: Option<u8>,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ends {
            Some((from, to)) => write!(f, "{from} to {to}")?,
            None => f.write_str("TS packets")?,
        }
        self.ssrc.iter().try_for_each(|ssrc| write!(f, ", SSRC {ssrc:#010x}"))?;
        self.isi.iter().try_for_each(|isi| write!(f, ", ISI {isi}"))?;
        write!(f, "{}", self.link)
    }
}
