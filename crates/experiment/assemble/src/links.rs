//! The walk over links: media, and the stages in front of them.

use bentpipe_net::Port;
use bentpipe_scenario::{Layout, Medium, Problem, Side};
use bentpipe_site::stage::{self, Staged};
use bentpipe_site::{
    Assemblies, At, Facts, Installed, LinkHandle, Member, NodeHandle, Nodes, Part, Site, StageHandle,
    Topology, Way, Wired,
};

/// Direction of a link while the network is put together.
pub(super) struct Joined {
    link: usize,
    /// Name of the link.
    pub(super) name: String,
    /// Name of the node that sends.
    pub(super) from: String,
    /// Name of the node that receives.
    pub(super) to: String,
    /// Input of the node that receives.
    pub(super) end: At,
    /// Direction.
    pub(super) way: Way,
    wired: Wired,
    stages: Vec<StageHandle<Part>>,
    /// Input for packets.
    pub(super) input: At,
    /// Output of packets.
    pub(super) output: At,
}

/// Ends of links: for each the numbers of its nodes, and the interfaces there.
pub(super) struct Interfaces(Vec<[(usize, Port); 2]>);

impl Interfaces {
    /// Returns the ends of all links, as long as the nodes are not recorded.
    pub(super) fn new(topology: &Topology, nodes: &Nodes<'_>) -> Interfaces {
        let of = |name: &String, link| {
            let node = topology.number(name);
            (node, nodes.interface(node, link))
        };
        let links = topology.link.values().enumerate();
        Interfaces(links.map(|(n, link)| link.between.each_ref().map(|end| of(end, n))).collect())
    }

    /// Returns the end of a direction that sends, and the one that receives.
    pub(super) fn ends(&self, member: &Member<'_, Medium>) -> [(usize, Port); 2] {
        let ends = self.0[member.link];
        [ends[member.way.index()], ends[member.way.back().index()]]
    }
}

/// Records the elements of all links and connects them with their nodes.
pub(super) fn add(
    layout: &Layout<'_>,
    assemblies: &mut Assemblies<'_>,
    nodes: &[NodeHandle],
    interfaces: &Interfaces,
    site: &mut Site<'_>,
) -> Result<Vec<Joined>, Problem> {
    assemblies.begin(site)?;
    let members = layout.members();
    let mut all = Vec::with_capacity(members.len());
    for (n, (member, side)) in members.iter().zip(layout.sides()).enumerate() {
        let wired = assemblies.wire(n, site)?;
        let [from, to] = interfaces.ends(member).map(|(node, port)| (nodes[node].part, port));
        let joined = join(member, side, (wired, to), site)?;
        site.connect(from, joined.input);
        site.connect(joined.output, to);
        all.push(joined);
    }
    for (n, side) in layout.sides().enumerate() {
        // Both directions of a link follow each other.
        let stages = [n, n ^ 1].map(|n| &all[n].stages[..]);
        stage::connect_feedback(&side.stages.by_row(), stages[0], stages[1], site);
    }
    assemblies.end(site);
    Ok(all)
}

/// Connects the stages of a direction around its medium.
fn join(
    member: &Member<'_, Medium>,
    side: &Side,
    (wired, end): (Wired, At),
    site: &mut Site<'_>,
) -> Result<Joined, Problem> {
    let Staged { stages, input, output } = stage::install(&side.stages.by_row(), member, &wired, site)?;
    let (name, from, to) = (member.name.to_owned(), member.from.to_owned(), member.to.to_owned());
    Ok(Joined { link: member.link, name, from, to, end, way: member.way, stages, input, output, wired })
}

impl Joined {
    /// Returns the sending and the receiving end of a direction in a tunnel.
    pub(super) fn tunnel_ends(&self) -> (Part, Option<Part>) {
        (self.wired.line.0, self.wired.receiver)
    }

    /// Returns the direction with the numbers of its elements.
    pub(super) fn handle(
        &self,
        member: &Member<'_, Medium>,
        facts: Facts,
        installed: &Installed,
    ) -> LinkHandle {
        let Wired { line, is_observed, channels, receiver, rate, .. } = &self.wired;
        let number = |part: Part| installed.element(part);
        let (line, port) = installed.at(*line);
        LinkHandle {
            link: self.link,
            name: self.name.clone(),
            way: member.way,
            from: self.from.clone(),
            to: member.to.to_owned(),
            input: installed.at(self.input),
            output: installed.at(self.output),
            stages: self.stages.iter().map(|stage| stage.numbered(installed)).collect(),
            line,
            port,
            is_observed: *is_observed,
            channels: channels.iter().copied().map(number).collect(),
            receiver: receiver.map(number),
            rate: *rate,
            delay: facts.delay,
        }
    }
}
