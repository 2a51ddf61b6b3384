//! Two sites that are one Ethernet.

use super::rig::{Sky, udp};

fn site(n: usize) -> String {
    let other = 3 - n;
    format!(
        r#"
title = "site {n}"
[lan]
kind = "bridge"
device = "bent0"
addresses = ["10.50.0.{n}/24", "fd00:50::{n}/64"]
{}
[remote.other]
send = "0x10{n}"
receive = ["0x10{other}"]
packing = "1 ms"
rohc = {{}}
"#,
        udp(n)
    )
}

#[test]
fn bridged_sites_find_each_other_learn_and_do_not_flood() {
    let Some(sky) = Sky::new(2) else { return };
    let (mut one, mut two) = (sky.start(1, &site(1)), sky.start(2, &site(2)));
    sky.expect_pings(1, "10.50.0.2");
    sky.expect_pings(2, "fd00:50::1");
    let before = one.statistics();
    assert_eq!(before["bridge_stations"], 2, "{before:#}");
    sky.expect_every_ping(1, "10.50.0.2");
    let after = one.statistics();
    let flooded = |figures: &serde_json::Value| figures["bridge_flooded"].as_u64().expect("a count");
    // Neighbours may be asked for once more meanwhile; pings go only where their station is.
    assert!(flooded(&after) - flooded(&before) <= 2, "{after:#}");
    let remote = &after["remote"]["other"];
    assert!(remote["sent_compressed"].as_u64() >= Some(10), "{remote:#}");
    assert_eq!(remote["pid"]["0x102"]["received_crc_errors"], 0);
    assert_eq!((one.end(), two.end()), (Some(0), Some(0)));
}
