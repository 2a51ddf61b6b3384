//! End of calls behind a port of a node.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::ledger::{AccountNumber, Accounts, SubAccount, Tallies};
use bentpipe_net::{Cx, Observer, Packet, Port};
use bentpipe_units::{RandomStream, Time};
use bentpipe_voice::call::Mouths;

use crate::datagram::{self, Refusal};
use crate::metrics;
use crate::protocol::{Happening, Protocol, RTP_DSCP, Repeats};

/// The only port: packets from and to the node.
const NODE: Port = Port(0);

/// Accounts of the voice of a flow's calls.
///
/// They are that of all that an end sends, and those of mouths by the address that they speak to.
#[derive(Clone, Debug, Default)]
pub(crate) struct VoiceAccounts {
    all: AccountNumber,
    spoken: Arc<Mutex<HashMap<SocketAddr, SubAccount>>>,
    /// Mouths of this end and of the other, if exchanges are between them.
    mouths: Option<[Mouths; 2]>,
}

impl VoiceAccounts {
    /// Returns those of both ends.
    pub(crate) fn of_ends(ends: [AccountNumber; 2], are_relayed: bool) -> [VoiceAccounts; 2] {
        let spoken = Arc::default();
        let [a, b] = [Mouths::default(), Mouths::default()];
        let mut mouths = [[a.clone(), b.clone()], [b, a]].into_iter();
        ends.map(|all| {
            let mouths = mouths.next().filter(|_| are_relayed);
            VoiceAccounts { all, spoken: Arc::clone(&spoken), mouths }
        })
    }

    /// Notes the account of a mouth that begins to speak to an address.
    fn note(&self, to: SocketAddr, account: &SubAccount) {
        let mut spoken = self.spoken.lock().unwrap_or_else(PoisonError::into_inner);
        spoken.insert(to, account.clone());
    }

    /// Removes and returns the account of the mouth that speaks to an address.
    fn take(&self, to: SocketAddr) -> Option<SubAccount> {
        self.spoken.lock().unwrap_or_else(PoisonError::into_inner).remove(&to)
    }
}

/// Protocol with its UDP port.
#[derive(Debug)]
pub struct Station<P> {
    pub(crate) protocol: P,
    local: SocketAddr,
    dscp: u8,
    messages: u64,
    bytes: u64,
    bad_checksum: u64,
    unexpected: u64,
    accounts: VoiceAccounts,
}

impl<P: Protocol> Station<P> {
    pub(crate) fn new(
        settings: &P::Settings,
        dscp: u8,
        (user, local): (&str, SocketAddr),
        accounts: VoiceAccounts,
        stream: &mut RandomStream,
    ) -> Station<P> {
        let seed = (stream.unit() * (1_u64 << 53) as f64) as u64;
        let mut protocol = P::new(settings, user, local, seed);
        if let (Some(lines), Some(mouths)) = (protocol.lines(), &accounts.mouths) {
            lines.relay(mouths.clone());
        }
        Station { protocol, local, dscp, messages: 0, bytes: 0, bad_checksum: 0, unexpected: 0, accounts }
    }

    pub(crate) fn receive(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let taken = datagram::read(&packet).and_then(|(from, port, bytes)| {
            let now = cx.now();
            if port == self.local.port() {
                self.protocol.receive(now, from, &bytes);
            } else if !self.receive_voice((from, port), (&packet, &bytes), cx) {
                return Err(Refusal::Unexpected);
            }
            Ok(())
        });
        match taken {
            Ok(()) => packet.recycle(),
            Err(refusal) => {
                *refusal.of(&mut self.bad_checksum, &mut self.unexpected) += 1;
                cx.refuse(packet, refusal.why());
            }
        }
    }

    /// Returns `true` if a packet to a port was taken as voice.
    fn receive_voice(
        &mut self,
        (from, port): (SocketAddr, u16),
        (packet, bytes): (&Packet, &[u8]),
        cx: &mut Cx<'_>,
    ) -> bool {
        let duplicates = |protocol: &mut P| Some(protocol.lines()?.ear_at(port)?.duplicates());
        let before = duplicates(&mut self.protocol);
        self.adopt(port, packet, cx);
        let is_taken = self.protocol.receive_voice(cx.now(), from, port, bytes);
        if before.is_some_and(|before| duplicates(&mut self.protocol).is_some_and(|after| after > before)) {
            cx.note_duplicate(packet);
        }
        is_taken
    }

