use bentpipe_units::{Span, Time};
use bentpipe_wire::gse::{self, InputStream, Label, Repr};
use bentpipe_wire::psi::Pmt;
use bentpipe_wire::ts::{Adaptation, NULL_PACKET, PACKET_LEN, Packet, Pcr, Pid};
use bentpipe_wire::ule::{Payload, Type};
use proptest::prelude::*;

use super::*;

fn of(pid: u16, continuity: u8) -> [u8; PACKET_LEN] {
    let mut bytes = [7; PACKET_LEN];
    bentpipe_wire::ts::Repr::new(Pid::new(pid).unwrap(), continuity).emit(&mut bytes);
    bytes
}

fn slot(n: u64) -> Time {
    Time::from_nanos(n * 188_000)
}

#[test]
fn tables_go_first_and_sources_in_turn() {
    let tables = Tables::new(Span::from_nanos(6 * 188_000), 1, Vec::new());
    let mut multiplex = Multiplex::new(Some(tables));
    let mut queues = [TsQueue::new(3), TsQueue::new(10)];
    let pushed: Vec<_> = (0..4).map(|count| queues[0].push(slot(0), &of(0x100, count))).collect();
    assert_eq!(pushed, [true, true, true, false]);
    assert!(queues[1].push(slot(0), &of(0x200, 0)) && queues[1].push(slot(0), &NULL_PACKET));
    let origins: Vec<_> =
        (0..8).map(|n| multiplex.pop(slot(n), &mut queues).map(|(origin, _)| origin)).collect();
    let (table, sources) = (Some(Origin::Table), [0, 1, 0, 0].map(|n| Some(Origin::Source(n))));
    assert_eq!(origins, [table, sources[0], sources[1], sources[2], sources[3], None, table, None]);
    assert_eq!((queues[0].sent(), queues[0].dropped(), queues[0].waiting()), (3, 1, 0));
}

#[test]
fn a_clock_that_waited_says_so() {
    let clock = Pcr::new(1_000_000);
    let adaptation = Adaptation { len_bytes: 7, pcr: Some(clock), ..Adaptation::default() };
    let mut packet = of(0x100, 0);
    let repr = bentpipe_wire::ts::Repr::new(Pid::new(0x100).unwrap(), 0);
    bentpipe_wire::ts::Repr { adaptation: Some(adaptation), ..repr }.emit(&mut packet);
    let mut queues = [TsQueue::new(10).restamping()];
    (0..3).for_each(|count| assert!(queues[0].push(slot(0), &of(0x100, count))));
    assert!(queues[0].push(slot(0), &packet));
    let mut multiplex = Multiplex::default();
    let sent: Vec<_> = (0..4).map(|n| multiplex.pop(slot(n), &mut queues).unwrap().1).collect();
    assert_eq!(sent[..3], [of(0x100, 0), of(0x100, 1), of(0x100, 2)]);
    let restamped = Packet::new_checked(&sent[3]).unwrap().adaptation().unwrap().unwrap().pcr.unwrap();
    // Three slots of 188 microseconds.
    assert_eq!(restamped.since(clock), 3 * 188 * 27);
    assert_eq!(sent[3][12..], packet[12..]);
}

/// Rounds are due at multiples of the interval, however late slots are; an idle hour is made up for by one round.
#[test]
fn tables_stand_on_a_grid() {
    let pmt = Pmt { number: 1, version: 0, clock: Pid::NULL, descriptors: Vec::new(), streams: Vec::new() };
    let ms = |n: u64| Time::from_nanos(n * 1_000_000);
    let mut tables = Tables::new(Span::from_millis(100), 1, vec![(Pid::new(0x20).unwrap(), pmt.clone())]);
    let round = |tables: &mut Tables, at| std::iter::from_fn(|| tables.pop(at)).count();
    assert_eq!((tables.packets(), round(&mut tables, ms(0)), tables.due()), (2, 2, ms(100)));
    assert_eq!((round(&mut tables, ms(99)), round(&mut tables, ms(160)), tables.due()), (0, 2, ms(200)));
    assert_eq!((round(&mut tables, ms(3_600_050)), tables.due()), (2, ms(3_600_100)));
    tables.update(vec![(Pid::new(0x20).unwrap(), pmt.clone())]);
    assert_eq!(tables.due(), ms(3_600_100), "the same programmes");
    tables.update(vec![(Pid::new(0x20).unwrap(), Pmt { number: 2, ..pmt })]);
    assert_eq!(tables.due(), Time::ZERO);
    let packet = tables.pop(ms(3_600_060)).unwrap();
    // The fourth round: continuity goes on over versions, and the version is 1.
    assert_eq!((packet[3] & 0x0f, packet[4 + 1 + 5] >> 1 & 0x1f), (3, 1));
}

/// GSE encapsulator as a source, all of its PDUs for one label.
#[derive(Default)]
struct Source(gse::Encapsulator);

impl Source {
    fn push(&mut self, label: u8, len: usize) {
        let repr = Repr::new(Type::IPV4, Label::Three([0, 0, label]));
        self.0.push(&repr, &vec![label; len]).unwrap();
    }
}

impl PduSource for Source {
    fn waiting_len(&self) -> usize {
        self.0.waiting_len()
    }
    fn due(&self) -> Option<Time> {
        (!self.0.is_empty()).then_some(Time::ZERO)
    }
    fn is_fragmented(&self) -> bool {
        self.0.is_fragmented()
    }
    fn fill_packet(&mut self, _: Time, stream: &mut InputStream, room: usize, out: &mut Vec<u8>) -> usize {
        self.0.fill_packet(stream, room, out)
    }
    fn end_field(&mut self, _: Time, _: bool) {}
}

