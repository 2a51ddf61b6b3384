//! Channels of header compression on links: their negotiation and framing. The compression is crate `bentpipe-rohc`.
//!
//! [`ppp`] is ROHC over PPP (RFC 3241), [`ikev2`] and [`esp`] are ROHC over IPsec (RFC 5857, RFC 5858), and [`pdcp`] the
//! framing of PDCP that header compression needs.

pub mod esp;
pub mod ikev2;
pub mod pdcp;
pub mod ppp;
