use bentpipe_net::{Outbox, Wire};
use bentpipe_units::RandomStream;

use super::super::config::Mixing;
use super::*;
use crate::emodel::Impairment;

const FRAME: Span = Span::from_millis(20);
const RATED: Option<Impairment> = Some(Impairment { ie: 10.0, bpl: 19.0 });

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Bridge with three members at port 0 and two at port 1, whose first mixes are at 100 ms.
struct Room {
    mixer: Mixer,
    stream: RandomStream,
}

impl Room {
    fn new(mixing: Mixing) -> Room {
        let mixer = Mixer::new(Role { mixing, contributors: true });
        let mut room = Room { mixer, stream: RandomStream::new(1, "room") };
        for (port, members) in [(0, 3), (1, 2)] {
            room.send(port, ToBridge::Join { members, interval: FRAME, start: at(100), stop: at(10_000) });
        }
        room
    }

    fn turn(&mut self, now: Time, then: impl FnOnce(&mut Mixer, &mut Cx<'_>)) -> Vec<(u16, Mix)> {
        let (mut outbox, wires) = (Outbox::default(), [0, 1].map(|port| Wire::new(0, Port(port))));
        then(&mut self.mixer, &mut Cx::new(now, &wires, &mut outbox, &mut self.stream));
        let mixes = std::iter::from_fn(|| outbox.pop());
        mixes.map(|(wire, packet)| (wire.port().0, Mix::of(packet).expect("a mix"))).collect()
    }

    fn send(&mut self, port: u16, message: ToBridge) {
        let none = self.turn(Time::ZERO, |mixer, cx| {
            mixer.receive(Port(port), message.into_packet(), cx);
        });
        assert!(none.is_empty());
    }

    /// Frame of a member, whose source has the number of port and member.
    fn frame(&mut self, (port, member): (u16, u32), due: u64, level: u8) {
        let ssrc = u32::from(port) * 10 + member;
        let frame =
            Frame { ssrc, due: at(due), interval: FRAME, mouth: at(due - 80), level, impairment: RATED };
        self.send(port, ToBridge::Frame { member, frame });
    }

    /// Mixes at a time, by port and member.
    fn mixes(&mut self, ms: u64) -> Vec<(u16, Mix)> {
        self.turn(at(ms), |mixer, cx| {
            mixer.wake(cx);
        })
    }
}

fn sources(mixes: &[(u16, Mix)]) -> Vec<Vec<u32>> {
    mixes.iter().map(|(_, mix)| mix.sources.clone()).collect()
}

#[test]
fn each_member_gets_the_others_without_itself() {
    let mut room = Room::new(Mixing::Linear);
    room.frame((0, 0), 90, 20);
    room.frame((0, 2), 95, 25);
    room.frame((1, 1), 99, 30);
    let mixes = room.mixes(100);
    assert_eq!(sources(&mixes), [vec![2, 11], vec![0, 2, 11], vec![0, 11], vec![0, 2, 11], vec![0, 2]]);
    assert!(mixes.iter().all(|(_, mix)| mix.is_speech));
    // The delay is that of the loudest other one.
    assert_eq!(mixes[0].1.mouth, Some(at(15)));
    assert_eq!(mixes[1].1.mouth, Some(at(10)));
    assert_eq!(mixes[1].1.sound.rooms, 3);
    // Three have a mix of their own; the others of each leg share one.
    assert_eq!((room.mixer.counts.mixes, room.mixer.counts.encoded), (5, 5));
    assert_eq!(room.mixer.counts.left_out, 0);
}

#[test]
fn the_loudest_three_are_heard_and_the_fourth_by_them_only() {
    let mut room = Room::new(Mixing::Loudest);
    for (member, level) in [((0, 0), 30), ((0, 1), 24), ((0, 2), 28), ((1, 0), 26)] {
        room.frame(member, 100, level);
    }
    let heard = sources(&room.mixes(100));
    assert_eq!(heard, [vec![1, 10, 2], vec![10, 2, 0], vec![1, 10, 0], vec![1, 2, 0], vec![1, 10, 2]]);
    // Member 0 is left out of the mixes of itself, which it never is in, and of the silent one.
    assert_eq!(room.mixer.counts.left_out, 1);
}

#[test]
fn frames_wait_for_the_next_mix_and_are_in_one_of_each() {
    let mut room = Room::new(Mixing::Loudest);
    for n in 0..5 {
        room.frame((0, 0), 105 + 20 * n, 25);
    }
    assert!(sources(&room.mixes(100)).iter().all(Vec::is_empty));
    for n in 0..5 {
        let heard = sources(&room.mixes(120 + 20 * n));
        assert_eq!(heard, [vec![], vec![0], vec![0], vec![0], vec![0]], "mix {n}");
    }
    assert_eq!(room.mixer.counts.waited_ns, 5 * 15_000_000);
    assert_eq!((room.mixer.counts.started, room.mixer.counts.concealed), (5, 0));
}

#[test]
fn missing_frames_of_a_spurt_are_concealed_for_a_while() {
    let mut room = Room::new(Mixing::Loudest);
    room.frame((0, 0), 100, 25);
    room.frame((0, 0), 140, 25);
    room.mixes(100);
    let concealed = |mixes: &[(u16, Mix)]| mixes[1].1.sound.speech.map(|speech| speech.is_concealed);
    let missing = room.mixes(120);
    assert_eq!(concealed(&missing), Some(true));
    assert_eq!(missing[1].1.mouth, Some(at(40)), "as if it had come");
    assert_eq!(concealed(&room.mixes(140)), Some(false));
    // Nothing comes any more: 200 ms of concealment, then silence.
    let after: Vec<_> = (0..12).map(|n| concealed(&room.mixes(160 + 20 * n))).collect();
    assert_eq!(after.iter().filter(|mix| **mix == Some(true)).count(), 10);
    assert_eq!(after[10..], [None, None]);
    // After comfort noise there is nothing to conceal.
    room.frame((0, 0), 400, 25);
    room.send(0, ToBridge::Pause { member: 0, due: at(420) });
    assert_eq!(concealed(&room.mixes(400)), Some(false));
    assert_eq!(concealed(&room.mixes(420)), None);
}

#[test]
fn a_pause_shorter_than_the_playout_delay_is_not_concealed() {
    let mut room = Room::new(Mixing::Loudest);
    room.frame((0, 0), 100, 25);
    // The noise, and the next spurt behind it, arrive before the last frame of this one is due.
    room.send(0, ToBridge::Pause { member: 0, due: at(120) });
    room.frame((0, 0), 160, 25);
    let mut concealed = |ms| room.mixes(ms)[1].1.sound.speech.map(|speech| speech.is_concealed);
    assert_eq!([100, 120, 140, 160].map(&mut concealed), [Some(false), None, None, Some(false)]);
    // Frames in front of the noise that did not come are missing.
    room.send(0, ToBridge::Pause { member: 0, due: at(200) });
    let mut concealed = |ms| room.mixes(ms)[1].1.sound.speech.map(|speech| speech.is_concealed);
    assert_eq!([180, 200].map(&mut concealed), [Some(true), None]);
}

#[test]
fn rooms_without_speech_are_noise_and_not_speech() {
    let mut room = Room::new(Mixing::Linear);
    for member in 0..3 {
        room.frame((0, member), 100, 65);
    }
    let mixes = room.mixes(100);
    assert!(mixes.iter().all(|(_, mix)| !mix.is_speech && mix.sound.speech.is_none()));
    assert_eq!(mixes.iter().map(|(_, mix)| mix.sound.rooms).collect::<Vec<_>>(), [2, 2, 2, 3, 3]);
}

#[test]
fn frames_out_of_order_and_of_unknown_members() {
    let mut room = Room::new(Mixing::Linear);
    room.frame((0, 0), 120, 25);
    room.frame((0, 0), 100, 30);
    room.frame((0, 0), 100, 30);
    room.frame((1, 7), 100, 10);
    room.send(1, ToBridge::Pause { member: 9, due: at(100) });
    room.mixes(100);
    room.mixes(120);
    assert_eq!(room.mixer.counts.started, 2);
    for _ in 0..2 * MAX_FRAMES {
        room.frame((0, 1), 5000, 25);
    }
    assert!(room.mixer.legs[0].members[1].waiting.len() <= MAX_FRAMES);
    assert!(room.mixes(20_000).len() > 5 && room.mixer.deadline().is_never());
}
