//! Workload F: satellite 1 of Kalyanaraman et al. (1997). Fifteen TCP connections over ABR with ERICA+ on
//! 155.52 Mbit/s, a trunk of 265 ms, 60 Mbit/s of VBR in the way, for 20 s.

use bentpipe_units::{Rate, Span};

use crate::Workload;
use crate::atm_path::{Path, seed_tcp};

pub(crate) fn workload() -> Workload {
    let ms = Span::from_millis;
    let path = Path {
        delays: [ms(5), ms(265), ms(5)],
        load: seed_tcp(8_704_000),
        background: Some(|| {
            // Nine streams whose rates change as often as video's do.
            let stream = |n: u64| {
                let rates = (0..).map(move |k: u64| {
                    let rate = (k * 7 + n * 5) % 14;
                    (Span::from_millis(20 + (k * 31 + n) % 80), Rate::from_bps(rate * 1_000_000))
                });
                Box::new(rates) as bentpipe_atm::Rates
            };
            (0..9).map(stream).collect()
        }),
        ..Path::wan(15)
    };
    Workload { network: path.build().into_network(), duration: Span::from_secs(20) }
}
