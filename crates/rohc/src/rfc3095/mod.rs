//! The profiles of RFC 3095 (RTP, UDP, ESP), RFC 3843 (IP) and RFC 4019 (UDP-Lite): one mechanism, six header chains.

mod chain;
mod changes;
mod compressed;
mod compressor;
mod decompressor;
mod header;
mod list;
mod report;
#[cfg(test)]
mod ways;

pub(crate) use changes::Spare;
pub(crate) use compressor::{Chain, Compressor};
pub(crate) use decompressor::{Decompressor, Incoming};
pub(crate) use list::List;

#[cfg(test)]
mod tests {
    /// Contexts stay small: thousands of them are kept.
    #[test]
    fn a_context_takes_less_than_a_kilobyte() {
        assert!(size_of::<super::Compressor>() <= 800, "{}", size_of::<super::Compressor>());
        assert!(size_of::<super::Decompressor>() <= 800, "{}", size_of::<super::Decompressor>());
    }
}
