//! Residual errors: packets that are delivered with other octets than were sent, by mode, channel, setting and headers.
//!
//! `cargo test -p bentpipe-rohc --test integration residual::tables -- --ignored --nocapture` prints the tables of `docs/models/rohc.md`:
//! 1.2 million packets for each cell, the same in every run. The settings that the page calls safe are tested with a tenth
//! of them, and with `--ignored` with ten times as many.

#![allow(clippy::print_stdout, reason = "prints tables")]

use std::thread;
use std::time::Duration;

use crate::support::{Dice, Ends, Outcome};
use bentpipe_rohc::{CompressorConfig, DecompressorConfig, Mode};

/// Mean time between two packets.
const GAP: Duration = Duration::from_millis(20);
/// Packets of each mode, channel, setting and group of headers in the tables.
const PACKETS: u64 = 100_000;
/// Packets after which a flow starts anew, with new contexts.
const FLOW_PACKETS: u64 = 5_000;

const MODES: [(&str, Mode); 3] =
    [("U", Mode::Unidirectional), ("O", Mode::Optimistic), ("R", Mode::Reliable)];

/// Headers of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Headers {
    Rtp,
    /// RTP with CSRCs that come and go, and a header extension.
    RtpLists,
    Udp,
    /// UDP behind destination options of IPv6 or a second IPv4 header.
    UdpLists,
    UdpLite,
    RtpUdpLite,
    Esp,
    Tcp,
    Ip,
}

/// Groups of the tables: name, headers, and whether a transport checksum covers them.
const GROUPS: [(&str, Headers, bool); 12] = [
    ("RTP", Headers::Rtp, true),
    ("RTP, no checksum", Headers::Rtp, false),
    ("RTP, CSRCs, X", Headers::RtpLists, true),
    ("RTP, CSRCs, X, no checksum", Headers::RtpLists, false),
    ("UDP", Headers::Udp, true),
    ("UDP, no checksum", Headers::Udp, false),
    ("UDP, extension headers", Headers::UdpLists, true),
    ("UDP-Lite", Headers::UdpLite, true),
    ("RTP over UDP-Lite", Headers::RtpUdpLite, true),
    ("ESP", Headers::Esp, false),
    ("TCP", Headers::Tcp, true),
    ("IP", Headers::Ip, false),
];

/// Losses and feedback of a channel.
#[derive(Clone, Copy, Debug)]
struct Channel {
    name: &'static str,
    /// Probability in percent that a loss starts at a packet, times 100.
    losses: u64,
    /// Mean length of a loss, in packets.
    burst: u64,
    /// Packets sent between one and the arrival of its feedback.
    feedback_delay: usize,
}

const CHANNELS: [Channel; 3] = [
    Channel { name: "10 % at random", losses: 1000, burst: 1, feedback_delay: 0 },
    Channel { name: "bursts of 8", losses: 25, burst: 8, feedback_delay: 0 },
    Channel { name: "bursts of 8, feedback 30 late", losses: 25, burst: 8, feedback_delay: 30 },
];

/// Setting of both ends.
#[derive(Clone, Copy, Debug)]
struct Setting {
    name: &'static str,
    /// The compressor confirms.
    confirm: bool,
    /// The decompressor counts on it.
    peer_confirms: bool,
    caution: u8,
    gaps_are_losses: bool,
    verify: bool,
}

/// What RFC 3095 asks for, and no more.
const PLAIN: Setting = Setting {
    name: "as RFC 3095 (`confirm` 0, `caution` 0)",
    confirm: false,
    peer_confirms: false,
    caution: 0,
    gaps_are_losses: false,
    verify: false,
};
const DEFAULT: Setting = Setting { name: "default", confirm: true, caution: 2, ..PLAIN };
const VERIFY: Setting = Setting { name: "`verify`", verify: true, ..DEFAULT };
const CONFIRMED: Setting = Setting { name: "`peer_confirms`", peer_confirms: true, ..DEFAULT };
const CONFIRMED_VERIFY: Setting = Setting { name: "`peer_confirms`, `verify`", verify: true, ..CONFIRMED };

const SETTINGS: [Setting; 7] = [
    PLAIN,
    Setting { name: "`confirm` 0", confirm: false, ..DEFAULT },
    DEFAULT,
    Setting { name: "`gaps_are_losses`, `caution` 255", gaps_are_losses: true, caution: 255, ..DEFAULT },
    VERIFY,
    CONFIRMED,
    CONFIRMED_VERIFY,
];

