//! Wi-Fi links: the cells that they share, one element each.

use super::{Config, Exchange, OVERHEAD, PathConfig, Wifi};
use bentpipe_net::{Port, channel};
use bentpipe_units::{Bytes, Rate, Span};
use indexmap::{IndexMap, IndexSet};

use bentpipe_site::{
    Airtime, Assembly, At, Changes, Changing, Cost, Facts, MediumKind, Member, Order, Problem, Review, Scope,
    SharingCopies, Site, Wired, line,
};

impl MediumKind for Config {
    type Shared = ();
    const SCOPE: Scope = Scope::Link;

    fn check(all: &[Member<'_, Self>], (): &(), review: &mut Review<'_>) {
        for member in all {
            let place = member.place;
            const RATE: &str = "a Wi-Fi link has no rate of a line: expected `medium.rate`, or none";
            if place.is_own("rate") || place.is_shared("rate") {
                review.refuse(&place.key("rate"), RATE);
            }
            line::refuse_framing(member, "a Wi-Fi link has its own: expected none", review);
        }
    }

    fn facts(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Facts>, Problem> {
        let facts =
            |member: &Member<'_, Self>| Facts { rate: member.medium.data_rate(), delay: member.common.delay };
        Ok(all.iter().map(facts).collect())
    }

    fn costs(all: &[Member<'_, Self>], (): &()) -> Result<Vec<Box<dyn Cost>>, Problem> {
        let cost = |member: &Member<'_, Self>| {
            let cell = match &member.medium.bss {
                Some(bss) => format!("cell {bss}"),
                None => member.name.to_owned(),
            };
            Box::new(WifiCost { config: member.medium.clone(), cell }) as Box<dyn Cost>
        };
        Ok(all.iter().map(cost).collect())
    }

    fn assembly<'s>(row: usize, all: Vec<Member<'s, Self>>, (): &'s ()) -> Box<dyn Assembly + 's> {
        Box::new(Cells { row, places: vec![None; all.len()], all })
    }

    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem> {
        let why =
            "of a Wi-Fi link cannot be changed while it runs: expected `medium.rate`, its queue or channel";
        let (before, after) = (at.before.common, at.after.common);
        let (had, wanted) = (at.before.medium, at.after.medium);
        let same = [
            ("medium", Config { rate: wanted.rate, ..had.clone() } == *wanted),
            ("delay", before.delay == after.delay),
        ];
        if let Some((key, _)) = same.iter().find(|(_, same)| !same) {
            return Err(Problem::new(at.key(key), why));
        }
        let port = usize::from(at.handle.port.0);
        if had.rate != wanted.rate {
            to.set(
                at.handle.line,
                at.key("medium.rate"),
                wanted.clone(),
                move |cell: &mut Wifi, now, wifi: Config| cell.set_rate(now, port, &wifi),
            );
        }
        if let Some(queue) = at.queue()? {
            to.set(at.handle.line, at.key("queue"), queue, move |cell: &mut Wifi, now, queue| {
                cell.set_queue(now, port, &queue)
            });
        }
        let Some(mut faults) = at.new_faults()? else { return Ok(()) };
        if faults.len() > 1 {
            let problem = "several faults: expected one, which acts on frames";
            return Err(Problem::new(at.key("channel"), problem));
        }
        to.set(at.handle.line, at.key("channel"), faults.pop(), move |cell: &mut Wifi, _, fault| {
            cell.set_errors(port, fault.as_ref())
        });
        Ok(())
    }
}

/// Cost of packets in a cell.
struct WifiCost {
    config: Config,
    /// Name of the cell in sentences.
    cell: String,
}

impl Cost for WifiCost {
    fn rate(&self) -> Rate {
        self.config.data_rate()
    }

    fn wire_len(&self, len: usize) -> Bytes {
        Bytes::new((len + OVERHEAD) as u64)
    }

    /// Returns the throughput of a lone sender with one packet per exchange.
    fn capacity(&self, len: usize) -> Rate {
        Rate::of(Bytes::new(len as u64), self.config.exchange(len).with_access(self.config.standard))
    }

    fn time(&self, len: usize) -> Span {
        let exchange = self.config.exchange(len);
        exchange.lead + exchange.data
    }

    fn airtime(&self, len: usize) -> Option<Airtime> {
        let exchange = self.config.exchange(len);
        Some(Airtime {
            before: exchange.lead,
            data: exchange.data,
            ack: exchange.ack,
            access: exchange.with_access(self.config.standard) - exchange.total(),
            attempts: self.config.attempts,
        })
    }

    /// Returns the time of a gap and an ACK, DIFS and the mean backoff.
    ///
    /// An answer comes while the medium is busy with the ACK of its packet.
    fn waits(&self, len: usize) -> Span {
        let exchange = self.config.exchange(len);
        exchange.with_access(self.config.standard) - exchange.lead - exchange.data
    }

    fn drawn(&self, len: usize) -> Span {
        self.config.exchange(len).backoff(self.config.standard)
    }

    /// Returns the part that is left with the shorter of two backoffs.
    ///
    /// In the mean that is a third of the window, not half of it.
    fn contended(&self, len: usize) -> f64 {
        let exchange = self.config.exchange(len);
        let all = exchange.with_access(self.config.standard).as_secs_f64();
        1.0 - exchange.backoff(self.config.standard).as_secs_f64() / 3.0 / all
    }

    fn to_group(&self, len: usize) -> f64 {
        let access = |exchange: Exchange| exchange.with_access(self.config.standard).as_secs_f64();
        access(self.config.exchange_to_group(len)) / access(self.config.exchange(len))
    }

    fn shared(&self) -> Option<&str> {
        Some(&self.cell)
    }

    fn sharing_copies(&self) -> SharingCopies {
        if self.config.bss.is_some() { SharingCopies::All } else { SharingCopies::One }
    }
}

/// Cells with their members.
struct Cells<'s> {
    row: usize,
    all: Vec<Member<'s, Config>>,
    places: Vec<Option<At>>,
}

/// Cell before it is installed.
#[derive(Default)]
struct Cell<'s> {
    /// Numbers of the members in the order of their ports.
    members: Vec<usize>,
    /// Nodes: each is a station.
    stations: IndexSet<&'s str>,
}

