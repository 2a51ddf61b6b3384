//! DVB service information (ETSI EN 300 468): the service description table (SDT).
//!
//! *Not decoded*: network information, events, times, bouquets.

pub use super::text::decode as text;

use super::psi::{self, Part, descriptors};
use crate::bytes::be16;
use crate::dvb::section;
use crate::{Error, Layer};

/// Table of the services of the stream that carries it.
const SDT_ACTUAL: u8 = 0x42;
/// Table of another stream's services.
const SDT_OTHER: u8 = 0x46;
/// Tag of the service descriptor.
const SERVICE: u8 = 0x48;
/// Length in bytes of what precedes the services: network identifier and a reserved byte.
const NETWORK_LEN: usize = 3;
/// Length in bytes of a service without its descriptors.
const SERVICE_LEN: usize = 5;

/// Section of a service description table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sdt {
    /// Transport stream identifier.
    pub stream_id: u16,
    /// Original network identifier.
    pub network_id: u16,
    /// Version, 0 to 31.
    pub version: u8,
    /// Set if the services are those of the stream that carries the table.
    pub is_actual: bool,
    /// Place within the sections of the table.
    pub part: Part,
    /// Services.
    pub services: Vec<Service>,
}

/// Service with its descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Service identifier, which is the programme's number.
    pub number: u16,
    /// Set if events of the service are in a schedule (EIT_schedule_flag).
    pub has_schedule: bool,
    /// Set if its present and following events are listed (EIT_present_following_flag).
    pub has_present: bool,
    /// Running status, 3 bits: 4 is running.
    pub running: u8,
    /// Set if access to a part of it is restricted (free_CA_mode).
    pub is_restricted: bool,
    /// Descriptors.
    pub descriptors: Vec<u8>,
}

/// Name of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Service type: 1 for television, 2 for radio (table 87).
    pub kind: u8,
    /// Name of the provider.
    pub provider: String,
    /// Name of the service.
    pub name: String,
}

impl Service {
    /// Returns type and names by the first service descriptor. One that is cut short is as if it were not there.
    pub fn description(&self) -> Option<Description> {
        let (_, content) = descriptors(&self.descriptors).find(|(tag, _)| *tag == SERVICE)?;
        let (kind, rest) = content.split_first()?;
        let (provider, rest) = counted(rest)?;
        let (name, _) = counted(rest)?;
        Some(Description { kind: *kind, provider: text(provider), name: text(name) })
    }
}

/// Splits a field off that has its length in front.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*len))
}

/// Returns a service descriptor of these fields, which are text as it is sent.
///
/// # Panics
/// If the fields are longer than 252 bytes together.
pub fn service_descriptor(kind: u8, provider: &[u8], name: &[u8]) -> Vec<u8> {
    let len = 3 + provider.len() + name.len();
    assert!(len <= 255, "a descriptor of {len} bytes");
    let fields = [&[SERVICE, len as u8, kind, provider.len() as u8], provider, &[name.len() as u8], name];
    fields.concat()
}

impl Sdt {
    /// Reads a section of the table.
    ///
    /// # Errors
    /// Returns an error if it is not a whole section of an SDT with a correct CRC, or its loops do not fit it;
    /// `Unsupported` if it does not apply yet.
    pub fn parse(section: &[u8]) -> Result<Sdt, Error> {
        let is_actual = section.first() != Some(&SDT_OTHER);
        let id = if is_actual { SDT_ACTUAL } else { SDT_OTHER };
        let psi::Read { identifier, version, part, body } = psi::read(section, id)?;
        let start = section.len() - section::CRC_LEN - body.len();
        let truncated = |rest: &[u8], needed: usize| {
            let at = section.len() - section::CRC_LEN - rest.len();
            Error::truncated(Layer::Psi, at, at + needed, at + rest.len())
        };
        let network = body.get(..NETWORK_LEN).ok_or_else(|| truncated(body, NETWORK_LEN))?;
        let (mut rest, mut services) =
            (&section[start + NETWORK_LEN..section.len() - section::CRC_LEN], Vec::new());
        while !rest.is_empty() {
            let (head, behind) =
                rest.split_at_checked(SERVICE_LEN).ok_or_else(|| truncated(rest, SERVICE_LEN))?;
            let flags = be16(head, 3);
            let len = usize::from(flags & 0x0fff);
            let (descriptors, behind) = behind.split_at_checked(len).ok_or_else(|| truncated(behind, len))?;
            services.push(Service {
                number: be16(head, 0),
                has_schedule: head[2] & 2 != 0,
                has_present: head[2] & 1 != 0,
                running: (flags >> 13) as u8,
                is_restricted: flags & 0x1000 != 0,
                descriptors: descriptors.to_vec(),
            });
            rest = behind;
        }
        Ok(Sdt { stream_id: identifier, network_id: be16(network, 0), version, is_actual, part, services })
    }

