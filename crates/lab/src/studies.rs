//! Values of studies that need more than a measure of a run: what `code = "name"` in a `study.toml` refers to.

mod abr_video;
mod koreasat;
mod rohc_ule;
mod votos;
mod wichmo;

use bentpipe_net::channel::Fit;

use crate::loss::Model;
use crate::published::StudyRuns;
use crate::stats::Estimate;

/// Computes a value of a row, in the row's unit, or says why it cannot.
pub type Code = fn(&StudyRuns) -> Result<f64, String>;

/// Every function by its name.
const CODES: &[(&str, Code)] = &[
    ("abr-video-on-wire", abr_video::on_wire),
    ("abr-video-ceiling", abr_video::ceiling),
    ("koreasat-padding", koreasat::padding),
    ("koreasat-efficiency", koreasat::efficiency),
    ("koreasat-ceiling", koreasat::ceiling),
    ("koreasat-packets-per-cell", koreasat::packets_per_cell),
    ("koreasat-first-loss", koreasat::first_loss),
    ("koreasat-second-slow-start", koreasat::second_slow_start),
    ("votos-granularity", |_| votos::granularity(8)),
    ("votos-granularity-of-a-frame", |_| votos::granularity(1)),
    ("votos-superframe", votos::superframe),
    ("votos-crowd-rtt", votos::crowd_rtt),
    ("votos-crowd-share", votos::crowd_share),
    ("votos-doubling", votos::doubling),
    ("votos-equivalent", votos::equivalent),
    ("votos-equivalent-unasked", votos::equivalent_unasked),
    ("votos-equivalent-ignored", votos::equivalent_ignored),
    ("votos-closed-form", votos::closed_form),
    ("votos-shortest-transient", votos::shortest_transient),
    ("votos-length-ratio", votos::length_ratio),
    ("votos-height-ratio", votos::height_ratio),
    ("votos-silence", votos::silence),
    ("votos-object-cra", votos::object_cra),
    ("votos-object-fca", votos::object_fca),
    ("votos-object-rbdc", votos::object_rbdc),
    ("votos-object-vbdc", votos::object_vbdc),
    ("votos-pair-rtt-1", |runs| votos::pair_rtt(runs, "pairs-1")),
    ("votos-pair-rtt-2", |runs| votos::pair_rtt(runs, "pairs-2")),
    ("votos-pair-rtt-3", |runs| votos::pair_rtt(runs, "pairs-3")),
    ("votos-pair-rtt-4", |runs| votos::pair_rtt(runs, "pairs-4")),
    ("votos-stream-start-up", votos::stream_start_up),
    ("votos-stream-quick-start-up", votos::stream_quick_start_up),
    ("votos-stream-least-start-up", votos::stream_least_start_up),
    ("votos-stream-unasked-start-up", votos::stream_unasked_start_up),
    ("votos-stream-delay", votos::stream_delay),
    ("votos-stream-least-delay", votos::stream_least_delay),
    ("wichmo-closest", |runs| wichmo::closest(runs, "hybrid")),
    ("wichmo-farthest", |runs| wichmo::farthest(runs, "hybrid")),
    ("wichmo-closest-by-clock", |runs| wichmo::closest(runs, "by-clock")),
    ("wichmo-farthest-by-clock", |runs| wichmo::farthest(runs, "by-clock")),
    ("wichmo-sag-of-trace", |runs| wichmo::sag_of(runs, "itself")),
    ("wichmo-sag-of-bernoulli", |runs| wichmo::sag_of(runs, "bernoulli")),
    ("wichmo-least-burst-ratio", wichmo::least_burst_ratio),
    ("wichmo-least-gap-ratio", wichmo::least_gap_ratio),
    ("wichmo-loss-by-gaps", wichmo::loss_by_gaps),
    ("wichmo-failed-time", wichmo::failed_time),
];

