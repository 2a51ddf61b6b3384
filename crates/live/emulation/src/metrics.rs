//! Metrics of the emulator itself, next to those of the network's elements.

bentpipe_net::metrics! {
    Gauge UPTIME_SECONDS = "uptime-seconds", Seconds, "Time since the emulation was started";
    Counter CPU_SECONDS = "cpu-seconds", Seconds, "Processor time of the emulator";
    Counter PACKETS_TIMED = "packets-timed", Packets, "Packets whose lateness was measured";
    Gauge LATENESS_P50_SECONDS = "lateness-p50-seconds", Seconds, "Lateness of packets: median";
    Gauge LATENESS_P99_SECONDS = "lateness-p99-seconds", Seconds, "Lateness of packets: 99th percentile";
    Gauge LATENESS_MAX_SECONDS = "lateness-max-seconds", Seconds, "Lateness of packets: maximum";
    Counter READ_ERRORS = "read-errors", Count, "Errors reading a device";
    Counter WRITE_ERRORS = "write-errors", Count, "Packets that a device did not take";
}
