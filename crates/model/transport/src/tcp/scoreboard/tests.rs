use proptest::prelude::*;

use super::*;

const RULE: LossRule = LossRule { threshold: 3, smss: 10, fack: false };

/// RFC 6675 as its text has it: a flag for each number, and everything counted anew.
struct Plain {
    una: u64,
    sacked: Vec<bool>,
    lost_below: u64,
    high_rxt: u64,
}

impl Plain {
    fn high(&self) -> u64 {
        self.sacked.len() as u64
    }

    fn unsacked(&self) -> impl Iterator<Item = u64> + '_ {
        (self.una..self.high()).filter(|&at| !self.sacked[at as usize])
    }

    /// `IsLost`.
    fn is_lost(&self, at: u64) -> bool {
        let above = &self.sacked[at as usize..];
        let bytes = above.iter().filter(|sacked| **sacked).count() as u64;
        let ranges = above.windows(2).filter(|pair| !pair[0] && pair[1]).count() as u32;
        ranges >= RULE.threshold || bytes > u64::from((RULE.threshold - 1) * RULE.smss)
    }

    /// `SetPipe`.
    fn pipe(&self) -> u64 {
        let counts = |at: u64| u64::from(at >= self.lost_below) + u64::from(at < self.high_rxt);
        self.unsacked().map(counts).sum()
    }

    fn update_lost(&mut self) {
        let lost = self.unsacked().filter(|&at| self.is_lost(at)).max();
        self.lost_below = self.lost_below.max(lost.map_or(0, |at| at + 1));
    }

    /// `NextSeg` rule 1.
    fn next_lost(&self) -> Option<u64> {
        self.unsacked().find(|&at| at >= self.high_rxt && at < self.lost_below)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(u64),
    Ack(u64),
    Sack(u64, u64),
    Retransmission,
    Timeout,
    Undo,
    Renege,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let one = prop_oneof![
        4 => (1u64..11).prop_map(Op::Send),
        2 => (0u64..30).prop_map(Op::Ack),
        6 => (0u64..100, 1u64..15).prop_map(|(back, len)| Op::Sack(back, len)),
        4 => Just(Op::Retransmission),
        1 => Just(Op::Timeout),
        1 => Just(Op::Undo),
        1 => Just(Op::Renege),
    ];
    proptest::collection::vec(one, 0..80)
}

fn apply(op: &Op, board: &mut Scoreboard, plain: &mut Plain) {
    match *op {
        Op::Send(len) => {
            board.extend(len);
            plain.sacked.resize(plain.sacked.len() + len as usize, false);
        }
        Op::Ack(len) => {
            let ack = (plain.una + len).min(plain.high());
            let new = plain.unsacked().filter(|&at| at < ack).count() as u64;
            assert_eq!(board.acknowledge(ack), new);
            plain.una = ack;
            (plain.lost_below, plain.high_rxt) = (plain.lost_below.max(ack), plain.high_rxt.max(ack));
        }
        Op::Sack(back, len) => {
            let start = plain.high().saturating_sub(back);
            let new = plain.unsacked().filter(|at| (start..start + len).contains(at)).count() as u64;
            assert_eq!(board.sack(start, start + len), new);
            let range = start.max(plain.una)..(start + len).min(plain.high());
            range.for_each(|at| plain.sacked[at as usize] = true);
            board.update_lost(RULE);
            plain.update_lost();
        }
        Op::Retransmission => {
            assert_eq!(board.next_lost().map(|(start, _)| start), plain.next_lost());
            if let Some((start, end)) = board.next_lost() {
                let end = end.min(start + u64::from(RULE.smss));
                board.on_repair(start, end);
                plain.high_rxt = end;
            }
        }
        Op::Timeout => {
            board.lose_all();
            (plain.lost_below, plain.high_rxt) = (plain.high(), plain.una);
        }
        Op::Undo => {
            board.clear_lost_marks();
            plain.lost_below = plain.una;
        }
        Op::Renege => {
            board.forget_sacked();
            board.lose_all();
            plain.sacked.fill(false);
            (plain.lost_below, plain.high_rxt) = (plain.high(), plain.una);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn counting_agrees_with_a_walk_over_all_numbers(ops in ops()) {
        let mut board = Scoreboard::new(0, false);
        let mut plain = Plain { una: 0, sacked: Vec::new(), lost_below: 0, high_rxt: 0 };
        for op in &ops {
            apply(op, &mut board, &mut plain);
            prop_assert_eq!((board.una(), board.high()), (plain.una, plain.high()));
            prop_assert_eq!(board.pipe(), plain.pipe(), "after {:?}", op);
            prop_assert_eq!(board.next_lost().map(|(start, _)| start), plain.next_lost());
        }
    }

    /// What the peer says can be anything.
    #[test]
    fn any_blocks_are_survived(blocks in proptest::collection::vec(any::<(u64, u64)>(), 0..50)) {
        let mut board = Scoreboard::new(5, true);
        board.extend(1000);
        for (start, end) in blocks {
            board.sack(start % 2000, end % 2000);
            board.update_lost(RULE);
            if let Some((start, end)) = board.next_lost() {
                prop_assert!(start >= board.una() && end <= board.high() && start < end);
                board.on_repair(start, end);
            }
            prop_assert!(board.pipe() <= 2 * board.flight());
        }
    }
}

#[test]
fn a_repair_is_lost_when_enough_later_data_is_sacked() {
    let mut board = Scoreboard::new(0, true);
    board.extend(100);
    board.sack(10, 50);
    board.update_lost(RULE);
    assert_eq!(board.next_lost(), Some((0, 10)));
    board.on_repair(0, 10);
    board.extend(50);
    board.sack(100, 120);
    board.update_lost(RULE);
    assert_eq!(board.next_lost(), None);
    board.sack(120, 130);
    board.update_lost(RULE);
    // First what was repaired when 100 was the highest, then the new hole.
    assert_eq!(board.next_lost(), Some((0, 10)));
    board.on_repair(0, 10);
    assert_eq!(board.next_lost(), Some((50, 100)));
    board.on_repair(50, 100);
    assert_eq!((board.next_lost(), board.pipe()), (None, 10 + 50 + 20));
    board.acknowledge(150);
    assert_eq!((board.pipe(), board.flight()), (0, 0));
}
