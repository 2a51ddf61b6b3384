//! Forward error correction between sites over a network that loses datagrams.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rig::{Sky, bind, site_of_two};

/// Brings datagrams and their parity from site 1 to site 2, apart from one in 17, 23 and 29 of them. Within a matrix of 50, losses
/// are then in different rows and columns.
fn relay(sky: &Sky, stop: &Arc<AtomicBool>) -> Vec<std::thread::JoinHandle<()>> {
    let start = |(port, one_in): (u16, u64)| {
        let (socket, stop) = (bind(&sky.sky, &format!("192.168.77.9:{port}")), Arc::clone(stop));
        std::thread::spawn(move || forward(&socket, (port, one_in), &stop))
    };
    [(5004, 17), (5006, 23), (5008, 29)].map(start).into()
}

fn forward(socket: &UdpSocket, (port, one_in): (u16, u64), stop: &AtomicBool) {
    let (mut buffer, mut count) = ([0; 2000], 0_u64);
    while !stop.load(Ordering::Relaxed) {
        let Ok(len) = socket.recv(&mut buffer) else { continue };
        count += 1;
        if !count.is_multiple_of(one_in) {
            let _ = socket.send_to(&buffer[..len], ("192.168.77.2", port));
        }
    }
}

#[test]
fn lost_datagrams_are_repaired_and_no_packet_is_missing() {
    let Some(sky) = Sky::new(2) else { return };
    let stop = Arc::new(AtomicBool::new(false));
    let relays = relay(&sky, &stop);
    let carrier = "rate = \"8 Mbit/s\"\nnulls = \"fill\"";
    let out = "[[output]]\nkind = \"udp\"\nto = [\"192.168.77.9:5004\"]\nrtp = true\nfec = { columns = 10, rows = 5, row_parity = true }\n";
    let input = "[[input]]\nkind = \"udp\"\nlisten = \"192.168.77.2:5004\"\nfrom = [\"192.168.77.9\"]\nrtp = true\nfec = true\n";
    let back = "[[output]]\nkind = \"udp\"\nto = [\"192.168.77.1:5010\"]\n";
    let here = "[[input]]\nkind = \"udp\"\nlisten = \"192.168.77.1:5010\"\n";
    let one = sky.start(1, &site_of_two(1, carrier, &[out, here].concat(), ""));
    let mut two = sky.start(2, &site_of_two(2, carrier, &[input, back].concat(), ""));
    sky.expect_pings(1, "10.2.0.1");
    let text = sky.run(1, &["ping", "-n", "-q", "-c", "400", "-i", "0.005", "10.2.0.1"]);
    assert!(text.contains("400 received"), "{text}");
    let (sent, figures) = (one.statistics(), two.statistics());
    let of = |name: &str| figures["input"]["0"][name].as_u64().expect("a count");
    assert!(sent["output"]["0"]["output_parity"].as_u64() > Some(100), "{sent:#}");
    // One in 17 was lost. Of the first matrix the receiver may have seen only the end.
    assert!(of("input_repaired") * 20 > of("input_datagrams"), "{figures:#}");
    assert!(of("input_parity_malformed") == 0 && of("input_rtp_lost") <= 3, "{figures:#}");
    assert_eq!(two.end(), Some(0));
    stop.store(true, Ordering::Relaxed);
    relays.into_iter().for_each(|relay| relay.join().expect("it ends"));
}
