//! Scenario that is cut at a link, for a machine for each part.
//!
//! The network is built whole at each machine, so addresses, port numbers and random streams agree. Only one part of it has
//! hosts and sending flows there, and the cut link leads to the other machine.

use std::collections::BTreeSet;

use bentpipe_net::Cut;
use bentpipe_scenario::{
    Difference, Flow, Layout, Link, Medium, Moment, Problem, Scenario, Side, Way, copies,
};
use bentpipe_sim::ElementId;
use bentpipe_site::{At, Order, Part, Site};
use bentpipe_units::Span;

use super::links::Joined;

/// Part of a scenario that is cut at a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioPart {
    link: String,
    /// Direction in which packets leave this part.
    out: Way,
    /// Nodes of this part, without copies.
    here: BTreeSet<String>,
    /// Time before their arrival at which packets leave the machine.
    ahead: Span,
}

/// Refuses feedback of stages of a cut link: it needs the other machine.
fn refuse_feedback(side: &Side) -> Result<(), Problem> {
    let stages = side.stages.by_row();
    let mut all = stages.iter().filter_map(|(row, stage)| Some((row, (*stage)?)));
    match all.find(|(_, stage)| stage.has_feedback()) {
        Some((row, _)) => {
            let problem = "of a cut link needs the elements of the other machine: expected false";
            Err(Problem::new(side.place.key(&format!("{}.feedback", row.key)), problem))
        }
        None => Ok(()),
    }
}

