//! The checksum of TCP (RFC 9293 3.1, RFC 8200 8.1), to check what was restored.

use super::chain::Chain;
use super::ip::{folded_sum, u16_at};
use super::kind::Kind;

const PROTO_TCP: u32 = 6;

/// Returns `true` if the TCP checksum is right for `payload` and `elided` zeros.
pub(super) fn is_valid(chain: &Chain, headers: &[u8], payload: &[u8], elided: usize) -> bool {
    let tcp = &headers[chain.tcp_at()..];
    let len = (tcp.len() + payload.len() + elided) as u32;
    let sum = addresses(chain, headers)
        .fold(PROTO_TCP + (len >> 16) + (len & 0xffff), |sum, address| u32::from(folded_sum(address, sum)));
    let sum = u32::from(folded_sum(tcp, sum));
    folded_sum(payload, sum) == 0xffff
}

/// Returns the connection's addresses, which a routing header or minimal encapsulation hides.
fn addresses<'a>(chain: &Chain, headers: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let ip = &headers[chain.inner().range()];
    let (mut source, mut destination) =
        if ip.len() == 20 { (&ip[12..16], &ip[16..20]) } else { (&ip[8..24], &ip[24..40]) };
    for link in chain.behind_inner() {
        let header = &headers[link.range()];
        match link.kind {
            Kind::MinimalEncapsulation => {
                destination = &header[4..8];
                source = header.get(8..12).unwrap_or(source);
            }
            // A type 0 header with segments left; the last address of it is the final destination.
            Kind::Routing if header[2] == 0 && header[3] > 0 && u16_at(header, 0) as u8 >= 2 => {
                destination = &header[header.len() - 16..];
            }
            _ => {}
        }
    }
    [source, destination].into_iter()
}
