//! Metrics of wireless stations, apart from those of any link.

use bentpipe_net::metric::{Counter, Draw, Of, Unit};

/// Number of run length classes: 1, 2, 3 to 4, 5 to 8, ... The last one has all longer runs.
pub(super) const CLASSES: usize = 13;

bentpipe_net::metrics! {
    Counter COLLISIONS = "collisions", Count, "Collisions";
    Gauge MEDIUM_BUSY = "medium-busy", Seconds, "Time that the medium was busy" => .drawn(Draw::Rate("Use of the medium"));
    Gauge MEDIUM_UTILISATION = "medium-utilisation", Ratio, "Utilisation of the medium since the start";
    Counter DROPPED_RETRIES = "dropped-retries", Packets, "Packets dropped, retries exhausted" => .drops();
    Counter FRAMES_SENT = "frames-sent", Packets, "Frames sent";
    Counter FRAMES_WRONG = "frames-wrong", Packets, "Frames received with errors";
    Counter FRAMES_COLLIDED = "frames-collided", Packets, "Frames that collided";
    Gauge WIFI_RATE = "wifi-rate", BitsPerSecond, "PHY rate";
    Gauge SIGNAL_STATE = "signal-state", Count, "State of the signal";
    Gauge GAP_MEAN = "gap-mean", Packets, "Mean run of acknowledged frames";
    Gauge GAP_MEAN_TIME = "gap-mean-time", Seconds, "Mean time of a run of acknowledged frames";
    Gauge BURST_MEAN = "burst-mean", Packets, "Mean loss burst";
    Gauge BURST_MEAN_TIME = "burst-mean-time", Seconds, "Mean time of a loss burst";
}

const fn packets(name: &'static str, label: &'static str) -> Of<Counter> {
    Of::<Counter>::new(name, Unit::Packets, label)
}

const fn runs(name: &'static str, label: &'static str) -> Of<Counter> {
    Of::<Counter>::new(name, Unit::Count, label)
}

/// Frames sent in each state of the signal.
pub static SENT_IN: [Of<Counter>; 3] = [
    packets("sent-in-1", "Frames sent in state 1"),
    packets("sent-in-2", "Frames sent in state 2"),
    packets("sent-in-3", "Frames sent in state 3"),
];

/// Frames received with errors in each state of the signal.
pub static WRONG_IN: [Of<Counter>; 3] = [
    packets("wrong-in-1", "Frames with errors in state 1"),
    packets("wrong-in-2", "Frames with errors in state 2"),
    packets("wrong-in-3", "Frames with errors in state 3"),
];

/// Runs of acknowledged frames by length.
pub static GAPS: [Of<Counter>; CLASSES] = [
    runs("gaps-of-1", "Runs of 1 acknowledged frame"),
    runs("gaps-to-2", "Runs of 2 acknowledged frames"),
    runs("gaps-to-4", "Runs of 3 to 4 acknowledged frames"),
    runs("gaps-to-8", "Runs of 5 to 8 acknowledged frames"),
    runs("gaps-to-16", "Runs of 9 to 16 acknowledged frames"),
    runs("gaps-to-32", "Runs of 17 to 32 acknowledged frames"),
    runs("gaps-to-64", "Runs of 33 to 64 acknowledged frames"),
    runs("gaps-to-128", "Runs of 65 to 128 acknowledged frames"),
    runs("gaps-to-256", "Runs of 129 to 256 acknowledged frames"),
    runs("gaps-to-512", "Runs of 257 to 512 acknowledged frames"),
    runs("gaps-to-1024", "Runs of 513 to 1024 acknowledged frames"),
    runs("gaps-to-2048", "Runs of 1025 to 2048 acknowledged frames"),
    runs("gaps-beyond", "Runs of more than 2048 acknowledged frames"),
];

/// Loss bursts by length.
pub static BURSTS: [Of<Counter>; CLASSES] = [
    runs("bursts-of-1", "Loss bursts of 1 frame"),
    runs("bursts-to-2", "Loss bursts of 2 frames"),
    runs("bursts-to-4", "Loss bursts of 3 to 4 frames"),
    runs("bursts-to-8", "Loss bursts of 5 to 8 frames"),
    runs("bursts-to-16", "Loss bursts of 9 to 16 frames"),
    runs("bursts-to-32", "Loss bursts of 17 to 32 frames"),
    runs("bursts-to-64", "Loss bursts of 33 to 64 frames"),
    runs("bursts-to-128", "Loss bursts of 65 to 128 frames"),
    runs("bursts-to-256", "Loss bursts of 129 to 256 frames"),
    runs("bursts-to-512", "Loss bursts of 257 to 512 frames"),
    runs("bursts-to-1024", "Loss bursts of 513 to 1024 frames"),
    runs("bursts-to-2048", "Loss bursts of 1025 to 2048 frames"),
    runs("bursts-beyond", "Loss bursts of more than 2048 frames"),
];
