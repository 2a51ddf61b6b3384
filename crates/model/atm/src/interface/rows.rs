//! Back-to-back cells of an interface, sent without a choice for each.

use bentpipe_units::Time;

use crate::aal5::Segmenter;
use crate::abr::Row;
use crate::cell::{Vc, Word};
use crate::line::Line;
use crate::stream::Streams;

/// Sends the cells of a row and returns the number of PDUs that they end.
#[inline]
pub(super) fn send_data(vc: Vc, segmenter: &mut Segmenter, row: &mut Row, line: &mut Line) -> u64 {
    let mut ended = 0;
    while !segmenter.is_empty() && send_middles(vc, segmenter, row, line) && row.left() > 0 {
        let Some(start) = row.pass(line.free_at()) else { break };
        let Some((serial, index, Some(payload))) = segmenter.next() else { break };
        row.count(1);
        line.transmit(Word::data(vc, serial, index, true), start);
        line.put(payload);
        ended += 1;
    }
    ended
}

/// Returns `true` if the PDU's last cell is next, after sending middle cells.
#[inline]
fn send_middles(vc: Vc, segmenter: &mut Segmenter, row: &mut Row, line: &mut Line) -> bool {
    let (serial, index) = segmenter.place();
    let (mut word, middles) = (Word::data(vc, serial, index, false), segmenter.middles());
    let (most, mut sent) = (row.left().min(middles.into()), 0);
    line.send_while(|free_at| {
        let start = if sent < most { row.pass(free_at)? } else { return None };
        sent += 1;
        let this = word;
        word = this.following();
        Some((this, start))
    });
    row.count(sent);
    segmenter.pass(sent as u16);
    sent == u32::from(middles)
}

/// Sends known cells of streams and returns their number and the last start.
///
/// The first is sent at `eligible`.
#[inline]
pub(super) fn send_streams(
    vc: Vc,
    streams: &mut Streams,
    (eligible, rival, until): (Time, Time, Time),
    line: &mut Line,
) -> (u32, Time) {
    let (word, mut sent, mut last) = (Word::data(vc, 0, 0, false), 0, eligible);
    line.send_row(streams.ahead().len(), until, |sending, _| {
        for &due in streams.ahead() {
            let start = due.max(sending.free_at());
            if due.max(last) >= rival || start >= until {
                break;
            }
            sending.send(word, start);
            (sent, last) = (sent + 1, start);
        }
    });
    streams.pass_over(sent);
    (sent as u32, last)
}