/// Computes a value of a row from each seed, in the row's unit: the mean and its interval.
pub type EstimateCode = fn(&StudyRuns) -> Result<Estimate, String>;

/// Every such function by its name.
const ESTIMATES: &[(&str, EstimateCode)] = &[
    ("abr-video-efficiency-low", |runs| abr_video::efficiency(runs, "5 Mbit/s")),
    ("abr-video-efficiency-middle", |runs| abr_video::efficiency(runs, "7.5 Mbit/s")),
    ("abr-video-efficiency-high", |runs| abr_video::efficiency(runs, "10 Mbit/s")),
];

/// Computes the points of a curve, in base units, or says why it cannot.
pub type CurveCode = fn(&StudyRuns) -> Result<Vec<(f64, f64)>, String>;

/// Every curve by its name.
const CURVES: &[(&str, CurveCode)] = &[
    ("abr-video-use-wan", |runs| abr_video::use_over_time(runs, "wan")),
    ("abr-video-use-satellite-1", |runs| abr_video::use_over_time(runs, "satellite-1")),
    ("abr-video-use-satellite-2", |runs| abr_video::use_over_time(runs, "satellite-2")),
    ("abr-video-efficiency-wan", |runs| abr_video::efficiency_over_time(runs, "wan")),
    ("abr-video-efficiency-satellite-1", |runs| abr_video::efficiency_over_time(runs, "satellite-1")),
    ("abr-video-efficiency-satellite-2", |runs| abr_video::efficiency_over_time(runs, "satellite-2")),
    ("wichmo-bursts", wichmo::bursts),
    ("wichmo-bernoulli-bursts", wichmo::bernoulli_bursts),
    ("wichmo-gaps", wichmo::gaps),
    ("wichmo-bernoulli-gaps", wichmo::bernoulli_gaps),
    ("wichmo-fitted-a", |runs| wichmo::fitted(runs, Fit::Bernoulli, Model::loss)),
    ("wichmo-fitted-b", |runs| wichmo::fitted(runs, Fit::BernoulliByBursts, Model::loss)),
    ("wichmo-fitted-c", |runs| wichmo::fitted(runs, Fit::BernoulliByGaps, Model::loss)),
    ("wichmo-fitted-d-to-bad", |runs| wichmo::fitted(runs, Fit::Bistable, |model| model.p)),
    ("wichmo-fitted-d-to-good", |runs| wichmo::fitted(runs, Fit::Bistable, |model| model.r)),
    ("wichmo-gaps-none", |runs| wichmo::up_to(runs, "none", "gaps")),
    ("wichmo-gaps-arf", |runs| wichmo::up_to(runs, "arf", "gaps")),
    ("wichmo-gaps-ld-arf", |runs| wichmo::up_to(runs, "ld-arf", "gaps")),
    ("wichmo-bursts-none", |runs| wichmo::up_to(runs, "none", "bursts")),
    ("wichmo-bursts-arf", |runs| wichmo::up_to(runs, "arf", "bursts")),
    ("wichmo-bursts-ld-arf", |runs| wichmo::up_to(runs, "ld-arf", "bursts")),
    ("votos-lengths", votos::lengths),
    ("wichmo-states-none", |runs| wichmo::in_states(runs, "none")),
    ("wichmo-states-arf", |runs| wichmo::in_states(runs, "arf")),
    ("wichmo-states-ld-arf", |runs| wichmo::in_states(runs, "ld-arf")),
];

/// The curve of that name.
pub fn curve(name: &str) -> Option<CurveCode> {
    CURVES.iter().chain(rohc_ule::CURVES).find(|(known, _)| *known == name).map(|(_, code)| *code)
}

/// The function of that name that gives an interval too.
pub fn estimate(name: &str) -> Option<EstimateCode> {
    ESTIMATES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
}

/// The function of that name.
pub fn code(name: &str) -> Option<Code> {
    CODES.iter().chain(rohc_ule::CODES).find(|(known, _)| *known == name).map(|(_, code)| *code)
}
