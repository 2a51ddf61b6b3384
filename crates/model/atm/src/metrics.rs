//! Metrics of ATM lines, switches, interfaces, VS/VD nodes and faults.

use bentpipe_net::metric::{Counter, Draw, Gauge, How, Of, Sum, Unit};

bentpipe_net::metrics! {
    Counter DELIVERED = "delivered", Cells, "Cells delivered" => .summed(&[
        Sum::new("dropped", "Cells dropped", How::Dropped),
        Sum::new("drop-ratio", "Drop ratio", How::DropRatio),
    ]);
    Counter DELIVERED_BYTES = "delivered-bytes", Bytes, "Bytes of cells delivered"
        => .summed(&[Sum::new("rate", "Rate", How::PerSecond)]);
    Counter UNKNOWN_CHANNEL = "unknown-channel", Cells, "Cells of unknown channels";
    Counter UNROUTABLE = "unroutable", Cells, "Cells without a route";
    Counter DROPPED_EPD = "dropped-epd", Cells, "Cells dropped by early packet discard" => .drops();
    Counter DROPPED_PPD = "dropped-ppd", Cells, "Cells dropped by partial packet discard" => .drops();
    Counter RM_MADE = "rm-made", Cells, "RM cells made by the switch";
    Gauge ABR_LOAD = "abr-load", Ratio, "Load factor of ERICA+";
    Gauge ABR_FAIR_SHARE = "abr-fair-share", BitsPerSecond, "Fair share of ERICA+";
    Gauge ABR_CAPACITY = "abr-capacity", BitsPerSecond, "Capacity for ABR";
    Gauge ABR_ACTIVE = "abr-active", Count, "Active ABR channels";
    Counter RECEIVED = "received", Cells, "Cells received";
    Counter OAM = "oam", Cells, "OAM cells received";
    Counter CELLS_SENT = "cells-sent", Cells, "Cells sent"
        => .summed(&[Sum::new("cells-sent", "Cells sent", How::Grown)]);
    Counter CELLS_RECEIVED = "cells-received", Cells, "Cells received"
        => .summed(&[Sum::new("cells-received", "Cells received", How::Grown)]);
    Gauge QUEUE = "queue", Cells, "Cells queued"
        => .drawn(Draw::Line("Cells waiting at hosts and virtual sources"));
    Gauge QUEUE_MAX = "queue-max", Cells, "Peak queue";
    Gauge QUEUE_PACKETS = "queue-packets", Packets, "Packets queued";
    Counter PDUS_SENT = "pdus-sent", Packets, "PDUs sent"
        => .summed(&[Sum::new("pdus-sent", "PDUs sent", How::Grown)]);
    Counter PDUS_RECEIVED = "pdus-received", Packets, "PDUs received"
        => .summed(&[Sum::new("pdus-received", "PDUs received", How::Grown)]);
    Counter WRONG_LENGTH = "wrong-length", Packets, "PDUs with length errors"
        => .summed(&[Sum::new("wrong-length", "PDUs with length errors", How::Grown)]);
    Counter WRONG_CRC = "wrong-crc", Packets, "PDUs with CRC errors"
        => .summed(&[Sum::new("wrong-crc", "PDUs with CRC errors", How::Grown)]);
    Counter WRONG_HEADER = "wrong-header", Packets, "PDUs with header errors";
    Counter REFUSED = "refused", Packets, "Packets that cannot be carried"
        => .summed(&[Sum::new("refused", "Packets that cannot be carried", How::Grown)]);
    Gauge RECEIVE_QUEUE = "receive-queue", Cells, "Cells not yet taken by the host"
        => .drawn(Draw::Line("Cells that hosts have not taken"))
        .summed(&[Sum::new("receive-queue-mean", "Mean receive queue", How::Mean)]);
    Gauge RECEIVE_QUEUE_MAX = "receive-queue-max", Cells, "Peak receive queue"
        => .summed(&[Sum::new("receive-queue-max", "Peak receive queue", How::Last).since(2)]);
    Counter RECEIVE_LOST = "receive-lost", Cells, "Cells lost at a full receive buffer"
        => .summed(&[Sum::new("receive-lost", "Cells lost at the receiver", How::Grown)]);
    Gauge ACR = "acr", BitsPerSecond, "Allowed cell rate" => .drawn(Draw::Line("Allowed cell rate"))
        .summed(&[Sum::new("acr-mean", "Mean allowed cell rate", How::Mean)]);
    Counter RM_FORWARD_SENT = "rm-forward-sent", Cells, "Forward RM cells sent";
    Counter RM_BACKWARD_SENT = "rm-backward-sent", Cells, "Backward RM cells sent";
    Counter RM_BACKWARD_RECEIVED = "rm-backward-received", Cells, "Backward RM cells received";
    Counter RM_OUT_OF_RATE_SENT = "rm-out-of-rate-sent", Cells, "Out-of-rate RM cells sent";
    Counter RM_OVERWRITTEN = "rm-overwritten", Cells, "RM cells overwritten while they waited";
    Counter RM_DESTINATION_SENT = "rm-destination-sent", Cells, "RM cells sent by the destination"
        => .summed(&[Sum::new("rm-destination-sent", "RM cells sent by the destination", How::Grown)]);
    Gauge NODE_QUEUE = "queue", Cells, "Cells queued at the VS/VD node"
        => .drawn(Draw::Line("Cells waiting at hosts and virtual sources"))
        .summed(&[Sum::new("queue-mean", "Mean queue", How::Mean)]);
    Gauge NODE_QUEUE_MAX = "queue-max", Cells, "Peak queue at the VS/VD node"
        => .summed(&[Sum::new("queue-max", "Peak queue", How::Last).since(2)]);
    Counter NODE_LOST = "lost", Cells, "Cells lost at a full VS/VD node"
        => .summed(&[Sum::new("lost", "Cells lost", How::Grown)]);
    Counter PASSED = "passed", Cells, "Cells passed";
    Counter LOST = "lost", Cells, "Cells lost" => .drops().summed(&[
        Sum::new("cells-lost", "Cells lost", How::Grown),
        Sum::new("cell-loss-ratio", "Cell loss ratio", How::Over(&DELIVERED)),
    ]);
    Counter DAMAGED = "damaged", Cells, "Cells with bit errors"
        => .summed(&[Sum::new("cells-damaged", "Cells with bit errors", How::Grown)]);
    Counter HEADERS_CORRECTED = "headers-corrected", Cells, "Cells whose header was corrected";
    Counter HEADERS_DISCARDED = "headers-discarded", Cells, "Cells discarded for their header";
    Counter MISDELIVERED = "misdelivered", Cells, "Cells delivered to another channel";
    Counter MISINSERTED = "misinserted", Cells, "Misinserted cells"
        => .summed(&[Sum::new("cells-misinserted", "Misinserted cells", How::Grown)]);
}

