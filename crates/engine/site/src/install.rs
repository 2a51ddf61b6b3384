//! Recorded elements and wires, numbered once all are known.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bentpipe_net::channel::{self, ContactFile, JitterTable, LoadedFault, Outage};
use bentpipe_net::{Channel, Element, Port};
use bentpipe_sim::{BuildError, Builder, ElementId, Network};
use bentpipe_units::Span;

use crate::channel::Channel as Faults;
use crate::files::Files;
use crate::member::{Common, Place};
use crate::problem::Problem;
use crate::topology::Way;

/// Place of an element in the order of its network, which affects every result.
///
/// The fingerprint hashes element numbers, and simultaneous wake-ups go to the lowest number. Elements of
/// equal order stay in the order that they were recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Gate in the place of a real host.
    Gate,
    /// Node, by its number.
    Node(usize),
    /// Element shared by several links or nodes: the row of its kind, and its number.
    Shared(usize, usize),
    /// Element of one direction of a link.
    Link(usize, Way, Slot),
    /// Element of a network under the links: the row of its kind, and its number.
    Network(usize, usize),
    /// Role of a node: the node, and the role's number there.
    Role(usize, usize),
    /// End of a flow: the flow, the copy, the end.
    Flow(usize, u32, usize),
}

/// Place of an element within one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// Line, or the sending end of a medium.
    Line,
    /// Stage in front of the medium, by the row of its kind.
    Stage(usize),
    /// Fault of the channel, by its number.
    Channel(usize),
    /// Receiving end of a medium.
    Receiver,
    /// Partner of a stage, behind the medium.
    Partner(usize),
}

/// Element that was recorded; it has no number yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part(u32);

/// Input or output of a recorded element.
pub type At = (Part, Port);

struct Recorded {
    order: Order,
    path: String,
    element: Box<dyn Element>,
}

/// Elements and wires of a network that is being put together.
pub struct Site<'f> {
    seed: u64,
    files: &'f dyn Files,
    parts: Vec<Recorded>,
    wires: Vec<(At, At)>,
    /// Tables of delays that were read.
    tables: RefCell<HashMap<PathBuf, Arc<[i16]>>>,
}

impl<'f> Site<'f> {
    /// Creates an empty site; `seed` seeds the random stream of every element.
    pub fn new(seed: u64, files: &'f dyn Files) -> Site<'f> {
        Site { seed, files, parts: Vec::new(), wires: Vec::new(), tables: RefCell::default() }
    }

    /// Returns the loader of configurations that name files.
    pub fn files(&self) -> &'f dyn Files {
        self.files
    }

    /// Returns the seed of the run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Records an element. `path` is its place in the scenario ("link/uplink/queue") and seeds its random stream.
    pub fn add(&mut self, order: Order, path: impl Into<String>, element: impl Element + 'static) -> Part {
        self.add_boxed(order, path, Box::new(element))
    }

    /// Records an element that is boxed already.
    pub fn add_boxed(&mut self, order: Order, path: impl Into<String>, element: Box<dyn Element>) -> Part {
        self.parts.push(Recorded { order, path: path.into(), element });
        Part(self.parts.len() as u32 - 1)
    }

    /// Connects output `from` to input `to`, replacing any previous connection of the output.
    pub fn connect(&mut self, from: At, to: At) {
        self.wires.push((from, to));
    }

