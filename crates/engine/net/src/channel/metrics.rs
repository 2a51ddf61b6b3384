//! Metrics of channels that lose and damage packets.

use crate::metric::{How, Sum};

crate::metrics! {
    Counter DELIVERED = "delivered", Packets, "Packets delivered" => .summed(&[
        Sum::new("channel-lost", "Packets lost in the channel", How::Dropped),
        Sum::new("channel-loss-ratio", "Loss ratio of the channel", How::DropRatio).since(2),
    ]);
    Counter LOST = "lost", Packets, "Packets lost" => .drops();
    Counter DAMAGED = "damaged", Packets, "Packets with bit errors"
        => .summed(&[Sum::new("channel-damaged", "Packets with bit errors", How::Grown)]);
    Counter DUPLICATED = "duplicated", Packets, "Packets duplicated";
    Counter CORRECTED = "corrected-bytes", Bytes, "Bytes corrected by the Reed-Solomon code";
    Counter UNCORRECTABLE = "uncorrectable-blocks", Count, "Blocks that the Reed-Solomon code could not correct";
    Gauge HELD = "held", Packets, "Packets held back";
}