impl ScenarioPart {
    /// Returns the part that has `node` of a scenario that is cut at `link`.
    ///
    /// # Errors
    /// Returns an error if the link or node is unknown, the link cannot be cut, or the parts are joined elsewhere.
    pub fn new(scenario: &Scenario, link: &str, node: &str) -> Result<ScenarioPart, Problem> {
        let scenario = copies::spread(scenario).into_owned();
        let key = format!("link.{link}");
        let Some(cut) = scenario.link.get(link) else {
            let names = scenario.link.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Problem::new(
                "link",
                format!("no link \"{link}\" to cut at: expected one of {names}"),
            ));
        };
        if !scenario.node.contains_key(node) {
            return Err(Problem::new("node", format!("no node \"{node}\" whose part to emulate")));
        }
        let layout = Layout::new(&scenario);
        layout.members().iter().filter(|member| member.name == link).try_for_each(Medium::cut)?;
        let members = layout.members();
        let mut sides = members.iter().zip(layout.sides()).filter(|(member, _)| member.name == link);
        sides.try_for_each(|(_, side)| refuse_feedback(side))?;
        let here = reachable(&scenario, link, node);
        let out = match cut.between.each_ref().map(|end| here.contains(end)) {
            [true, false] => Way::Forward,
            [false, true] => Way::Return,
            [true, true] => {
                let problem = format!(
                    "does not cut the scenario: \"{}\" and \"{}\" are joined by other links too",
                    cut.between[0], cut.between[1]
                );
                return Err(Problem::new(key, problem));
            }
            [false, false] => {
                return Err(Problem::new(key, format!("has no end in the part of \"{node}\"")));
            }
        };
        if let Some((name, _)) = scenario.tunnel.iter().find(|(_, tunnel)| {
            let [a, b] = tunnel.between.each_ref().map(|end| here.contains(end));
            a != b
        }) {
            let problem = "has its ends at two machines: expected both in one part";
            return Err(Problem::new(format!("tunnel.{name}.between"), problem));
        }
        let part = ScenarioPart { link: link.to_owned(), out, here, ahead: Span::ZERO };
        part.check_flows(&scenario)?;
        Ok(part)
    }

    /// Checks that flows between the parts can have their ends at two machines.
    fn check_flows(&self, scenario: &Scenario) -> Result<(), Problem> {
        let crossing = scenario.flow.iter().filter(|(_, flow)| self.crosses(scenario, flow));
        let mut wrong = crossing.filter(|(_, flow)| !["udp", "tcp"].contains(&flow.traffic.word()));
        match wrong.next() {
            None => Ok(()),
            Some((name, flow)) => {
                let problem = format!(
                    "traffic of kind \"{}\" between both parts: expected \"udp\" or \"tcp\", or real hosts",
                    flow.traffic.word()
                );
                Err(Problem::new(format!("flow.{name}.traffic"), problem))
            }
        }
    }

    /// Returns this part with packets that leave the machine `ahead` of their arrival.
    pub fn ahead_by(self, ahead: Span) -> ScenarioPart {
        ScenarioPart { ahead, ..self }
    }

    /// Returns the name of the link.
    pub fn link(&self) -> &str {
        &self.link
    }

    /// Returns the number of the link's end in this part, from zero.
    pub fn side(&self) -> u8 {
        self.out.index() as u8
    }

    /// Returns the names of the link's ends, the one in this part first.
    pub fn ends<'s>(&self, scenario: &'s Scenario) -> Option<[&'s str; 2]> {
        let [first, second] = scenario.link.get(&self.link)?.between.each_ref().map(String::as_str);
        Some(if self.out == Way::Forward { [first, second] } else { [second, first] })
    }

    /// Returns `true` if the node is in this part.
    pub fn has(&self, node: &str) -> bool {
        self.here.contains(node)
    }

    /// Returns the shortest delay of the link during a run.
    pub fn shortest_delay(&self, scenario: &Scenario) -> Span {
        let later = scenario.timeline.iter().flat_map(|moment| &moment.difference.link);
        let later = later.filter(|(name, _)| *name == self.link).map(|(_, link)| link);
        let links = scenario.link.get(&self.link).into_iter().chain(later);
        let delays = links.flat_map(|link| Way::BOTH.map(|way| link.side(&self.link, way).common.delay));
        delays.min().unwrap_or_default()
    }

    /// Returns `true` if a flow has ends in both parts.
    fn crosses(&self, scenario: &Scenario, flow: &Flow) -> bool {
        let from = self.here.contains(&flow.from);
        match scenario.group.get(&flow.to) {
            Some(group) => group.members.iter().any(|member| self.here.contains(member) != from),
            None => self.here.contains(&flow.to) != from,
        }
    }

    /// Adapts a scenario without copies. Its link is shorter, and only this part sends.
    pub(super) fn adapt(&self, scenario: &mut Scenario) -> Result<(), Problem> {
        let crossed = scenario.flow.values().any(|flow| self.crosses(scenario, flow));
        let is_here = |flow: &Flow| self.here.contains(&flow.from);
        if crossed {
            // All stay, so that both machines give the same port numbers.
            scenario.flow.values_mut().filter(|flow| !is_here(flow)).for_each(|flow| flow.active = false);
        } else {
            scenario.flow.retain(|_, flow| is_here(flow));
        }
        if let Some(link) = scenario.link.get_mut(&self.link) {
            self.shorten(link)?;
        }
        let adapt = |moment: &Moment| {
            let mut moment = moment.clone();
            let Difference { link, flow, .. } = &mut moment.difference;
            if crossed {
                flow.iter_mut().filter(|(_, flow)| !is_here(flow)).for_each(|(_, flow)| flow.active = false);
            } else {
                flow.retain(|(_, flow)| is_here(flow));
            }
            let mut cut = link.iter_mut().filter(|(name, _)| *name == self.link);
            cut.try_for_each(|(_, link)| self.shorten(link))?;
            Ok(moment)
        };
        scenario.timeline = scenario.timeline.iter().map(adapt).collect::<Result<_, Problem>>()?;
        Ok(())
    }

    /// Subtracts the time that packets leave the machine ahead from the delay of the link.
    fn shorten(&self, link: &mut Link) -> Result<(), Problem> {
        for way in Way::BOTH {
            let delay = link.side(&self.link, way).common.delay;
            if delay < self.ahead {
                let problem = format!(
                    "{delay} is less than the {} that the path between both machines needs: expected more",
                    self.ahead
                );
                return Err(Problem::new(format!("link.{}.delay", self.link), problem));
            }
            link.own_mut(way).delay = Some(delay - self.ahead);
        }
        Ok(())
    }

    /// Records the cut.
    pub(super) fn add(&self, scenario: &Scenario, site: &mut Site<'_>) -> Part {
        debug_assert!(scenario.link.contains_key(&self.link), "checked");
        site.add(Order::Gate, format!("cut/{}", self.link), Cut::new(self.ahead))
    }

    /// Connects the cut in the place of the link's other half.
    ///
    /// `gate` returns the input of a real host, by host and link.
    pub(super) fn connect(
        &self,
        cut: Part,
        links: &[Joined],
        gate: impl Fn(&str, &str) -> Option<At>,
        site: &mut Site<'_>,
    ) {
        for link in links.iter().filter(|link| link.name == self.link) {
            if link.way == self.out {
                site.connect(link.output, (cut, Cut::LINE));
            } else {
                site.connect(link.output, (cut, Cut::COPY));
                site.connect((cut, Cut::END), gate(&link.to, &self.link).unwrap_or(link.end));
            }
        }
    }
}

