//! Encoders and decoders: G.711 here, others by ffmpeg, which is a separate program.

use std::path::Path;

use bentpipe_assemble::ffmpeg::{Failure, Ffmpeg};
use bentpipe_assemble::scratch::Scratch;
use bentpipe_units::Span;
use bentpipe_voice::Codec;
use bentpipe_voice::call::{Config, Settings};
use bentpipe_voice::speech::g711::Law;
use bentpipe_wire::ogg;

/// Samples of an Opus packet of 20 ms at 48 kHz, the unit of Ogg.
const OPUS_GRANULES: u64 = 960;
/// Place of the pre-skip in the header of Opus (RFC 7845, section 5.1).
const PRE_SKIP: std::ops::Range<usize> = 10..12;

/// Bits of a TOC byte with the number of frames.
const COUNT_OF_FRAMES: u8 = 3;

/// Encoder and decoder of a call's codec.
pub(super) struct Coder {
    codec: Codec,
    bps: u64,
    frames: u32,
    /// Rate of the samples.
    pub(super) rate_hz: u32,
    interval: Span,
    payload_len: usize,
    program: Program,
}

/// Speech that was coded.
pub(super) struct Coded {
    /// Headers of the encoder's file.
    pub(super) headers: Vec<Vec<u8>>,
    /// RTP payload of each packet.
    pub(super) payloads: Vec<Vec<u8>>,
}

