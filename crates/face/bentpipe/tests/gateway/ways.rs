//! Other ways for the carrier than a transport stream over UDP: FIFOs and programs, baseband frames with GSE.

use std::process::Command;

use super::rig::{Sky, site_of_two, udp};

#[test]
fn a_carrier_goes_through_a_fifo_and_through_programs() {
    let Some(sky) = Sky::new(2) else { return };
    let folder = sky.folder.path();
    let fifo = |name: &str| {
        let path = folder.join(name);
        assert!(Command::new("mkfifo").arg(&path).status().expect("it starts").success());
        path.display().to_string()
    };
    let (there, back) = (fifo("there"), fifo("back"));
    // Site 1 writes a FIFO that site 2 reads; site 2's modulator and site 1's demodulator are programs.
    let ends_1 = format!(
        "[[output]]\nkind = \"file\"\npath = \"{there}\"\n[[input]]\nkind = \"program\"\ncommand = [\"cat\", \"{back}\"]\n"
    );
    let ends_2 = format!(
        "[[output]]\nkind = \"program\"\ncommand = [\"sh\", \"-c\", \"cat > {back}\"]\n[[input]]\nkind = \"file\"\npath = \"{there}\"\n"
    );
    // NULL packets complete groups of six, as the modulator card of the ROHC-over-ULE testbed needed.
    let carrier = "rate = \"4 Mbit/s\"\nnulls = \"group\"\ngroup = 6\npackets = 6";
    // The FIFOs are in a folder of root's.
    let keep = ["--keep-privileges"];
    let mut one = sky.start_with(1, &site_of_two(1, carrier, &ends_1, "rohc = {}"), &keep);
    let mut two = sky.start_with(
        2,
        &site_of_two(2, "rate = \"2 Mbit/s\"\nnulls = \"fill\"", &ends_2, "rohc = {}"),
        &keep,
    );
    sky.expect_pings(1, "10.2.0.1");
    sky.expect_pings(2, "fd00:1::1");
    let figures = one.statistics();
    let of = |name: &str| figures[name].as_u64().expect("a count");
    assert_eq!((of("carrier_data") + of("carrier_nulls")) % 6, 0, "{figures:#}");
    assert!(of("carrier_nulls") > 0 && of("carrier_idle") > of("carrier_data"), "{figures:#}");
    assert_eq!((one.end(), two.end()), (Some(0), Some(0)));
}

#[test]
fn generic_streams_go_in_baseband_frames() {
    let Some(sky) = Sky::new(2) else { return };
    let carrier = "rate = \"8 Mbit/s\"\nmodcod = \"QPSK 1/4\"\nshort = true\nadaptation = true";
    let remote = "encapsulation = \"gse\"\npacking = \"2 ms\"\nrohc = { mode = \"optimistic\" }";
    let site = |n| site_of_two(n, carrier, &udp(n), remote).replace("0x10", "0x1");
    let (mut one, mut two) = (sky.start(1, &site(1)), sky.start(2, &site(2)));
    sky.expect_pings(1, "10.2.0.1");
    sky.expect_pings(2, "fd00:1::1");
    // Longer than a frame, so in fragments.
    let text = sky.run(1, &["ping", "-n", "-c", "5", "-i", "0.05", "-s", "1400", "10.2.0.1"]);
    assert_eq!(text.matches(" time=").count(), 5, "{text}");
    let figures = two.statistics();
    let received = &figures["remote"]["other"]["pid"]["0x11"];
    assert!(received["received_packets"].as_u64() >= Some(15), "{figures:#}");
    assert_eq!((&received["received_crc_errors"], &figures["stray_malformed"]), (&0.into(), &0.into()));
    assert_eq!((one.end(), two.end()), (Some(0), Some(0)));
}
