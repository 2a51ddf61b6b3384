//! Metrics of sources and sinks over UDP, and of what measures arrivals like a sink.

use bentpipe_net::Observer;
use bentpipe_net::metric::{Draw, End, How, Sum, UnitColumn, UnitEntry, UnitRest};
use bentpipe_units::Time;

/// Measures that are made of the distribution of one-way delays at a receiver.
pub(crate) const ONE_WAY_DELAY: &[Sum] = &[
    Sum::new("delay-mean", "Mean one-way delay", How::DistributionMean).at(End::Receiver),
    Sum::new("delay-p50", "Median one-way delay", How::Quantile(50)).at(End::Receiver),
    Sum::new("delay-p95", "95th-percentile one-way delay", How::Quantile(95)).at(End::Receiver),
    Sum::new("delay-p99", "99th-percentile one-way delay", How::Quantile(99)).at(End::Receiver),
];

bentpipe_net::metrics! {
    Counter SENT = "sent", Packets, "Packets sent";
    Counter SENT_BYTES = "sent-bytes", Bytes, "Bytes sent, IP packets whole"
        => .summed(&[Sum::new("sent", "Sending rate, IP packets whole", How::PerSecond).at(End::Sender)]);
    Counter LEFT_OUT = "left-out", Packets, "Records of a replayed capture that are not sent";
    Gauge RATE = "rate", BitsPerSecond, "Rate of the source";
    Gauge COPIES = "copies", Count, "Flows that are counted together"
        => .summed(&[Sum::new("copies", "Flows counted together", How::Last).at(End::Receiver)]);
    Gauge COPIES_SILENT = "copies-silent", Count, "Copies from which nothing arrived"
        => .summed(&[Sum::new("copies-silent", "Copies from which nothing arrived", How::Last).at(End::Receiver).since(2)]);
    Gauge COPIES_LEFT_OUT = "copies-left-out", Count, "Copies of whose packets in the window none has ended"
        => .summed(&[Sum::new("copies-left-out", "Copies of whose packets in the window none has ended", How::Last).at(End::Receiver).since(2)]);
    Gauge COPIES_LOSS_P50 = "copies-loss-p50", Ratio, "Loss of the median copy"
        => .summed(&[Sum::new("copies-loss-p50", "Loss of the median copy", How::Last).at(End::Receiver).since(2)]);
    Gauge COPIES_LOSS_P95 = "copies-loss-p95", Ratio, "95th percentile of the loss of copies"
        => .summed(&[Sum::new("copies-loss-p95", "95th percentile of the loss of copies", How::Last).at(End::Receiver).since(2)]);
    Gauge COPIES_LOSS_MAX = "copies-loss-max", Ratio, "Loss of the worst copy"
        => .summed(&[Sum::new("copies-loss-max", "Loss of the worst copy", How::Last).at(End::Receiver).since(2)]);
    Gauge COPIES_JAIN = "copies-jain", Ratio, "Jain's index of the copies' bytes"
        => .summed(&[Sum::new("copies-jain", "Jain's index of the copies' bytes", How::Last).at(End::Receiver).since(2)]);
    Counter PACKETS = "packets", Packets, "Packets received";
    Counter DELIVERED_BYTES = "delivered-bytes", Bytes, "Bytes of payload received, duplicates included" => .once(&["bytes"]);
    Counter ARRIVED_BYTES = "arrived-bytes", Bytes, "Bytes of payload that arrived for the first time"
        => .drawn_at(End::Receiver, Draw::Rate("Goodput"))
        .summed(&[Sum::new("goodput", "Goodput", How::PerSecond).at(End::Receiver).since(2)]);
    Gauge UNSENT = "unsent", Packets, "Packets of the recording not sent yet" => .units(
        "packets",
        &[UnitEntry::sender(UnitColumn::Offered, ""), UnitEntry::sender(UnitColumn::Remaining, "unsent")],
        UnitRest::Packets,
    );
    Counter DUPLICATES = "duplicates", Packets, "Duplicate packets"
        => .units("packets", &[UnitEntry::receiver(UnitColumn::Duplicates, "")], UnitRest::Packets);
    Counter REORDERED = "reordered", Packets, "Packets out of order";
    Counter DROPPED_BAD_CHECKSUM = "dropped-bad-checksum", Packets, "Packets with a wrong checksum" => .drops();
    Counter DROPPED_UNEXPECTED = "dropped-unexpected", Packets, "Packets of other flows" => .drops();
    Counter EXPECTED = "expected-packets", Packets, "Packets sent up to the latest received";
    Gauge LOST = "lost", Packets, "Packets lost"
        => .summed(&[Sum::new("loss", "Loss", How::Loss { expected: &EXPECTED, sent: &SENT, late: None }).at(End::Receiver).since(2)]);
    Gauge LOSS_RATIO = "loss-ratio", Ratio, "Loss ratio";
    Gauge DELAY = "delay", Seconds, "One-way delay";
    Gauge DELAY_MEAN = "delay-mean", Seconds, "Mean one-way delay";
    Gauge DELAY_MIN = "delay-min", Seconds, "Minimum one-way delay";
    Gauge DELAY_P50 = "delay-p50", Seconds, "Median one-way delay";
    Gauge DELAY_P95 = "delay-p95", Seconds, "95th-percentile one-way delay";
    Gauge DELAY_P99 = "delay-p99", Seconds, "99th-percentile one-way delay";
    Gauge DELAY_MAX = "delay-max", Seconds, "Maximum one-way delay";
    Gauge JITTER = "jitter", Seconds, "Jitter (RFC 3550)"
        => .summed(&[Sum::new("jitter", "Jitter", How::Last).at(End::Receiver)]);
    Gauge INTERARRIVAL = "interarrival", Seconds, "Mean interval between arrivals of a flow"
        => .summed(&[Sum::new("interarrival", "Mean interarrival time", How::Last).at(End::Receiver).since(2)]);
    Gauge INTERARRIVAL_DEVIATION = "interarrival-deviation", Seconds, "Standard deviation of a flow's intervals between arrivals"
        => .summed(&[Sum::new("interarrival-deviation", "Deviation of interarrival time", How::Last).at(End::Receiver).since(2)]);
    Counter ENDED = "ended", Count, "Sources that have sent all";
    Gauge ENDED_AT = "ended-at", Seconds, "Time at which sources had sent all, or stopped";
    Gauge LAST_ARRIVAL = "last-arrival", Seconds, "Time of the last arrival of a new packet" => .summed(&[
        Sum::new("completion", "Completion time", How::SinceStart).at(End::Receiver).given(&ENDED),
    ]);
    Histogram DELAYS = "delays", Seconds, "Distribution of the one-way delay" => .summed(ONE_WAY_DELAY);
}

/// Reports whether a source has ended, which sends nothing more after `over`.
pub(crate) fn observe_end(over: Option<Time>, now: Time, observer: &mut dyn Observer) {
    let ended = over.filter(|over| *over <= now);
    observer.counter(&ENDED, ended.is_some().into());
    observer.gauge(&ENDED_AT, ended.map_or(f64::NAN, Time::as_secs_f64));
}
