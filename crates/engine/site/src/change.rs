//! Changes of a network while it runs.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::discriminant;

use bentpipe_net::queue::Discipline;
use bentpipe_net::{Channel as ChannelElement, InvalidConfig, channel};
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::Time;

use crate::channel::Channel;
use crate::handle::LinkHandle;
use crate::member::Member;
use crate::problem::Problem;

/// Message about a setting that a running network cannot change.
pub const UNCHANGEABLE: &str =
    "cannot be changed while it runs: `bentpipe set --help` lists the keys that can";

/// Change of one element. It applies to later transmissions; packets in flight are untouched.
pub struct Change {
    /// Element.
    pub element: ElementId,
    /// Dotted key.
    pub key: String,
    setting: Box<dyn Set>,
}

/// Value of a key, with what sets it. Its text is made where it is asked for: a ramp changes thousands of copies.
trait Set: Send {
    fn value(&self) -> String;
    fn set(self: Box<Self>, element: ElementId, network: &mut Network) -> Result<(), String>;
}

struct Setting<E, V, F> {
    value: V,
    set: F,
    element: PhantomData<fn(E)>,
}

impl<E: Any, V, F> Set for Setting<E, V, F>
where
    V: fmt::Debug + Send,
    F: FnOnce(&mut E, Time, V) -> Result<(), InvalidConfig> + Send,
{
    fn value(&self) -> String {
        format!("{:?}", self.value)
    }

    fn set(self: Box<Self>, element: ElementId, network: &mut Network) -> Result<(), String> {
        let (now, Setting { value, set, .. }) = (network.now(), *self);
        match network.change::<E, _>(element, |target| set(target, now, value)) {
            Some(changed) => changed.map_err(|refusal| refusal.to_string()),
            None => Err(format!("\"{}\" does not take it", network.path(element))),
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.value())
    }
}

impl Change {
    /// Returns the new value, as text.
    pub fn value(&self) -> String {
        self.setting.value()
    }

    /// Applies the change at the network's present instant.
    ///
    /// # Errors
    /// Returns an error if the element rejects the value, or has another type than expected.
    pub fn apply(self, network: &mut Network) -> Result<(), Problem> {
        let Change { element, key, setting } = self;
        setting.set(element, network).map_err(|problem| Problem::new(key, problem))?;
        network.poke(element);
        Ok(())
    }
}

/// Changes that are collected.
#[derive(Debug, Default)]
pub struct Changes(Vec<Change>);

impl Changes {
    /// Adds the change of an element of type `E` to `value`.
    pub fn set<E: Any, V: fmt::Debug + Send + 'static>(
        &mut self,
        element: ElementId,
        key: impl Into<String>,
        value: V,
        set: impl FnOnce(&mut E, Time, V) -> Result<(), InvalidConfig> + Send + 'static,
    ) {
        let setting = Box::new(Setting { value, set, element: PhantomData });
        self.0.push(Change { element, key: key.into(), setting });
    }

    /// Returns the changes.
    pub fn into_vec(self) -> Vec<Change> {
        self.0
    }

    /// Returns `true` if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Direction of a link before and after a change.
pub struct Changing<'a, M> {
    /// Elements of the direction.
    pub handle: &'a LinkHandle,
    /// Present state.
    pub before: Member<'a, M>,
    /// State after the change.
    pub after: Member<'a, M>,
}

