//! Options that choose a stream of an input.
//!
//! They are the same for all commands that read captures.

use std::net::IpAddr;
use std::path::PathBuf;

use bentpipe_dvb::Rohc;
use bentpipe_offline::{Intake, Interface, Select};
use clap::Args;

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Streams of the input")]
pub(crate) struct IntakeArgs {
    /// Interface of a pcapng file, by name or number; live: where to join a group
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Only packets of this VLAN, by the identifier of one of its tags
    #[arg(long, value_name = "NUMBER")]
    vlan: Option<u16>,
    /// Only datagrams from this address
    #[arg(long, value_name = "ADDRESS")]
    src: Option<IpAddr>,
    /// Only datagrams to this address or multicast group
    #[arg(long, value_name = "ADDRESS", visible_alias = "group")]
    dst: Option<IpAddr>,
    /// Only datagrams to this port
    #[arg(long)]
    port: Option<u16>,
    /// Only RTP packets of this synchronisation source: 305419896 or 0x12345678
    #[arg(long, value_parser = ssrc)]
    ssrc: Option<u32>,
    /// Only baseband frames of this input stream
    #[arg(long, value_name = "NUMBER")]
    isi: Option<u8>,
    /// The capture has ROHC packets: decompress them where IP packets are read. Keys as in a stream's `rohc` of scenarios,
    /// such as '{ cid = "large", contexts = 100 }', as the sender's
    #[arg(long, value_name = "TABLE", num_args = 0..=1, require_equals = true, default_missing_value = "{}", value_parser = rohc)]
    from_rohc: Option<Rohc>,
    /// Use copies of packets too, as those of a mirrored port
    #[arg(long)]
    keep_copies: bool,
    /// Write the records that are left out as pcapng, with their reasons as comments
    #[arg(long, value_name = "FILE")]
    left_out: Option<PathBuf>,
}

impl IntakeArgs {
    /// Returns the choice of streams.
    pub(crate) fn intake(&self) -> Intake {
        let select = Select {
            interface: self.interface.clone().map(Interface),
            vlan: self.vlan,
            source: self.src,
            destination: self.dst,
            port: self.port,
            ssrc: self.ssrc,
            isi: self.isi,
        };
        let (left_out, rohc) = (self.left_out.clone(), self.from_rohc.clone());
        Intake { select, left_out, rohc, keeps_copies: self.keep_copies, ..Intake::default() }
    }

    /// Returns the first option that is set and has no effect on a live stream.
    pub(crate) fn of_files(&self) -> Option<&'static str> {
        let all = [
            (self.vlan.is_some(), "--vlan"),
            (self.from_rohc.is_some(), "--from-rohc"),
            (self.keep_copies, "--keep-copies"),
            (self.left_out.is_some(), "--left-out"),
        ];
        all.into_iter().find(|(is_set, _)| *is_set).map(|(_, option)| option)
    }
}

/// Options of commands that read transport streams.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Streams of the input")]
pub(crate) struct LegsArgs {
    /// Merge RTP streams of one SSRC, numbers and contents on several paths (SMPTE ST 2022-7)
    #[arg(long = "2022-7")]
    hitless: bool,
}

impl LegsArgs {
    /// Adds the choice to that of streams.
    pub(crate) fn with(self, intake: Intake) -> Intake {
        Intake { hitless: self.hitless, ..intake }
    }

    /// Returns the option if it is set. It has no effect on a live stream.
    pub(crate) fn of_files(self) -> Option<&'static str> {
        self.hitless.then_some("--2022-7")
    }
}

/// Options of commands that have no other file of figures.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CountedArgs {
    /// Write all counts and the account of the input as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    intake: IntakeArgs,
}

impl CountedArgs {
    /// Returns the choice of streams, and the file of the counts.
    pub(crate) fn intake(&self) -> Intake {
        Intake { counts: self.json.clone(), ..self.intake.intake() }
    }
}

/// Parses a synchronisation source, decimal or hexadecimal.
pub(crate) fn ssrc(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a number of 32 bits, such as 0x12345678".to_owned())
}

/// Reads a table of ROHC's keys.
pub(crate) fn rohc(text: &str) -> Result<Rohc, String> {
    #[derive(serde::Deserialize)]
    struct File {
        rohc: Rohc,
    }
    let file: Result<File, _> = toml::from_str(&format!("rohc = {text}"));
    Ok(file.map_err(|error| error.message().to_owned())?.rohc)
}
