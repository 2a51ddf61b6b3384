//! Declarations of metrics: names that columns can have, each measure once.

use bentpipe_net::testing::check_metrics;

#[test]
fn names_can_stand_in_files_and_measures_are_made_once() {
    check_metrics("app", bentpipe_transport::app::metrics::ALL);
    check_metrics("tcp", bentpipe_transport::tcp::metrics::ALL);
    check_metrics("tfrc", bentpipe_transport::tfrc::metrics::ALL);
    check_metrics("ping", bentpipe_transport::ping::metrics::ALL);
}
