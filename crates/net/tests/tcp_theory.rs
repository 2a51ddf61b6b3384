//! Transfers against closed forms.

mod tcp_path;

use bentpipe_net::tcp::Config;
use bentpipe_units::Bytes;
use tcp_path::{Pair, Path};

#[test]
fn a_lone_flow_fills_the_path() {
    let config = Config::default();
    let mut path = Path::new(10_000_000, 100);
    path.queue = path.bdp_packets(1500);
    let mut pair = Pair::bulk(&path, &config);
    let goodput = pair.goodput(20.0, 60.0);
    let expected = 10e6 * 1448.0 / 1500.0;
    assert!((goodput / expected - 1.0).abs() < 0.01, "{goodput}");
    let _ = Bytes::ZERO;
}
