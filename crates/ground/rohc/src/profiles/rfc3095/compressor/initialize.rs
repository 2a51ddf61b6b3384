//! IR and IR-DYN packets (RFC 3095 5.7.7, RFC 3843 3, RFC 4019 5.2).

use alloc::vec::Vec;
use core::time::Duration;

use super::lists::write_plain;
use super::{Compressor, Current, Encoder, deeper};
use crate::framework::frame;
use crate::framework::octets::Writer;
use crate::framework::packet::Level;
use crate::framework::profile::{Mode, PacketType, Profile};
use crate::framework::sdvl;
use crate::profiles::rfc3095::Job;
use crate::profiles::rfc3095::header::IpChanging;
use crate::profiles::rfc3095::list;

/// Presence of the timestamp's stride in the dynamic part although the decompressor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stride {
    /// Yes: the packet sets up or refreshes a context.
    Told,
    /// No: the packet is there for what changed.
    Kept,
}

impl Compressor {
    pub(super) fn write_ir(&mut self, job: &Job<'_>, current: &Current, out: &mut Vec<u8>) -> PacketType {
        let start = out.len();
        job.cid.write(out, frame::IR | 1);
        let crc_at = out.len() + 1;
        let mut writer = Writer::new(out);
        writer.bytes(&[self.profile as u8, 0]);
        self.write_static(job, &mut writer);
        self.write_dynamic(job, current, Stride::Told, &mut writer);
        frame::seal_ir(out, start, crc_at);
        self.ir.sent(self.mode, current.sn);
        self.restart_clocks(job, true);
        self.dynamic_sent(current);
        PacketType::Ir
    }

    pub(super) fn write_ir_dyn(
        &mut self,
        job: &Job<'_>,
        current: &Current,
        stride: Stride,
        out: &mut Vec<u8>,
    ) -> PacketType {
        let start = out.len();
        job.cid.write(out, frame::IR_DYN);
        let crc_at = out.len() + 1;
        let mut writer = Writer::new(out);
        writer.bytes(&[self.profile as u8, 0]);
        self.write_dynamic(job, current, stride, &mut writer);
        frame::seal_ir(out, start, crc_at);
        if stride == Stride::Told {
            self.restart_clocks(job, false);
        }
        self.dynamic_sent(current);
        PacketType::IrDyn
    }

    fn dynamic_sent(&mut self, current: &Current) {
        // Only that of RTP has a Mode field.
        if self.profile.has_rtp() {
            self.mode_since.get_or_insert(current.sn);
        } else {
            self.mode_since = None;
        }
        self.all_dynamic_sent(current.sn);
        if self.profile.has_udp_lite() {
            let inferred = u32::from(current.coverage) == current.rest_len;
            let state = &mut self.coverage;
            state.uncertain |= self.started && state.inferred != inferred;
            (state.value, state.present, state.inferred) = (current.coverage, !inferred, inferred);
            state.change.stop();
        }
    }

    fn write_static(&self, job: &Job<'_>, writer: &mut Writer<'_>) {
        let packet = job.packet;
        let levels = packet.levels();
        for (position, level) in levels.iter().enumerate() {
            // The end of the chain is marked where the next header could count as a part of it (RFC 3843 3.1).
            let end = packet.cut && position + 1 == levels.len();
            write_ip_static(packet.bytes, level, end, writer);
        }
        let at = packet.transport_at();
        if self.profile != Profile::Ip {
            writer.bytes(&packet.bytes[at..at + 4]);
        }
        if self.profile.has_rtp() {
            writer.bytes(&packet.bytes[at + 16..at + 20]);
        }
    }

