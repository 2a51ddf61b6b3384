//! ffmpeg, which makes test cards, codes speech, and decodes what was received.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bentpipe_scenario::Card;

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
        let Card { rate, .. } = card;
        let (length, tone) = (card.length.as_secs_f64(), 440 + 110 * u32::from(eye));
        let video_bits = rate.as_bps() * 3 / 4;
        let sound = format!("sine=frequency={tone}:sample_rate=48000:duration={length}");
        let bits = video_bits.to_string();
        let mut arguments: Vec<String> =
            ["-f", "lavfi", "-i", &picture(card, eye), "-f", "lavfi", "-i", &sound]
                .map(String::from)
                .to_vec();
        let video = ["-c:v", "mpeg2video", "-threads", "1", "-pix_fmt", "yuv420p", "-g", "12", "-bf", "2"];
        let rates =
            ["-b:v", &bits, "-maxrate", &bits, "-bufsize", &(video_bits / 3).to_string()].map(String::from);
        let sound = ["-c:a", "mp2", "-b:a", "128k", "-flags", "+bitexact", "-fflags", "+bitexact"];
        let stream =
            ["-f", "mpegts", "-pcr_period", "20", "-muxrate", &rate.as_bps().to_string()].map(String::from);
        arguments.extend(video.map(String::from));
        arguments.extend(rates);
        arguments.extend(sound.map(String::from));
        arguments.extend(stream);
        arguments.push(out.display().to_string());
        self.run(arguments)
    }

    /// Writes the pictures of a test card before coding. They are in FFV1 and Matroska, without loss.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start, or fails.
    pub fn source(self, card: &Card, eye: u8, out: &Path) -> Result<(), Failure> {
        let picture = picture(card, eye);
        let input = ["-f", "lavfi", "-i", &picture].map(OsStr::new);
        let coded = ["-c:v", "ffv1", "-threads", "1", "-pix_fmt", "yuv420p"].map(OsStr::new);
        let exact = ["-flags", "+bitexact", "-fflags", "+bitexact", "-f", "matroska"].map(OsStr::new);
        self.run(input.into_iter().chain(coded).chain(exact).chain([out.as_os_str()]))
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

    /// Decodes the video of a file into `folder`. A stream of which nothing can be decoded has no pictures.
    ///
    /// # Errors
    /// Returns an error if ffmpeg does not start.
    pub fn decode(self, file: &Path, size: (usize, usize), folder: &Path) -> Result<Decoded, Failure> {
        let (pictures, list) = (folder.join("pictures.yuv"), folder.join("pictures.md5"));
        let _ = (std::fs::remove_file(&pictures), std::fs::remove_file(&list));
        let scale = format!("scale={}:{}", size.0, size.1);
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
    pub fn side_by_side(self, files: [&Path; 2], at_s: f64, width: u32, out: &Path) -> Result<(), Failure> {
        let at = format!("{at_s:.3}");
        let graph = format!("[0:v]scale={width}:-2[l];[1:v]scale={width}:-2[r];[l][r]hstack=inputs=2[both]");
        let mut arguments: Vec<&OsStr> = Vec::new();
        for file in files {
            arguments.extend(["-threads", "1", "-ss", &at, "-i"].map(OsStr::new));
            arguments.push(file.as_os_str());
        }
        let more = ["-filter_complex", &graph, "-map", "[both]", "-frames:v", "1", "-flags", "+bitexact"];
        arguments.extend(more.map(OsStr::new));
        arguments.push(out.as_os_str());
        self.run(arguments)
    }
}

/// Horizontal offset of the second eye's picture, in pixels.
const SHIFT: u32 = 16;

/// Returns the filter graph of a test card's picture.
fn picture(card: &Card, eye: u8) -> String {
    let Card { width, height, .. } = card;
    let (wide, shift, length) = (width + SHIFT, SHIFT * u32::from(eye), card.length.as_secs_f64());
    format!("testsrc2=size={wide}x{height}:rate=25:duration={length},crop={width}:{height}:{shift}:0")
}

/// The presentation time in a line of framemd5: stream, decoding time, presentation time, ...
fn time(line: &str) -> Option<i64> {
    line.split(',').nth(2)?.trim().parse().ok()
}
