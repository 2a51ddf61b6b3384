//! Scenario file: its schema, parsing, and error messages.
//!
//! A file is parsed into a tree of values with their places. Overrides and the values of a sweep's point are
//! put into the tree, which is then validated against the JSON Schema of [`Scenario`] and deserialised by
//! serde, and its names and amounts are checked. So every error, wherever it is found, is reported at its
//! line, and all of them together.

mod axes;
pub mod catalogue;
mod check;
pub mod copies;
mod difference;
mod document;
mod elements;
mod error;
mod event_keys;
mod events;
pub mod files;
mod key;
mod media;
pub mod metrics;
mod older;
mod place;
mod ranges;
mod resolve;
mod role_places;
mod roles;
mod schema;
mod separate;
mod settings;
mod sides;
mod stages;
mod states;
mod suggest;
mod sweep;
mod text;
mod traffic;
mod tree;
mod typed;
mod validate;

pub use axes::{MAX_POINTS, MAX_SWEEP};
pub use bentpipe_atm::kind::{Atm, AtmLine, AtmStream, CellChannel, CellSource};
pub use bentpipe_mpeg::stream::{Adaptation, Card, FramePacking, Stream};
pub use bentpipe_site::line::DelayChanges;
pub use bentpipe_site::{Hop, MAX_DELAY, Unreachable, Way};
pub use document::{Document, Error, MAX_FILE_BYTES};
pub use elements::*;
pub use error::{Diagnostic, Origin, Problem, ScenarioError};
pub use event_keys::Event;
pub use events::series::{Row as EventValue, parse as event_series};
pub use files::Access;
pub use media::{Medium, Shared};
pub use older::current_key;
pub use roles::{NodeRoles, Role, RoleTables};
pub(crate) use schema::SCHEMA;
pub use schema::*;
pub use settings::Settings;
pub use sides::{Layout, Side};
pub use stages::Stages;
pub use sweep::{Axis, Sweep};
pub use traffic::Traffic;
pub use validate::REAL_HOST;
