use bentpipe_dvb::{Address, Encapsulation, Pdu};
use bentpipe_units::{Bytes, Span};
use bentpipe_wire::gse::{self, Label};

use super::*;

const IP: [u8; 24] =
    [0x45, 0, 0, 24, 0, 1, 0, 0, 64, 253, 0xf9, 0xeb, 10, 0, 0, 1, 10, 0, 0, 2, b'd', b'a', b't', b'a'];

fn remote(send: u16, stream: dvb::Config) -> RemoteConfig {
    RemoteConfig {
        name: format!("site-{send}"),
        send,
        receive: Vec::new(),
        networks: Vec::new(),
        stream,
        own_addresses: Vec::new(),
        udlr: None,
        device: None,
    }
}

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn ts_carrier(nulls: Nulls) -> Config {
    let framing = Framing::Ts { packets: 7, nulls, tables: None };
    Config { rate: Some(Rate::from_bps(8_000_000)), framing, queue: Bytes::new(1_000_000) }
}

/// Ten silent seconds without NULL packets are idle. Only slots that pass while something waits are lost.
#[test]
fn idle_slots_are_not_lost() {
    let config = [remote(0x201, dvb::Config::default())];
    let mut carrier = Carrier::new(&ts_carrier(Nulls::Never), &config, Time::ZERO);
    let mut remotes = [Remote::new(&config[0], 1_000_000).expect("a site")];
    for time in [0, 1, 1000, 10_000] {
        carrier.send(at(time), &mut remotes, &mut []);
    }
    let slots = 10_000_000 / 188;
    assert_eq!((carrier.counts().idle, carrier.counts().skipped), (slots, 0));
    remotes[0].push(at(10_000), &Pdu::ip(&IP));
    carrier.send(at(10_001), &mut remotes, &mut []);
    assert_eq!((carrier.counts().data, carrier.counts().skipped), (1, 0));
    // The program is stopped while packets wait.
    (0..10_000).for_each(|_| remotes[0].push(at(10_001), &Pdu::ip(&IP)));
    carrier.send(at(10_002), &mut remotes, &mut []);
    carrier.send(at(20_000), &mut remotes, &mut []);
    let lost = carrier.counts().skipped;
    assert!((9_700_000 / 188..9_760_000 / 188).contains(&lost), "{lost}");
}

/// A rate that is filled with NULL packets is never idle.
#[test]
fn slots_of_a_constant_rate_are_lost_if_the_program_is_stopped() {
    let config = [remote(0x201, dvb::Config::default())];
    let mut carrier = Carrier::new(&ts_carrier(Nulls::Fill), &config, Time::ZERO);
    let mut remotes = [Remote::new(&config[0], 1_000_000).expect("a site")];
    carrier.send(at(1), &mut remotes, &mut []);
    carrier.send(at(1001), &mut remotes, &mut []);
    assert!(carrier.counts().skipped > 3900 && carrier.counts().idle == 0);
}

/// Packets of sites with one input stream leave in one frame, each under its label; with a stream each, in two.
#[test]
fn sites_share_frames_of_an_input_stream() {
    let modcod = "QPSK 1/4".parse().expect("a MODCOD");
    let framing = Framing::Frames { modcod, size: FrameSize::Short, has_adaptation: false };
    let config = Config { rate: None, framing, queue: Bytes::new(1_000_000) };
    let site = |send, address: &str| {
        let to: Address = address.parse().expect("an address");
        remote(
            send,
            dvb::Config { encapsulation: Encapsulation::Gse, to: Some(to), ..dvb::Config::default() },
        )
    };
    for (sends, frames) in [([1, 1], 1), ([1, 2], 2)] {
        let configs = [site(sends[0], "02:00:00:00:00:0b"), site(sends[1], "02:00:00:00:00:0c")];
        let mut remotes = configs.clone().map(|config| Remote::new(&config, 10_000).expect("a site"));
        let mut carrier = Carrier::new(&config, &configs, Time::ZERO);
        remotes.iter_mut().for_each(|remote| remote.push(at(1), &Pdu::ip(&IP)));
        let mut sent = Vec::new();
        while carrier.fill_frame(at(1), modcod, FrameSize::Short, false, &mut remotes) {
            sent.push(std::mem::take(&mut carrier.datagram));
        }
        assert_eq!(sent.len(), frames);
        let mut labels = Vec::new();
        for (frame, send) in sent.iter().zip(sends) {
            let (header, field) = bbframe::parse(frame).expect("a frame");
            assert_eq!(header.input, Some(send as u8));
            gse::Receiver::new(gse::Filter::All).push(field, |pdu| labels.push(pdu.label));
        }
        assert_eq!(labels, configs.map(|config| Label::Six(config.stream.to.expect("an address").0)));
    }
}
