//! Metrics of callers and callees.

use bentpipe_net::metric::{Draw, End, How, Sum};

const CALLER: Option<End> = Some(End::Sender);

const fn at_caller(name: &'static str, label: &'static str, how: How) -> Sum {
    Sum { end: CALLER, ..Sum::new(name, label, how) }
}

bentpipe_net::metrics! {
    Counter CALLS = "calls", Count, "Calls placed or received" => .drawn_at(End::Sender, Draw::Line("Calls offered and carried")).summed(&[at_caller("calls", "Calls placed", How::Grown).since(2)]);
    Counter CALLS_ESTABLISHED = "calls-established", Count, "Calls established"
        => .drawn_at(End::Sender, Draw::Line("Calls offered and carried")).summed(&[at_caller("calls-established", "Calls established", How::Grown).since(2)]);
    Counter CALLS_ENDED = "calls-ended", Count, "Established calls that are over";
    Counter CALLS_TIMED_OUT = "calls-timed-out", Count, "Calls failed by Timer B, or without acknowledgement"
        => .summed(&[at_caller("calls-timed-out", "Calls failed by Timer B, or without acknowledgement", How::Grown).since(2)]);
    Counter CALLS_FAILED = "calls-failed", Count, "Calls failed for other reasons"
        => .summed(&[at_caller("calls-failed", "Calls failed for other reasons", How::Grown).since(2)]);
    Counter MESSAGES = "sip-messages", Count, "SIP messages sent";
    Counter SIP_BYTES = "sip-bytes", Bytes, "SIP bytes sent";
    Counter IAX_FRAMES = "iax-frames", Count, "IAX2 frames sent";
    Counter IAX_BYTES = "iax-bytes", Bytes, "IAX2 bytes sent";
    Counter VOICE_SENT = "voice-sent", Count, "Voice frames sent";
    Counter VOICE_RECEIVED = "voice-received", Count, "Voice frames received";
    Counter REQUESTS_REPEATED = "requests-repeated", Count, "Requests or full frames sent again";
    Counter REQUESTS_ABSORBED = "requests-absorbed", Count, "Repeated requests or full frames received";
    Counter DROPPED_BAD_CHECKSUM = "dropped-bad-checksum", Packets, "Packets dropped, UDP checksum wrong" => .drops();
    Counter DROPPED_UNEXPECTED = "dropped-unexpected", Packets, "Packets dropped, not for this element" => .drops();
    Gauge CALLS_UP = "calls-up", Count, "Calls in progress" => .drawn(Draw::Line("Calls in progress"));
    Histogram POST_DIAL_DELAYS = "post-dial-delays", Seconds, "Distribution of the time from INVITE or NEW to ringing" => .summed(&[
        at_caller("post-dial-p50", "Median post-dial delay", How::Quantile(50)),
        at_caller("post-dial-p95", "95th-percentile post-dial delay", How::Quantile(95)),
    ]);
    Histogram SET_UP_TIMES = "set-up-times", Seconds, "Distribution of the time from INVITE or NEW to the answer" => .summed(&[
        at_caller("set-up-p50", "Median set-up time", How::Quantile(50)),
        at_caller("set-up-p95", "95th-percentile set-up time", How::Quantile(95)),
    ]);
}
