//! Metrics of calls at one end: reception of the other party's voice.
//!
//! Packets, bytes, network delays and jitter are those of [`bentpipe_transport::app::metrics`].

use bentpipe_net::metric::{Draw, End, How, Sum};
use bentpipe_transport::app::metrics as app;

bentpipe_net::metrics! {
    Counter NOISE_SENT = "noise-sent", Packets, "Comfort noise packets sent";
    Counter REPORTS_SENT = "reports-sent", Packets, "RTCP packets sent";
    Counter REPORTS_RECEIVED = "reports-received", Packets, "RTCP packets received";
    Counter MALFORMED = "malformed", Packets, "Malformed RTP and RTCP packets" => .drops();
    Gauge LATE = "late", Packets, "Packets discarded late by playout buffers";
    Gauge LATE_RATIO = "late-ratio", Ratio, "Late loss"
        => .summed(&[Sum::new("late", "Late loss", How::Last).at(End::Receiver).since(2)]);
    Gauge LOST_OR_LATE = "lost-or-late", Packets, "Packets lost or discarded late" => .summed(&[
        Sum::new("voice-loss", "Loss with late packets", How::Loss { expected: &app::EXPECTED, sent: &app::SENT, late: Some(&LATE) }).at(End::Receiver).since(2),
    ]);
    Gauge VOICE_LOSS = "voice-loss", Ratio, "Loss, late packets included";
    Gauge BURST_RATIO = "burst-ratio", Count, "Burst ratio" => .summed(&[Sum::new("burst-ratio", "Burst ratio", How::Last).at(End::Receiver).since(2)]);
    Gauge RUNS_OF_1 = "loss-runs-1", Count, "Losses of 1 packet" => .drawn(Draw::Line("Runs of lost or late packets"));
    Gauge RUNS_OF_2 = "loss-runs-2", Count, "Losses of 2 packets in a row" => .drawn(Draw::Line("Runs of lost or late packets"));
    Gauge RUNS_OF_3 = "loss-runs-3", Count, "Losses of 3 to 5 packets in a row" => .drawn(Draw::Line("Runs of lost or late packets"));
    Gauge RUNS_OF_6 = "loss-runs-6", Count, "Losses of 6 to 10 packets in a row" => .drawn(Draw::Line("Runs of lost or late packets"));
    Gauge RUNS_OF_11 = "loss-runs-11", Count, "Losses of more than 10 packets in a row" => .drawn(Draw::Line("Runs of lost or late packets"));
    Gauge BUFFERED = "playout-delay", Seconds, "Mean delay in playout buffers"
        => .drawn(Draw::Line("Delay of voice")).summed(&[Sum::new("playout-delay", "Mean playout delay", How::Last).at(End::Receiver).since(2)]);
    Gauge HELD = "end-delay", Seconds, "Packetisation and look-ahead" => .drawn(Draw::Line("Delay of voice"));
    Gauge NETWORK = "network-delay", Seconds, "Mean network delay" => .drawn(Draw::Line("Delay of voice"));
    Gauge MOUTH_TO_EAR = "mouth-to-ear", Seconds, "Mean mouth-to-ear delay"
        => .drawn(Draw::Line("Delay of voice")).summed(&[Sum::new("mouth-to-ear", "Mean mouth-to-ear delay", How::Last).at(End::Receiver).since(2)]);
    Gauge ROUND_TRIP = "round-trip", Seconds, "Mean round trip time by RTCP";
    Gauge R = "r", Count, "Rating R within 0 to 100, mean of calls" => .summed(&[Sum::new("r", "R", How::Last).at(End::Receiver).since(2)]);
    Gauge R_MIN = "r-min", Count, "Rating R, worst of the calls that have one" => .summed(&[Sum::new("r-min", "R of the worst call that has one", How::Last).at(End::Receiver).since(2)]);
    Gauge R_NOW = "r-now", Count, "Rating R in the last window, mean of calls" => .drawn(Draw::Line("Rating R"));
    Gauge MOS = "mos", Count, "Mean opinion score by the E-model, mean of calls"
        => .summed(&[Sum::new("mos", "Mean opinion score", How::Last).at(End::Receiver).since(2)]);
    Gauge LOSS_NOW = "loss-now", Ratio, "Loss in the last window, late packets included" => .drawn(Draw::Line("Loss of voice"));
    Gauge RATE = "codec-rate", BitsPerSecond, "Mean rate of the codec, where it is adapted"
        => .drawn(Draw::Line("Rate of the codec")).summed(&[Sum::new("codec-rate", "Mean rate of the codec at the end", How::Last).at(End::Receiver)]);
    Counter RATE_CHANGES = "rate-changes", Count, "Changes of the codec's rate";
    Gauge CALLS = "calls", Count, "Calls" => .both_ways();
    Gauge SILENT_CALLS = "silent-calls", Count, "Calls of whose speech none was played"
        => .summed(&[Sum::new("silent-calls", "Calls of whose speech none was played", How::Last).at(End::Receiver).since(2)]);
    Gauge GOOD_CALLS = "good-calls", Count, "Good calls" => .summed(&[Sum::new("good-calls", "Good calls", How::Last).at(End::Receiver).since(2)]);
    Gauge CALLS_LEFT_OUT = "calls-left-out", Count, "Calls of which nothing in the window is to rate"
        => .summed(&[Sum::new("calls-left-out", "Calls of which nothing in the window is to rate", How::Last).at(End::Receiver).since(2)]);
    Gauge GOOD_LOSS = "good-loss", Ratio, "Most lost or late packets of a good call"
        => .summed(&[Sum::new("good-loss", "Most lost or late packets of a good call", How::Last).at(End::Receiver).setting()]);
    Gauge GOOD_DELAY = "good-delay", Seconds, "Longest mouth-to-ear delay of a good call"
        => .summed(&[Sum::new("good-delay", "Longest mouth-to-ear delay of a good call", How::Last).at(End::Receiver).setting()]);
    Gauge GOOD_R = "good-r", Count, "Least rating R of a good call, if it needs one"
        => .summed(&[Sum::new("good-r", "Least R of a good call", How::Last).at(End::Receiver).setting()]);
    Gauge TALKER_LOSS = "talker-loss", Ratio, "Talkers' frames lost or late on their way to the bridge"
        => .summed(&[Sum::new("talker-loss", "Talkers' frames lost or late before the bridge", How::Last).at(End::Receiver).since(2)]);
    Gauge ROOMS = "rooms", Count, "Mean number of rooms in a mix"
        => .summed(&[Sum::new("rooms", "Mean number of rooms in a mix", How::Last).at(End::Receiver).since(2)]);
    Gauge GOOD_RATIO = "good-ratio", Ratio, "Share of good calls"
        => .summed(&[Sum::new("good-ratio", "Share of good calls", How::Last).at(End::Receiver).since(2)]);
}
