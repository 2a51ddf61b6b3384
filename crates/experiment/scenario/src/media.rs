//! Table of media: one row a kind.
//!
//! Rows are appended, never sorted: the place of a row is a part of results.

use bentpipe_atm as atm;
use bentpipe_dvb::{self as dvb, dama};
use bentpipe_site::{Named, line};
use bentpipe_space as space;
use bentpipe_wireless::{wifi, wimax};

bentpipe_site::media! {
    /// Separate line: a queue, a serialiser at a rate, and a delay. The medium of a link with only a `rate`.
    Line "line" line::Kind;

    /// Terminal of carriers shared by demand assignment, in place of a line and its rate.
    Dama "dama" dama::kind::Kind, shares
        /// Carriers shared by terminals through demand assignment. The medium `dama` makes a direction of a
        /// link a terminal.
        carrier: Named<dama::Config>;

    /// A medium that both directions share, instead of a line in each. Its channel acts on frames, which are sent again; it
    /// has no rate and no framing of a line.
    Wifi "wifi" wifi::Config;

    /// Transport stream, or DVB-S2 frames, that carry packets. Each node that sends has a separate carrier,
    /// which has the rate. Its channel acts on TS packets or frames.
    Dvb "dvb" dvb::kind::Kind, shares
        /// DVB carriers. The medium `dvb` makes a direction of a link a stream on one. Each node that sends
        /// on a carrier has a separate one of that kind, with a multiplex of the streams that it sends there.
        dvb: Named<dvb::Line>;

    /// A virtual channel of the ATM network: `atm` says what its cells pass. Rate, delay and framing come from there.
    Vc "vc" atm::kind::Kind, shares
        /// A network of ATM switches under the links that are virtual channels.
        atm: atm::kind::Atm;

    /// Link between base station and subscriber station of an 802.16 cell. Both directions are in
    /// the cell's frames. It has no rate and no framing of a line, and no channel: `snr` loses blocks.
    Wimax "wimax" wimax::Kind, shares
        /// Cells of 802.16-2004. The medium `wimax` makes a link one of a cell: all of them have the base station in common.
        cell: Named<wimax::Cell>;

    /// Absence of a carrier: no packets pass in this direction of a one-way link.
    None "none" dvb::udlr::none::Kind;

    /// Return of a one-way link in a tunnel over other links (RFC 3077).
    Udlr "udlr" dvb::udlr::kind::Kind;

    /// Space data link: packets in transfer frames of CCSDS, with their coding. Its rate is that of channel symbols, and it has
    /// no framing of a line.
    Space "space" space::Config;
}
