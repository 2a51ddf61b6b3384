//! TCP connections of real hosts, as their kernels have them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bentpipe_emu::{TcpConnection, TcpDiag};
use bentpipe_net::ExternalPort;
use bentpipe_net::external_port::{HostConnection, MAX_CONNECTIONS};
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::{Bytes, Span};

/// Shortest time between two looks at the kernel.
const MIN_INTERVAL: Duration = Duration::from_millis(20);

/// Acknowledged bytes from which on a connection is shown: that of a transfer.
const MIN_ACKED: Bytes = Bytes::new(64_000);

/// Connections of a host: the ends of each, and its state while it lasts.
type Shown = [Option<((SocketAddr, SocketAddr), Option<HostConnection>)>; MAX_CONNECTIONS];

/// Connections of all hosts in namespaces. A thread of its own asks the kernel: it does not delay packets.
pub(crate) struct Connections {
    ports: Vec<ElementId>,
    shown: Arc<Mutex<Vec<Shown>>>,
    end: Arc<AtomicBool>,
}

impl Connections {
    /// Starts to look at hosts, each with the port that reports its connections.
    pub(crate) fn start(hosts: Vec<(ElementId, TcpDiag)>, interval: Span) -> Connections {
        let (ports, mut kernels): (Vec<_>, Vec<_>) = hosts.into_iter().unzip();
        let shown: Arc<Mutex<Vec<Shown>>> = Arc::new(Mutex::new(vec![Shown::default(); ports.len()]));
        let (to, end) = (Arc::clone(&shown), Arc::<AtomicBool>::default());
        let ended = Arc::clone(&end);
        let interval = Duration::from_nanos(interval.as_nanos()).max(MIN_INTERVAL);
        std::thread::spawn(move || {
            while !ended.load(Ordering::SeqCst) {
                for (n, kernel) in kernels.iter_mut().enumerate() {
                    let found = kernel.connections().unwrap_or_default();
                    let mut shown = to.lock().unwrap_or_else(PoisonError::into_inner);
                    update(&mut shown[n], &found);
                }
                std::thread::sleep(interval);
            }
        });
        Connections { ports, shown, end }
    }

    /// Updates the ports, before they are sampled.
    pub(crate) fn report(&self, network: &mut Network) {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (port, shown) in self.ports.iter().zip(shown) {
            if let Some(port) = network.element::<ExternalPort>(*port) {
                port.set_connections(shown.map(|of| of.and_then(|(_, known)| known)));
            }
        }
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.end.store(true, Ordering::SeqCst);
    }
}

/// Keeps each connection in its place. One that is over leaves it to another.
fn update(shown: &mut Shown, found: &[TcpConnection]) {
    for place in shown.iter_mut() {
        let Some((ends, known)) = place else { continue };
        *known = found.iter().find(|other| (other.local, other.remote) == *ends).map(of_kernel);
    }
    for other in found.iter().filter(|other| other.acked >= MIN_ACKED) {
        let ends = (other.local, other.remote);
        if shown.iter().flatten().any(|(known, _)| *known == ends) {
            continue;
        }
        let free = shown.iter().position(Option::is_none);
        let over = || shown.iter().position(|place| matches!(place, Some((_, None))));
        let Some(place) = free.or_else(over) else { return };
        shown[place] = Some((ends, Some(of_kernel(other))));
    }
}

fn of_kernel(connection: &TcpConnection) -> HostConnection {
    HostConnection {
        cwnd_bytes: connection.cwnd.get() as f64,
        ssthresh_bytes: connection.ssthresh.map_or(f64::NAN, |bytes| bytes.get() as f64),
        rto: connection.rto,
        rtt: connection.rtt,
        retransmitted: connection.retransmitted.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(port: u16, acked: u64) -> TcpConnection {
        TcpConnection {
            local: SocketAddr::from(([10, 0, 0, 1], port)),
            remote: SocketAddr::from(([10, 0, 0, 2], 5201)),
            cwnd: Bytes::new(u64::from(port)),
            ssthresh: None,
            rto: Span::from_millis(200),
            rtt: Span::from_millis(40),
            retransmitted: 0,
            acked: Bytes::new(acked),
        }
    }

    #[test]
    fn transfers_keep_their_places_and_leave_them_to_others() {
        let mut shown = Shown::default();
        let windows = |shown: &Shown| -> Vec<Option<f64>> {
            shown.iter().map(|place| place.and_then(|(_, known)| Some(known?.cwnd_bytes))).collect()
        };
        update(&mut shown, &[connection(1, 100), connection(2, 100_000), connection(3, 100_000)]);
        assert_eq!(windows(&shown), [Some(2.0), Some(3.0), None, None], "a question is not shown");
        update(&mut shown, &[connection(3, 200_000), connection(4, 100_000)]);
        assert_eq!(windows(&shown), [None, Some(3.0), Some(4.0), None]);
        let many: Vec<_> = (3..9).map(|port| connection(port, 300_000)).collect();
        update(&mut shown, &many);
        assert_eq!(
            windows(&shown),
            [Some(6.0), Some(3.0), Some(4.0), Some(5.0)],
            "no more than there are places"
        );
    }
}
