use bentpipe_units::{Span, Time};

use super::Neighbour;
use crate::plan::Plan;

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

#[test]
fn a_neighbour_is_open_in_its_contacts_and_reachable_when_answers_arrive() {
    let text = "a contact +0 +10 1 2 100\na contact +50 +60 1 2 100\na contact +0 +100 2 1 100\na range +0 +100 1 2 5\n";
    let plan = Plan::parse(text, 0.0).unwrap();
    let mut neighbour = Neighbour::new(1, 2, [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()], &plan);
    let open = [0, 9, 10, 50, 60].map(|second| neighbour.open(at(second)).is_some());
    assert_eq!(open, [true, true, false, true, false]);
    assert_eq!([4, 5, 9, 10].map(|second| neighbour.is_reachable(at(second))), [false, true, true, false]);
    let rate = neighbour.open(at(1)).unwrap();
    neighbour.occupy(72, rate, at(1));
    assert_eq!((neighbour.is_free(at(1)), neighbour.next_free(at(1))), (false, at(2)));
    assert_eq!(
        (neighbour.next_change(), neighbour.pop_changes(at(5)), neighbour.next_change()),
        (at(0), true, at(10))
    );
}
