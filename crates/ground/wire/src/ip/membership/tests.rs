use super::*;

fn pseudo(family: Family) -> Pseudo {
    match family {
        Family::V4 => Pseudo::v4([10, 0, 0, 1].into(), IGMP_ROUTERS, Protocol::IGMP),
        Family::V6 => Pseudo::v6("fe80::1".parse().unwrap(), MLD_ROUTERS, Protocol::ICMPV6),
    }
}

fn group(family: Family, n: u8) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([239, 1, 2, n]),
        Family::V6 => IpAddr::from([0xff0e_u16, 0, 0, 0, 0, 0, 0, n.into()]),
    }
}

const BOTH: [Family; 2] = [Family::V4, Family::V6];

/// Parses a message after its checksum is filled in.
fn parse(family: Family, mut bytes: Vec<u8>) -> Result<Repr, Error> {
    let sum = family.sum(&bytes, &pseudo(family)).checksum();
    put16(&mut bytes, field::CHECKSUM, sum);
    family.parse(&bytes, &pseudo(family))
}

#[test]
fn what_is_written_is_read() {
    for family in BOTH {
        let record = |n, change| Record { group: group(family, n), change };
        for repr in [
            Repr::Query { group: None },
            Repr::Query { group: Some(group(family, 7)) },
            Repr::Report(vec![record(1, Change::Join), record(2, Change::Leave)]),
            Repr::Report(Vec::new()),
        ] {
            let bytes = repr.message(family, 10_000, &pseudo(family));
            assert_eq!(family.parse(&bytes, &pseudo(family)), Ok(repr));
        }
    }
}

/// Messages of the Linux kernel and of the RFCs' older versions.
#[test]
fn older_versions_and_sources_are_read() {
    let one = |family, n, change| Ok(Repr::Report(vec![Record { group: group(family, n), change }]));
    let v4 = |kind| vec![kind, 0, 0, 0, 239, 1, 2, 5];
    assert_eq!(parse(Family::V4, v4(0x12)), one(Family::V4, 5, Change::Join));
    assert_eq!(parse(Family::V4, v4(0x16)), one(Family::V4, 5, Change::Join));
    assert_eq!(parse(Family::V4, v4(0x17)), one(Family::V4, 5, Change::Leave));
    assert_eq!(parse(Family::V4, v4(0x11)), Ok(Repr::Query { group: Some(group(Family::V4, 5)) }));
    let v6 = |kind| [&[kind, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x0e][..], &[0; 13], &[5]].concat();
    assert_eq!(parse(Family::V6, v6(131)), one(Family::V6, 5, Change::Join));
    assert_eq!(parse(Family::V6, v6(132)), one(Family::V6, 5, Change::Leave));
    // One record of each type with two sources and a word of auxiliary data; the last type is unknown.
    let mut bytes = vec![0x22, 0, 0, 0, 0, 0, 0, 7];
    for kind in 1..=7 {
        bytes.extend([kind, 1, 0, 2, 239, 1, 2, kind, 10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0]);
    }
    let Ok(Repr::Report(records)) = parse(Family::V4, bytes) else { panic!("no report") };
    let joins = records.iter().map(|record| record.change == Change::Join).collect::<Vec<_>>();
    assert_eq!(joins, [true, true, true, true, true, false]);
}

#[test]
fn what_is_damaged_or_cut_is_refused() {
    for family in BOTH {
        let records = (0..9).map(|n| Record { group: group(family, n), change: Change::Join });
        let bytes = Repr::Report(records.collect()).message(family, 0, &pseudo(family));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(family.parse(&damaged, &pseudo(family)).is_err(), "{at}");
            let cut = bytes[..at].to_vec();
            assert!(
                if at < 4 { family.parse(&cut, &pseudo(family)) } else { parse(family, cut) }.is_err(),
                "{at}"
            );
        }
        assert!(parse(family, vec![99; 40]).is_err());
    }
}
