//! Traffic of SIP and IAX2 calls.

use std::net::SocketAddr;

use bentpipe_net::InvalidConfig;
use bentpipe_site::{
    End, FlowAt, FlowEnds, FlowGround, FlowTakes, IpVersion, PortNumbers, Problem, RealTraffic, TrafficKind,
};
use bentpipe_units::{Bytes, Time};
use bentpipe_wire::ip::Protocol as Transport;
use bentpipe_wire::udp;

use crate::config::Calls;
use crate::protocol::{Happening, Iax, Phone, Protocol, Sip};
use crate::station::VoiceAccounts;
use crate::{Callee, Caller, Config, IaxConfig};

const UDP_HEADER_LEN: u64 = udp::HEADER_LEN as u64;
/// Number of calls that are rehearsed.
const REHEARSALS: u64 = 32;
/// Digits of a number of calls, less the first.
const MORE_DIGITS: usize = 8;
/// Time of rehearsals: times in messages are long.
const LATE: Time = Time::from_nanos(9_000_000_000_000_000);
/// Maximum number of turns of a rehearsed call.
const MAX_TURNS: usize = 50;

impl TrafficKind for Config {
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, ..FlowTakes::default() }
    }

    /// Returns a reason for calls without voice of their phones.
    fn unknown_rate(&self) -> Option<&'static str> {
        self.media.is_none().then_some("it has messages of calls alone, some few hundred bytes each")
    }

    fn real(&self, _ip: IpVersion) -> Result<RealTraffic, &'static str> {
        if self.pabx.is_some() {
            return Err("an exchange is simulated, and no program dials its numbers");
        }
        let media = self.media.map(|media| Ok((toml::Value::try_from(media)?.to_string(), media.lines)));
        let voice =
            media.transpose().map_err(|_: toml::ser::Error| "its voice cannot be written as a table")?;
        let Config { interval, hold, ring, ring_limit, calls, t1, t2, dscp, .. } = *self;
        Ok(RealTraffic::Calls { interval, hold, ring, ring_limit, calls, timers: [t1, t2], dscp, voice })
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        let phones = self
            .pabx
            .as_ref()
            .map(|line| Ok((line, line.phones(at, ground, self.media.is_some())?)))
            .transpose()?;
        let [caller, callee] = match phones {
            None => [None, None],
            Some((line, phones)) => {
                let dials = Some(line.dial.clone());
                let [of_caller, of_callee] = phones.passwords;
                let (exchange, number) = (phones.caller_at, line.number.clone());
                let caller = Phone { exchange, number, dials, password: of_caller };
                let (exchange, number) = (phones.callee_at, phones.callee);
                let callee =
                    number.map(|number| Phone { exchange, number, dials: None, password: of_callee });
                [Some(caller), callee]
            }
        };
        // A conference mixes what its members say.
        let are_relayed = callee.is_some();
        let settings = [self.settings(caller), self.settings(callee)];
        let ports = self.media.map_or(1, |media| media.ports());
        plan::<Sip>((at, ground), (&self.calls(), ports, are_relayed), settings, self.ensure())
    }
}

impl TrafficKind for IaxConfig {
    fn takes(&self) -> FlowTakes {
        FlowTakes { answers: true, ..FlowTakes::default() }
    }

    fn plan(&self, at: &FlowAt<'_>, ground: &mut FlowGround<'_, '_>) -> Result<FlowEnds, Problem> {
        plan::<Iax>((at, ground), (&self.calls(), 1, false), [self.settings(); 2], self.ensure())
    }
}

/// Creates both ends of a flow, each with this number of UDP ports.
///
/// Their voice is relayed if exchanges are between them.
fn plan<P: Protocol>(
    (at, ground): (&FlowAt<'_>, &mut FlowGround<'_, '_>),
    (calls, ports, are_relayed): (&Calls, u16, bool),
    [of_caller, of_callee]: [P::Settings; 2],
    checked: Result<(), InvalidConfig>,
) -> Result<FlowEnds, Problem> {
    checked.map_err(|error| at.impossible("", &error))?;
    let ends = ground.datagrams(at, Transport::UDP, PortNumbers::consecutive(ports))?;
    let (local, remote) = (ends.source, ends.destination);
    let messages =
        if at.dont_fragment { longest_message::<P>([&of_caller, &of_callee], [local, remote]) } else { 0 };
    for (len, key) in [(messages, "kind"), (P::longest_voice(&of_caller), P::VOICE_KEY)] {
        ground.fit_all(at, &ends, (Bytes::new(len as u64), UDP_HEADER_LEN), key)?;
    }
    ground.nodes().send_to(at.from, at.ip);
    let caller = Caller::<P>::new(calls, of_caller, (local, remote), at.start, at.stop);
    let mut caller = caller.map_err(|error| at.impossible("", &error))?;
    let mut callee = Callee::<P>::new(calls, of_callee, remote);
    let accounts = [ends.sender, ends.receivers[0]].map(|end| ground.account_of(end));
    let [of_caller, of_callee] = VoiceAccounts::of_ends(accounts, are_relayed);
    caller.set_accounts(of_caller);
    callee.set_accounts(of_callee);
    Ok(FlowEnds {
        sender: End::of_calls(caller, ends.sender),
        receivers: vec![End::new(callee, ends.receivers[0])],
        judges: Vec::new(),
    })
}

/// Returns the length of the longest message of a call in bytes.
///
/// Exchanges are not there: of phones it is the first message. Texts in messages differ, so that several calls are rehearsed.
/// Numbers of sessions grow with the calls before.
fn longest_message<P: Protocol>(settings: [&P::Settings; 2], addresses: [SocketAddr; 2]) -> usize {
    let rehearsed = |seed| rehearse::<P>(settings, addresses, seed);
    (0..REHEARSALS).map(rehearsed).max().unwrap_or(0) + MORE_DIGITS
}

/// Returns the length of the longest message of one call without a network in between.
fn rehearse<P: Protocol>(settings: [&P::Settings; 2], addresses: [SocketAddr; 2], seed: u64) -> usize {
    let now = LATE;
    let [mut caller, mut callee] = [("caller", 0), ("callee", 1)]
        .map(|(user, n)| P::new(settings[n], user, addresses[n], 2 * seed + n as u64));
    let mut longest = 0;
    let mut pass = |from: &mut P, to: &mut P, address| {
        let mut count = 0;
        while let Some((_, bytes)) = from.transmit() {
            longest = longest.max(bytes.len());
            to.receive(now, address, &bytes);
            count += 1;
        }
        count
    };
    caller.place(now, addresses[1]);
    for _ in 0..MAX_TURNS {
        let sent =
            pass(&mut caller, &mut callee, addresses[0]) + pass(&mut callee, &mut caller, addresses[1]);
        let mut is_idle = sent == 0;
        while let Some((call, happening)) = callee.event() {
            if happening == Happening::Incoming {
                callee.ring(now, call);
                callee.answer(now, call);
            }
            is_idle = false;
        }
        while let Some((call, happening)) = caller.event() {
            if happening == Happening::Confirmed {
                caller.hang_up(now, call);
            }
            is_idle = false;
        }
        if is_idle {
            break;
        }
    }
    longest
}
