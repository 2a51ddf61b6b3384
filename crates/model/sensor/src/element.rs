//! Elements of the simulator: gateway with its field, relay to the bundle node, and console.

mod console;
mod gateway;
mod operators;
mod picture;
mod relay;

pub use console::{Console, Log};
pub use gateway::{Collection, Gateway, Start};
pub use operators::describe;
pub use relay::Relay;

use bentpipe_wire::dtn::bundle::Bundle;

/// Maximum length of a payload that is a message.
const MAX_PAYLOAD: u64 = 1 << 20;

/// Returns the payload of a bundle, zeros at its end included, which nodes elide.
fn content(bundle: Bundle) -> Option<Vec<u8>> {
    let len = bundle.payload.len();
    let mut bytes = bundle.payload.bytes;
    (len <= MAX_PAYLOAD).then(|| {
        bytes.resize(len as usize, 0);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::dtn::bundle::{Payload, Primary, Timestamp};
    use bentpipe_wire::dtn::eid::Eid;

    use super::*;

    #[test]
    fn zeros_at_the_end_of_a_payload_are_part_of_it() {
        let primary = Primary::new(Eid::ipn(1, 2), Eid::ipn(2, 2), Timestamp::default(), 1000);
        let mut payload = Payload::elided(0);
        // Ends with the value 32.0, which is 0x42000000.
        payload.bytes = vec![2, 0, 0x42, 0, 0, 0];
        payload.elide();
        assert!(payload.bytes.len() < 6);
        let bundle = Bundle { primary: primary.clone(), blocks: vec![], payload };
        assert_eq!(content(bundle), Some(vec![2, 0, 0x42, 0, 0, 0]));
        let endless = Bundle { primary, blocks: vec![], payload: Payload::elided(1 << 40) };
        assert_eq!(content(endless), None);
    }
}
