//! Profile 0x0006, TCP/IP (RFC 6846): IPv4, IPv6, its extension headers, AH, GRE and minimal encapsulation, in any
//! number and order, and TCP with its options.
//!
//! Both sides keep the last header as it was, octet for octet, and compressed headers are what is to be patched in a
//! copy of it. What that leaves are the control fields (master sequence number, acknowledgement stride, ECN), and the
//! options' table of items. The compressor also keeps the few values that compressed headers may be relative to, of as
//! many packets as it repeats every change ([`refs`]), and for what changes seldom how often each change is still to be
//! sent ([`groups`]). From these it takes the smallest format that carries what is due ([`choice`]).
//!
//! | module | what |
//! |---|---|
//! | [`chain`], [`kind`], [`ip`], [`extension`] | headers before TCP: their static, dynamic, replicate and irregular items |
//! | [`header`], [`options`] | the same of TCP and its options |
//! | [`formats`], [`base`] | base headers, the sixteen short ones and `co_common` |
//! | [`compressor`] with its short way and its refreshes, [`choice`], [`replicate`], [`table`], [`refs`], [`groups`], [`behavior`] | the compressor |
//! | [`decompressor`] with its short way, [`checksum`] | the decompressor |
//! | [`feedback`] | FEEDBACK-1 and FEEDBACK-2 |
//!
//! Not done: an IR-CR that changes the length of an extension header is refused.

mod base;
mod behavior;
mod chain;
mod checksum;
mod choice;
mod compressor;
mod decompressor;
mod extension;
mod feedback;
mod formats;
mod groups;
mod header;
mod ip;
mod kind;
mod options;
mod refs;
mod replicate;
mod table;
#[cfg(test)]
mod ways;

pub(crate) use compressor::{Compressor, Plain};
pub(crate) use decompressor::Decompressor;
pub(crate) use feedback::reject;