    /// Returns the section.
    ///
    /// # Panics
    /// If a value does not fit its field, or the section is longer than 1024 bytes.
    pub fn to_section(&self) -> Vec<u8> {
        let mut body = self.network_id.to_be_bytes().to_vec();
        body.push(0xff);
        for service in &self.services {
            assert!(service.running < 8 && service.descriptors.len() < psi::MAX_LEN, "a service's field");
            body.extend(service.number.to_be_bytes());
            body.push(0xfc | u8::from(service.has_schedule) << 1 | u8::from(service.has_present));
            let flags = u16::from(service.running) << 13 | u16::from(service.is_restricted) << 12;
            body.extend((flags | service.descriptors.len() as u16).to_be_bytes());
            body.extend(&service.descriptors);
        }
        let id = if self.is_actual { SDT_ACTUAL } else { SDT_OTHER };
        psi::written(id, self.stream_id, self.version, self.part, &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::crc32::Crc32;
    use proptest::prelude::*;

    #[test]
    fn a_table_of_ffmpeg_is_read_and_written_the_same() {
        // ffmpeg's multiplexer: service 1, provider FFmpeg, name Service01.
        let mut section = vec![0x42, 0xf0, 0x25, 0x00, 0x01, 0xc1, 0x00, 0x00, 0xff, 0x01, 0xff];
        section.extend([0x00, 0x01, 0xfc, 0x80, 0x14, 0x48, 0x12, 0x01, 0x06]);
        section.extend(b"FFmpeg\x09Service01");
        section.extend(Crc32::new().add_bytes(&section).register().to_be_bytes());
        let sdt = Sdt::parse(&section).expect("an SDT");
        assert_eq!(
            (sdt.stream_id, sdt.network_id, sdt.is_actual, sdt.part),
            (1, 0xff01, true, Part::default())
        );
        let [service] = &sdt.services[..] else { panic!("{sdt:?}") };
        assert_eq!((service.number, service.running, service.is_restricted), (1, 4, false));
        let description = service.description().expect("a name");
        assert_eq!(
            (description.kind, &*description.provider, &*description.name),
            (1, "FFmpeg", "Service01")
        );
        assert_eq!(service.descriptors, service_descriptor(1, b"FFmpeg", b"Service01"));
        // The bit behind section_syntax_indicator is reserved_future_use: 1 for ffmpeg, and written as 0 or 1.
        assert_eq!(sdt.to_section()[3..11], section[3..11]);
        assert_eq!(Sdt::parse(&sdt.to_section()), Ok(sdt));
    }

    #[test]
    fn loops_beyond_the_section_are_refused() {
        let service = Service {
            number: 7,
            has_schedule: false,
            has_present: true,
            running: 4,
            is_restricted: true,
            descriptors: vec![SERVICE, 200, 1, 3],
        };
        assert_eq!(service.description(), None);
        let part = Part { number: 1, last: 3 };
        let sdt = Sdt {
            stream_id: 1,
            network_id: 2,
            version: 3,
            is_actual: false,
            part,
            services: vec![service.clone()],
        };
        let mut section = sdt.to_section();
        assert_eq!(Sdt::parse(&section), Ok(sdt));
        section[15] = 9;
        let end = section.len() - 4;
        let crc = Crc32::new().add_bytes(&section[..end]).register();
        section[end..].copy_from_slice(&crc.to_be_bytes());
        assert!(matches!(Sdt::parse(&section).expect_err("refused").kind, Kind::Truncated { .. }));
    }

    proptest! {
        #[test]
        fn sections_are_read_as_written(
            ids in any::<(u16, u16, bool)>(), version in 0_u8..32, part in any::<(u8, u8)>(),
            services in proptest::collection::vec(
                (any::<u16>(), any::<(bool, bool, bool)>(), 0_u8..8, proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
        ) {
            let services = services.into_iter().map(|(number, (has_schedule, has_present, is_restricted), running, descriptors)| {
                Service { number, has_schedule, has_present, running, is_restricted, descriptors }
            });
            let part = Part { number: part.0.min(part.1), last: part.0.max(part.1) };
            let (stream_id, network_id, is_actual) = ids;
            let sdt = Sdt { stream_id, network_id, version, is_actual, part, services: services.collect() };
            prop_assert_eq!(Sdt::parse(&sdt.to_section()), Ok(sdt));
        }
    }
}
