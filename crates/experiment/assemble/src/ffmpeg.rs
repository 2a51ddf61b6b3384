//! ffmpeg, which makes test cards, codes speech, and decodes what was received.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bentpipe_scenario::{Card, FramePacking};
use bentpipe_units::Rate;

/// ffmpeg, found to be there.
#[derive(Clone, Copy, Debug)]
pub struct Ffmpeg(());

const PROGRAM: &str = "ffmpeg";

/// ffmpeg is not there, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// ffmpeg cannot be started.
    #[error(
        "ffmpeg does not start: {0}; it makes test cards, decodes video and codes speech: install it (apt-get install ffmpeg)"
    )]
    NotThere(String),
    /// ffmpeg ended with an error.
    #[error("ffmpeg failed: {0}")]
    Failed(String),
}

/// Part of the pictures of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Whole pictures.
    #[default]
    Whole,
    /// Eye 0 or 1 of pictures with both.
    Eye(FramePacking, u8),
}

impl View {
    /// Both eyes of an arrangement.
    pub const fn eyes(frame: FramePacking) -> [View; 2] {
        [View::Eye(frame, 0), View::Eye(frame, 1)]
    }

    /// Returns the filters that take the part out, each with a comma behind it.
    const fn crop(self) -> &'static str {
        match self {
            View::Whole => "",
            View::Eye(FramePacking::SideBySide, 0) => "crop=iw/2:ih:0:0,",
            View::Eye(FramePacking::SideBySide, _) => "crop=iw/2:ih:iw/2:0,",
            View::Eye(FramePacking::TopAndBottom, 0) => "crop=iw:ih/2:0:0,",
            View::Eye(FramePacking::TopAndBottom, _) => "crop=iw:ih/2:0:ih/2,",
        }
    }
}

/// Returns the filters that put `[left]` and `[right]` into one picture of a size.
fn packed(frame: FramePacking, width: u32, height: u32) -> String {
    let (size, stack) = match frame {
        FramePacking::SideBySide => (format!("{}:{height}", width / 2), "hstack"),
        FramePacking::TopAndBottom => (format!("{width}:{}", height / 2), "vstack"),
    };
    format!("[left]scale={size}[l];[right]scale={size}[r];[l][r]{stack}=inputs=2,setsar=1")
}

/// Decoded pictures in a file. Each has luma, then both chroma planes at half size.
pub struct Decoded {
    /// Each picture's presentation time, in units of one picture.
    pub times: Vec<i64>,
    /// Width and height in pixels.
    pub size: (usize, usize),
    /// The file.
    pub pictures: PathBuf,
}

impl Ffmpeg {
    /// The one on the path.
    ///
    /// # Errors
    /// If it does not start.
    pub fn find() -> Result<Ffmpeg, Failure> {
        let status =
            Command::new(PROGRAM).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.map_err(|error| Failure::NotThere(error.to_string()))?;
        Ok(Ffmpeg(()))
    }

