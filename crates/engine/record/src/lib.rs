//! Series and files of a run.
//!
//! A [`Recorder`] runs a [`Network`] in steps and lets its elements report between them. That changes
//! nothing: the fingerprint is the same with any interval, with captures and without. Memory is bounded: a
//! run of more samples than fit is sampled more coarsely, and the recording reports it.

mod account;
mod accounts_file;
mod calls;
mod capture;
mod checksums;
pub mod compare;
mod contact_plan;
mod csv;
mod declared;
pub mod definitions;
mod dissection;
mod distribution;
mod files;
mod finals;
mod flow_notes;
mod follow;
mod frame;
mod frame_file;
mod ledger;
mod ledger_file;
mod measure;
mod network_map;
mod nullable;
mod outcome;
mod packets;
mod parquet;
mod plan;
mod prefix;
mod recorder;
mod results;
mod results_folder;
mod ring;
mod selection;
mod series;
pub mod stats;
mod stored;
mod subject;
mod summary;
mod table;
mod units;
mod units_file;

pub use account::{account_total, counted_with};
pub use calls::{CALLS_FILE, CallRow, write_calls};
pub use capture::Capture;
pub use checksums::{
    CHECKSUMS_FILE, Checksums, file_hash, listed_files, update_checksums, verify, verify_folder,
};
pub use contact_plan::{ContactPlan, PlannedContact};
pub use csv::{quoted, write_csv};
pub use declared::{Catalogue, Declaration, Declared, DeclaredMeasure, Drawing};
pub use definitions::DEFINITIONS;
pub use distribution::Distribution;
pub use files::{WholeFile, remove_unfinished, write_compact, write_json, write_whole};
pub use finals::FinalValues;
pub use flow_notes::{FlowFact, FlowNote};
pub use follow::Live;
pub use frame::{Frame, FrameColumn, FrameValues};
pub use frame_file::{FrameKind, FrameWriter, read_frame};
pub use ledger::{LedgerColumn, LedgerLine, LedgerRow, LedgerText};
pub use ledger_file::{LEDGER_CSV, LEDGER_FILE, ledger_frame, write_ledger};
pub use measure::Measure;
pub use network_map::{MappedKind, MappedLink, MappedNode, NetworkMap};
pub use outcome::{CaptureFile, Outcome, RealTime, RunResult, Timing};
pub use packets::{
    Delivery, FIRST_PACKETS_FILE, FirstPacket, FirstPackets, PACKETS_FILE, PacketRecord, Packets,
    RecordedFlow, TcpFields, read_first_packets, write_first_packets,
};
pub use parquet::{SeriesError, check_series, read_series, read_series_within, write_parquet};
pub use plan::{Burst, plan_file, read_plan};
pub use prefix::{HEADER_LEN as CAPTURE_HEADER_LEN, RECORD_HEADER_LEN};
pub use recorder::{Recorder, Stopped};
pub use results::{EventRow, Point, ResultSet};
pub use ring::{CaptureLimits, MAX_RING_FILES, MIN_RING_FILE_BYTES, Ring, RingSize, RingSizeError};
pub use selection::{Form, Selected, Selection, SelectionError, is_measure_of};
pub use series::{Column, Data, Recording, Sampling, Series, Total, Totals, Value};
pub use stored::StoredResults;
pub use subject::{MeasureName, Subject, SubjectKind, group_of, pattern, subject_and_metric};
pub use summary::{Averaged, PointSummary, Setting, Summary, measures_frame, write_measures};
pub use table::{Cell, Table, latex};
pub use units::{Reported, UnitLine, UnitRow, UnitText};
pub use units_file::{UNITS_CSV, UNITS_FILE, units_frame, write_units};

/// Version of bentpipe that results are of.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

#[cfg(test)]
mod tests;
#[cfg(test)]
mod ticker;
