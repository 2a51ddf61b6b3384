//! Element of one end of calls, whichever end and protocol it has.

use std::any::Any;
use std::fmt::Debug;
use std::net::SocketAddr;

use bentpipe_net::ledger::Accounts;
use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_units::Time;

use crate::protocol::Protocol;
use crate::station::{Station, VoiceAccounts};

/// Behaviour of an end: that of a caller or a callee.
pub trait Role<P: Protocol>: Debug + Send + 'static {
    /// User name.
    const USER: &'static str;

    /// Plans the first action.
    fn start(&mut self, _cx: &mut Cx<'_>) {}
    /// Acts on all that is due, and returns the time of the next action.
    fn act(&mut self, station: &mut Station<P>, cx: &mut Cx<'_>) -> Time;
    /// Reports counters, gauges and distributions.
    fn observe(&self, observer: &mut dyn Observer);
    /// Notes the end of the warm-up.
    fn start_window(&mut self) {}
}

/// End of a flow of calls. Port 0, in and out, carries whole IP packets.
#[derive(Debug)]
pub struct Party<P: Protocol, R> {
    pub(crate) settings: P::Settings,
    dscp: u8,
    local: SocketAddr,
    /// Absent until the start.
    pub(crate) station: Option<Station<P>>,
    pub(crate) role: R,
    accounts: VoiceAccounts,
}

impl<P: Protocol, R: Role<P>> Party<P, R> {
    pub(crate) fn with_role(settings: P::Settings, dscp: u8, local: SocketAddr, role: R) -> Party<P, R> {
        Party { settings, dscp, local, station: None, role, accounts: VoiceAccounts::default() }
    }

    /// Sets the accounts of voice.
    pub(crate) fn set_accounts(&mut self, accounts: VoiceAccounts) {
        self.accounts = accounts;
    }

    /// Acts, sends, and returns the next time.
    fn turn(&mut self, cx: &mut Cx<'_>) -> Time {
        let Some(station) = &mut self.station else { return Time::NEVER };
        let next = self.role.act(station, cx);
        station.send(cx).min(next).max(cx.now())
    }
}

impl<P: Protocol, R: Role<P>> Element for Party<P, R> {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if let Some(station) = &mut self.station {
            station.receive(packet, cx);
        }
        self.turn(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        match &mut self.station {
            Some(station) => station.protocol.handle_timeout(now),
            None => {
                let (name, accounts) = ((R::USER, self.local), self.accounts.clone());
                let mut station = Station::<P>::new(&self.settings, self.dscp, name, accounts, cx.stream());
                station.protocol.start(now);
                self.station = Some(station);
                self.role.start(cx);
            }
        }
        self.turn(cx)
    }

    fn settle(&mut self, accounts: &Accounts) {
        self.station.iter_mut().for_each(|station| station.settle_from(accounts));
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.station.iter_mut().for_each(|station| station.settle_losses(now));
        self.role.observe(observer);
        Station::observe(&self.settings, self.station.as_ref(), observer);
        if observer.starts_window() {
            self.station.iter_mut().for_each(|station| station.start_window(now));
            self.role.start_window();
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