/// Means to code.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Program {
    /// G.711, here.
    Own(Law),
    /// ffmpeg with files of plain frames: format, options of encoder and decoder.
    Raw(&'static str, Vec<String>, Vec<String>),
    /// ffmpeg, whose files are of Ogg: options of the encoder.
    Ogg(Vec<String>),
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Program {
    fn of(codec: Codec, bps: u64, frames: u32) -> Result<Program, String> {
        Ok(match codec {
            Codec::G711A => Program::Own(Law::A),
            Codec::G711U => Program::Own(Law::Mu),
            Codec::G722 => Program::Raw("g722", words("-c:a g722"), Vec::new()),
            Codec::G726 => {
                let encoder = words(&format!("-c:a g726le -b:a {bps}"));
                Program::Raw("g726le", encoder, words(&format!("-code_size {} -ar 8000", bps / 8000)))
            }
            Codec::G7231 if bps == 6300 => Program::Raw("g723_1", words("-c:a g723_1 -b:a 6300"), Vec::new()),
            Codec::G7231 => {
                return Err("ffmpeg codes G.723.1 at 6.3 kbit/s only: expected that rate".to_owned());
            }
            Codec::Gsm => Program::Raw("gsm", words("-c:a libgsm"), Vec::new()),
            Codec::Speex => {
                let quality = speex_quality(bps);
                Program::Ogg(words(&format!(
                    "-c:a libspeex -cbr_quality {quality} -frames_per_packet {frames}"
                )))
            }
            Codec::Opus if frames == 1 => {
                let options = "-c:a libopus -vbr off -application voip -frame_duration 20";
                Program::Ogg(words(&format!("{options} -b:a {bps}")))
            }
            Codec::Opus => {
                return Err(
                    "speech in Opus has one frame of 20 ms per packet: expected `frames = 1`".to_owned()
                );
            }
            _ => {
                let name = codec.name();
                return Err(format!(
                    "{name} has no encoder here: expected g711a, g711u, g722, g723.1, g726, gsm, opus or speex"
                ));
            }
        })
    }
}

/// Returns the quality that gives a rate of Speex (its manual, table 9.2).
fn speex_quality(bps: u64) -> u32 {
    [2150, 3950, 5950, 8000, 8000, 11_000, 11_000, 15_000, 15_000, 18_200]
        .iter()
        .position(|rate| *rate == bps)
        .unwrap_or(10) as u32
}

impl Coder {
    /// Creates the coder of a call.
    ///
    /// # Errors
    /// Returns an error if the codec has no encoder here.
    pub(super) fn new(settings: &Settings, config: &Config) -> Result<Coder, String> {
        let format = settings.format();
        let frames = config.frames.unwrap_or(format.usual_frames());
        let bps = (format.frame_bits as f64 / format.frame.as_secs_f64()).round() as u64;
        let bps = config.rate.map_or(bps, |rate| rate.as_bps());
        // Frames of G.723.1 have padding, and its default rate is 6.3 kbit/s.
        let bps = if format.codec == Codec::G7231 && config.rate.is_none() { 6300 } else { bps };
        let is_wide = matches!(format.codec, Codec::G722 | Codec::Opus);
        Ok(Coder {
            codec: format.codec,
            bps,
            frames,
            rate_hz: if is_wide { 16_000 } else { 8000 },
            interval: settings.interval(),
            payload_len: settings.payload_len() as usize,
            program: Program::of(format.codec, bps, frames)?,
        })
    }

    /// Returns the codec's name with its rate, if it has several.
    pub(super) fn title(&self) -> String {
        let kbps = self.bps as f64 / 1000.0;
        match self.codec {
            Codec::G711A | Codec::G711U | Codec::G722 | Codec::Gsm => self.codec.name().to_owned(),
            _ => format!("{} {kbps} kbit/s", self.codec.name()),
        }
    }

    /// Returns `true` if the decoder conceals losses.
    pub(super) fn conceals(&self) -> bool {
        self.codec == Codec::Opus
    }

    /// Returns the number of samples in a span.
    pub(super) fn samples_of(&self, span: Span) -> usize {
        (u128::from(span.as_nanos()) * u128::from(self.rate_hz) / 1_000_000_000) as usize
    }

    /// Codes speech.
    ///
    /// # Errors
    /// Returns an error if ffmpeg is missing or fails.
    pub(super) fn encode(&self, samples: &[i16], scratch: &Scratch) -> Result<Coded, String> {
        let len = self.samples_of(self.interval).max(1);
        let count = samples.len().div_ceil(len);
        let mut padded = samples.to_vec();
        // One packet more, for encoders that look ahead.
        padded.resize((count + 1) * len, 0);
        let (headers, mut payloads) = match &self.program {
            Program::Own(law) => {
                let payload = |part: &[i16]| part.iter().map(|sample| law.encode(*sample)).collect();
                (Vec::new(), padded.chunks(len).map(payload).collect())
            }
            Program::Raw(format, options, _) => {
                let bytes = self.run_encoder(&padded, options, format, scratch)?;
                (Vec::new(), bytes.chunks(self.payload_len).map(<[u8]>::to_vec).collect())
            }
            Program::Ogg(options) => {
                let bytes = self.run_encoder(&padded, options, "ogg", scratch)?;
                let packets = ogg::packets(&bytes).map_err(|error| format!("ffmpeg's file: {error}"))?;
                let mut packets = packets.into_iter();
                let headers = packets.by_ref().take(2).collect();
                (headers, packets.collect::<Vec<Vec<u8>>>())
            }
        };
        if payloads.len() < count {
            return Err(format!("{}: {} packets coded, expected {count}", self.title(), payloads.len()));
        }
        payloads.truncate(count);
        Ok(Coded { headers, payloads })
    }

    fn run_encoder(
        &self,
        samples: &[i16],
        options: &[String],
        format: &str,
        scratch: &Scratch,
    ) -> Result<Vec<u8>, String> {
        let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
        let mut arguments = linear(self.rate_hz);
        arguments.extend(words("-i"));
        let input = put(scratch, "speech.raw", &bytes)?;
        arguments.push(input);
        arguments.extend_from_slice(options);
        arguments.extend(["-f", format].map(str::to_owned));
        ffmpeg(arguments, scratch, "coded")
    }

    /// Decodes packets, one after the other. `None` is a loss that the decoder conceals, if it does.
    ///
    /// # Errors
    /// Returns an error if ffmpeg is missing or fails.
    pub(super) fn decode(
        &self,
        headers: &[Vec<u8>],
        payloads: &[Option<Vec<u8>>],
        scratch: &Scratch,
    ) -> Result<Vec<i16>, String> {
        let present = || payloads.iter().flatten();
        if present().next().is_none() {
            return Ok(vec![0; payloads.len() * self.samples_of(self.interval)]);
        }
        let (format, bytes, options) = match &self.program {
            Program::Own(law) => return Ok(present().flatten().map(|byte| law.decode(*byte)).collect()),
            Program::Raw(format, _, options) => {
                (*format, present().flatten().copied().collect(), &options[..])
            }
            Program::Ogg(_) => ("ogg", self.ogg(headers, payloads), &[][..]),
        };
        let mut arguments = words("-f");
        arguments.push(format.to_owned());
        arguments.extend_from_slice(options);
        if self.codec == Codec::Opus {
            arguments.extend(words("-c:a libopus"));
        }
        arguments.extend(words("-i"));
        arguments.push(put(scratch, "received", &bytes)?);
        arguments.extend(linear(self.rate_hz));
        let bytes = ffmpeg(arguments, scratch, "decoded.raw")?;
        let mut samples = samples_in(&bytes);
        samples.resize(payloads.len() * self.samples_of(self.interval), 0);
        Ok(samples)
    }

    /// Returns a file of Ogg. A lost packet of Opus is one with nothing but its TOC byte, which makes the decoder conceal.
    fn ogg(&self, headers: &[Vec<u8>], payloads: &[Option<Vec<u8>>]) -> Vec<u8> {
        let mut headers = headers.to_vec();
        if let (Codec::Opus, Some(header)) = (self.codec, headers.first_mut()) {
            header.get_mut(PRE_SKIP).into_iter().flatten().for_each(|byte| *byte = 0);
        }
        let toc = payloads.iter().flatten().find_map(|payload| payload.first().copied()).unwrap_or_default();
        // One frame, of no bytes (RFC 6716, section 3.2.1).
        let lost = [toc & !COUNT_OF_FRAMES];
        let step = match self.codec {
            Codec::Opus => OPUS_GRANULES,
            _ => u64::from(self.frames) * 160,
        };
        let packets = payloads.iter().map(|payload| payload.as_deref().unwrap_or(&lost));
        let granules = (1..).map(|n| n * step);
        let content = packets.zip(granules).map(|(bytes, granule)| ogg::Packet { bytes, granule });
        let stream: Vec<ogg::Packet<'_>> =
            headers.iter().map(|bytes| ogg::Packet { bytes, granule: 0 }).chain(content).collect();
        ogg::write(1, &stream)
    }
}

/// Converts any file that ffmpeg reads to samples of one channel at a rate.
pub(super) fn convert(path: &Path, rate_hz: u32, scratch: &Scratch) -> Result<Vec<i16>, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let mut arguments = words("-protocol_whitelist file -i");
    arguments.push(format!("file:{}", path.display()));
    // One second more than is allowed, so that a longer file is refused.
    arguments.extend(words("-vn -t 601"));
    arguments.extend(linear(rate_hz));
    Ok(samples_in(&ffmpeg(arguments, scratch, "converted.raw")?))
}

/// Returns the options of linear samples of one channel.
fn linear(rate_hz: u32) -> Vec<String> {
    words(&format!("-f s16le -ac 1 -ar {rate_hz}"))
}

fn samples_in(bytes: &[u8]) -> Vec<i16> {
    bytes.as_chunks().0.iter().map(|two| i16::from_le_bytes(*two)).collect()
}

/// Writes a temporary file, and returns its path.
fn put(scratch: &Scratch, name: &str, bytes: &[u8]) -> Result<String, String> {
    let path = scratch.path().join(name);
    std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.display().to_string())
}

/// Runs ffmpeg with an output file, and returns its content.
fn ffmpeg(mut arguments: Vec<String>, scratch: &Scratch, name: &str) -> Result<Vec<u8>, String> {
    let path = scratch.path().join(name);
    arguments.push(path.display().to_string());
    let text = |failure: Failure| failure.to_string();
    Ffmpeg::find().map_err(text)?.run(&arguments).map_err(text)?;
    std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
}
