//! AAL5's arithmetic of the Koreasat study.

use bentpipe_wire::aal5;

use crate::runs::StudyRuns;

/// MSS of the publication's computation, in bytes.
const MSS: usize = 9100;

/// AAL5 payload of one segment in bytes: LLC/SNAP, IPv4, IPv6, TCP, and data.
const PAYLOAD: usize = 8 + 20 + 40 + 20 + MSS;

/// Rate of the cells' payload on OC-3, as the publication rounds it, in Mbit/s.
const CELL_PAYLOAD_MBIT_S: f64 = 134.94;

/// Returns the padding in bytes.
pub(super) fn padding(_: &StudyRuns) -> Result<f64, String> {
    Ok(aal5::pad_len(PAYLOAD) as f64)
}

/// Returns TCP payload as a share of the cells' payload.
pub(super) fn efficiency(_: &StudyRuns) -> Result<f64, String> {
    Ok(MSS as f64 / aal5::pdu_len(PAYLOAD) as f64)
}

/// Returns TCP's ceiling in Mbit/s.
pub(super) fn ceiling(runs: &StudyRuns) -> Result<f64, String> {
    Ok(CELL_PAYLOAD_MBIT_S * efficiency(runs)?)
}
