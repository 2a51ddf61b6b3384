//! Traces for scenarios: read from files, made, or made by a model fitted to another.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::channel::loss::{Counts, Model, fit};
use bentpipe_net::channel::{Fit, Trace, TraceConfig};
use bentpipe_scenario::Access;
use bentpipe_units::RandomStream;

/// The longest trace file.
pub const MAX_BYTES: u64 = 1 << 29;

/// Key of a fault, and its problem.
type Wrong = (&'static str, String);

/// Most traces that are kept for further lines.
const MOST_KEPT: usize = 64;

/// Trace as it is read or made, and the models that were fitted to it.
struct Kept {
    trace: Arc<Trace>,
    models: HashMap<Fit, Model>,
}

/// Traces of a scenario. Many copies of a line have the same.
#[derive(Clone, Default)]
pub(crate) struct Traces(Arc<Mutex<HashMap<String, Kept>>>);

impl Traces {
    /// Returns the trace of a configuration, and the model that is fitted to it.
    fn of(&self, config: &TraceConfig, access: &Access) -> Result<(Arc<Trace>, Option<Model>), Wrong> {
        let key = format!("{:?} {:?}", config.file, config.synthetic);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_KEPT && !all.contains_key(&key) {
            all.clear();
        }
        let kept = match all.entry(key) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => {
                let trace = Arc::new(measured(config, access)?);
                place.insert(Kept { trace, models: HashMap::new() })
            }
        };
        let model = match kept.models.entry(config.fit) {
            _ if config.fit == Fit::Itself => None,
            Entry::Occupied(model) => Some(*model.get()),
            Entry::Vacant(place) => {
                let fitted = fit(config.fit, &kept.trace, &Counts::of(&kept.trace));
                Some(*place.insert(fitted.map_err(|problem| ("fit", problem))?.model))
            }
        };
        Ok((Arc::clone(&kept.trace), model))
    }
}

/// Reads a trace file.
///
/// # Errors
/// Returns an error that begins with the name, if the file cannot be read or is not a trace.
fn read(file: &Path, access: &Access) -> Result<Trace, String> {
    let shown = access.shown(file);
    let said = |error: &dyn std::fmt::Display| format!("{shown}: {error}");
    let text = access.read_at_most(file, MAX_BYTES).map_err(|error| said(&error))?;
    Trace::parse(&text).map_err(|error| said(&error))
}

/// Returns a trace that is read or made.
fn measured(config: &TraceConfig, access: &Access) -> Result<Trace, Wrong> {
    Ok(match (&config.file, &config.synthetic) {
        (Some(file), None) => read(file, access).map_err(|problem| ("file", problem))?,
        (None, Some(synthetic)) => {
            let possible = (1e-4..=0.95).contains(&synthetic.loss)
                && (0.0..=20.0).contains(&synthetic.deviation_db)
                && (1.0..=1e6).contains(&synthetic.hold)
                && (1.05..=20.0).contains(&synthetic.shape);
            let trace = possible.then(|| synthetic.trace()).flatten();
            trace
                .ok_or(("synthetic", "expected values in their ranges, and at least one frame".to_owned()))?
        }
        (None, None) => return Err(("file", "expected one of `file` and `synthetic`".into())),
        (Some(_), Some(_)) => {
            return Err(("file", "expected one of `file` and `synthetic`, not both".into()));
        }
    })
}

/// Returns a trace that is read, made or fitted.
///
/// `seed` and `name` seed the draws of a fitted model, unless the trace is for a check: it then has those that were measured.
///
/// # Errors
/// Returns the key of the fault, and the problem.
pub(crate) fn load(
    config: &TraceConfig,
    (access, kept): (&Access, &Traces),
    draws: Option<(u64, &str)>,
) -> Result<Arc<Trace>, Wrong> {
    let (measured, model) = kept.of(config, access)?;
    let drawn = model.zip(draws).and_then(|(model, (seed, name))| {
        let mut stream = RandomStream::new(seed, &format!("{name}/trace"));
        model.trace(measured.frames(), &mut stream)
    });
    Ok(drawn.map_or(measured, Arc::new))
}
