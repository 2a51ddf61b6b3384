//! Streams of RTP on several legs, which are merged by choice.

use super::{MAX_STREAMS, Origin, Rtp, Sink, State, Streams, too_many};
use crate::hitless::{Held, Leg, Merged, Numbered, Taken, Waiting, behind, differing};
use crate::kept::Kept;
use crate::{Reason, StreamId};

impl Streams {
    /// Merges streams of RTP on several legs (SMPTE ST 2022-7).
    #[must_use]
    pub fn hitless(self) -> Streams {
        Streams { merged: Some(Vec::new()), ..self }
    }

    /// Returns the legs of a stream by its place, if it is merged of several.
    pub fn legs(&self, place: usize) -> Vec<Leg> {
        let merged = self.merged.iter().flatten().find(|merged| merged.place == Some(place));
        let legs: Vec<Leg> = merged.iter().flat_map(|merged| merged.legs()).collect();
        if legs.len() > 1 { legs } else { Vec::new() }
    }

    /// Handles RTP that may be one of several legs.
    pub(super) fn leg<S: Sink>(
        &mut self,
        id: StreamId,
        packet: &Rtp<'_>,
        time_ns: Option<u64>,
        origin: Origin<'_>,
        sink: &mut S,
    ) {
        let &Rtp { ssrc, seq, stamp, payload_type, payload } = packet;
        let numbered = Numbered { ssrc, payload_type, seq, stamp, payload };
        let merged = self.merged.get_or_insert_default();
        let known = merged.iter().position(|of| of.has_leg(&id));
        let known = known.or_else(|| merged.iter().position(|of| of.may_have(numbered)));
        if known.is_none() && merged.len() == MAX_STREAMS {
            return self.refuse(origin, too_many(), sink);
        }
        let at = known.unwrap_or(merged.len());
        if at == merged.len() {
            merged.push(Merged::begin(id, numbered));
        }
        match merged[at].take(id, numbered) {
            Taken::LeftOut(refusal) => self.refuse(origin, refusal, sink),
            Taken::TooLate => {
                let entry = merged[at].place.and_then(|place| Some(&mut self.states.get_mut(place)?.entry));
                if let Some(entry) = entry.filter(|entry| entry.missing > 0) {
                    (entry.missing, entry.late) = (entry.missing - 1, entry.late + 1);
                }
                self.refuse(origin, behind(), sink);
            }
            Taken::Hold => {
                let packet = Waiting { kept: kept(origin), payload: payload.to_vec(), time_ns };
                merged[at].hold(&id, Held { seq, stamp, packet });
            }
            Taken::Apart(held) => {
                let (seq, stamp) = held.first().map_or((seq, stamp), |held| (held.seq, held.stamp));
                merged.push(Merged::begin(id, Numbered { seq, stamp, ..numbered }));
                for Held { seq, stamp, packet: Waiting { kept, payload, time_ns } } in held {
                    let rtp = Rtp { seq, stamp, payload: &payload, ..*packet };
                    self.leg(id, &rtp, time_ns, Origin::Kept(kept), sink);
                }
                self.leg(id, packet, time_ns, origin, sink);
            }
            Taken::Restart(number) => {
                self.release(at, time_ns, true, sink);
                self.merged.iter_mut().flatten().nth(at).into_iter().for_each(|of| of.restart(number));
                self.use_next(at, origin, payload, time_ns, sink);
            }
            Taken::Next => self.use_next(at, origin, payload, time_ns, sink),
            Taken::Wait(number) => {
                let kept = kept(origin);
                merged[at].wait(number, Waiting { kept, payload: payload.to_vec(), time_ns });
                self.release(at, time_ns, false, sink);
            }
        }
    }

    /// Ends a merged stream: what waits is used, what is held is left out.
    pub(super) fn finish_legs<S: Sink>(&mut self, at: usize, sink: &mut S) {
        self.release(at, None, true, sink);
        let held = self.merged.as_mut().and_then(|merged| merged.get_mut(at)).map(Merged::held);
        for Held { packet, .. } in held.unwrap_or_default() {
            self.refuse(Origin::Kept(packet.kept), differing(), sink);
        }
    }

    /// Uses the next packet of a merged stream, and those that waited for it.
    fn use_next<S: Sink>(
        &mut self,
        at: usize,
        origin: Origin<'_>,
        payload: &[u8],
        time_ns: Option<u64>,
        sink: &mut S,
    ) {
        self.merged.iter_mut().flatten().nth(at).into_iter().for_each(Merged::advance);
        self.use_leg(at, origin, payload, (0, time_ns), sink);
        self.release(at, time_ns, false, sink);
    }

    /// Passes the packets on that wait no longer.
    pub(super) fn release<S: Sink>(&mut self, at: usize, now_ns: Option<u64>, is_end: bool, sink: &mut S) {
        let due = |streams: &mut Streams| streams.merged.as_mut()?.get_mut(at)?.due(now_ns, is_end);
        while let Some((missing, Waiting { kept, payload, time_ns })) = due(self) {
            // Times do not go back where a slower leg has filled a hole.
            let time_ns = time_ns.max(now_ns.filter(|_| !is_end));
            self.use_leg(at, Origin::Kept(kept), &payload, (missing, time_ns), sink);
        }
    }

    /// Uses the packet of a leg, behind others that are missing on all.
    fn use_leg<S: Sink>(
        &mut self,
        at: usize,
        origin: Origin<'_>,
        payload: &[u8],
        (missing, time_ns): (u64, Option<u64>),
        sink: &mut S,
    ) {
        let of = self.merged.as_ref().and_then(|merged| merged.get(at));
        let (known, id) = of.map_or((None, None), |of| (of.place, of.id()));
        let Some(place) = known.or_else(|| self.begin(id?)) else {
            return self.refuse(origin, too_many(), sink);
        };
        self.merged.iter_mut().flatten().nth(at).into_iter().for_each(|of| of.place = Some(place));
        if missing > 0 {
            let State { entry, joint, .. } = &mut self.states[place];
            entry.missing += missing;
            joint.miss(missing);
        }
        match self.pieces(place, payload, time_ns, sink) {
            true => self.accept(origin),
            false => self.refuse(origin, (Reason::Content, "of RTP without TS packets".into()), sink),
        }
    }
}

/// Returns the records of a packet that waits.
fn kept(origin: Origin<'_>) -> Vec<Kept> {
    match origin {
        Origin::Record(number, record) => vec![Kept::new(number, record)],
        Origin::Kept(all) => all,
    }
}
