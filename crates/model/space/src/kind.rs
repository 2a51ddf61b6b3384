//! Kind of medium `space`: packets in transfer frames.

use bentpipe_net::Port;
use bentpipe_site::{
    Assembly, Changes, Changing, Cost, Facts, MediumKind, Member, Order, Problem, Review, Site, Slot, Wired,
    line,
};
use bentpipe_units::{Bytes, Rate, Span};
use bentpipe_wire::space::encapsulation::{Protocol, Repr};
use bentpipe_wire::space::{PROXIMITY_MARKER, crc, proximity};

use crate::config::Frame;
use crate::theory::{decoded_ber, frame_loss, symbol_error};
use crate::{Coding, Config, Receiver, Sender};

impl MediumKind for Config {
    type Shared = ();

    fn check(all: &[Member<'_, Self>], (): &(), review: &mut Review<'_>) {
        for member in all {
            let (place, key) = (member.place, member.place.key("medium"));
            if let Err(error) = member.medium.layout() {
                review.refuse(&format!("{key}.{}", error.path()), format!("expected {}", error.expected));
            }
            let problem = "conflicts with the medium: it has its own rate";
            review.ensure(!place.is_with_medium("rate"), &key, problem);
            line::refuse_framing(member, "conflicts with the medium: it has its own frames", review);
        }
    }

    fn facts(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Facts>, Problem> {
        let facts =
            |member: &Member<'_, Self>| Facts { rate: member.medium.usable(), delay: member.common.delay };
        Ok(all.iter().map(facts).collect())
    }

    fn costs(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Box<dyn Cost>>, Problem> {
        Ok(all.iter().map(|member| Box::new(FrameCost(*member.medium)) as Box<dyn Cost>).collect())
    }

    fn assembly<'s>(_: usize, all: Vec<Member<'s, Self>>, (): &'s ()) -> Box<dyn Assembly + 's> {
        Box::new(Links(all))
    }

    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem> {
        let (config, delay) = (*at.after.medium, at.after.common.delay);
        let before = (*at.before.medium, at.before.common.delay);
        let line = at.handle.line;
        if (config, delay) != before {
            let key = if config == before.0 { at.key("delay") } else { at.key("medium") };
            to.set(line, key, (config, delay), |sender: &mut Sender, now, (config, delay)| {
                sender.set(now, &config, delay)
            });
        }
        if let Some(queue) = at.queue()? {
            to.set(line, at.key("queue"), queue, |sender: &mut Sender, now, queue| {
                sender.set_queue(now, &queue)
            });
        }
        at.faults(to)
    }
}

impl Config {
    /// Returns the rate of bytes in data fields. Of Proximity-1: of frames and their markers, before coding.
    fn usable(&self) -> Rate {
        let Ok(layout) = self.layout() else { return Rate::default() };
        match (self.frame, self.coding) {
            (Frame::Proximity1, Coding::Convolutional) => self.rate.mul_f64(0.5),
            (Frame::Proximity1, _) => self.rate,
            _ => self.rate.mul_f64(8.0 * layout.field as f64 / layout.symbols as f64),
        }
    }
}

struct FrameCost(Config);

/// Returns the length of an IP packet in an encapsulation packet.
fn encapsulated(len: usize) -> usize {
    Repr::new(Protocol::Ip, len + 1).len()
}

impl FrameCost {
    /// Returns the least number of frames with fields of `field` bytes for a packet.
    fn frames(&self, len: usize, field: usize) -> usize {
        encapsulated(len).div_ceil(field.max(1))
    }
}

impl Cost for FrameCost {
    fn rate(&self) -> Rate {
        self.0.rate
    }

    fn usable(&self) -> Rate {
        self.0.usable()
    }

    fn wire_len(&self, len: usize) -> Bytes {
        let packet = encapsulated(len);
        let Ok(layout) = self.0.layout() else { return Bytes::new(len as u64) };
        if self.0.frame != Frame::Proximity1 {
            return Bytes::new(packet as u64);
        }
        let frame = PROXIMITY_MARKER.len() + proximity::HEADER_LEN + crc::PROXIMITY_LEN;
        let segments = packet.div_ceil(layout.field - proximity::SEGMENT_HEADER_LEN);
        let all =
            if packet <= layout.field { frame } else { segments * (frame + proximity::SEGMENT_HEADER_LEN) };
        Bytes::new((packet + all) as u64)
    }

    fn notes(&self, len: usize) -> Vec<String> {
        let Ok(layout) = self.0.layout() else { return Vec::new() };
        let time = layout.symbols as f64 / self.0.rate.as_bps() as f64;
        let mut notes = vec![
            format!(
                "frame of {} B with {} B of packets: {} symbols, {:.6} s",
                layout.frame, layout.field, layout.symbols, time
            ),
            format!(
                "rate left of {}: {} for packets of {len} B ({:.1} %)",
                self.0.rate,
                self.capacity(len),
                100.0 * self.capacity(len).as_bps() as f64 / self.0.rate.as_bps() as f64
            ),
        ];
        let p = symbol_error(&self.0);
        if p > 0.0 {
            notes.push(format!("{p:.2e} of the channel's symbols are wrong"));
        }
        if p > 0.0 && self.0.coding.is_convolutional() {
            notes.push(format!(
                "{:.2e} of the bits are wrong behind the Viterbi decoder (union bound)",
                decoded_ber(&self.0)
            ));
        }
        match frame_loss(&self.0) {
            Some(loss) if p > 0.0 => {
                let source = if self.0.coding.is_by_table() { "table, from memory" } else { "calculated" };
                notes.push(format!("{loss:.2e} of the frames are lost ({source})"));
                if loss > 0.99 {
                    notes.push("this delivers nothing: a code or another one would help".to_owned());
                }
            }
            None if p > 0.0 && self.0.coding.is_by_table() => {
                notes.push("the loss of frames is in no table for this length".to_owned());
            }
            None if p > 0.0 => notes.push(
                "the loss of frames is found by a run: errors come in bursts behind the Viterbi decoder"
                    .to_owned(),
            ),
            _ => {}
        }
        notes
    }

    /// Returns the time of whole frames, which in Proximity-1 have the packet's length.
    fn time(&self, len: usize) -> Span {
        match self.0.layout() {
            Ok(layout) if self.0.frame != Frame::Proximity1 => {
                let symbols = (self.frames(len, layout.field) as u64 * layout.symbols) as f64;
                Span::from_secs_f64(symbols / self.0.rate.as_bps().max(1) as f64)
            }
            _ => self.usable().span_of(self.wire_len(len)),
        }
    }

    /// Returns the rate of packets back to back, several in a frame of Proximity-1.
    fn capacity(&self, len: usize) -> Rate {
        let wire = self.wire_len(len).get() as f64;
        let several = match self.0.layout() {
            Ok(layout) if self.0.frame == Frame::Proximity1 => {
                let packet = encapsulated(len) as f64;
                let count = (layout.field as f64 / packet).floor().max(1.0);
                packet + (wire - packet) / count
            }
            _ => wire,
        };
        self.usable().mul_f64(len as f64 / several)
    }

    /// Returns the loss of packets with each of their frames, which they have in common.
    fn mean_loss(&self, len: usize, count: u64) -> f64 {
        let Ok(layout) = self.0.layout() else { return 0.0 };
        let all = len.saturating_mul(usize::try_from(count).unwrap_or(usize::MAX));
        let frames = i32::try_from(self.frames(all, layout.field)).unwrap_or(i32::MAX);
        frame_loss(&self.0).map_or(0.0, |loss| 1.0 - (1.0 - loss).powi(frames))
    }
}

struct Links<'s>(Vec<Member<'s, Config>>);

impl Assembly for Links<'_> {
    fn wire(&mut self, number: usize, site: &mut Site<'_>) -> Result<Wired, Problem> {
        let member = self.0[number];
        let (common, path) = (member.common, member.path());
        let queue = common.queue.clone().unwrap_or_default();
        let sender = Sender::new(member.medium, &queue, common.delay, common.mtu)
            .map_err(|error| Problem::impossible(&member.place.key("medium"), &error))?;
        let order = |slot| Order::Link(member.link, member.way, slot);
        let line = (site.add(order(Slot::Line), &path, sender), Port(0));
        let channels = site.faults((member.link, member.way, &path), common, member.place, line)?;
        let last = channels.last().map_or(line, |last| (*last, Port(0)));
        let receiver = site.add(order(Slot::Receiver), format!("{path}/receiver"), Receiver::default());
        site.connect(last, (receiver, Port(0)));
        let wired = Wired::new(line, member.medium.usable());
        Ok(Wired { output: (receiver, Port(0)), channels, receiver: Some(receiver), ..wired })
    }
}
