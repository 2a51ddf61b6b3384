//! What is sent: a file or a test card, with the pictures to compare with.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::config::{Card, Stream};
use super::ffmpeg::Ffmpeg;
use super::mux;
use super::quality::Reference;
use super::scratch::Scratch;
use super::stream::TransportStream;

/// How many originals are kept for the next run: each may take a lot of memory.
const KEPT: usize = 3;

/// A stream to send and the streams that it was made of.
#[derive(Debug)]
pub struct Original {
    /// What is sent.
    pub whole: TransportStream,
    /// The stream itself, or those of both eyes that were multiplexed into it.
    pub parts: Vec<TransportStream>,
    references: OnceLock<Result<Vec<Reference>, String>>,
}

impl Original {
    /// A stream as it is.
    pub fn of(stream: TransportStream) -> Original {
        Original { parts: vec![stream.clone()], whole: stream, references: OnceLock::new() }
    }

    /// Makes a test card.
    ///
    /// # Errors
    /// If ffmpeg is not there or fails, as a text.
    pub fn card(card: &Card, ffmpeg: Ffmpeg) -> Result<Original, String> {
        let scratch = Scratch::new().map_err(|error| error.to_string())?;
        let eye = |eye: u8| {
            let path = scratch.path().join(format!("eye-{eye}.ts"));
            ffmpeg.card(card, eye, &path).map_err(|error| error.to_string())?;
            let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
            TransportStream::read(&bytes).map_err(|error| error.to_string())
        };
        let parts = (0..card.eyes).map(eye).collect::<Result<Vec<_>, String>>()?;
        if parts.len() == 1 {
            return Ok(Original::of(parts.into_iter().next().expect("one")));
        }
        let whole = mux::multiplex(&parts, None).map_err(|error| error.to_string())?;
        Ok(Original { whole, parts, references: OnceLock::new() })
    }

    /// What a scenario asks for; the same is made once for all runs.
    ///
    /// # Errors
    /// If the file cannot be read, or ffmpeg is not there or fails, as a text.
    pub(super) fn shared(setup: &Stream, folder: &Path) -> Result<Arc<Original>, String> {
        static MADE: Mutex<Vec<(String, Arc<Original>)>> = Mutex::new(Vec::new());
        let key = format!("{}\n{:?}\n{:?}", folder.display(), setup.file, setup.card);
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, original)) = made.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(original));
        }
        let original = Arc::new(match &setup.file {
            Some(file) => Original::of(TransportStream::load(&folder.join(file))?),
            None => Original::card(&setup.card, Ffmpeg::find().map_err(|error| error.to_string())?)?,
        });
        made.insert(0, (key, Arc::clone(&original)));
        made.truncate(KEPT);
        Ok(original)
    }

    /// The pictures of each part; decoded when they are first asked for.
    ///
    /// # Errors
    /// If they cannot be decoded, as a text.
    pub fn references(&self, ffmpeg: Ffmpeg) -> Result<&[Reference], String> {
        let references = self.references.get_or_init(|| {
            let scratch = Scratch::new().map_err(|error| error.to_string())?;
            let decode = |part: &TransportStream| {
                let path = scratch.path().join("original.ts");
                std::fs::write(&path, part.to_bytes()).map_err(|error| error.to_string())?;
                Reference::of(&path, ffmpeg).map_err(|error| error.to_string())
            };
            self.parts.iter().map(decode).collect()
        });
        references.as_deref().map_err(Clone::clone)
    }
}
