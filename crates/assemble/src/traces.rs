//! Traces for scenarios: read from files, made, or made by a model fitted to another.

use std::path::Path;
use std::sync::Arc;

use bentpipe_net::channel::loss::{Counts, fit};
use bentpipe_net::channel::{Fit, Trace, TraceConfig};
use bentpipe_scenario::Access;
use bentpipe_units::RandomStream;

/// The longest trace file.
pub const MAX_BYTES: u64 = 1 << 29;

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

/// Returns a trace that is read, made or fitted.
///
/// `seed` and `name` seed the draws of a fitted model.
///
/// # Errors
/// Returns the key of the fault, and the problem.
pub fn load(
    config: &TraceConfig,
    access: &Access,
    seed: u64,
    name: &str,
) -> Result<Arc<Trace>, (&'static str, String)> {
    let measured = match (&config.file, &config.synthetic) {
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
    };
    let trace = match config.fit {
        Fit::Itself => measured,
        by => {
            let fitted = fit(by, &measured, &Counts::of(&measured)).map_err(|problem| ("fit", problem))?;
            let mut stream = RandomStream::new(seed, &format!("{name}/trace"));
            fitted.model.trace(measured.frames(), &mut stream).unwrap_or(measured)
        }
    };
    Ok(Arc::new(trace))
}
