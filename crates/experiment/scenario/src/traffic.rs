//! Table of traffic: one row a kind.

use bentpipe_transport::{app, ping, tcp, tfrc};

bentpipe_site::traffic! {
    /// A TCP connection.
    Tcp "tcp" tcp::Config;

    /// UDP datagrams of one length.
    Udp "udp" app::Udp;

    /// MPEG-2 video of variable rate in UDP datagrams.
    Video "video" bentpipe_mpeg::SourceConfig;

    /// Media whose rate TFRC controls (RFC 5348), over UDP or DCCP.
    Tfrc "tfrc" tfrc::Config;

    /// A real MPEG-2 transport stream over UDP or in ATM cells, judged by ffmpeg.
    Stream "stream" bentpipe_mpeg::stream::Stream;

    /// The packets of a capture file with their spacing.
    Replay "replay" app::ReplayConfig;

    /// Bundles at a fixed interval, from a node with the role `dtn` to another.
    Bundles "bundles" bentpipe_dtn::kind::Bundles;

    /// Voice calls in both directions, over RTP and RTCP.
    Voice "voice" bentpipe_voice::Config;

    /// SIP calls placed at random times, over UDP.
    Sip "sip" bentpipe_telephony::Config;

    /// ICMP echo requests, whose replies give the round-trip time.
    Ping "ping" ping::Ping;

    /// IAX2 calls placed at random times, with voice in both directions.
    Iax "iax" bentpipe_telephony::IaxConfig;

    /// A query to a field of sensors and its rows, as bundles.
    Query "query" bentpipe_sensor::kind::Queries;

    /// UDP datagrams of a class in Python, for trying ideas. Each call of it takes some 2 µs.
    Custom "custom" app::custom::Config;

    /// Members of a conference and their bridge at `from`, a node with the role `conference`.
    Conference "conference" bentpipe_voice::conference::Legs;
}