    fn write_dynamic(&self, job: &Job<'_>, current: &Current, stride: Stride, writer: &mut Writer<'_>) {
        let levels = job.packet.levels();
        for index in self.used() {
            write_ip_dynamic(self.ipv4[index], &current.ip[index], writer);
            self.write_list(self.extensions(index), writer);
        }
        write_deeper(job, deeper(levels), writer);
        if self.profile.has_udp_lite() {
            writer.u16(current.coverage);
        }
        match self.profile {
            Profile::Ip => writer.u16(current.sn as u16),
            Profile::Esp => writer.u32(current.sn),
            _ => writer.u16(current.checksum),
        }
        match self.profile {
            Profile::Udp | Profile::UdpLite => writer.u16(current.sn as u16),
            Profile::Rtp | Profile::RtpUdpLite => self.write_rtp(job, current, stride, writer),
            _ => {}
        }
    }

    fn write_list(&self, list: Option<&Encoder>, writer: &mut Writer<'_>) {
        match list {
            Some(list) => list.write_whole(writer, self.mode),
            None => list::write_empty(writer),
        }
    }

    /// The dynamic part of RTP (RFC 3095 5.7.7.6).
    fn write_rtp(&self, job: &Job<'_>, current: &Current, signal: Stride, writer: &mut Writer<'_>) {
        let stride = self.stride.value;
        let is_initial = stride == 1 && !job.config.is_for_librohc();
        let with_stride = (!is_initial && signal == Stride::Told) || self.stride.pending.is_active();
        // A timer that the decompressor may still have from the flow before must be overwritten.
        let stale_timer = self.reused && job.clock_ms.is_some() && job.config.timer_jitter > Duration::ZERO;
        let with_timer = self.timer.stride_ms() != 0 || self.timer.is_pending() || stale_timer;
        let announces_mode = self.mode != Mode::Unidirectional || self.mode_change.is_active();
        let extras = with_stride || with_timer || announces_mode || current.rtp.extension;
        let count = self.csrcs().map_or(0, Encoder::len) as u8;
        writer.u8(2 << 6 | u8::from(current.rtp.padding) << 5 | u8::from(extras) << 4 | count);
        writer.u8(u8::from(current.marker) << 7 | current.rtp.payload_type);
        writer.u16(current.sn as u16);
        writer.u32(current.ts);
        self.write_list(self.csrcs(), writer);
        if !extras {
            return;
        }
        let flags = u8::from(current.rtp.extension) << 4 | (self.mode as u8) << 2;
        writer.u8(flags | u8::from(with_timer) << 1 | u8::from(with_stride));
        if with_stride {
            sdvl::write(writer, stride);
        }
        if with_timer {
            sdvl::write(writer, self.timer.stride_ms());
        }
    }
}

fn write_ip_static(bytes: &[u8], level: &Level, end: bool, writer: &mut Writer<'_>) {
    let header = &bytes[level.at..level.extensions_at];
    let mark = u8::from(end) << 7;
    if level.version == 6 {
        writer.bytes(&[0x60 | mark | header[1] & 0x0f, header[2], header[3], level.next]);
        writer.bytes(&header[8..40]);
    } else {
        writer.bytes(&[0x40 | mark, level.next]);
        writer.bytes(&header[12..20]);
    }
}

fn write_ip_dynamic(ipv4: bool, changing: &IpChanging, writer: &mut Writer<'_>) {
    writer.bytes(&[changing.tos, changing.ttl]);
    if ipv4 {
        writer.u16(changing.id);
        let flags = [changing.df, changing.rnd, changing.nbo, changing.sid];
        writer.u8(flags.iter().fold(0, |octet, &flag| octet << 1 | u8::from(flag)) << 4);
    }
}

/// Writes the dynamic chain of IP headers beyond the second (RFC 3843 3.2).
pub(super) fn write_deeper(job: &Job<'_>, levels: &[Level], writer: &mut Writer<'_>) {
    let bytes = job.packet.bytes;
    for level in levels {
        let changing = IpChanging::of(bytes, level, &IpChanging { rnd: true, ..IpChanging::default() });
        write_ip_dynamic(level.version == 4, &changing, writer);
        if level.extensions_len == 0 {
            list::write_empty(writer);
            continue;
        }
        let mut list = job.shared.borrow_mut();
        // The parser keeps chains within what a list holds.
        let _ = list.collect(bytes, level);
        write_plain(writer, &list);
    }
}
