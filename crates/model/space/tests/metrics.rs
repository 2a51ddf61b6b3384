//! Declarations of metrics: names that columns can have, each measure once.

use bentpipe_net::testing::check_metrics;

#[test]
fn names_can_stand_in_files_and_measures_are_made_once() {
    check_metrics("space", bentpipe_space::metrics::ALL);
}