fn shared(count: usize, capacity: usize) -> Fields {
    let mut fields = Fields::new(count, vec![((0..count).collect(), 0)]);
    fields.set_capacity(0, capacity);
    fields
}

/// Three sources with a backlog of long, middling and short PDUs get equal bytes, and one that sends little is in the next field.
#[test]
fn backlogged_sources_get_equal_bytes() {
    let mut sources: Vec<Source> = (0..4).map(|_| Source::default()).collect();
    let lens = [1500, 400, 60];
    for (n, len) in lens.iter().enumerate() {
        (0..300_000 / len).for_each(|_| sources[n].push(n as u8, *len));
    }
    let (mut fields, mut total) = (shared(4, 6000), [0; 4]);
    for n in 0..60 {
        if n % 5 == 0 {
            sources[3].push(3, 100);
        }
        let mut field = Vec::new();
        assert!(fields.fill(Time::ZERO, 0, &mut sources, &mut field).is_some_and(|len| len > 5980));
        fields.shares().iter().for_each(|(n, share)| total[*n] += share);
        assert_eq!(n % 5 == 0, fields.shares().iter().any(|(n, _)| *n == 3), "its PDU does not wait");
    }
    let mean = (total[0] + total[1] + total[2]) / 3;
    assert!(total[..3].iter().all(|bytes| bytes.abs_diff(mean) <= 1600), "{total:?}");
}

/// Groups with a backlog get equal bytes, field by field, for any number of groups and lengths of fields; a group that
/// sends little is not passed over.
#[test]
fn backlogged_groups_get_equal_bytes() {
    let mut sources: Vec<Source> = (0..5).map(|_| Source::default()).collect();
    for n in [0, 1, 2, 3] {
        (0..1000).for_each(|_| sources[n].push(n as u8, if n == 3 { 60 } else { 1500 }));
    }
    let mut fields = Fields::new(5, (0..5).map(|n| (vec![n], n)).collect());
    let capacities = [2000, 6000, 4000, 3000, 6000];
    (0..5).for_each(|group| fields.set_capacity(group, capacities[group]));
    let (mut total, mut waited, mut longest) = ([0; 5], 0, 0);
    while total[3] < 50_000 {
        if sources[4].waiting_len() == 0 {
            sources[4].push(4, 100);
        }
        let group = fields.next_group(Time::ZERO, &sources).expect("a backlog");
        let len = fields.fill(Time::ZERO, group, &mut sources, &mut Vec::new()).expect("a field");
        total[group] += len;
        (waited, longest) = if group == 4 { (0, longest) } else { (waited + 1, longest.max(waited + 1)) };
    }
    let mean = total[..4].iter().sum::<usize>() / 4;
    assert!(total[..4].iter().all(|bytes| bytes.abs_diff(mean) <= 6000), "{total:?}");
    assert!(longest <= 17, "{longest} fields before a PDU of 100 bytes");
}

proptest! {
    /// Whatever the PDUs and the lengths of data fields: each receiver gets those under its label, whole and in order, and at most
    /// one PDU is cut at a time.
    #[test]
    fn receivers_get_the_pdus_of_their_label(
        pdus in proptest::collection::vec((0u8..5, 1usize..5000), 1..60),
        capacities in proptest::collection::vec(60usize..7000, 1..10),
    ) {
        let mut sources: Vec<Source> = (0..5).map(|_| Source::default()).collect();
        pdus.iter().for_each(|(label, len)| sources[usize::from(*label)].push(*label, *len));
        let mut fields = shared(5, 0);
        let label = |n: u8| gse::Filter::Only(vec![Label::Three([0, 0, n])]);
        let mut receivers: Vec<gse::Receiver> = (0..5).map(|n| gse::Receiver::new(label(n))).collect();
        let mut got: Vec<Vec<usize>> = vec![Vec::new(); 5];
        for capacity in capacities.iter().cycle() {
            fields.set_capacity(0, *capacity);
            let mut field = Vec::new();
            let Some(len) = fields.fill(Time::ZERO, 0, &mut sources, &mut field) else { break };
            prop_assert!(len == field.len() && len <= *capacity);
            prop_assert_eq!(fields.shares().iter().map(|(_, share)| share).sum::<usize>(), len);
            prop_assert!(sources.iter().filter(|source| source.is_fragmented()).count() <= 1);
            for (n, receiver) in receivers.iter_mut().enumerate() {
                receiver.push(&field, |pdu| {
                    let Payload::Pdu(_, bytes) = pdu.payload else { panic!("{pdu:?}") };
                    assert!(bytes.iter().all(|byte| usize::from(*byte) == n));
                    got[n].push(bytes.len());
                });
            }
        }
        for (n, receiver) in receivers.iter().enumerate() {
            let sent = pdus.iter().filter(|(label, _)| usize::from(*label) == n);
            prop_assert_eq!(&got[n], &sent.map(|(_, len)| *len).collect::<Vec<_>>());
            let counts = receiver.counts();
            prop_assert_eq!((counts.orphans, counts.abandoned, counts.crc_errors), (0, 0, 0));
            prop_assert_eq!(counts.pdus + counts.others, pdus.len() as u64);
        }
    }
}
