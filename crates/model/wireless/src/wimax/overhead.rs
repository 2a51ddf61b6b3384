//! Symbols of a frame, and what of them is overhead.

use bentpipe_net::InvalidConfig;
use bentpipe_wire::wman::channel::{Dcd, Profile as WireProfile, Ucd};
use bentpipe_wire::wman::{DlElement, DlMap, HEADER_LEN, UlElement, UlMap};

use super::config::{Cell, Duplex};
use super::phy::{LONG_PREAMBLE, Phy, Profile, SHORT_PREAMBLE};

/// Symbol of the FCH.
const FCH: u32 = 1;

/// Structure of the frames of a cell.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Arithmetic of the channel.
    pub(super) phy: Phy,
    /// Symbols of the downlink.
    pub(super) downlink: u32,
    /// Symbols of the uplink.
    pub(super) uplink: u32,
    /// Symbols of a contention slot: a preamble, and a request.
    pub(super) slot: u32,
    map_profile: Profile,
    /// Lengths in bytes of DCD and UCD with their MAC headers.
    descriptors: usize,
    ranging: u32,
    slots: u32,
    is_tdd: bool,
}

impl Frame {
    /// Creates the structure.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value, or that leaves no room for data.
    pub(super) fn new(cell: &Cell) -> Result<Frame, InvalidConfig> {
        let phy = cell.phy()?;
        let is_tdd = cell.duplex == Duplex::Tdd;
        let gaps = if is_tdd { cell.gap * 2 } else { bentpipe_units::Span::ZERO };
        let all = phy.whole_symbols(phy.frame().saturating_sub(gaps));
        let share = libm::round(f64::from(all) * cell.downlink_share) as u32;
        let (downlink, uplink) = if is_tdd { (share, all - share.min(all)) } else { (all, all) };
        let frame = Frame {
            phy,
            downlink,
            uplink,
            slot: SHORT_PREAMBLE + Profile::Bpsk12.symbols(HEADER_LEN),
            map_profile: cell.map_profile,
            descriptors: descriptors(cell, &phy),
            ranging: cell.ranging_symbols,
            slots: cell.request_slots,
            is_tdd,
        };
        let room = frame.downlink_room(8, 8, true);
        InvalidConfig::ensure(room > 0, "frame", "symbols for data after preamble and maps of 8 bursts")?;
        let expected = "fewer symbols of contention than an uplink frame has";
        InvalidConfig::ensure(frame.uplink_room() > SHORT_PREAMBLE, "request_slots", expected)?;
        Ok(frame)
    }

    /// Returns the bytes of both maps with MAC headers, for numbers of bursts.
    pub(super) fn map_bytes(&self, bursts: usize, allocations: usize) -> usize {
        let dl = HEADER_LEN + DlMap::HEADER_LEN + DlElement::LEN * (bursts + 1);
        // Ranging, requests and the end are allocations too.
        let contention = usize::from(self.ranging > 0) + 1;
        dl + HEADER_LEN + UlMap::HEADER_LEN + UlElement::LEN * (allocations + contention + 1)
    }

    /// Returns the symbols of maps, with descriptors where they are due.
    pub(super) fn map_symbols(&self, bursts: usize, allocations: usize, has_descriptors: bool) -> u32 {
        let descriptors = if has_descriptors { self.descriptors } else { 0 };
        self.map_profile.symbols(self.map_bytes(bursts, allocations) + descriptors)
    }

    /// Returns the symbols for data of the downlink.
    pub(super) fn downlink_room(&self, bursts: usize, allocations: usize, has_descriptors: bool) -> u32 {
        let overhead = LONG_PREAMBLE + FCH + self.map_symbols(bursts, allocations, has_descriptors);
        self.downlink.saturating_sub(overhead)
    }

    /// Returns the symbols for bursts of the uplink, their preambles included.
    pub(super) fn uplink_room(&self) -> u32 {
        self.uplink.saturating_sub(self.contention_end())
    }

    /// Returns the symbols of ranging and request slots at the start of the uplink.
    pub(super) fn contention_end(&self) -> u32 {
        self.ranging + self.slots * self.slot
    }

    /// Returns the overhead in words, for numbers of bursts of each direction.
    pub(super) fn describe(&self, is_downlink: bool, bursts: usize, allocations: usize) -> String {
        if is_downlink {
            let maps = self.map_symbols(bursts, allocations, false);
            let room = self.downlink_room(bursts, allocations, false);
            format!(
                "{} symbols of {} per frame of {}: preamble {LONG_PREAMBLE}, FCH {FCH}, maps {maps} ({} B at {}), data {room}",
                self.downlink,
                self.phy.symbols(1),
                self.phy.frame(),
                self.map_bytes(bursts, allocations),
                self.map_profile.name(),
            )
        } else {
            format!(
                "{} symbols of {} per frame of {}: ranging {}, {} request slots {}, bursts {} of which {SHORT_PREAMBLE} each is a preamble",
                self.uplink,
                self.phy.symbols(1),
                self.phy.frame(),
                self.ranging,
                self.slots,
                self.slots * self.slot,
                self.uplink_room(),
            )
        }
    }

    /// Returns `true` if downlink and uplink alternate.
    pub(super) fn is_tdd(&self) -> bool {
        self.is_tdd
    }

    /// Returns the start of the uplink from that of the frame.
    pub(super) fn uplink_start(&self, cell: &Cell) -> bentpipe_units::Span {
        if self.is_tdd { self.phy.symbols(self.downlink) + cell.gap } else { bentpipe_units::Span::ZERO }
    }
}

/// Returns the bytes of DCD and UCD with all burst profiles and MAC headers.
fn descriptors(cell: &Cell, phy: &Phy) -> usize {
    let quarter_db = |db: f64| libm::round(db * 4.0).clamp(0.0, 255.0) as u8;
    let down = |(n, profile): (usize, &Profile)| WireProfile {
        code: n as u8 + 1,
        fec: profile.number() as u8,
        exit: Some(quarter_db(profile.threshold() + cell.margins[1])),
        entry: Some(quarter_db(profile.threshold() + cell.margins[0])),
    };
    let up = |(n, profile): (usize, &Profile)| WireProfile {
        code: n as u8 + 5,
        fec: profile.number() as u8,
        ..WireProfile::default()
    };
    let dcd = Dcd {
        frame_code: phy.frame_code(),
        profiles: Profile::ALL.iter().enumerate().map(down).collect(),
        ..Dcd::default()
    };
    let backoff = cell.request_backoff;
    let profiles = Profile::ALL.iter().enumerate().map(up).collect();
    let ucd = Ucd { count: 0, ranging_backoff: backoff, request_backoff: backoff, profiles };
    let mut bytes = Vec::new();
    dcd.emit(&mut bytes);
    ucd.emit(&mut bytes);
    bytes.len() + 2 * HEADER_LEN
}
