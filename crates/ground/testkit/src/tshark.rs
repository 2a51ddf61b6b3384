//! tshark, an independent decoder of captures.

use std::path::Path;
use std::process::Command;

/// Call of tshark on a capture.
#[derive(Debug)]
pub struct Tshark(Command);

impl Tshark {
    /// Prepares to read a capture, without names of hosts.
    ///
    /// Returns `None`, with a message, where tshark is not installed.
    ///
    /// # Panics
    /// In CI, if it is not installed.
    pub fn on(capture: impl AsRef<Path>) -> Option<Tshark> {
        super::has("tshark").then(|| {
            let mut command = Command::new("tshark");
            command.arg("-n").arg("-r").arg(capture.as_ref());
            Tshark(command)
        })
    }

    /// Sets preferences: "ip.check_checksum:TRUE".
    pub fn preferences(mut self, preferences: &[&str]) -> Tshark {
        self.0.args(preferences.iter().flat_map(|preference| ["-o", *preference]));
        self
    }

    /// Decodes packets as a protocol: "udp.port==5004,rtp".
    pub fn decode_as(self, rule: &str) -> Tshark {
        self.options(&["-d", rule])
    }

    /// Loads a Lua dissector of `contrib/wireshark`.
    pub fn dissector(self, name: &str) -> Tshark {
        let script =
            format!("lua_script:{}/../../../contrib/wireshark/{name}.lua", env!("CARGO_MANIFEST_DIR"));
        self.options(&["-X", &script])
    }

    /// Adds other options.
    pub fn options(mut self, options: &[&str]) -> Tshark {
        self.0.args(options);
        self
    }

    /// Returns what tshark prints.
    ///
    /// # Panics
    /// If tshark fails.
    #[track_caller]
    pub fn text(mut self) -> String {
        String::from_utf8_lossy(&super::succeed(&mut self.0).stdout).into_owned()
    }

    /// Returns a row of fields per frame, several values of a field with commas.
    ///
    /// # Panics
    /// If tshark fails.
    #[track_caller]
    pub fn fields(self, names: &[&str]) -> Vec<Vec<String>> {
        let names: Vec<&str> = names.iter().flat_map(|name| ["-e", *name]).collect();
        let text = self.options(&["-T", "fields", "-E", "occurrence=a"]).options(&names).text();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// Returns the number of frames that a display filter lets through.
    ///
    /// # Panics
    /// If tshark fails.
    #[track_caller]
    pub fn count(self, filter: &str) -> usize {
        self.options(&["-Y", filter]).text().lines().filter(|line| !line.is_empty()).count()
    }
}