/// Cells of the tables that `docs/models/rohc.md` calls safe.
fn safe() -> Vec<(Mode, Channel, Setting)> {
    let all = CHANNELS.map(|channel| (Mode::Reliable, channel, CONFIRMED_VERIFY));
    [(Mode::Reliable, CHANNELS[0], CONFIRMED)].into_iter().chain(all).collect()
}

/// Source of the packets of one flow.
struct Flow {
    headers: Headers,
    ipv6: bool,
    has_checksum: bool,
    sn: u16,
    ts: u32,
    id: u16,
    tos: u8,
    hops: u8,
    csrcs: u8,
    option: u8,
    ack: u32,
    payload: u8,
}

impl Flow {
    fn new(headers: Headers, has_checksum: bool, dice: &mut Dice) -> Self {
        Self {
            headers,
            ipv6: dice.one_in(2),
            has_checksum,
            sn: dice.roll() as u16,
            ts: dice.roll() as u32,
            id: dice.roll() as u16,
            tos: 0,
            hops: 64,
            csrcs: 2,
            option: 1,
            ack: dice.roll() as u32,
            payload: 0,
        }
    }

    fn rtp(&self) -> Vec<u8> {
        let has_lists = self.headers == Headers::RtpLists;
        let csrcs = if has_lists { self.csrcs % 4 } else { 0 };
        let mut octets = vec![0x80 | u8::from(has_lists) << 4 | csrcs, 96];
        octets.extend_from_slice(&self.sn.to_be_bytes());
        octets.extend_from_slice(&self.ts.to_be_bytes());
        octets.extend_from_slice(&[1, 2, 3, 4]);
        (0..csrcs).for_each(|index| octets.extend_from_slice(&[9, 9, self.csrcs / 4, index]));
        if has_lists {
            octets.extend_from_slice(&[0xbe, 0xde, 0, 1, 0x10, self.payload, 0, 0]);
        }
        octets
    }

    fn transport(&self) -> (u8, Vec<u8>) {
        let data = [self.payload; 8];
        match self.headers {
            Headers::Rtp | Headers::RtpLists => (17, self.udp(&[&self.rtp(), &data[..]].concat())),
            Headers::Udp | Headers::UdpLists => (17, self.udp(&data)),
            Headers::UdpLite => (136, self.udp(&data)),
            Headers::RtpUdpLite => (136, self.udp(&[&self.rtp(), &data[..]].concat())),
            Headers::Esp => (50, [&[0, 0, 1, 1, 0, 0][..], &self.sn.to_be_bytes(), &data].concat()),
            Headers::Ip => (253, data.to_vec()),
            Headers::Tcp => {
                let mut octets = vec![0x20, 0, 0x20, 1];
                octets.extend_from_slice(&self.ts.to_be_bytes());
                octets.extend_from_slice(&self.ack.to_be_bytes());
                octets.extend_from_slice(&[0x80, 0x10 | self.payload & 8, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10]);
                octets.extend_from_slice(&(self.ts / 3000).to_be_bytes());
                octets.extend_from_slice(&(self.ts / 4000).to_be_bytes());
                octets.extend_from_slice(&data);
                (6, octets)
            }
        }
    }

    fn udp(&self, data: &[u8]) -> Vec<u8> {
        let len = data.len() as u16 + 8;
        let is_lite = matches!(self.headers, Headers::UdpLite | Headers::RtpUdpLite);
        let [high, low] = if is_lite { 20_u16.min(len) } else { len }.to_be_bytes();
        [&[0x20, 0, 0x20, 2, high, low, 0, 0][..], data].concat()
    }

