//! Errors of the channel, and decoders that correct them.

use bentpipe_units::RandomStream;
use bentpipe_wire::space::convolutional::Decoder;
use bentpipe_wire::space::{SYNC_MARKER, crc, reed_solomon};

use crate::config::{Coding, Config, Frame};
use crate::theory::{event_probability, symbol_error, table_loss};

/// Bits of sync markers that the Viterbi decoder sees at both ends of a frame.
const EDGE: usize = 8 * SYNC_MARKER.len();
/// Expected error events of a frame below which the decoder is not run.
const NEGLIGIBLE: f64 = 1e-9;

/// Result of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// The frame is what the decoder found, with the number of corrected Reed-Solomon symbols.
    Passed(u64),
    /// The decoder has found that it cannot decode.
    Lost,
}

/// Channel and decoder of frames.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    decoder: Decoder,
    symbols: Vec<f32>,
    block: Vec<u8>,
    /// Wrong channel symbols, by hard decisions.
    pub(crate) symbol_errors: u64,
    /// Channel symbols.
    pub(crate) symbols_received: u64,
}

impl Channel {
    /// Sends a frame through channel and decoder, which change its bytes.
    pub(crate) fn pass(&mut self, frame: &mut [u8], config: &Config, stream: &mut RandomStream) -> Decoded {
        let crc = if config.frame == Frame::Proximity1 { crc::PROXIMITY_LEN } else { 0 };
        self.symbols_received += config.symbols(frame.len() - crc);
        if symbol_error(config) <= 0.0 {
            return Decoded::Passed(0);
        }
        match config.coding {
            Coding::None => {
                self.flip(frame, symbol_error(config), stream);
                Decoded::Passed(0)
            }
            Coding::Convolutional => {
                let wrong = self.decode_convolutional(frame.len(), config, stream);
                wrong.into_iter().for_each(|bit| flip_bit(frame, bit));
                Decoded::Passed(0)
            }
            Coding::ReedSolomon | Coding::Concatenated => self.pass_reed_solomon(frame, config, stream),
            _ => {
                let loss = config.layout().ok().and_then(|layout| table_loss(config, &layout)).unwrap_or(1.0);
                if stream.chance(loss) { Decoded::Lost } else { Decoded::Passed(0) }
            }
        }
    }

    /// Flips bits that are wrong independently of one another.
    fn flip(&mut self, bytes: &mut [u8], p: f64, stream: &mut RandomStream) {
        let bits = 8 * bytes.len() as u64;
        let mut at = stream.failures_before_success(p);
        while at < bits {
            flip_bit(bytes, at as usize);
            self.symbol_errors += 1;
            at = at.saturating_add(1).saturating_add(stream.failures_before_success(p));
        }
    }

    fn pass_reed_solomon(&mut self, frame: &mut [u8], config: &Config, stream: &mut RandomStream) -> Decoded {
        let len = frame.len();
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        // The parity is made only if it is looked at: in a block that has errors.
        block.resize(len + reed_solomon::PARITY * config.depth(), 0);
        if config.coding.is_convolutional() {
            let wrong = self.decode_convolutional(block.len(), config, stream);
            wrong.into_iter().for_each(|bit| flip_bit(&mut block, bit));
        } else {
            self.flip(&mut block, symbol_error(config), stream);
        }
        let decoded = if block.iter().all(|byte| *byte == 0) {
            Decoded::Passed(0)
        } else {
            let mut received = frame.to_vec();
            reed_solomon::encode(&mut received, config.depth());
            received.iter_mut().zip(&block).for_each(|(byte, wrong)| *byte ^= wrong);
            match reed_solomon::decode(&mut received, config.depth()) {
                Ok(corrected) => {
                    frame.copy_from_slice(&received[..len]);
                    Decoded::Passed(corrected as u64)
                }
                Err(reed_solomon::Uncorrectable) => Decoded::Lost,
            }
        };
        self.block = block;
        decoded
    }

    /// Returns the bits of a frame of `len` bytes that the Viterbi decoder gets wrong.
    ///
    /// The code is linear and the noise symmetric, so errors are those of a frame of zeros.
    fn decode_convolutional(&mut self, len: usize, config: &Config, stream: &mut RandomStream) -> Vec<usize> {
        let bits = 8 * len;
        if event_probability(config) * (bits as f64) < NEGLIGIBLE {
            return Vec::new();
        }
        let count = 2 * (bits + 2 * EDGE);
        self.symbols.clear();
        match config.es_n0_db {
            Some(es_n0) => {
                let sigma = libm::sqrt(0.5 / libm::pow(10.0, es_n0 / 10.0));
                while self.symbols.len() < count {
                    let (one, other) = stream.normal_pair();
                    self.symbols.extend([(1.0 + sigma * one) as f32, (1.0 + sigma * other) as f32]);
                }
            }
            None => {
                let p = symbol_error(config);
                // Decisions of one size make ties, which must not all be in favour of the zeros that were sent.
                self.symbols.extend((0..count).map(|_| 1.0 + 1e-3 * stream.unit() as f32));
                let mut at = stream.failures_before_success(p);
                while at < count as u64 {
                    self.symbols[at as usize] *= -1.0;
                    at = at.saturating_add(1).saturating_add(stream.failures_before_success(p));
                }
            }
        }
        let inside = &self.symbols[2 * EDGE..2 * (EDGE + bits)];
        self.symbol_errors += inside.iter().filter(|symbol| **symbol < 0.0).count() as u64;
        let decoded = self.decoder.decode(&self.symbols);
        let wrong = decoded[EDGE..EDGE + bits].iter().enumerate().filter(|(_, bit)| **bit);
        wrong.map(|(at, _)| at).collect()
    }
}

fn flip_bit(bytes: &mut [u8], bit: usize) {
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 0x80 >> (bit % 8);
    }
}