    /// Returns `true` if this ffmpeg can compute VMAF: a build with the filter libvmaf.
    ///
    /// # Errors
    /// Returns an error if it does not start.
    pub fn has_vmaf(self) -> Result<bool, Failure> {
        let output = Command::new(PROGRAM).args(["-hide_banner", "-filters"]).stdin(Stdio::null()).output();
        let output = output.map_err(|error| Failure::NotThere(error.to_string()))?;
        Ok(lists_vmaf(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Returns the mean VMAF of a part of a video, by [`Ffmpeg::has_vmaf`]'s filter. `None`: it gives none.
    ///
    /// Against the same part of `original`, by presentation times; or against the whole pictures of a `source` before coding, from
    /// the first pictures of both on. What was received is scaled to the other's size. A lost picture is that before it.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start, or fails.
    pub fn vmaf(
        self,
        original: &Path,
        source: Option<&Path>,
        received: &Path,
        view: View,
        folder: &Path,
    ) -> Result<Option<f64>, Failure> {
        let log = folder.join("vmaf.json");
        let _ = std::fs::remove_file(&log);
        let against = source.unwrap_or(original);
        let (width, height) = self.size(against, folder)?;
        let (crop, first) = (view.crop(), "setpts=PTS-STARTPTS");
        let [one, other] = match source {
            Some(_) => [format!("{crop}scale={width}:{height},{first}"), first.to_owned()],
            None => [format!("scale={width}:{height},{crop}null"), format!("{crop}null")],
        };
        let graph =
            format!("[0:v]{one}[d];[1:v]{other}[r];[d][r]libvmaf=log_fmt=json:log_path={}", log.display());
        let before = ["-copyts", "-i"].map(OsStr::new);
        let inputs = before.into_iter().chain([received.as_os_str(), "-i".as_ref(), against.as_os_str()]);
        let more = ["-lavfi", &graph, "-f", "null", "-"].map(OsStr::new);
        self.run(inputs.chain(more))?;
        Ok(vmaf_of(&std::fs::read_to_string(&log).unwrap_or_default()))
    }

    /// Runs it with arguments, of which the last is the file to write.
    ///
    /// # Errors
    /// Returns an error with ffmpeg's last line if it does not start, or fails.
    pub fn run<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Result<(), Failure> {
        let mut command = Command::new(PROGRAM);
        command.args(["-hide_banner", "-nostdin", "-loglevel", "error", "-y"]).args(arguments);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| Failure::NotThere(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Failure::Failed(said.lines().last().unwrap_or("it does not say why").chars().take(300).collect()))
    }

    /// Writes the test card of eye `eye`: moving parts, a running clock and a tone.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start, or fails.
    pub fn card(self, card: &Card, eye: u8, out: &Path) -> Result<(), Failure> {
        let (length, tone) = (card.length.as_secs_f64(), 440 + 110 * u32::from(eye));
        let sound = format!("sine=frequency={tone}:sample_rate=48000:duration={length}");
        let picture = match card.frame {
            None => picture(card, eye),
            Some(frame) => both_eyes(card, frame),
        };
        let mut arguments: Vec<String> =
            ["-f", "lavfi", "-i", &picture, "-f", "lavfi", "-i", &sound].map(String::from).to_vec();
        arguments.extend(coding(card.rate));
        arguments.push(out.display().to_string());
        self.run(arguments)
    }

    /// Codes the videos of both eyes in one picture. The sound is that of the left one.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start, or fails.
    pub fn pack(
        self,
        eyes: [&Path; 2],
        frame: FramePacking,
        (width, height): (usize, usize),
        rate: Rate,
        out: &Path,
    ) -> Result<(), Failure> {
        let graph = packed(frame, width as u32, height as u32);
        let graph = format!("{}[both]", graph.replace("[left]", "[0:v]").replace("[right]", "[1:v]"));
        let mut arguments: Vec<String> = Vec::new();
        for file in eyes {
            arguments.extend(["-threads", "1", "-i"].map(String::from));
            arguments.push(file.display().to_string());
        }
        let map = ["-filter_complex", &graph, "-map", "[both]", "-map", "0:a:0?"];
        arguments.extend(map.map(String::from));
        arguments.extend(coding(rate));
        arguments.push(out.display().to_string());
        self.run(arguments)
    }

    /// Writes a part of the pictures of a file, scaled, in FFV1 and Matroska.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start, or fails.
    pub fn unpack(
        self,
        file: &Path,
        view: View,
        (width, height): (usize, usize),
        out: &Path,
    ) -> Result<(), Failure> {
        let filter = format!("{}scale={width}:{height},setsar=1", view.crop());
        let mut arguments: Vec<&OsStr> = ["-threads", "1", "-i"].map(OsStr::new).to_vec();
        arguments.push(file.as_os_str());
        arguments.extend(["-map", "0:v:0", "-vf", &filter].map(OsStr::new));
        arguments.extend(LOSSLESS.map(OsStr::new));
        arguments.push(out.as_os_str());
        self.run(arguments)
    }

    /// Writes the pictures of a test card before coding. They are in FFV1 and Matroska, without loss.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start, or fails.
    pub fn source(self, card: &Card, eye: u8, out: &Path) -> Result<(), Failure> {
        let picture = picture(card, eye);
        let input = ["-f", "lavfi", "-i", &picture].map(OsStr::new);
        self.run(input.into_iter().chain(LOSSLESS.map(OsStr::new)).chain([out.as_os_str()]))
    }

    /// Returns time and digest of each decoded frame of sound. The list is empty without sound.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start.
    pub fn sound(self, file: &Path, folder: &Path) -> Result<Vec<(i64, String)>, Failure> {
        let list = folder.join("sound.md5");
        let _ = std::fs::remove_file(&list);
        let mut arguments: Vec<&OsStr> = ["-threads", "1", "-copyts", "-i"].map(OsStr::new).to_vec();
        arguments.push(file.as_os_str());
        arguments.extend(["-map", "0:a:0", "-c:a", "pcm_s16le", "-f", "framemd5"].map(OsStr::new));
        arguments.push(list.as_os_str());
        // A stream without sound, or of which none can be decoded.
        if let Err(Failure::NotThere(why)) = self.run(arguments) {
            return Err(Failure::NotThere(why));
        }
        let text = std::fs::read_to_string(&list).unwrap_or_default();
        let frame = |line: &str| Some((time(line)?, line.rsplit(',').next()?.trim().to_owned()));
        Ok(text.lines().filter(|line| !line.starts_with('#')).filter_map(frame).collect())
    }

    /// Decodes a part of the video of a file into `folder`, scaled to a size. A stream of which nothing can be decoded has no pictures.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start.
    pub fn decode(
        self,
        file: &Path,
        view: View,
        size: (usize, usize),
        folder: &Path,
    ) -> Result<Decoded, Failure> {
        let (pictures, list) = (folder.join("pictures.yuv"), folder.join("pictures.md5"));
        let _ = (std::fs::remove_file(&pictures), std::fs::remove_file(&list));
        let scale = format!("{}scale={}:{}", view.crop(), size.0, size.1);
        let each = ["-map", "0:v:0", "-fps_mode", "passthrough", "-vf", &scale, "-pix_fmt", "yuv420p", "-f"];
        let mut arguments: Vec<&OsStr> = ["-threads", "1", "-copyts", "-i"].map(OsStr::new).to_vec();
        arguments.push(file.as_os_str());
        arguments.extend(each.map(OsStr::new));
        arguments.extend([OsStr::new("rawvideo"), pictures.as_os_str()]);
        arguments.extend(each.map(OsStr::new));
        arguments.extend([OsStr::new("framemd5"), list.as_os_str()]);
        // What was received may be beyond any decoder; then there are no pictures, and that is a result.
        if let Err(Failure::NotThere(why)) = self.run(arguments) {
            return Err(Failure::NotThere(why));
        }
        let times = std::fs::read_to_string(&list).unwrap_or_default();
        let times = times.lines().filter(|line| !line.starts_with('#')).filter_map(time).collect();
        Ok(Decoded { times, size, pictures })
    }

    /// Returns the size of a file's video.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start, or there is no video.
    pub fn size(self, file: &Path, folder: &Path) -> Result<(usize, usize), Failure> {
        let list = folder.join("size.md5");
        let arguments = ["-i".as_ref(), file.as_os_str(), "-map".as_ref(), "0:v:0".as_ref()];
        let more = ["-frames:v", "1", "-f", "framemd5"].map(OsStr::new);
        self.run(arguments.into_iter().chain(more).chain([list.as_os_str()]))?;
        let text = std::fs::read_to_string(&list).unwrap_or_default();
        let size = text.lines().find_map(|line| line.strip_prefix("#dimensions 0: ")?.split_once('x'));
        let size = size.and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        size.filter(|(width, height): &(usize, usize)| {
            width * height > 0 && width % 2 == 0 && height % 2 == 0
        })
        .ok_or_else(|| Failure::Failed(format!("no video of an even size in {}", file.display())))
    }

    /// Writes the pictures of both files at `at_s` seconds as PNG, next to each other. Each is `width` pixels wide.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start, or fails.
    pub fn side_by_side(
        self,
        files: [(&Path, View); 2],
        at_s: f64,
        (width, height): (u32, u32),
        out: &Path,
    ) -> Result<(), Failure> {
        let at = format!("{at_s:.3}");
        let [left, right] = files.map(|(_, view)| format!("{}scale={width}:{height}", view.crop()));
        let graph = format!("[0:v]{left}[l];[1:v]{right}[r];[l][r]hstack=inputs=2[both]");
        let mut arguments: Vec<&OsStr> = Vec::new();
        for (file, _) in files {
            arguments.extend(["-threads", "1", "-ss", &at, "-i"].map(OsStr::new));
            arguments.push(file.as_os_str());
        }
        let more = ["-filter_complex", &graph, "-map", "[both]", "-frames:v", "1", "-flags", "+bitexact"];
        arguments.extend(more.map(OsStr::new));
        arguments.push(out.as_os_str());
        self.run(arguments)
    }
}

/// Arguments for pictures without loss, in FFV1 and Matroska.
const LOSSLESS: [&str; 12] = [
    "-c:v",
    "ffv1",
    "-threads",
    "1",
    "-pix_fmt",
    "yuv420p",
    "-flags",
    "+bitexact",
    "-fflags",
    "+bitexact",
    "-f",
    "matroska",
];

/// Returns the arguments of MPEG-2 video and sound at a constant rate.
fn coding(rate: Rate) -> Vec<String> {
    let video_bits = rate.as_bps() * 3 / 4;
    let (bits, buffer, all) =
        (video_bits.to_string(), (video_bits / 3).to_string(), rate.as_bps().to_string());
    let video = ["-c:v", "mpeg2video", "-threads", "1", "-pix_fmt", "yuv420p", "-g", "12", "-bf", "2"];
    let rates = ["-b:v", &bits, "-maxrate", &bits, "-bufsize", &buffer];
    let sound = ["-c:a", "mp2", "-b:a", "128k", "-flags", "+bitexact", "-fflags", "+bitexact"];
    let stream = ["-f", "mpegts", "-pcr_period", "20", "-muxrate", &all];
    let all = video.iter().chain(&rates).chain(&sound).chain(&stream);
    all.map(|word| (*word).to_owned()).collect()
}

/// Horizontal offset of the second eye's picture, in pixels.
const SHIFT: u32 = 16;

/// Returns the filter graph of a test card's picture.
fn picture(card: &Card, eye: u8) -> String {
    let Card { width, height, .. } = card;
    let (wide, shift, length) = (width + SHIFT, SHIFT * u32::from(eye), card.length.as_secs_f64());
    format!("testsrc2=size={wide}x{height}:rate=25:duration={length},crop={width}:{height}:{shift}:0")
}

/// Returns the filter graph of a test card's picture with both eyes.
fn both_eyes(card: &Card, frame: FramePacking) -> String {
    let Card { width, height, .. } = card;
    let (wide, length) = (width + SHIFT, card.length.as_secs_f64());
    format!(
        "testsrc2=size={wide}x{height}:rate=25:duration={length},split[a][b];[a]crop={width}:{height}:0:0[left];\
         [b]crop={width}:{height}:{SHIFT}:0[right];{}",
        packed(frame, *width, *height)
    )
}

/// Returns `true` if a listing of filters has libvmaf. Each line has flags, name, inputs and outputs, and a description.
fn lists_vmaf(filters: &str) -> bool {
    filters.lines().any(|line| line.split_whitespace().nth(1) == Some("libvmaf"))
}

/// Returns the mean score in libvmaf's log.
fn vmaf_of(log: &str) -> Option<f64> {
    let log: serde_json::Value = serde_json::from_str(log).ok()?;
    log["pooled_metrics"]["vmaf"]["mean"].as_f64()
}

/// The presentation time in a line of framemd5: stream, decoding time, presentation time, ...
fn time(line: &str) -> Option<i64> {
    line.split(',').nth(2)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Listings in the form of `ffmpeg -filters`: one of a build without libvmaf, and one with it.
    #[test]
    fn vmaf_is_where_the_listing_has_its_filter() {
        let without = "Filters:\n  T.. = Timeline support\n ... vmafmotion        V->V       Calculate the VMAF Motion score.\n";
        let with = format!(
            "{without} ..C libvmaf           VV->V      Calculate the VMAF between two video streams.\n"
        );
        assert!(!lists_vmaf(without) && lists_vmaf(&with) && !lists_vmaf(""));
        assert!(!lists_vmaf(" ... other V->V like libvmaf but another filter\n"));
    }

    #[test]
    fn the_mean_is_that_of_the_pooled_scores() {
        let log = r#"{"version": "2.3.1", "frames": [{"frameNum": 0, "metrics": {"vmaf": 12.0}}],
            "pooled_metrics": {"vmaf": {"min": 90.0, "max": 99.5, "mean": 95.25, "harmonic_mean": 95.1}}}"#;
        assert_eq!(vmaf_of(log), Some(95.25));
        assert_eq!(vmaf_of("{}"), None);
        assert_eq!(vmaf_of("no JSON"), None);
    }

    #[test]
    fn each_eye_has_half_of_the_pictures() {
        let halves = [FramePacking::SideBySide, FramePacking::TopAndBottom].map(View::eyes);
        let crops: Vec<&str> = halves.iter().flatten().map(|view| view.crop()).collect();
        assert_eq!(
            crops,
            ["crop=iw/2:ih:0:0,", "crop=iw/2:ih:iw/2:0,", "crop=iw:ih/2:0:0,", "crop=iw:ih/2:0:ih/2,"]
        );
    }
}
