use super::*;

fn decoded(bytes: &[u8]) -> Result<Eid, Error> {
    let mut reader = Reader::new(bytes);
    let eid = Eid::read(&mut reader)?;
    reader.end()?;
    Ok(eid)
}

/// Encodings of RFC 9758, appendix B, and RFC 9171.
#[test]
fn encodings_of_the_standards() {
    let cases: [(&str, &[u8]); 6] = [
        ("dtn:none", &[0x82, 1, 0]),
        ("dtn://node/", b"\x82\x01\x67//node/"),
        ("ipn:23.42", &[0x82, 2, 0x82, 0x17, 0x18, 0x2a]),
        ("ipn:977000.1.1", &[0x82, 2, 0x83, 0x1a, 0, 0x0e, 0xe8, 0x68, 1, 1]),
        ("ipn:0.0", &[0x82, 2, 0x82, 0, 0]),
        ("ipn:!.7", &[0x82, 2, 0x82, 0x1a, 0xff, 0xff, 0xff, 0xff, 7]),
    ];
    for (text, bytes) in cases {
        let eid: Eid = text.parse().unwrap();
        let mut out = Vec::new();
        eid.put(&mut out);
        assert_eq!((eid.to_string().as_str(), &out[..]), (text, bytes));
        assert_eq!(decoded(bytes), Ok(eid));
    }
}

#[test]
fn forms_of_one_value_are_equal_and_keep_their_bytes() {
    let three = [0x82, 2, 0x83, 0x1a, 0, 0x0e, 0xe8, 0x68, 1, 1];
    let two = [0x82, 2, 0x82, 0x1b, 0, 0x0e, 0xe8, 0x68, 0, 0, 0, 1, 1];
    let (three_eid, two_eid) = (decoded(&three).unwrap(), decoded(&two).unwrap());
    assert_eq!(three_eid, two_eid);
    for (eid, bytes) in [(three_eid, &three[..]), (two_eid, &two)] {
        let mut out = Vec::new();
        eid.put(&mut out);
        assert_eq!(out, bytes);
    }
    let default = decoded(&[0x82, 2, 0x83, 0, 1, 1]).unwrap();
    assert_eq!(default, Eid::ipn(1, 1));
}

#[test]
fn forbidden_forms_are_refused() {
    let wide = [0x1b, 0, 0, 0, 1, 0, 0, 0, 0];
    let refused: [Vec<u8>; 8] = [
        vec![0x82, 0x18, 1, 0],
        vec![0x82, 3, 0],
        vec![0x82, 2, 0x81, 1],
        vec![0x82, 2, 0x84, 1, 1, 1, 1],
        [&[0x82, 2, 0x82, 1][..], &wide].concat(),
        [&[0x82, 2, 0x83, 1][..], &wide, &[1]].concat(),
        b"\x82\x01\x65node/".to_vec(),
        b"\x82\x01\x62//".to_vec(),
    ];
    for bytes in refused {
        assert!(decoded(&bytes).is_err(), "{bytes:02x?}");
    }
}

#[test]
fn any_service_of_node_0_is_null() {
    assert!(Eid::ipn(0, 7).is_null() && Eid::None.is_null());
    assert!(!"ipn:977000.0.1".parse::<Eid>().unwrap().is_null());
}

#[test]
fn nodes_of_endpoints() {
    for (endpoint, node) in
        [("ipn:3.7", "ipn:3.0"), ("dtn://mars/a/b", "dtn://mars/"), ("dtn:none", "dtn:none")]
    {
        let endpoint: Eid = endpoint.parse().unwrap();
        assert_eq!(endpoint.node().to_string(), node);
        assert_eq!(endpoint.is_at(&endpoint.node()), !endpoint.is_null());
    }
    for text in [
        "ipn:1",
        "ipn:1.2.3.4",
        "ipn:01.2",
        "ipn:+1.2",
        "ipn:4294967296.1",
        "dtn:a",
        "dtn:///x",
        "http://x/",
        "",
    ] {
        assert!(text.parse::<Eid>().is_err(), "{text}");
    }
}
