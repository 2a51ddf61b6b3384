//! Switches, boxes and interfaces while channels are led through them.

use crate::interface::LINE;
use crate::switch::Contract;
use crate::{Channel, Content, Coupling, Faults, Interface, Rates, Service, Switch, Vc, line};
use bentpipe_mpeg as video;
use bentpipe_net::Port;
use bentpipe_units::{RandomStream, Rate, Span, Time};

use super::capture::Pdus;
use super::{Atm, AtmLine, AtmStream, CellChannel, CellSource, Kind, path};
use bentpipe_site::{At, Member, NativeChannel, Order, Part, Problem, SharedParts, Site, Way};

/// An interface by its number, and the port of a channel there.
type End = (usize, Port);

/// Connection at an end of a line.
#[derive(Clone, Copy)]
enum Plug {
    Switch(usize, Port),
    Interface(usize),
    /// A box of VS/VD, and its side.
    Coupling(usize, Port),
}

/// Switches and interfaces while channels are led through them.
pub(super) struct Network<'a> {
    atm: &'a Atm,
    switches: Vec<Switch>,
    couplings: Vec<Coupling>,
    /// Interfaces with their names.
    interfaces: Vec<(String, Interface)>,
    /// The ends of each line.
    plugs: Vec<[Plug; 2]>,
    /// Sum of guaranteed rates on each line, the same in both directions.
    guaranteed: Vec<Rate>,
    /// The number of the next channel, the same on all its lines.
    next: u16,
    /// The channel led last.
    last: Vc,
}

