//! A return link that terminals share by demand assignment: MF-TDMA with a burst time plan.
//!
//! Modelled: carriers of time slots in frames, multiframes and superframes; bursts of whole MPEG cells that carry ULE (RFC
//! 4326) or MPE packed across cells and bursts, or of GSE or RLE in their place; a control centre that gathers requests and broadcasts a
//! burst time plan for each superframe; constant, rate-based, volume-based, absolute volume-based and free capacity (CRA, RBDC, VBDC,
//! AVBDC, FCA; EN 301 790) in any mix and with limits for each terminal; requests in bursts or in slots of their own,
//! lost with what carries them; the delays of a control centre on the ground or on board. Not modelled: logon and
//! synchronisation (terminals are logged on and in time from the start), random access, adaptive waveforms, loss of
//! the plan on the forward link.
//!
//! A terminal is an [`Element`](bentpipe_net::Element) at the sending end of a link, a [`Receiver`] the far end of it, and one
//! [`ControlCentre`] serves all terminals of a carrier. Terminals wake for bursts that carry something and never for an
//! empty slot; the centre wakes once each superframe.

mod allocate;
mod backlog;
mod burst;
mod cells;
mod control;
mod demand;
mod frame;
pub mod kind;
pub mod metrics;
mod plan;
mod receiver;
mod request;
mod terminal;

pub use allocate::{Allocation, Claim, Scheduler, Scheduling};
pub use backlog::Backlog;
pub use burst::cells_of;
pub use cells::Encapsulation;
pub use control::{ControlCentre, Frames};
pub use demand::Contract;
pub use frame::{Config, Control, Frame, Preset, Requests};
pub use plan::Entry as PlanEntry;
pub use receiver::Receiver;
pub use terminal::{Announcement, Terminal, TerminalConfig};