    /// Records the faults of a direction as a chain of elements after `from`.
    ///
    /// # Errors
    /// Returns an error if a fault is impossible, or its trace cannot be loaded.
    pub fn faults(
        &mut self,
        (link, way, path): (usize, Way, &str),
        common: &Common,
        place: &Place,
        from: At,
    ) -> Result<Vec<Part>, Problem> {
        let faults = common.channel.as_ref().map_or(&[][..], |channel| channel.faults());
        let mut chain = Vec::new();
        for (n, config) in faults.iter().enumerate() {
            let name = if n == 0 { "channel".to_owned() } else { format!("channel.{}", n + 1) };
            let path = format!("{path}/{name}");
            let key = match common.channel {
                Some(Faults::Several(_)) => place.key(&format!("channel.{n}")),
                _ => place.key("channel"),
            };
            let fault = self.fault(config, &key, &path)?;
            let channel = Channel::new(fault).map_err(|error| Problem::impossible(&key, &error))?;
            let channel = self.add(Order::Link(link, way, Slot::Channel(n)), path, channel);
            let last = chain.last().map_or(from, |last| (*last, Port(0)));
            self.connect(last, (channel, Port(0)));
            chain.push(channel);
        }
        Ok(chain)
    }

    /// Returns a fault with its trace or outages loaded. `key` is its key, `path` that of its element.
    ///
    /// # Errors
    /// Returns an error if the trace or the outages cannot be loaded.
    pub fn fault(&self, config: &channel::Config, key: &str, path: &str) -> Result<LoadedFault, Problem> {
        if let channel::Config::Outages { outages, contacts: Some(contacts), every } = config {
            let outages = self.loaded_outages((outages, contacts, *every), key)?;
            return Ok(channel::Config::Outages { outages, contacts: None, every: *every }.into());
        }
        let wrong = |(part, problem)| Problem::new(format!("{key}.{part}"), problem);
        let (mut trace, mut table) = (None, None);
        match config {
            channel::Config::Trace(config) => {
                trace = Some(self.files.trace(config, self.seed, path).map_err(wrong)?);
            }
            channel::Config::JitterTable(JitterTable { file: Some(file), .. }) => {
                table = Some(self.table(file).map_err(|problem| wrong(("file", problem)))?);
            }
            _ => {}
        }
        Ok(LoadedFault { config: config.clone(), trace, table })
    }

    /// Returns the numbers of a table's file. Channels with the same file have them in common.
    fn table(&self, file: &Path) -> Result<Arc<[i16]>, String> {
        if let Some(table) = self.tables.borrow().get(file) {
            return Ok(Arc::clone(table));
        }
        let table: Arc<[i16]> = self.files.table(file)?.into();
        self.tables.borrow_mut().insert(file.to_owned(), Arc::clone(&table));
        Ok(table)
    }

    /// Returns the outages that the contacts of a file leave. The last one ends with the repetition, if there is one.
    fn loaded_outages(
        &self,
        (given, contacts, every): (&[Outage], &ContactFile, Option<Span>),
        key: &str,
    ) -> Result<Vec<Outage>, Problem> {
        if !given.is_empty() {
            let problem = "conflicts with `contacts`: expected one of them";
            return Err(Problem::new(format!("{key}.outages"), problem));
        }
        let wrong = |(part, problem)| Problem::new(format!("{key}.contacts.{part}"), problem);
        let mut outages = self.files.outages(contacts).map_err(wrong)?;
        if let (Some(every), Some(last)) = (every, outages.last_mut()) {
            let problem = || format!("expected a time after the last contact, which ends at {}", last.at);
            let lasts = every.as_nanos().checked_sub(last.at.as_nanos());
            let lasts = lasts.ok_or_else(|| Problem::new(format!("{key}.every"), problem()))?;
            last.lasts = Span::from_nanos(lasts);
        }
        Ok(outages)
    }

    /// Numbers the elements by their order and builds the network.
    ///
    /// # Errors
    /// Returns an error if the wiring has a zero-delay loop, or two elements have one path.
    pub fn finish(self) -> Result<Installed, BuildError> {
        let mut sorted: Vec<(usize, Recorded)> = self.parts.into_iter().enumerate().collect();
        sorted.sort_by_key(|(_, part)| part.order);
        let mut builder = Builder::new(self.seed);
        let mut numbers: Vec<(usize, ElementId)> = sorted
            .into_iter()
            .map(|(part, Recorded { path, element, .. })| (part, builder.add_boxed(path, element)))
            .collect();
        numbers.sort_unstable_by_key(|(part, _)| *part);
        let numbers: Vec<ElementId> = numbers.into_iter().map(|(_, number)| number).collect();
        let at = |(part, port): At| (numbers[part.0 as usize], port);
        self.wires.into_iter().for_each(|(from, to)| builder.connect(at(from), at(to)));
        Ok(Installed { network: builder.build()?, numbers })
    }
}

