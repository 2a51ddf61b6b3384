//! Contract of a stage: elements around a medium.

use bentpipe_net::quick_start::{self, Approver};
use bentpipe_net::{Element, InvalidConfig, Port, Shaper, custom, shaper};
use bentpipe_units::{Bytes, Rate};

use crate::change::{Changes, UNCHANGEABLE};
use crate::{At, Member, Order, Part, Place, Problem, Review, Site, Slot, StageHandle, Wired};

/// Direction of a link that a stage is put in front of.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// Line rate of the medium.
    pub rate: Rate,
    /// Set if the sending node forwards packets of others.
    pub from_router: bool,
}

/// Elements of a stage, with input and output 0 each.
pub struct StageElements {
    /// Element in front of the medium.
    pub front: Box<dyn Element>,
    /// Partner behind the medium.
    pub behind: Option<Box<dyn Element>>,
}

impl StageElements {
    /// Creates a stage without a partner.
    pub fn alone(front: impl Element + 'static) -> StageElements {
        StageElements { front: Box::new(front), behind: None }
    }
}

/// Limit of the IP packets that pass a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Rate in the long run.
    pub rate: Rate,
    /// Bytes that pass at once after a pause.
    pub burst: Bytes,
    /// Longest packet that passes.
    pub longest: Bytes,
}

/// Stage of a direction of a link.
pub trait Stage {
    /// Checks the configuration.
    ///
    /// # Errors
    /// Returns an error if a value is impossible.
    fn check(&self) -> Result<(), InvalidConfig>;

    /// Creates the elements.
    ///
    /// # Errors
    /// Returns an error if a value is impossible.
    fn elements(&self, at: &Ahead) -> Result<StageElements, InvalidConfig>;

    /// Returns `true` if the partner sends feedback by way of the other direction. Default: false.
    ///
    /// Outputs 1 and 2 of the partner lead to inputs 1 and 2 of the same stage's front in the other direction: feedback to
    /// be sent, and feedback that came.
    fn has_feedback(&self) -> bool {
        false
    }

    /// Returns the limit of IP packets that pass. Default: no limit.
    fn limit(&self) -> Option<Limit> {
        None
    }

    /// Returns `true` if it makes other packets of those that come. Default: false.
    ///
    /// A program may do so.
    fn remakes(&self) -> bool {
        false
    }

    /// Lists the change to this configuration of a stage that has another one. Default: refuses it.
    ///
    /// # Errors
    /// Returns an error if it cannot be changed.
    fn change(&self, _: &StageHandle, key: String, _: &mut Changes) -> Result<(), Problem> {
        Err(Problem::new(key, UNCHANGEABLE))
    }
}

impl Stage for shaper::Config {
    fn check(&self) -> Result<(), InvalidConfig> {
        self.check()
    }

    fn elements(&self, _: &Ahead) -> Result<StageElements, InvalidConfig> {
        Shaper::new(self).map(StageElements::alone)
    }

    fn limit(&self) -> Option<Limit> {
        let longest = if self.peak_rate.is_some() { self.burst.min(self.mtu) } else { self.burst };
        Some(Limit { rate: self.long_run(), burst: self.burst, longest })
    }

    fn change(&self, at: &StageHandle, key: String, to: &mut Changes) -> Result<(), Problem> {
        to.set(at.front, key, *self, |shaper: &mut Shaper, now, config| shaper.set(now, &config));
        Ok(())
    }
}

impl Stage for quick_start::Config {
    fn check(&self) -> Result<(), InvalidConfig> {
        self.check()
    }

    fn elements(&self, at: &Ahead) -> Result<StageElements, InvalidConfig> {
        Approver::new(self, at.rate, at.from_router).map(StageElements::alone)
    }
}

impl Stage for custom::Config {
    fn remakes(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), InvalidConfig> {
        Ok(())
    }

    fn elements(&self, at: &Ahead) -> Result<StageElements, InvalidConfig> {
        Ok(StageElements::alone(custom::Custom::new(self, at.rate)))
    }
}

/// Row of the table of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageRow {
    /// Key.
    pub key: &'static str,
    /// Last part of the path of the element in front.
    pub name: &'static str,
}

/// Stages of a direction by the row of their kind.
pub type ByRow<'s> = Vec<(StageRow, Option<&'s dyn Stage>)>;

/// Stages of a direction that are recorded, with its input and output.
pub struct Staged {
    /// Stages that the direction has, the nearest to the medium first.
    pub stages: Vec<StageHandle<Part>>,
    /// Input for packets.
    pub input: At,
    /// Output of packets.
    pub output: At,
}

/// Reports what is wrong with the stages of a direction.
pub fn check(stages: &ByRow<'_>, place: &Place, review: &mut Review<'_>) {
    for (row, stage) in stages {
        if let Some(Err(error)) = stage.map(Stage::check) {
            let problem = Problem::impossible(&place.key(row.key), &error);
            review.refuse(&problem.key, problem.problem);
        }
    }
}