impl<'a> Network<'a> {
    pub(super) fn new(atm: &'a Atm) -> Result<Network<'a>, Problem> {
        let switches = atm.switch.values().map(Switch::new).collect();
        let couplings = atm.vs_vd.keys().map(|name| coupling(atm, name));
        let couplings = couplings.collect::<Result<_, Problem>>()?;
        for (name, switch) in &atm.switch {
            switch.check().map_err(|error| Problem::impossible(&format!("atm.switch.{name}"), &error))?;
        }
        let (interfaces, plugs) = (Vec::new(), Vec::new());
        let mut network = Network {
            atm,
            switches,
            couplings,
            interfaces,
            plugs,
            guaranteed: vec![Rate::default(); atm.line.len()],
            next: Vc::FIRST.vci(),
            last: Vc::FIRST,
        };
        for (name, line) in &atm.line {
            let config = line::Config { rate: line.cell_rate(), delay: line.delay };
            let mut plug = |node: &String, way: Way| {
                if let Some(n) = atm.vs_vd.get_index_of(node) {
                    let is_other = lines_of(atm, node).position(|(other, _)| other == name) == Some(1);
                    return Ok(Plug::Coupling(n, Port(u16::from(is_other))));
                }
                let path = format!("line/{name}/{}", way.name());
                match atm.switch.get_index_of(node) {
                    Some(switch) => {
                        let port = network.switches[switch].add_port(path, &config);
                        port.map(|port| Plug::Switch(switch, port)).map_err(|error| {
                            let key = if error.key == "rate" {
                                format!("atm.line.{name}")
                            } else {
                                format!("atm.switch.{node}.abr")
                            };
                            Problem::impossible(&key, &error)
                        })
                    }
                    None => {
                        let interface = Interface::new(path, &config)
                            .map_err(|error| Problem::impossible(&format!("atm.line.{name}"), &error))?;
                        network.interfaces.push((format!("atm/{node}/{name}"), interface));
                        Ok(Plug::Interface(network.interfaces.len() - 1))
                    }
                }
            };
            let plugs = [plug(&line.between[0], Way::Forward)?, plug(&line.between[1], Way::Return)?];
            network.plugs.push(plugs);
        }
        Ok(network)
    }

    /// Connects a channel from one node to another and returns its ends. `key` is its place in the file.
    fn lead(
        &mut self,
        key: &str,
        name: &str,
        between: [&str; 2],
        given: &Kind,
        contents: [Content; 2],
    ) -> Result<[End; 2], Problem> {
        let path = path(self.atm, between[0], between[1]).map_err(|problem| Problem::new(key, problem))?;
        let vc = Vc::new(self.next).ok_or_else(|| Problem::new(key, "more than 4064 virtual channels"))?;
        (self.next, self.last) = (self.next + 1, vc);
        path.iter().try_for_each(|(line, _)| self.admit(key, *line, given.service))?;
        let has_pdus = contents.iter().all(|content| matches!(content, Content::Packets(_)));
        let contract =
            Contract { class: given.service.class(), has_pdus, guarantee: given.service.guarantee() };
        // The two ends of each line in the order that the channel passes them.
        let plugs: Vec<Plug> = path.iter().flat_map(|(line, way)| self.ends(*line, *way)).collect();
        let [first, middle @ .., last] = &plugs[..] else {
            return Err(Problem::new(key, "no line between its ends"));
        };
        for pair in middle.chunks(2) {
            match *pair {
                [Plug::Switch(switch, a), Plug::Switch(_, b)] => {
                    self.switches[switch].connect((a, vc), (b, vc), contract);
                }
                [Plug::Coupling(n, a), Plug::Coupling(..)] => {
                    self.couple(key, (n, a), vc, name, given.service)?
                }
                _ => {}
            }
        }
        if let Some(receive) = &given.receive {
            let of_receive = format!("{key}.medium.receive");
            let checked = receive.check(given.service.class());
            checked.map_err(|error| Problem::impossible(&of_receive, &error))?;
        }
        let [near, far] = contents;
        let mut end = |plug: &Plug, node: &str, content| {
            let Plug::Interface(n) = *plug else { return Err(Problem::new(key, "a channel ends at nodes")) };
            let (path, service) = (format!("vc/{name}/{node}"), given.service);
            let channel = Channel { path, vc, service, content, limit: given.limit, receive: given.receive };
            let port = self.interfaces[n].1.add(channel);
            let of_service = if key.starts_with("link.") {
                format!("{key}.medium.service")
            } else {
                format!("{key}.service")
            };
            port.map(|port| (n, port)).map_err(|error| Problem::impossible(&of_service, &error))
        };
        Ok([end(first, between[0], near)?, end(last, between[1], far)?])
    }

    /// Admits a channel to a line if guaranteed rates fit there (TM 4.0, section 5.1.2).
    ///
    /// Rates are the same in both directions.
    fn admit(&mut self, key: &str, line: usize, service: Service) -> Result<(), Problem> {
        let rate = service.guaranteed();
        let (Some((name, config)), Some(sum)) =
            (self.atm.line.get_index(line), self.guaranteed.get_mut(line))
        else {
            return Ok(());
        };
        *sum = Rate::from_bps(sum.as_bps().saturating_add(rate.as_bps()));
        if rate.as_bps() == 0 || *sum <= config.cell_rate() {
            return Ok(());
        }
        let of_service = if key.starts_with("link.") { "medium.service" } else { "service" };
        let field = if matches!(service, Service::Abr(_)) { "mcr" } else { "pcr" };
        let all = *sum;
        let problem = format!(
            "minimum rates of ABR and peak rates of CBR on line \"{name}\" sum to {all}: expected at most its {}",
            config.cell_rate()
        );
        Err(Problem::new(format!("{key}.{of_service}.{field}"), problem))
    }

    /// Connects a channel through a VS/VD node, entered at `side` on its way forward.
    fn couple(
        &mut self,
        key: &str,
        (n, side): (usize, Port),
        vc: Vc,
        name: &str,
        service: Service,
    ) -> Result<(), Problem> {
        let of_box = self.atm.vs_vd.get_index(n).map_or("", |(of_box, _)| of_box.as_str());
        // A direction is where its cells leave.
        let ways = if side == Port(0) { [Way::Return, Way::Forward] } else { [Way::Forward, Way::Return] };
        let paths = ways.map(|way| format!("vc/{name}/{of_box}/{}", way.name()));
        let connected = self.couplings[n].connect(vc, &service, paths);
        connected.map_err(|error| Problem::impossible(&format!("{key}.medium.service"), &error))
    }

    fn ends(&self, line: usize, way: Way) -> [Plug; 2] {
        let [a, b] = self.plugs[line];
        if way == Way::Forward { [a, b] } else { [b, a] }
    }

    /// Connects the channels of all members, streams and flows, and records the network.
    pub(super) fn with_channels(
        mut self,
        row: usize,
        all: &[Member<'_, Kind>],
        natives: &[(usize, NativeChannel)],
        site: &mut Site<'_>,
    ) -> Result<Led, Problem> {
        let mut ends = Vec::new();
        // Both directions are one channel.
        for member in all.iter().filter(|member| member.way == Way::Forward) {
            let (key, vc) = (member.place.link_key(), member.medium);
            let content = || Content::Packets(vc.encapsulation);
            let led = self.lead(key, member.name, [member.from, member.to], vc, [content(), content()])?;
            ends.push((led, Pdus::new(self.last, vc.encapsulation)));
        }
        for (name, stream) in &self.atm.stream {
            self.stream(name, stream, site.seed())?;
        }
        let of_flows = natives.iter().map(|(member, channel)| self.native(&all[*member], channel));
        let of_flows = of_flows.collect::<Result<Vec<_>, _>>()?;
        let (interfaces, faults) = self.join(row, site)?;
        let at = |(n, port): End| (interfaces[n], port);
        let both = |([near, far], pdus): ([End; 2], Pdus)| {
            let (near, far) = (at(near), at(far));
            [([near, far], pdus), ([far, near], pdus)]
        };
        let members = ends.into_iter().flat_map(both).collect();
        Ok(Led { members, natives: of_flows.into_iter().map(|ends| ends.map(at)).collect(), faults })
    }

    /// Routes the channel of a flow along that of a link, with the same service.
    fn native(&mut self, member: &Member<'_, Kind>, channel: &NativeChannel) -> Result<[End; 2], Problem> {
        let name = format!("{}/{}", member.name, channel.flow);
        let contents = [Content::Cells, Content::Cells];
        self.lead(member.place.link_key(), &name, [member.from, member.to], member.medium, contents)
    }

    /// Connects a stream of cells without a receiver.
    fn stream(&mut self, name: &str, stream: &AtmStream, seed: u64) -> Result<(), Problem> {
        let key = format!("atm.stream.{name}");
        let rates = rates(name, stream, seed).map_err(|(field, expected)| {
            Problem::new(format!("{key}.source.{field}"), format!("expected {expected}"))
        })?;
        if matches!(
            stream.service,
            Service::Cbr { pcr: Some(_) } | Service::Vbr { pcr: Some(_) } | Service::Ubr { pcr: Some(_) }
        ) {
            const SOURCE: &str = "a stream sends at the rate of its source: expected none";
            return Err(Problem::new(format!("{key}.service.pcr"), SOURCE));
        }
        let service = match (stream.service, &stream.source) {
            (Service::Cbr { .. }, CellSource::Constant { rate }) => Service::Cbr { pcr: Some(*rate) },
            (service, _) => service,
        };
        let given = Kind { service, ..Kind::default() };
        let contents = [Content::Streams(rates), Content::Sink];
        self.lead(&key, name, [&stream.from, &stream.to], &given, contents).map(drop)
    }

    /// Records all, and connects the ends of the lines. Returns the interfaces, and the faults of the lines.
    fn join(self, row: usize, site: &mut Site<'_>) -> Result<(Vec<Part>, SharedParts<Part>), Problem> {
        let mut recorder = Recorder { site, row, next: 0 };
        let names = self.atm.switch.keys().zip(self.switches);
        let switches: Vec<Part> =
            names.map(|(name, switch)| recorder.add(format!("atm/{name}"), switch)).collect();
        let names = self.atm.vs_vd.keys().zip(self.couplings);
        let couplings: Vec<Part> =
            names.map(|(name, coupling)| recorder.add(format!("atm/{name}"), coupling)).collect();
        let interfaces: Vec<Part> =
            self.interfaces.into_iter().map(|(path, interface)| recorder.add(path, interface)).collect();
        let at = |plug: Plug| match plug {
            Plug::Switch(switch, port) => (switches[switch], port),
            Plug::Interface(interface) => (interfaces[interface], LINE),
            Plug::Coupling(n, side) => (couplings[n], side),
        };
        let mut all = SharedParts::new();
        for ([a, b], (name, line)) in self.plugs.into_iter().zip(&self.atm.line) {
            for (from, to, way) in [(a, b, Way::Forward), (b, a, Way::Return)] {
                let faults = faults(name, line, way, at(from), &mut recorder)?;
                let last = faults.last().map_or(at(from), |last| (*last, Port(0)));
                recorder.site.connect(last, at(to));
                all.insert(format!("line/{name}/{}", way.name()), faults);
            }
        }
        Ok((interfaces, all))
    }
}

/// Channels that were led through a network.
pub(super) struct Led {
    /// Ends of each member's channel, that of the sending node first, and the channel.
    pub(super) members: Vec<([At; 2], Pdus)>,
    /// Ends of the channels of flows.
    pub(super) natives: Vec<[At; 2]>,
    /// Faults of each direction of each line.
    pub(super) faults: SharedParts<Part>,
}

/// Recorder of a network's elements in their order.
struct Recorder<'a, 'f> {
    site: &'a mut Site<'f>,
    row: usize,
    next: usize,
}

impl Recorder<'_, '_> {
    fn add(&mut self, path: String, element: impl bentpipe_net::Element + 'static) -> Part {
        self.next += 1;
        self.site.add(Order::Network(self.row, self.next), path, element)
    }
}

/// The lines that end at a box or switch, and the direction that leaves there.
fn lines_of<'a>(atm: &'a Atm, name: &'a str) -> impl Iterator<Item = (&'a String, Way)> {
    atm.line.iter().filter_map(move |(line, config)| {
        let end = config.between.iter().position(|end| end == name)?;
        Some((line, if end == 0 { Way::Forward } else { Way::Return }))
    })
}

/// The box of VS/VD of this name, between its two lines.
fn coupling(atm: &Atm, name: &str) -> Result<Coupling, Problem> {
    let key = format!("atm.vs_vd.{name}");
    let lines: Vec<(&String, Way)> = lines_of(atm, name).collect();
    let [one, other] = lines[..] else {
        return Err(Problem::new(key, format!("{} lines end here: expected two", lines.len())));
    };
    let of_line = |(line, _): (&String, Way)| {
        let line = &atm.line[line];
        line::Config { rate: line.cell_rate(), delay: line.delay }
    };
    let path = |(line, way): (&String, Way)| format!("line/{line}/{}", way.name());
    let (lines, paths) = ([of_line(one), of_line(other)], [path(one), path(other)]);
    Coupling::new(&atm.vs_vd[name], paths, lines.each_ref())
        .map_err(|error| Problem::impossible(&key, &error))
}

/// Records the faults of a line after `from`, where its cells come out.
fn faults(
    name: &str,
    line: &AtmLine,
    way: Way,
    from: At,
    recorder: &mut Recorder<'_, '_>,
) -> Result<Vec<Part>, Problem> {
    let (mut last, mut all) = (from, Vec::new());
    let configs = line.channel.as_ref().map_or(&[][..], |channel| channel.faults());
    for (n, config) in configs.iter().enumerate() {
        let place = match &line.channel {
            Some(CellChannel::Several(_)) => format!(".{n}"),
            _ => String::new(),
        };
        let fault = Faults::new(config)
            .map_err(|error| Problem::impossible(&format!("atm.line.{name}.channel{place}"), &error))?;
        let number = if n == 0 { String::new() } else { format!(".{}", n + 1) };
        let fault = recorder.add(format!("line/{name}/{}/channel{number}", way.name()), fault);
        recorder.site.connect(last, (fault, Port(0)));
        last = (fault, Port(0));
        all.push(fault);
    }
    Ok(all)
}

/// Returns the rates of a stream's sources.
///
/// # Errors
/// Returns the key of an invalid value, and the expected one.
fn rates(name: &str, stream: &AtmStream, seed: u64) -> Result<Vec<Rates>, (&'static str, &'static str)> {
    if matches!(stream.service, Service::Abr(_)) {
        return Err(("kind", "a service other than ABR: the network has no say in a stream's rate"));
    }
    const LONG: Span = Span::from_secs(3600);
    Ok(match &stream.source {
        CellSource::Constant { rate } => vec![Box::new(std::iter::repeat((LONG, *rate)))],
        CellSource::OnOff { rate, on, off } => {
            if on.is_zero() && off.is_zero() {
                return Err(("on", "more than no time"));
            }
            let period = [(*on, *rate), (*off, Rate::default())];
            vec![Box::new(period.into_iter().filter(|(span, _)| !span.is_zero()).cycle())]
        }
        CellSource::Video(config) => {
            let single = video::RateConfig { programmes: 1, ..*config };
            let programme = |n: u16| -> Result<Rates, (&'static str, &'static str)> {
                let mut stream = RandomStream::new(seed, &format!("vc/{name}/source/{n}"));
                let rates = video::Rates::new(&single, Time::ZERO, &mut stream);
                let rates = rates.map_err(|error| (error.key, error.expected))?;
                Ok(Box::new(Programme { rates, stream }))
            };
            (0..config.programmes).map(programme).collect::<Result<_, _>>()?
        }
    })
}

/// The rates of a programme, with the random numbers that they are drawn from.
struct Programme {
    rates: video::Rates,
    stream: RandomStream,
}

impl Iterator for Programme {
    type Item = (Span, Rate);

    fn next(&mut self) -> Option<(Span, Rate)> {
        let piece = self.rates.next_piece(&mut self.stream);
        Some((piece.span, piece.rate))
    }
}