/// Network that was put together, with the numbers of its elements.
pub struct Installed {
    /// Network at the start of its run.
    pub network: Network,
    numbers: Vec<ElementId>,
}

impl Installed {
    /// Returns the number of a recorded element.
    pub fn element(&self, part: Part) -> ElementId {
        self.numbers[part.0 as usize]
    }

    /// Returns the input or output of a recorded element by the element's number.
    pub fn at(&self, (part, port): At) -> (ElementId, Port) {
        (self.element(part), port)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use bentpipe_net::ExternalPort;
    use bentpipe_net::channel::{ContactFile, Outage, Trace, TraceConfig};
    use bentpipe_net::link::DelayChange;
    use bentpipe_units::Span;

    use super::*;
    use crate::Opened;
    use crate::line_keys::DelayChanges;

    struct NoFiles;

    impl Files for NoFiles {
        fn trace(&self, _: &TraceConfig, _: u64, path: &str) -> Result<Arc<Trace>, (&'static str, String)> {
            Err(("file", path.to_owned()))
        }
        fn outages(&self, contacts: &ContactFile) -> Result<Vec<Outage>, (&'static str, String)> {
            Err(("file", contacts.file.display().to_string()))
        }
        fn open(&self, path: &Path) -> Result<Opened, String> {
            Err(path.display().to_string())
        }
        fn make(&self, what: &str, _: &serde_json::Value) -> Result<Vec<Vec<u8>>, String> {
            Err(what.to_owned())
        }
        fn delay_changes(
            &self,
            _: &DelayChanges,
            _: Span,
        ) -> Result<Arc<[DelayChange]>, (&'static str, String)> {
            Ok(Arc::default())
        }
    }

    #[test]
    fn elements_are_numbered_by_their_order_not_by_that_of_calls() {
        let mut site = Site::new(1, &NoFiles);
        let flow = site.add(Order::Flow(0, 0, 0), "flow", ExternalPort::default());
        let receiver =
            site.add(Order::Link(1, Way::Forward, Slot::Receiver), "receiver", ExternalPort::default());
        let line = site.add(Order::Link(1, Way::Forward, Slot::Line), "line", ExternalPort::default());
        let shared = site.add(Order::Shared(2, 0), "shared", ExternalPort::default());
        let twin = site.add(Order::Shared(2, 0), "twin", ExternalPort::default());
        let node = site.add(Order::Node(7), "node", ExternalPort::default());
        let network = site.add(Order::Network(4, 0), "network", ExternalPort::default());
        let installed = site.finish().expect("no wires");
        let order = [node, shared, twin, line, receiver, network, flow];
        let numbers: Vec<usize> = order.iter().map(|part| installed.element(*part).index()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn wires_follow_the_elements() {
        let mut site = Site::new(1, &NoFiles);
        let (last, first) = (
            site.add(Order::Flow(0, 0, 0), "last", ExternalPort::default()),
            site.add(Order::Gate, "first", ExternalPort::default()),
        );
        site.connect((first, ExternalPort::NETWORK), (last, ExternalPort::NETWORK));
        let mut installed = site.finish().expect("no loop");
        let (from, to) = (installed.element(first), installed.element(last));
        installed.network.inject(from, ExternalPort::OUTSIDE, bentpipe_net::Packet::from_bytes(&[0x45; 20]));
        installed.network.run_until(bentpipe_units::Time::ZERO);
        assert!(installed.network.element::<ExternalPort>(to).expect("a gate").take().is_some());
    }
}
