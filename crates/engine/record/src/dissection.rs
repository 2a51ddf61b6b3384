//! Commands that open captures in Wireshark's terminal program.

use bentpipe_wire::bbframe::CAPTURE_PORT;

use crate::CaptureFile;

impl CaptureFile {
    /// Returns the command that shows the capture. Dissectors are named from the repository.
    ///
    /// `has_rtp` is set if calls of the run send RTP. Where no session description is in the same capture, Wireshark finds it by its form alone.
    pub fn command(&self, has_rtp: bool) -> String {
        let frames =
            format!("-d udp.port=={CAPTURE_PORT},dvb-s2_modeadapt -o dvb-s2_modeadapt.decode_df:TRUE");
        let dissector = |name: &str| format!("-X lua_script:contrib/wireshark/{name}.lua");
        let options = match self.content() {
            "ts" => format!(" {}", dissector("ule")),
            "frames" => format!(" {frames}"),
            "bursts" => format!(" {frames} {}", dissector("rle")),
            _ if has_rtp => " --enable-heuristic rtp_udp".to_owned(),
            _ => String::new(),
        };
        format!("tshark -r {}{options}", self.file)
    }

    /// Returns the end of the name, which says what a capture on a line holds.
    fn content(&self) -> &str {
        let name = self.file.strip_suffix(".pcap").unwrap_or(&self.file);
        name.rsplit('-').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_capture_has_its_command() {
        let command = |file: &str| CaptureFile { file: file.into(), packets: 1 }.command(false);
        assert_eq!(command("a-sky.pcap"), "tshark -r a-sky.pcap");
        let voice = CaptureFile { file: "a-sky.pcap".into(), packets: 1 }.command(true);
        assert_eq!(voice, "tshark -r a-sky.pcap --enable-heuristic rtp_udp");
        assert_eq!(
            command("a-sky-ts.pcap"),
            "tshark -r a-sky-ts.pcap -X lua_script:contrib/wireshark/ule.lua"
        );
        let frames = command("a-sky-frames.pcap");
        assert!(
            frames.contains(" -d udp.port==7001,dvb-s2_modeadapt -o dvb-s2_modeadapt.decode_df:TRUE"),
            "{frames}"
        );
    }
}
