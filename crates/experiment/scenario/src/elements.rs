//! Configurations of elements, re-exported from the crates that have the elements.

pub use bentpipe_cc::ControllerConfig as Controller;
pub use bentpipe_dvb::Line as DvbLine;
pub use bentpipe_dvb::dama::Config as Carrier;
pub use bentpipe_mpeg::SourceConfig as Video;
pub use bentpipe_net::Framing;
pub use bentpipe_net::channel::Config as Fault;
pub use bentpipe_net::queue::Discipline as Queue;
pub use bentpipe_site::Channel;
pub use bentpipe_site::application::Application;
pub use bentpipe_transport::app::{ReplayConfig as Replay, Udp};
pub use bentpipe_transport::tcp::Config as Tcp;
pub use bentpipe_transport::tfrc::Config as Tfrc;