impl<M> Changing<'_, M> {
    /// Returns a key of the direction.
    pub fn key(&self, key: &str) -> String {
        format!("link.{}.{}.{key}", self.handle.name, self.handle.way.name())
    }

    /// Returns the refusal of a change at a key of the direction.
    pub fn refusal(&self, key: &str, why: &str) -> Problem {
        Problem::new(self.key(key), format!("cannot be changed while it runs: {why}"))
    }

    /// Refuses the first of several keys whose value does not stay as it is.
    ///
    /// # Errors
    /// Returns an error if the value of a key is not the same.
    pub fn refuse(&self, fixed: &[(&str, bool, &str)]) -> Result<(), Problem> {
        match fixed.iter().find(|(_, same, _)| !same) {
            Some((key, _, why)) => Err(self.refusal(key, why)),
            None => Ok(()),
        }
    }

    /// Returns the new queue if it differs.
    ///
    /// # Errors
    /// Returns an error if it is of another kind.
    pub fn queue(&self) -> Result<Option<Discipline>, Problem> {
        let [had, wanted] =
            [&self.before, &self.after].map(|side| side.common.queue.clone().unwrap_or_default());
        if discriminant(&had) != discriminant(&wanted) {
            return Err(self.refusal("queue.kind", "expected the queue's own kind"));
        }
        Ok((had != wanted).then_some(wanted))
    }

    /// Adds changes of all faults after the line. The last element takes those that exceed the number of elements.
    ///
    /// # Errors
    /// Returns an error if the direction began without a fault, or one is a trace.
    pub fn faults(&self, to: &mut Changes) -> Result<(), Problem> {
        let Some(faults) = self.new_faults()? else { return Ok(()) };
        let (key, mut faults) = (self.key("channel"), faults.into_iter());
        let Some((last, others)) = self.handle.channels.split_last() else {
            let problem = "cannot be given while it runs, as there was none; \
                           help: begin with { kind = \"packet-errors\", loss = 0.0 }";
            return Err(Problem::new(key, problem));
        };
        let mut set = |element: ElementId, faults: Vec<channel::Config>| {
            to.set(element, key.clone(), faults, |element: &mut ChannelElement, _, faults| {
                element.set(&faults)
            });
        };
        others.iter().for_each(|element| set(*element, faults.next().into_iter().collect()));
        set(*last, faults.collect());
        Ok(())
    }

    /// Returns the new faults if they differ.
    ///
    /// # Errors
    /// Returns an error if one is a trace or takes its outages from a file.
    pub fn new_faults(&self) -> Result<Option<Vec<channel::Config>>, Problem> {
        let [had, wanted] = [&self.before, &self.after].map(|side| &side.common.channel);
        if had == wanted {
            return Ok(None);
        }
        let faults = |channel: &Option<Channel>| {
            channel.as_ref().map_or_else(Vec::new, |channel| channel.faults().to_vec())
        };
        let (had, wanted) = (faults(had), faults(wanted));
        if had.iter().chain(&wanted).any(|fault| matches!(fault, channel::Config::Trace(_))) {
            return Err(Problem::new(self.key("channel"), "a trace cannot be changed while it runs"));
        }
        let is_of_file =
            |fault: &channel::Config| matches!(fault, channel::Config::Outages { contacts: Some(_), .. });
        if wanted.iter().any(is_of_file) {
            let problem = "contacts of a file cannot be set while it runs; help: give `outages`";
            return Err(Problem::new(self.key("channel"), problem));
        }
        let is_table = |fault: &channel::Config| matches!(fault, channel::Config::JitterTable(table) if table.file.is_some());
        if wanted.iter().any(is_table) {
            let problem = "the table of a file cannot be set while it runs; help: give `values`";
            return Err(Problem::new(self.key("channel"), problem));
        }
        Ok(Some(wanted))
    }
}

/// Adds a change of each of several elements.
///
/// # Errors
/// Returns an error if there are not as many values as elements.
pub fn set_all<E: Any, V: fmt::Debug + Send + 'static>(
    key: String,
    elements: &[ElementId],
    values: Vec<V>,
    to: &mut Changes,
    set: impl FnOnce(&mut E, Time, V) -> Result<(), InvalidConfig> + Send + Copy + 'static,
) -> Result<(), Problem> {
    if values.len() != elements.len() {
        let problem = format!("has {} faults: expected as many while it runs", elements.len());
        return Err(Problem::new(key, problem));
    }
    elements.iter().zip(values).for_each(|(element, value)| to.set(*element, key.clone(), value, set));
    Ok(())
}