    /// Sets the account of the ear at a port, if it has none.
    fn adopt(&mut self, port: u16, packet: &Packet, cx: &Cx<'_>) {
        let Some(lines) = self.protocol.lines() else { return };
        if lines.ear_at(port).is_some_and(|ear| ear.account().is_none()) {
            let known = self.accounts.take(SocketAddr::new(self.local.ip(), port));
            let account = known.or_else(|| cx.sub_account_of(packet));
            account.into_iter().for_each(|account| lines.set_account_at(port, account));
        }
    }

    /// Has all ears know what became of what the others said up to now.
    pub(crate) fn settle(&mut self, cx: &mut Cx<'_>) {
        self.settle_losses(cx.now());
        self.settle_lines(&mut |account| cx.tallies(account));
    }

    /// Has ears behind exchanges count what cannot be on its way any more.
    pub(crate) fn settle_losses(&mut self, now: Time) {
        self.protocol.lines().into_iter().for_each(|lines| lines.settle_losses(now));
    }

    /// Does the same from the accounts of the network.
    pub(crate) fn settle_from(&mut self, accounts: &Accounts) {
        self.settle_lines(&mut |account| accounts.tallies(account));
    }

    /// Notes the end of the warm-up.
    pub(crate) fn start_window(&mut self, now: Time) {
        self.protocol.lines().into_iter().for_each(|lines| lines.start_window(now));
    }

    fn settle_lines(&mut self, known: &mut dyn FnMut(&SubAccount) -> Tallies) {
        let (local, accounts) = (self.local.ip(), self.accounts.clone());
        if let Some(lines) = self.protocol.lines() {
            lines.settle(&mut |port| accounts.take(SocketAddr::new(local, port)), known);
        }
    }

    /// Returns the next event.
    pub(crate) fn event(&mut self) -> Option<(P::Call, Happening)> {
        self.protocol.event()
    }

    /// Sends all messages, and returns the time of the next timer.
    pub(crate) fn send(&mut self, cx: &mut Cx<'_>) -> Time {
        while let Some((to, bytes)) = self.protocol.transmit() {
            let Some(mut packet) = datagram::packet(self.local, to, self.dscp, &bytes) else { continue };
            packet.set_created_at(cx.now());
            self.messages += 1;
            self.bytes += bytes.len() as u64;
            cx.emit(NODE, packet);
        }
        while let Some((port, to, bytes)) = self.protocol.transmit_voice() {
            let from = SocketAddr::new(self.local.ip(), port);
            let Some(mut packet) = datagram::packet(from, to, RTP_DSCP, &bytes) else { continue };
            packet.set_created_at(cx.now());
            if let Some(account) = self.protocol.lines().and_then(|lines| lines.spoken_at(port)) {
                if account.is_new() {
                    self.accounts.note(to, account);
                }
                cx.offer_apart(&mut packet, &self.accounts.all, account);
            }
            cx.emit(NODE, packet);
        }
        self.protocol.deadline()
    }

    /// Reports the counters, which are zero before the start.
    pub(crate) fn observe(settings: &P::Settings, station: Option<&Station<P>>, observer: &mut dyn Observer) {
        let Repeats { sent, absorbed } =
            station.map(|station| station.protocol.repeats()).unwrap_or_default();
        let own = |value: fn(&Station<P>) -> u64| station.map_or(0, value);
        observer.counter(P::MESSAGES, own(|station| station.messages));
        observer.counter(P::BYTES, own(|station| station.bytes));
        observer.counter(&metrics::REQUESTS_REPEATED, sent);
        observer.counter(&metrics::REQUESTS_ABSORBED, absorbed);
        observer.counter(&metrics::DROPPED_BAD_CHECKSUM, own(|station| station.bad_checksum));
        observer.counter(&metrics::DROPPED_UNEXPECTED, own(|station| station.unexpected));
        P::observe(settings, station.map(|station| &station.protocol), observer);
    }
}