/// Reports stages of a direction that have feedback while the other direction has none.
pub fn check_feedback(stages: &ByRow<'_>, back: &ByRow<'_>, place: &Place, review: &mut Review<'_>) {
    for ((row, stage), (_, back)) in stages.iter().zip(back) {
        let has = |stage: &Option<&dyn Stage>| stage.is_some_and(Stage::has_feedback);
        let expected =
            format!("no way back: expected false, or `{}` with `feedback` in the other direction", row.key);
        review.ensure(!has(stage) || has(back), &place.key(&format!("{}.feedback", row.key)), &expected);
    }
}

/// Connects the partners of stages that have feedback to the fronts of the other direction.
pub fn connect_feedback(
    stages: &ByRow<'_>,
    here: &[StageHandle<Part>],
    back: &[StageHandle<Part>],
    site: &mut Site<'_>,
) {
    for stage in here.iter().filter(|stage| stages[stage.row].1.is_some_and(Stage::has_feedback)) {
        let other = back.iter().find(|other| other.row == stage.row);
        if let (Some(partner), Some(other)) = (stage.behind, other) {
            [1, 2].map(Port).into_iter().for_each(|port| site.connect((partner, port), (other.front, port)));
        }
    }
}

/// Records the stages of a direction, each in front of the one before.
///
/// # Errors
/// Returns an error if a configuration is impossible.
pub fn install<M>(
    stages: &ByRow<'_>,
    member: &Member<'_, M>,
    wired: &Wired,
    site: &mut Site<'_>,
) -> Result<Staged, Problem> {
    let at = Ahead { rate: wired.rate, from_router: member.from_router };
    let mut staged = Staged { stages: Vec::new(), input: wired.input, output: wired.output };
    for (n, (row, stage)) in stages.iter().enumerate() {
        let Some(stage) = stage else { continue };
        let elements = stage.elements(&at);
        let elements = elements.map_err(|error| Problem::impossible(&member.place.key(row.key), &error))?;
        staged.put(n, *row, elements, member, site);
    }
    Ok(staged)
}

impl Staged {
    /// Records one stage around what is there.
    fn put<M>(
        &mut self,
        n: usize,
        row: StageRow,
        elements: StageElements,
        member: &Member<'_, M>,
        site: &mut Site<'_>,
    ) {
        let path = format!("{}/{}", member.path(), row.name);
        let order = |slot| Order::Link(member.link, member.way, slot);
        let StageElements { front, behind } = elements;
        let front = site.add_boxed(order(Slot::Stage(n)), path.as_str(), front);
        site.connect((front, Port(0)), std::mem::replace(&mut self.input, (front, Port(0))));
        let behind = behind.map(|partner| {
            let partner = site.add_boxed(order(Slot::Partner(n)), format!("{path}/partner"), partner);
            site.connect(std::mem::replace(&mut self.output, (partner, Port(0))), (partner, Port(0)));
            partner
        });
        self.stages.push(StageHandle { row: n, front, behind });
    }
}

/// Returns the tightest limit of the stages of a direction, if one has a limit.
pub fn limit(stages: &ByRow<'_>) -> Option<Limit> {
    let limits = stages.iter().filter_map(|(_, stage)| stage.and_then(Stage::limit));
    limits.min_by_key(|limit| limit.rate)
}

/// Returns the keys of the stages that make other packets of those that come.
pub fn remaking(stages: &ByRow<'_>) -> Vec<&'static str> {
    let remakes =
        |(row, stage): &(StageRow, Option<&dyn Stage>)| stage.is_some_and(Stage::remakes).then_some(row.key);
    stages.iter().filter_map(remakes).collect()
}

/// Lists the changes of the stages of a direction. `same` is set for each row that does not differ.
///
/// # Errors
/// Returns an error if a stage is added or removed, or cannot be changed.
pub fn change(
    stages: &ByRow<'_>,
    same: &[bool],
    handles: &[StageHandle],
    key: &dyn Fn(&str) -> String,
    to: &mut Changes,
) -> Result<(), Problem> {
    let rows = stages.iter().zip(same).enumerate().filter(|(_, (_, same))| !**same);
    for (n, ((row, stage), _)) in rows {
        let handle = handles.iter().find(|handle| handle.row == n);
        match (handle, stage) {
            (Some(handle), Some(stage)) => stage.change(handle, key(row.key), to)?,
            (had, _) => return Err(added_or_removed(key(row.key), had.is_some())),
        }
    }
    Ok(())
}

/// Returns the refusal of a stage that is removed, or added.
fn added_or_removed(key: String, is_removed: bool) -> Problem {
    let refused = if is_removed { "cannot be removed" } else { "cannot be added" };
    Problem::new(key, format!("{refused} while it runs: expected what the scenario started with"))
}