const fn cells(name: &'static str, label: &'static str) -> Of<Counter> {
    Of::<Counter>::new(name, Unit::Cells, label)
}

const fn queue(name: &'static str, label: &'static str, sums: &'static [Sum]) -> Of<Gauge> {
    Of::<Gauge>::new(name, Unit::Cells, label).drawn(Draw::Line("Cells waiting at switches")).summed(sums)
}

const fn peak(name: &'static str, label: &'static str, sums: &'static [Sum]) -> Of<Gauge> {
    Of::<Gauge>::new(name, Unit::Cells, label).summed(sums)
}

/// Cells queued at an output, by service category.
pub static CATEGORY_QUEUE: [Of<Gauge>; 4] = [
    queue(
        "cbr-queue",
        "CBR cells queued",
        &[Sum::new("cbr-queue-mean", "Mean CBR queue", How::Mean).given(&CATEGORY_CELLS[0])],
    ),
    queue(
        "vbr-queue",
        "VBR cells queued",
        &[Sum::new("vbr-queue-mean", "Mean VBR queue", How::Mean).given(&CATEGORY_CELLS[1])],
    ),
    queue(
        "abr-queue",
        "ABR cells queued",
        &[Sum::new("abr-queue-mean", "Mean ABR queue", How::Mean).given(&CATEGORY_CELLS[2])],
    ),
    queue(
        "ubr-queue",
        "UBR cells queued",
        &[Sum::new("ubr-queue-mean", "Mean UBR queue", How::Mean).given(&CATEGORY_CELLS[3])],
    ),
];

/// Peak queue at an output, by service category.
pub static CATEGORY_QUEUE_MAX: [Of<Gauge>; 4] = [
    peak(
        "cbr-queue-max",
        "Peak CBR queue",
        &[Sum::new("cbr-queue-max", "Peak CBR queue", How::Last).since(2).given(&CATEGORY_CELLS[0])],
    ),
    peak(
        "vbr-queue-max",
        "Peak VBR queue",
        &[Sum::new("vbr-queue-max", "Peak VBR queue", How::Last).since(2).given(&CATEGORY_CELLS[1])],
    ),
    peak(
        "abr-queue-max",
        "Peak ABR queue",
        &[Sum::new("abr-queue-max", "Peak ABR queue", How::Last).since(2).given(&CATEGORY_CELLS[2])],
    ),
    peak(
        "ubr-queue-max",
        "Peak UBR queue",
        &[Sum::new("ubr-queue-max", "Peak UBR queue", How::Last).since(2).given(&CATEGORY_CELLS[3])],
    ),
];

/// Cells that came to an output, by service category.
pub static CATEGORY_CELLS: [Of<Counter>; 4] = [
    cells("cbr-cells", "CBR cells"),
    cells("vbr-cells", "VBR cells"),
    cells("abr-cells", "ABR cells"),
    cells("ubr-cells", "UBR cells"),
];

/// Cells dropped at a full queue, by service category.
pub static CATEGORY_DROPPED: [Of<Counter>; 4] = [
    cells("dropped-cbr", "CBR cells dropped").drops(),
    cells("dropped-vbr", "VBR cells dropped").drops(),
    cells("dropped-abr", "ABR cells dropped").drops(),
    cells("dropped-ubr", "UBR cells dropped").drops(),
];
