//! A receiver without a node, and many who connect to it.
#![allow(clippy::disallowed_methods, reason = "it receives in real time")]

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bentpipe_bundles::tls::Security;
use bentpipe_bundles::{Arrival, Layer, Receiving, Sending, receive, send};
use bentpipe_testkit::free_port;
use bentpipe_units::Span;
use bentpipe_wire::dtn::bundle::Payload;
use bentpipe_wire::dtn::eid::Eid;

fn connected(at: SocketAddr) -> TcpStream {
    loop {
        match TcpStream::connect(at) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Twice as many as it serves say nothing.
#[test]
fn those_who_are_silent_keep_no_sender_waiting() {
    for layer in [Layer::Mtcp, Layer::Tcpcl] {
        let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let receiving = Receiving {
            at,
            layer,
            node: Eid::ipn(1, 0),
            security: Security::default(),
            count: Some(2),
            longest: 1 << 20,
        };
        let receiver = std::thread::spawn(move || {
            let (mut bundles, mut gone) = (0, 0);
            let refused = receive(&receiving, &AtomicBool::new(false), &mut |arrival| {
                match arrival {
                    Arrival::Bundle(..) => bundles += 1,
                    Arrival::Refused(_) => gone += 1,
                }
                Ok(())
            });
            (refused, bundles, gone)
        });
        let silent: Vec<TcpStream> = (0..32).map(|_| connected(at)).collect();
        let sending = Sending {
            to_node: at.to_string(),
            layer,
            from: Eid::ipn(2, 1),
            to: Eid::ipn(1, 9),
            payload: Payload::new(vec![7; 3000]),
            count: 2,
            lifetime: Span::from_secs(10),
            security: Security::default(),
        };
        assert_eq!(send(&sending, &AtomicBool::new(false)), Ok(2), "{layer:?}");
        let (refused, bundles, gone) = receiver.join().expect("no panic");
        assert_eq!((refused, bundles), (Ok(0), 2), "{layer:?}");
        assert!(gone >= 16, "{gone} gave way");
        drop(silent);
    }
}
