//! IP in transport streams and DVB-S2 baseband frames, and back.
//!
//! A transport stream is a file of 188-byte packets, or a capture of link type 243 with one packet a record, which keeps
//! times too. Captures of UDP with TS packets or baseband frames are read as well, and transport streams in such frames. Streams
//! of different senders or input stream identifiers are read each by itself ([`bentpipe_intake`]). GSE is
//! a capture of baseband frames after mode adaptation headers L.3, in UDP.

mod decap;
mod encap;
mod files;
mod inspect;
mod measurement;

pub mod monitor;
mod mux;
mod rates;
mod stamps;
mod survey;

pub use decap::Decap;
pub use encap::Encap;
pub use files::{Each, Stream, Summary, Unit};
pub(crate) use files::{Loaded, load};
pub use inspect::Inspect;
pub use mux::Mux;
pub use survey::{Carried, Kinds, PidStream, Role, ServiceEntry, Survey};

/// Name of the cause of incomplete units at the end of a stream.
const CUT_BY_END: &str = "cut by the end";

/// Formats a share of a whole in percent, with one decimal.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}

/// Returns the part of the stream with this place, perhaps a new one.
fn of<T: Default>(all: &mut Vec<T>, place: usize) -> &mut T {
    if all.len() <= place {
        all.resize_with(place + 1, T::default);
    }
    &mut all[place]
}

/// Lists causes with their counts, those without one left out.
fn by_cause(causes: impl IntoIterator<Item = (&'static str, u64)>) -> String {
    let counted = causes.into_iter().filter(|(_, count)| *count > 0);
    counted.map(|(cause, count)| format!("{cause} {count}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!((percent(1, 3), percent(0, 0)), ("33.3 %".to_owned(), "-".to_owned()));
    }
}
