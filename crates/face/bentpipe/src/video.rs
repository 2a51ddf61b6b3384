//! `bentpipe video`: real MPEG-2 transport streams through ATM, and the quality of the received picture.

mod args;

use crate::session::Terminal;
pub(crate) use args::Command;

/// Runs a command, prints its result, and returns the exit code.
pub(crate) fn run(command: &Command) -> u8 {
    let session = Terminal::new("note");
    let result = match command {
        Command::Card(args) => args.job().run(&session),
        Command::Model(args) => args.job().run(&session),
        Command::Carry(args) => args.job().run(&session),
        Command::Mux(args) => args.job().run(&session),
        Command::Demux(args) => args.job().run(&session),
        Command::Pack(args) => args.job().run(&session),
        Command::Unpack(args) => args.job().run(&session),
        Command::Quality(args) => args.job().run(&session),
    };
    session.end(result, false)
}
