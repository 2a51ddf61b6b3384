//! `bentpipe ts`: captures in transport streams and DVB-S2 frames, and back.

mod args;
mod live;

use clap::Subcommand;

use bentpipe_offline::Error;

use crate::session::Terminal;
use args::{DecapArgs, EncapArgs, InspectArgs, MuxArgs};

/// IP in transport streams and DVB-S2 frames.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Encapsulate the packets of a capture
    #[command(after_help = ENCAP_EXAMPLES)]
    Encap(EncapArgs),
    /// Take the packets out of a stream
    #[command(after_help = DECAP_EXAMPLES)]
    Decap(DecapArgs),
    /// List what is in a stream, PID by PID
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Multiplex streams into one of constant rate
    #[command(after_help = MUX_EXAMPLES)]
    Mux(MuxArgs),
}

const ENCAP_EXAMPLES: &str = "\
Examples:
  bentpipe ts encap voice.pcap voice.ts
  bentpipe ts encap --packing '1 ms' --rohc voice.pcap voice.ts.pcap
  bentpipe ts encap --rohc='{ cid = \"large\", contexts = 1000, refresh = 100 }' voice.pcap rohc.ts
  bentpipe ts encap --format mpe --to 02:00:00:00:00:01 --pid 0x220 lan.pcapng out.ts
  bentpipe ts encap --bridge lan.pcap out.ts
  bentpipe ts encap --format gse --modcod '8PSK 3/4' --packing '5 ms' lan.pcap frames.pcap
  tshark -r frames.pcap -d udp.port==7001,dvb-s2_modeadapt -o dvb-s2_modeadapt.decode_df:TRUE

An output that ends in .ts, or \"-\", is bare packets; another one is a capture with their times.
The exit status is 1 if a packet could not be encapsulated, 2 for a bad command or file.";

const DECAP_EXAMPLES: &str = "\
Examples:
  bentpipe ts decap voice.ts voice.pcap
  bentpipe ts decap --pid 0x201 --format ule --rohc in.ts.pcap out.pcap
  bentpipe ts decap --bridge in.ts frames.pcap

Without --pid every PID that carries data is read, as ULE, MPE or GSE by its PMT, or else by its
CRCs. Streams of several senders or input stream identifiers are taken out each by itself. The
exit status is 1 if something was lost or wrong, 2 for a bad command or file.";

const INSPECT_EXAMPLES: &str = "\
Examples:
  bentpipe ts inspect recording.ts
  bentpipe ts inspect --measure udp-multicast.pcap
  bentpipe ts inspect --left-out rest.pcapng udp-multicast.pcap
  ffmpeg -i film.mp4 -f mpegts - | bentpipe ts inspect -
  bentpipe ts inspect --csv pids.csv --json all.json recording.ts
  bentpipe ts inspect --rates rates.csv --report rates.html udp-multicast.pcap
  bentpipe ts inspect udp://127.0.0.1:5004 --for '1 min' --min-rate '3 Mbit/s'
  bentpipe ts inspect udp://239.1.1.1:5004 --interface eth0 --rates rates.csv

A transport stream in baseband frames is taken out of them. Several streams are described each by
itself. Efficiency is bytes of PDUs for each byte of the PID's TS packets. The exit status is 1 if
the file is cut or damaged, 2 if it has no stream. Continuity errors are figures of the stream, not
damage of the file. A live stream is TS packets in UDP or RTP. It has a line each second, and one
for each alarm. Its exit status is 1 if an alarm was raised, 130 if Ctrl-C came before the end of
--for.";

const MUX_EXAMPLES: &str = "\
Examples:
  bentpipe ts mux --rate '8 Mbit/s' film.ts voice.ts out.ts
  bentpipe ts mux --rate '38.015 Mbit/s' a.ts.pcap b.ts.pcap out.ts.pcap

Captures are sent at their times, a stream with clock references by those, another one as fast as
it fits. One PAT names the programmes of all. The exit status is 1 if packets were dropped because
the rate did not suffice.";

/// Inspects a file or a live stream, and returns the exit code.
///
/// # Errors
/// Returns an error if an option or the address of a live stream is wrong.
fn inspect(args: &InspectArgs, session: &Terminal) -> Result<u8, String> {
    match args.live()? {
        Some(live) => live.run(session),
        None => Ok(session.end(args.job().run(session), false)),
    }
}

/// Runs a command, prints its result, and returns the exit code.
pub(crate) fn run(command: &Command) -> u8 {
    let session = Terminal::new("note");
    let result = match command {
        Command::Encap(args) => args.job().run(&session),
        Command::Decap(args) => args.job().run(&session),
        Command::Inspect(args) => match inspect(args, &session) {
            Ok(code) => return code,
            Err(error) => Err(Error::Usage(error)),
        },
        Command::Mux(args) => args.job().run(&session),
    };
    session.end(result, false)
}
