//! Metrics of callers and callees.

use bentpipe_net::metric::{Draw, End, How, Sum, UnitColumn, UnitEntry, UnitRest};

const CALLER: Option<End> = Some(End::Sender);

const fn at_caller(name: &'static str, label: &'static str, how: How) -> Sum {
    Sum { end: CALLER, ..Sum::new(name, label, how).of_whole() }
}

/// Returns a measure of calls placed in the window, whenever they end.
const fn of_window(name: &'static str, label: &'static str) -> Sum {
    at_caller(name, label, How::Last).since(2)
}

bentpipe_net::metrics! {
    Counter CALLS_OFFERED = "calls-offered", Count, "Calls offered: those placed, and those for which no line was free"
        => .drawn_at(End::Sender, Draw::Line("Calls offered and carried"))
        .summed(&[at_caller("calls-offered", "Calls offered, those without a free line included", How::Grown).since(2)])
        .units("calls", &[UnitEntry::sender(UnitColumn::Offered, "")], UnitRest::None);
    Counter CALLS = "calls", Count, "Calls placed or received"
        => .summed(&[at_caller("calls", "Calls placed", How::Grown).since(2)]);
    Counter CALLS_ESTABLISHED = "calls-established", Count, "Calls established"
        => .drawn_at(End::Sender, Draw::Line("Calls offered and carried"))
        .units("calls", &[UnitEntry::sender(UnitColumn::Delivered, "")], UnitRest::None);
    Counter CALLS_ENDED = "calls-ended", Count, "Established calls that are over";
    Counter CALLS_TIMED_OUT = "calls-timed-out", Count, "Calls failed by Timer B, or without acknowledgement"
        => .units("calls", &[UnitEntry::sender(UnitColumn::Dropped, "timed-out")], UnitRest::None);
    Counter CALLS_FAILED = "calls-failed", Count, "Calls failed for other reasons";
    Counter CALLS_REJECTED = "calls-rejected", Count, "Calls refused by an exchange or the other end";
    Gauge CALLS_BUSY = "calls-busy", Count, "Calls refused as busy: a phone, or a conference that is full"
        => .units("calls", &[UnitEntry::sender(UnitColumn::Refused, "busy")], UnitRest::None);
    Gauge CALLS_WITHOUT_CAPACITY = "calls-without-capacity", Count, "Calls refused for want of capacity, as beyond the limit of a trunk"
        => .units("calls", &[UnitEntry::sender(UnitColumn::Refused, "no-capacity")], UnitRest::None);
    Gauge CALLS_REFUSED_OTHERWISE = "calls-refused-otherwise", Count, "Calls refused for other causes"
        => .units("calls", &[UnitEntry::sender(UnitColumn::Refused, "by-the-other-end")], UnitRest::None);
    Gauge CALLS_CANCELLING = "calls-cancelling", Count, "Calls given up whose end has not come yet"
        => .units("calls", &[UnitEntry::sender(UnitColumn::Dropped, "given-up")], UnitRest::None);
    Counter CALLS_BLOCKED = "calls-blocked", Count, "Calls not placed, all lines of the caller busy"
        => .summed(&[
            at_caller("calls-blocked", "Calls not placed, all lines busy", How::Grown),
            at_caller("blocked-ratio", "Share of calls not placed, all lines busy", How::Over(&CALLS_OFFERED)).since(2),
        ])
        .units("calls", &[UnitEntry::sender(UnitColumn::Refused, "all-lines-busy")], UnitRest::None);
    Counter CALLS_GIVEN_UP = "calls-given-up", Count, "Calls that the caller gave up before an answer"
        => .units("calls", &[UnitEntry::sender(UnitColumn::Dropped, "given-up")], UnitRest::None);
    Gauge ESTABLISHED_OF_WINDOW = "window-established", Count, "Calls placed in the window and established"
        => .summed(&[of_window("calls-established", "Calls established")]);
    Gauge TIMED_OUT_OF_WINDOW = "window-timed-out", Count, "Calls placed in the window that failed by Timer B, or without acknowledgement"
        => .summed(&[of_window("calls-timed-out", "Calls failed by Timer B, or without acknowledgement")]);
    Gauge FAILED_OF_WINDOW = "window-failed", Count, "Calls placed in the window that failed for other reasons"
        => .summed(&[of_window("calls-failed", "Calls failed for other reasons")]);
    Gauge REJECTED_OF_WINDOW = "window-rejected", Count, "Calls placed in the window that an exchange or the other end refused"
        => .summed(&[of_window("calls-rejected", "Calls refused by an exchange or the other end")]);
    Gauge GIVEN_UP_OF_WINDOW = "window-given-up", Count, "Calls placed in the window that the caller gave up before an answer"
        => .summed(&[of_window("calls-given-up", "Calls given up before an answer")]);
    Gauge CALLS_WAITING = "calls-waiting", Count, "Calls that wait for an answer"
        => .summed(&[at_caller("calls-waiting", "Calls that wait for an answer at the end", How::Last)])
        .units("calls", &[UnitEntry::sender(UnitColumn::Remaining, "waiting")], UnitRest::None);
    Counter MESSAGES = "sip-messages", Count, "SIP messages sent";
    Counter SIP_BYTES = "sip-bytes", Bytes, "SIP bytes sent";
    Counter IAX_FRAMES = "iax-frames", Count, "IAX2 frames sent";
    Counter IAX_BYTES = "iax-bytes", Bytes, "IAX2 bytes sent";
    Counter VOICE_SENT = "voice-sent", Count, "Voice frames sent";
    Counter VOICE_RECEIVED = "voice-received", Count, "Voice frames received";
    Counter IAX_RECEIVED = "iax-voice-received", Count, "IAX2 frames of voice received" => .both_ways()
        .summed(&[Sum::new("loss", "Loss of packets", How::Loss { expected: &IAX_RECEIVED, sent: &VOICE_SENT, late: None }).at(End::Receiver).since(2)]);
    Gauge VOICE_LOSS = "voice-loss", Ratio, "Loss of the voice of calls, late packets included" => .both_ways()
        .summed(&[Sum::new("voice-loss", "Loss with late packets", How::Last).at(End::Receiver).since(2)]);
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
