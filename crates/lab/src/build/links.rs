//! Links: the elements between two nodes.

use std::path::Path;

use bentpipe_net::dama::{Contract, Receiver, Terminal, TerminalConfig};
use bentpipe_net::dvb;
use bentpipe_net::quick_start::{self, Approver};
use bentpipe_net::{Channel, Framing, Link as Line, Port, Shaper, link};
use bentpipe_sim::{Builder, ElementId};
use bentpipe_units::{Bytes, Rate, Span};

use super::dvb::{Place, Places};
use super::routes::number;
use super::wifi::Cells;
use super::{CarrierHandle, LinkHandle, NodeHandle, Problem, Way, delays};
use crate::loss;
use crate::record::Form;
use crate::scenario::{Dama, Direction, Link, NodeKind, Scenario};

/// A direction with what the link says for both filled in.
pub(crate) fn direction(link: &Link, way: Way) -> Direction {
    let own = match way {
        Way::Forward => &link.forward,
        Way::Return => &link.reverse,
    };
    Direction {
        rate: own.rate.or(link.rate),
        delay: own.delay.or(link.delay),
        delay_changes: own.delay_changes.clone().or_else(|| link.delay_changes.clone()),
        queue: own.queue.or(link.queue),
        channel: own.channel.clone().or_else(|| link.channel.clone()),
        shaper: own.shaper.or(link.shaper),
        quick_start: own.quick_start.or(link.quick_start),
        dama: own.dama.clone().or_else(|| link.dama.clone()),
        dvb: own.dvb.clone().or_else(|| link.dvb.clone()),
    }
}

/// The longest IP packet on a link: what it says, or else 1500 bytes, or RFC 2225's 9180 for ATM.
pub(crate) fn mtu(link: &Link) -> Bytes {
    let by_framing = match link.framing {
        Framing::Aal5LlcSnap { .. } => Bytes::new(9180),
        _ => Bytes::new(1500),
    };
    link.mtu.unwrap_or(by_framing)
}

/// Adds both directions of all links and joins them to their nodes, terminals also to their control centres. The seed
/// and the folder are for loss traces.
pub(super) fn add(
    scenario: &Scenario,
    nodes: &[NodeHandle],
    carriers: &[CarrierHandle],
    (seed, folder): (u64, &Path),
    builder: &mut Builder,
) -> Result<Vec<LinkHandle>, Problem> {
    let cells = Cells::add(scenario, seed, folder, builder)?;
    let multiplexes = Places::add(scenario, builder)?;
    let mut handles = Vec::new();
    let mut interfaces = vec![0; nodes.len()];
    for (name, link) in &scenario.link {
        let ends = link.between.each_ref().map(|end| {
            let node = number(&scenario.node, end);
            interfaces[node] += 1;
            (nodes[node].element, Port(interfaces[node] - 1))
        });
        // Virtual channels are the ATM network's.
        if link.vc.is_some() {
            continue;
        }
        for way in [Way::Forward, Way::Return] {
            let (from, to) = if way == Way::Forward { (0, 1) } else { (1, 0) };
            let (a, b) = (&link.between[from], &link.between[to]);
            let dvb = multiplexes.of(name, way);
            let direct = Direct { scenario, name, link, way, from: a, to: b, dvb, seed, folder };
            let handle = direct.add(carriers, cells.of(name, way), builder)?;
            builder.connect(ends[from], handle.input());
            builder.connect(handle.output(), ends[to]);
            handles.push(handle);
        }
    }
    multiplexes.join(&handles, builder);
    Ok(handles)
}

/// One direction of a link.
struct Direct<'a> {
    scenario: &'a Scenario,
    name: &'a str,
    link: &'a Link,
    way: Way,
    from: &'a str,
    to: &'a str,
    /// Where it is in a multiplex, if it is a stream of DVB.
    dvb: Option<&'a Place>,
    seed: u64,
    folder: &'a Path,
}

