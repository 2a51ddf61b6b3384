//! Commands of the feature `tools`.

#[cfg(feature = "serve")]
mod controlled;
mod emulate;
mod reproduce;
mod savings;
mod survivor;

use clap::CommandFactory;

use super::Failure;
use crate::arguments::Arguments;
use crate::arguments::tools::{Packaging, RealTime, Tool};
use crate::{campaign, channel, dtn, gateway, pep, phone, rohc, rtp, traffic, ts, video, voice};

/// Does what was asked of a scenario in real time; the exit code.
pub(super) fn in_real_time(command: &RealTime) -> Result<u8, Failure> {
    match command {
        RealTime::Emulate(arguments) => emulate::emulate(arguments),
        RealTime::Shell { host, emulation, command } => emulate::shell(host, *emulation, command),
        RealTime::Set(arguments) => emulate::set(arguments),
        RealTime::Survive { process } => survivor::survive(*process),
    }
}

/// Does what was asked of a tool; the exit code.
pub(super) fn run(command: &Tool) -> Result<u8, Failure> {
    match command {
        Tool::Campaign(command) => campaign::run(command).map_err(|(text, code)| Failure { text, code }),
        Tool::Reproduce(arguments) => reproduce::reproduce(arguments),
        Tool::Rohc(command) => Ok(rohc::run(command)),
        Tool::Channel(command) => Ok(channel::run(command)),
        Tool::Traffic(command) => Ok(traffic::run(command)),
        Tool::Ts(command) => Ok(ts::run(command)),
        Tool::Rtp(command) => rtp::run(command).map_err(Failure::bad),
        Tool::Dtn(command) => dtn::run(command).map_err(Failure::bad),
        Tool::Pep(arguments) => pep::run(arguments).map_err(Failure::bad),
        Tool::Call(arguments) => phone::call(arguments).map_err(Failure::bad),
        Tool::Answer(arguments) => phone::receive(arguments).map_err(Failure::bad),
        Tool::Video(command) => Ok(video::run(command)),
        Tool::Voice(voice::Command::Savings(arguments)) => savings::run(arguments),
        Tool::Voice(voice::Command::Carry(arguments)) => Ok(voice::carry(arguments)),
        Tool::Gateway(arguments) => gateway::run(arguments).map_err(Failure::bad),
    }
}

/// Writes a file for those who package the program; the exit code.
pub(super) fn package(command: Packaging) -> Result<u8, Failure> {
    match command {
        Packaging::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "bentpipe", &mut std::io::stdout());
            Ok(0)
        }
        Packaging::Man { folder } => {
            clap_mangen::generate_to(Arguments::command(), folder).map(|()| 0).map_err(Failure::bad)
        }
    }
}
