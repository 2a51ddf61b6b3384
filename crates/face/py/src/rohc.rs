//! Header compression of packets.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bentpipe_rohc::{self as rohc, CidSpace, CompressorConfig, DecompressorConfig, Profiles};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;

fn channel(profiles: &str, max_cid: u16) -> PyResult<rohc::Channel> {
    let profiles = match profiles {
        "v1" => Profiles::V1,
        "v2" => Profiles::V2,
        other => return Err(errors::value(format!("profiles: expected \"v1\" or \"v2\", got {other:?}"))),
    };
    let cids = match max_cid {
        0..=15 => CidSpace::Small { max_cid: max_cid as u8 },
        16..=16_383 => CidSpace::Large { max_cid },
        other => return Err(errors::value(format!("max_cid: expected 0 to 16383, got {other}"))),
    };
    Ok(rohc::Channel { cids, profiles, mrru_bytes: 0 })
}

/// Returns the default configuration on a channel.
pub(crate) fn compressor(profiles: &str, max_cid: u16) -> PyResult<CompressorConfig> {
    Ok(CompressorConfig { channel: channel(profiles, max_cid)?, ..CompressorConfig::default() })
}

/// Returns the default configuration on a channel.
pub(crate) fn decompressor(profiles: &str, max_cid: u16) -> PyResult<DecompressorConfig> {
    Ok(DecompressorConfig { channel: channel(profiles, max_cid)?, ..DecompressorConfig::default() })
}

fn time(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| errors::value(format!("time_s: {error}")))
}

/// Compressor of one direction.
#[pyclass(frozen, module = "bentpipe._native")]
pub(crate) struct Compressor(Mutex<rohc::Compressor>);

/// CID, profile, packet type, and lengths of the headers before and after.
type Header = (u16, String, String, usize, usize);

#[pymethods]
impl Compressor {
    #[new]
    fn new(profiles: &str, max_cid: u16) -> PyResult<Compressor> {
        Ok(Compressor(Mutex::new(rohc::Compressor::new(compressor(profiles, max_cid)?))))
    }

    /// Compresses an IP packet.
    fn compress<'py>(
        &self,
        py: Python<'py>,
        packet: &[u8],
        time_s: f64,
    ) -> PyResult<(Bound<'py, PyBytes>, Header)> {
        let mut out = Vec::new();
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let about = inner.compress(time(time_s)?, packet, &mut out);
        let it = about.map_err(|error| errors::named(py, "RohcError", error))?;
        let names = (it.profile.name().to_owned(), it.packet_type.to_string());
        Ok((PyBytes::new(py, &out), (it.cid, names.0, names.1, it.header_in, it.header_out)))
    }
}

/// Decompressor of one direction, without feedback.
#[pyclass(frozen, module = "bentpipe._native")]
pub(crate) struct Decompressor(Mutex<rohc::Decompressor>);

#[pymethods]
impl Decompressor {
    #[new]
    fn new(profiles: &str, max_cid: u16) -> PyResult<Decompressor> {
        Ok(Decompressor(Mutex::new(rohc::Decompressor::new(decompressor(profiles, max_cid)?))))
    }

    /// Restores an IP packet. Returns `None` for a ROHC packet without one.
    fn decompress<'py>(
        &self,
        py: Python<'py>,
        packet: &[u8],
        time_s: f64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut out = Vec::new();
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let about = inner.decompress(time(time_s)?, packet, &mut out);
        let about = about.map_err(|error| errors::named(py, "RohcError", error))?;
        Ok(about.map(|_| PyBytes::new(py, &out)))
    }
}