/// Cut of a network, with its part of the scenario.
#[derive(Clone, Debug)]
pub struct NetworkCut {
    /// Element with what goes to the other machine and comes from there: a `bentpipe_net::Cut`.
    pub element: ElementId,
    /// Part that is emulated here.
    pub part: ScenarioPart,
}

/// Returns the nodes that are joined with `node` when a link is cut.
fn reachable(scenario: &Scenario, cut: &str, node: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::from([node.to_owned()]);
    let mut waiting = vec![node.to_owned()];
    while let Some(node) = waiting.pop() {
        for (_, link) in
            scenario.link.iter().filter(|(name, link)| *name != cut && link.between.contains(&node))
        {
            for end in &link.between {
                if found.insert(end.clone()) {
                    waiting.push(end.clone());
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use bentpipe_scenario::Document;

    use super::*;

    fn scenario(more: &str) -> Scenario {
        let text = format!(
            "title = \"t\"\nduration = \"1 s\"\nnode.a = {{}}\nnode.b = {{ kind = \"router\" }}\nnode.c = {{ kind = \"router\" }}\n\
             node.d = {{}}\n[link.lan]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n[link.sky]\nbetween = [\"c\", \"b\"]\n\
             rate = \"1 Mbit/s\"\ndelay = \"100 ms\"\nreturn.delay = \"90 ms\"\n[link.far]\nbetween = [\"c\", \"d\"]\n\
             rate = \"1 Mbit/s\"\n{more}"
        );
        Document::parse("f.toml", text.as_bytes()).and_then(|document| document.scenario()).expect("valid")
    }

    #[test]
    fn a_part_is_what_is_on_this_side_of_the_link() {
        let scenario = scenario("");
        let part = ScenarioPart::new(&scenario, "sky", "a").expect("a part");
        assert_eq!(part.here.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((part.out, part.ends(&scenario)), (Way::Return, Some(["b", "c"])));
        assert_eq!(part.shortest_delay(&scenario), Span::from_millis(90));
        let other = ScenarioPart::new(&scenario, "sky", "d").expect("the other part");
        assert_eq!((other.out, other.has("c"), other.has("b")), (Way::Forward, true, false));
    }

    #[test]
    fn what_cannot_be_cut_is_refused_with_its_key() {
        let problem = |more: &str, link: &str, node: &str| {
            let problem = ScenarioPart::new(&scenario(more), link, node).expect_err(more);
            format!("{}: {}", problem.key, problem.problem)
        };
        assert!(problem("", "ski", "a").contains("expected one of lan, sky, far"));
        assert!(problem("", "sky", "x").contains("no node \"x\""));
        assert!(problem("", "lan", "far").contains("no node \"far\""));
        let round = "[link.round]\nbetween = [\"a\", \"d\"]\nrate = \"1 Mbit/s\"\n";
        assert!(
            problem(round, "sky", "a").contains("does not cut the scenario"),
            "{}",
            problem(round, "sky", "a")
        );
        let event = "[[event]]\nat = \"1 s\"\nset = { \"link.sky.delay\" = \"5 ms\" }\n";
        let short = scenario(event);
        let part = ScenarioPart::new(&short, "sky", "a").expect("a part");
        assert_eq!(part.shortest_delay(&short), Span::from_millis(5));
        let refused = part.ahead_by(Span::from_millis(6)).adapt(&mut short.clone()).expect_err("too short");
        assert!(refused.key == "link.sky.delay" && refused.problem.contains("5 ms is less than the 6 ms"));
    }

    #[test]
    fn carriers_of_the_senders_can_be_cut_and_what_both_ends_share_cannot() {
        let part = |medium: &str, lines: &str| {
            let text = format!(
                "title = \"t\"\nduration = \"1 s\"\nnode.a = {{}}\nnode.b = {{}}\n[link.sky]\nbetween = [\"a\", \"b\"]\n\
                 delay = \"100 ms\"\n{medium}\n{lines}"
            );
            let scenario =
                Document::parse("f.toml", text.as_bytes()).and_then(|document| document.scenario());
            ScenarioPart::new(&scenario.expect("valid"), "sky", "a").map_err(|problem| problem.to_string())
        };
        let line = "[dvb.down]\nkind = \"transport-stream\"\nrate = \"2 Mbit/s\"\n";
        let stream = |rohc: &str| format!("medium = {{ kind = \"dvb\", line = \"down\"{rohc} }}");
        assert!(part(&stream(""), line).is_ok());
        assert!(part(&stream(", rohc = { mode = \"unidirectional\" }"), line).is_ok());
        let refused = part(&stream(", rohc = { mode = \"optimistic\" }"), line).expect_err("feedback");
        assert!(
            refused.contains("link.sky.medium.rohc.mode") && refused.contains("expected \"unidirectional\"")
        );
        let refused = part("medium = { kind = \"wifi\", standard = \"b\", rate = \"11 Mbit/s\" }", "")
            .expect_err("air");
        assert!(refused.contains("link.sky.medium") && refused.contains("cannot be cut"), "{refused}");
        let file = "rate = \"1 Mbit/s\"\ndelay_changes = { file = \"f.csv\" }";
        assert!(part(file, "").expect_err("a file").contains("link.sky.delay_changes"));
    }

    #[test]
    fn the_link_is_shorter_and_only_this_part_sends() {
        let flow = |name: &str, from: &str, to: &str| {
            format!("[flow.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\ntraffic = {{ kind = \"tcp\" }}\n")
        };
        let own = [flow("near", "a", "b"), flow("distant", "d", "c")].concat();
        let adapted = |more: &str| {
            let mut scenario = scenario(more);
            let part =
                ScenarioPart::new(&scenario, "sky", "a").expect("a part").ahead_by(Span::from_millis(20));
            part.adapt(&mut scenario).expect("long enough");
            scenario
        };
        let apart = adapted(&own);
        assert_eq!(apart.flow.keys().collect::<Vec<_>>(), ["near"]);
        let sky = &apart.link["sky"];
        let delays = Way::BOTH.map(|way| sky.side("sky", way).common.delay);
        assert_eq!(delays, [80, 70].map(Span::from_millis));
        let crossed = adapted(&[own, flow("over", "d", "a")].concat());
        let active: Vec<bool> = crossed.flow.values().map(|flow| flow.active).collect();
        assert_eq!(active, [true, false, false]);
    }
}