impl Direct<'_> {
    /// `in_cell`: where it is in a cell, if it is a Wi-Fi link.
    fn add(
        &self,
        carriers: &[CarrierHandle],
        in_cell: Option<(ElementId, Port)>,
        builder: &mut Builder,
    ) -> Result<LinkHandle, Problem> {
        let settings = direction(self.link, self.way);
        let carrier = settings.dama.as_ref().map(|dama| self.carrier(dama, carriers)).transpose()?;
        let in_multiplex = self.dvb.map(|place| (place.sender, place.number));
        let (line, port) = match (&carrier, in_cell.or(in_multiplex)) {
            (_, Some(place)) => place,
            (Some((carrier, number)), _) => (self.terminal(&settings, carrier, *number, builder)?, Port(0)),
            (None, None) => (self.line(&settings, builder)?, Port(0)),
        };
        let rate = self.rate(&settings, carrier.as_ref().map(|(carrier, _)| *carrier));
        let shaper = self.shaper(&settings, (line, port), builder)?;
        let next = shaper.map_or((line, port), |shaper| (shaper, Port(0)));
        let approver = self.approver(&settings, rate, next, builder)?;
        // The channel of a Wi-Fi link is a part of its cell.
        let channels =
            if in_cell.is_none() { self.channels(&settings, (line, port), builder)? } else { Vec::new() };
        let last = channels.last().map_or((line, port), |last| (*last, Port(0)));
        let receiver = match (&carrier, &settings.dvb) {
            (Some((carrier, _)), _) => Some(self.receiver(last, carrier, builder)),
            (None, Some(dvb)) => Some(self.decapsulator(last, &dvb.stream, builder)?),
            (None, None) => None,
        };
        let of_terminal = carrier.as_ref().map(|(carrier, _)| Form::Bursts(carrier.frame.encapsulation()));
        Ok(LinkHandle {
            name: self.name.to_owned(),
            way: self.way,
            from: self.from.to_owned(),
            to: self.to.to_owned(),
            approver,
            shaper,
            line,
            port,
            form: self.dvb.map(|place| place.form).or(of_terminal),
            channels,
            receiver,
            rate,
            delay: settings.delay.unwrap_or_default(),
        })
    }

    /// The rate of its line, of its carriers, or of Wi-Fi's data frames.
    fn rate(&self, settings: &Direction, carrier: Option<&CarrierHandle>) -> Rate {
        let of_wifi = self.link.wifi.as_ref().map(|wifi| wifi.data_rate());
        let of_carrier = carrier.map(|carrier| carrier.frame.rate());
        let of_multiplex = self.dvb.map(|place| place.rate);
        of_wifi.or(of_carrier).or(of_multiplex).or(settings.rate).unwrap_or_default()
    }

    /// A terminal's carrier, and its number there.
    fn carrier<'b>(
        &self,
        dama: &Dama,
        carriers: &'b [CarrierHandle],
    ) -> Result<(&'b CarrierHandle, Port), Problem> {
        let carrier = carriers.iter().find(|carrier| carrier.name == dama.carrier);
        let found = carrier.and_then(|carrier| Some((carrier, carrier.number(self.name, self.way)?)));
        found.ok_or_else(|| Problem::new(format!("link.{}.dama.carrier", self.name), "no such carrier"))
    }

    /// A terminal in the line's place.
    fn terminal(
        &self,
        settings: &Direction,
        carrier: &CarrierHandle,
        number: Port,
        builder: &mut Builder,
    ) -> Result<ElementId, Problem> {
        let config = TerminalConfig {
            number: number.0,
            contract: settings.dama.as_ref().map_or_else(Contract::default, |dama| dama.contract),
            delay: settings.delay.unwrap_or_default(),
            mtu: Some(mtu(self.link)),
            queue: settings.queue.unwrap_or_default(),
        };
        let terminal = Terminal::new(&config, &carrier.frame).map_err(|error| match error.key {
            "dama.cra" => Problem::new(
                self.key("dama", |own| own.dama.is_some()) + ".cra",
                format!("expected {}", error.expected),
            ),
            _ => Problem::impossible(&self.key("queue", |own| own.queue.is_some()), &error),
        })?;
        // What it approves for Quick-Start it asks for.
        let terminal = match settings.quick_start {
            Some(config) if config.capacity => terminal.with_announcement(quick_start::announced),
            _ => terminal,
        };
        let terminal = builder.add(self.path(), terminal);
        builder.connect((carrier.centre, number), (terminal, Port(1)));
        Ok(terminal)
    }

    /// The far end of a terminal, behind `last`, which passes requests on to the control centre.
    fn receiver(&self, last: (ElementId, Port), carrier: &CarrierHandle, builder: &mut Builder) -> ElementId {
        let receiver = Receiver::new(carrier.frame.encapsulation());
        let receiver = builder.add(format!("{}/receiver", self.path()), receiver);
        builder.connect(last, (receiver, Port(0)));
        builder.connect((receiver, Port(1)), (carrier.centre, Port(0)));
        receiver
    }

    /// The far end of a stream of DVB, behind `last`.
    fn decapsulator(
        &self,
        last: (ElementId, Port),
        stream: &dvb::Config,
        builder: &mut Builder,
    ) -> Result<ElementId, Problem> {
        let key = self.key("dvb", |own| own.dvb.is_some());
        let receiver = dvb::Receiver::new(stream).map_err(|error| Problem::impossible(&key, &error))?;
        let receiver = builder.add(format!("{}/receiver", self.path()), receiver);
        builder.connect(last, (receiver, Port(0)));
        Ok(receiver)
    }

    fn path(&self) -> String {
        format!("link/{}/{}", self.name, self.way.name())
    }

    /// The key of a setting: the direction's own if it has one.
    fn key(&self, setting: &str, own: impl Fn(&Direction) -> bool) -> String {
        let direction = if self.way == Way::Forward { &self.link.forward } else { &self.link.reverse };
        match own(direction) {
            true => format!("link.{}.{}.{setting}", self.name, self.way.name()),
            false => format!("link.{}.{setting}", self.name),
        }
    }

    fn line(&self, settings: &Direction, builder: &mut Builder) -> Result<ElementId, Problem> {
        let delay = settings.delay.unwrap_or_default();
        let config = link::Config {
            rate: settings.rate,
            delay,
            delay_changes: self.delay_changes(settings, delay)?,
            framing: self.link.framing,
            mtu: Some(mtu(self.link)),
            queue: settings.queue.unwrap_or_default(),
        };
        let line = Line::new(&config).map_err(|error| match error.key {
            "rate" => Problem::impossible(&format!("link.{}", self.name), &error),
            _ => Problem::impossible(&self.key("queue", |own| own.queue.is_some()), &error),
        })?;
        Ok(builder.add(self.path(), line))
    }

    fn delay_changes(&self, settings: &Direction, delay: Span) -> Result<Vec<link::DelayChange>, Problem> {
        let Some(changes) = &settings.delay_changes else { return Ok(Vec::new()) };
        let key = self.key("delay_changes", |own| own.delay_changes.is_some());
        let loaded = delays::load(changes, delay, self.folder);
        loaded.map_err(|(part, problem)| Problem::new(format!("{key}.{part}"), problem))
    }

    /// The token bucket, in front of the line.
    fn shaper(
        &self,
        settings: &Direction,
        line: (ElementId, Port),
        builder: &mut Builder,
    ) -> Result<Option<ElementId>, Problem> {
        let Some(config) = &settings.shaper else { return Ok(None) };
        let key = self.key("shaper", |own| own.shaper.is_some());
        let shaper = Shaper::new(config).map_err(|error| Problem::impossible(&key, &error))?;
        let shaper = builder.add(format!("{}/shaper", self.path()), shaper);
        builder.connect((shaper, Port(0)), line);
        Ok(Some(shaper))
    }

    /// What answers Quick-Start requests, in front of everything.
    fn approver(
        &self,
        settings: &Direction,
        rate: Rate,
        first: (ElementId, Port),
        builder: &mut Builder,
    ) -> Result<Option<ElementId>, Problem> {
        let Some(config) = &settings.quick_start else { return Ok(None) };
        let key = self.key("quick_start", |own| own.quick_start.is_some());
        let is_router = self.scenario.node.get(self.from).is_some_and(|node| node.kind != NodeKind::Host);
        let approver =
            Approver::new(config, rate, is_router).map_err(|error| Problem::impossible(&key, &error))?;
        let approver = builder.add(format!("{}/quick-start", self.path()), approver);
        builder.connect((approver, Port(0)), first);
        Ok(Some(approver))
    }

    /// The faults behind the line, as a chain of elements.
    fn channels(
        &self,
        settings: &Direction,
        line: (ElementId, Port),
        builder: &mut Builder,
    ) -> Result<Vec<ElementId>, Problem> {
        let faults = settings.channel.as_ref().map_or(&[][..], |channel| channel.faults());
        let key = self.key("channel", |own| own.channel.is_some());
        let mut chain = Vec::new();
        for (n, config) in faults.iter().enumerate() {
            let name = if n == 0 { "channel".to_owned() } else { format!("channel.{}", n + 1) };
            let path = format!("{}/{name}", self.path());
            let loaded = loss::load(config, self.folder, self.seed, &path);
            let config = loaded.map_err(|(part, problem)| Problem::new(format!("{key}.{part}"), problem))?;
            let channel = Channel::new(&config).map_err(|error| Problem::impossible(&key, &error))?;
            let channel = builder.add(path, channel);
            let last = chain.last().map_or(line, |last| (*last, Port(0)));
            builder.connect(last, (channel, Port(0)));
            chain.push(channel);
        }
        Ok(chain)
    }
}