    fn addresses(&self) -> &'static [u8] {
        const IPV6: [u8; 32] = [0xfd; 32];
        if self.ipv6 { &IPV6 } else { &[10, 0, 0, 1, 10, 0, 0, 2] }
    }

    /// Fills in the transport checksum.
    fn seal(&self, protocol: u8, octets: &mut [u8]) {
        let at = if protocol == 6 { 16 } else { 6 };
        let covered = if protocol == 136 { 20.min(octets.len()) } else { octets.len() };
        let mut sum = u32::from(protocol) + octets.len() as u32;
        for words in [self.addresses(), &octets[..covered]] {
            sum += words
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
                .sum::<u32>();
        }
        let sum = match !fold(sum) {
            0 => u16::MAX,
            sum => sum,
        };
        octets[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    fn packet(&self) -> Vec<u8> {
        let (mut next, mut inner) = self.transport();
        if self.has_checksum && matches!(next, 6 | 17 | 136) {
            self.seal(next, &mut inner);
        }
        if self.headers == Headers::UdpLists && self.ipv6 {
            inner = [&[next, 0, 1, 4, 0, 0, 0, self.option][..], &inner].concat();
            next = 60;
        } else if self.headers == Headers::UdpLists {
            inner = [&ipv4(next, self.option, 5, 0, inner.len(), self.addresses())[..], &inner].concat();
            next = 4;
        }
        if self.ipv6 {
            let [high, low] = (inner.len() as u16).to_be_bytes();
            let fixed = [0x60 | self.tos >> 4, self.tos << 4, 0, 0, high, low, next, self.hops];
            return [&fixed[..], self.addresses(), &inner].concat();
        }
        [&ipv4(next, self.hops, self.id, self.tos, inner.len(), self.addresses())[..], &inner].concat()
    }

    /// Goes on to the next packet; one in 33 brings a change that a lost packet can hide.
    fn advance(&mut self, dice: &mut Dice) {
        self.payload = dice.roll() as u8;
        self.sn = self.sn.wrapping_add(1);
        self.id = self.id.wrapping_add(1);
        self.ts = self.ts.wrapping_add(if self.headers == Headers::Tcp { 8 } else { 160 });
        match dice.below(264) {
            0 => self.hops = [64, 63, 57, 128][dice.below(4) as usize],
            1 => self.tos = dice.below(64) as u8 * 4,
            2 => self.id = self.id.wrapping_add(dice.below(40) as u16),
            3 => self.ts = self.ts.wrapping_add(160 * dice.below(50) as u32),
            4 => self.ts = self.ts.wrapping_add(dice.below(100) as u32),
            5 => self.sn = self.sn.wrapping_add(dice.below(12) as u16),
            6 => (self.csrcs, self.option) = (dice.below(16) as u8, 1 + dice.below(200) as u8),
            7 => self.ack = self.ack.wrapping_add(dice.below(5000) as u32),
            _ => {}
        }
    }
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn ipv4(next: u8, hops: u8, id: u16, tos: u8, len: usize, addresses: &[u8]) -> [u8; 20] {
    let [id_high, id_low] = id.to_be_bytes();
    let [high, low] = (len as u16 + 20).to_be_bytes();
    let mut header = [0; 20];
    header[..12].copy_from_slice(&[0x45, tos, high, low, id_high, id_low, 0, 0, hops, next, 0, 0]);
    header[12..].copy_from_slice(&addresses[..8]);
    let sum = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    header[10..12].copy_from_slice(&(!fold(sum)).to_be_bytes());
    header
}

/// Sends `packets` packets of a group through a channel.
fn run(mode: Mode, channel: Channel, setting: Setting, group: usize, packets: u64) -> Outcome {
    let (_, headers, has_checksum) = GROUPS[group];
    let mut total = Outcome::default();
    for number in 0..packets / FLOW_PACKETS {
        let mut dice = Dice(number * 1_000_003 + group as u64 * 7919 + channel.burst * 31);
        for _ in 0..4 {
            dice.roll();
        }
        let compressor = CompressorConfig {
            confirm: if setting.confirm { CompressorConfig::default().confirm } else { 0 },
            ..CompressorConfig::default()
        };
        let decompressor = DecompressorConfig {
            mode,
            peer_confirms: setting.peer_confirms,
            caution: setting.caution,
            gaps_are_losses: setting.gaps_are_losses,
            verify: setting.verify,
            ..DecompressorConfig::default()
        };
        let mut ends = Ends::new(compressor, decompressor).with_feedback_delay(channel.feedback_delay);
        let mut flow = Flow::new(headers, has_checksum, &mut dice);
        let (mut now, mut is_bad) = (Duration::ZERO, false);
        for _ in 0..FLOW_PACKETS {
            flow.advance(&mut dice);
            now += GAP + Duration::from_micros(dice.below(3000));
            is_bad = if is_bad && channel.burst > 1 {
                !dice.one_in(channel.burst)
            } else {
                dice.below(10_000) < channel.losses
            };
            let packet = flow.packet();
            ends.compress(now, &packet).expect("compresses");
            // The draws are the same whatever the decompressor does.
            let is_feedback_lost = dice.percent(10);
            if is_bad {
                ends.outcome.lost += 1;
                continue;
            }
            let arrived = ends.arrive(now, &packet);
            ends.outcome.refused += usize::from(!matches!(arrived, Ok(Some(_))));
            ends.answer(|| is_feedback_lost);
        }
        total.add(ends.outcome);
    }
    total
}

/// Outcomes of all groups of one cell.
fn cell(mode: Mode, channel: Channel, setting: Setting, packets: u64) -> Vec<Outcome> {
    (0..GROUPS.len()).map(|group| run(mode, channel, setting, group, packets)).collect()
}

fn sum(outcomes: &[Outcome]) -> Outcome {
    outcomes.iter().fold(Outcome::default(), |mut sum, outcome| {
        sum.add(*outcome);
        sum
    })
}

/// Runs `job` for every input on threads of its own, two at a time.
fn map<I: Copy + Send + Sync, O: Send>(inputs: &[I], job: impl Fn(I) -> O + Sync) -> Vec<O> {
    let job = &job;
    let pairs = inputs.chunks(2).flat_map(|pair| {
        thread::scope(|scope| {
            let running: Vec<_> = pair.iter().map(|&input| scope.spawn(move || job(input))).collect();
            running.into_iter().map(|one| one.join().expect("ends")).collect::<Vec<_>>()
        })
    });
    pairs.collect()
}

fn safe_settings_deliver_nothing_wrong_in(packets: u64) {
    let cells = safe();
    let outcomes = map(&cells, |(mode, channel, setting)| cell(mode, channel, setting, packets));
    let mut wrong = 0;
    for ((mode, channel, setting), outcomes) in cells.iter().zip(outcomes) {
        let total = sum(&outcomes);
        println!("{mode:?}, {}, {}: {total:?}", channel.name, setting.name);
        for ((name, ..), outcome) in GROUPS.iter().zip(&outcomes).filter(|(_, outcome)| outcome.wrong > 0) {
            println!("  {name}: {outcome:?}");
        }
        wrong += total.wrong;
    }
    assert_eq!(wrong, 0);
}

#[test]
fn safe_settings_deliver_nothing_wrong() {
    safe_settings_deliver_nothing_wrong_in(PACKETS / 10);
}

#[test]
#[ignore = "minutes"]
fn safe_settings_deliver_nothing_wrong_in_twelve_million_packets() {
    safe_settings_deliver_nothing_wrong_in(PACKETS * 10);
}

/// Columns of the tables: U-mode has no feedback that could be late.
fn columns() -> Vec<(&'static str, Mode, Channel)> {
    let all = MODES.into_iter().flat_map(|(name, mode)| CHANNELS.map(|channel| (name, mode, channel)));
    all.filter(|(_, mode, channel)| *mode != Mode::Unidirectional || channel.feedback_delay == 0).collect()
}

#[test]
#[ignore = "prints tables; minutes"]
fn tables_of_residual_errors() {
    let columns = columns();
    let inputs: Vec<_> =
        SETTINGS.iter().flat_map(|&setting| columns.iter().map(move |&column| (setting, column))).collect();
    let cells = map(&inputs, |(setting, (_, mode, channel))| cell(mode, channel, setting, PACKETS));
    let rows: Vec<_> = SETTINGS.iter().zip(cells.chunks(columns.len())).collect();
    let table = |title: &str, show: &dyn Fn(Outcome) -> String| {
        let heads: Vec<_> =
            columns.iter().map(|(name, _, channel)| format!("{name}, {}", channel.name)).collect();
        println!("\n{title}\n| | {} |\n|---{}|", heads.join(" | "), "|---".repeat(columns.len()));
        for (setting, cells) in &rows {
            let cells: Vec<_> = cells.iter().map(|outcomes| show(sum(outcomes))).collect();
            println!("| {} | {} |", setting.name, cells.join(" | "));
        }
    };
    let per_cent = |part: usize, all: usize| format!("{:.2}", 100.0 * part as f64 / all as f64);
    table("wrong, of 1 200 000 packets sent", &|total| total.wrong.to_string());
    table("refused, in % of those that arrived", &|total| {
        per_cent(total.refused, total.packets - total.lost)
    });
    table("octets a packet", &|total| format!("{:.2}", total.octets as f64 / total.packets as f64));
    println!("\nwrong by headers, of 100 000 packets sent, bursts of 8");
    for (setting, cells) in &rows {
        for ((name, _, channel), outcomes) in columns.iter().zip(*cells).filter(|cell| cell.0.2.burst > 1) {
            let groups: Vec<_> = outcomes.iter().map(|outcome| outcome.wrong.to_string()).collect();
            println!("| {name}, {}: {} | {} |", channel.name, setting.name, groups.join(" | "));
        }
    }
    println!("{}", GROUPS.map(|group| group.0).join(" | "));
}
