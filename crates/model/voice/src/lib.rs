//! Voice calls: codecs, conversations, playout buffers, and the E-model.

pub mod aggregate;
pub mod call;
pub mod codec;
pub mod conference;
pub mod conversation;
pub mod emodel;
mod frames;
pub mod losses;
pub mod playout;
pub mod speech;
pub mod turns;

pub use call::Config;
pub use codec::{Codec, Format};
pub use conversation::{Conversation, Party, Speech};
pub use losses::{Losses, Outcome};
pub use playout::Playout;