impl Assembly for Cells<'_> {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), Problem> {
        let mut cells: IndexMap<String, Cell<'_>> = IndexMap::new();
        for (n, member) in self.all.iter().enumerate() {
            let bss = member.medium.bss.as_ref();
            let path = bss.map_or(format!("link/{}", member.name), |bss| format!("cell/{bss}"));
            let cell = cells.entry(path).or_default();
            cell.members.push(n);
            cell.stations.insert(member.from);
        }
        for (n, (path, cell)) in cells.into_iter().enumerate() {
            let element = site.add(Order::Shared(self.row, n), path, self.build(&cell, site)?);
            for (port, member) in cell.members.iter().enumerate() {
                self.places[*member] = Some((element, Port(port as u16)));
            }
        }
        Ok(())
    }

    fn wire(&mut self, member: usize, _: &mut Site<'_>) -> Result<Wired, Problem> {
        let (member, place) = (&self.all[member], self.places[member]);
        let line = place.ok_or_else(|| Problem::new(member.place.link_key(), "no cell"))?;
        Ok(Wired::new(line, member.medium.data_rate()))
    }
}

impl Cells<'_> {
    fn build(&self, cell: &Cell<'_>, site: &Site<'_>) -> Result<Wifi, Problem> {
        let paths = cell.members.iter().map(|member| path(&self.all[*member], cell, site));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        Wifi::new(&paths).map_err(|refusal| {
            let place = self.all[cell.members[refusal.path]].place;
            let key = match refusal.part {
                "" => place.link_key().to_owned(),
                "wifi" => place.key("medium"),
                part => place.key(part),
            };
            Problem::impossible(&key, &refusal.impossible)
        })
    }
}

fn path(member: &Member<'_, Config>, cell: &Cell<'_>, site: &Site<'_>) -> Result<PathConfig, Problem> {
    let path = member.path();
    Ok(PathConfig {
        station: cell.stations.get_index_of(member.from).unwrap_or(0),
        wifi: member.medium.clone(),
        queue: member.common.queue.clone().unwrap_or_default(),
        errors: errors(member, &path, site)?,
        delay: member.common.delay,
        mtu: member.common.mtu,
        name: path,
    })
}

/// Returns the fault that loses frames, with its trace if it has one.
fn errors(
    member: &Member<'_, Config>,
    path: &str,
    site: &Site<'_>,
) -> Result<Option<channel::LoadedFault>, Problem> {
    let channel = member.common.channel.as_ref();
    match channel.map_or(&[][..], |channel| channel.faults()) {
        [] => Ok(None),
        [one] => site.fault(one, &member.place.key("channel"), path).map(Some),
        _ => Err(Problem::new(
            member.place.key("channel"),
            "several faults: expected one, which acts on frames",
        )),
    }
}
