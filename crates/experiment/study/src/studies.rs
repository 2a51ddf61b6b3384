//! Values computed by code, named as `code = "name"` in a `study.toml`.

mod abr_video;
mod koreasat;
mod pep;
mod rohc_ule;
mod tatpa;
mod voip_satellite;
mod votos;
mod wichmo;
mod wimax_voip;

use bentpipe_net::channel::Fit;
use bentpipe_net::channel::loss::Model;

use crate::runs::{Points, StudyRuns};

/// Computes a value in its row's unit.
pub(crate) type Code = fn(&StudyRuns) -> Result<f64, String>;

/// Values that depend on the seed, by name; computed for each seed.
const CODES: &[(&str, Code)] = &[
    ("abr-video-efficiency-low", |runs| abr_video::efficiency(runs, "wan", "5 Mbit/s", 0.0)),
    ("abr-video-efficiency-middle", |runs| abr_video::efficiency(runs, "wan", "7.5 Mbit/s", 0.0)),
    ("abr-video-efficiency-high", |runs| abr_video::efficiency(runs, "wan", "10 Mbit/s", 0.0)),
    ("abr-video-efficiency-measured-low", |runs| abr_video::efficiency(runs, "measured", "5 Mbit/s", 0.0)),
    ("abr-video-efficiency-measured-middle", |runs| {
        abr_video::efficiency(runs, "measured", "7.5 Mbit/s", 0.0)
    }),
    ("abr-video-efficiency-measured-high", |runs| abr_video::efficiency(runs, "measured", "10 Mbit/s", 0.0)),
    ("abr-video-efficiency-paxson-low", |runs| abr_video::efficiency(runs, "paxson", "5 Mbit/s", 0.0)),
    ("abr-video-efficiency-paxson-high", |runs| abr_video::efficiency(runs, "paxson", "10 Mbit/s", 0.0)),
    ("abr-video-efficiency-satellite-1-low", |runs| {
        abr_video::efficiency(runs, "satellite-1", "5 Mbit/s", 0.0)
    }),
    ("abr-video-efficiency-satellite-1-low-late", |runs| {
        abr_video::efficiency(runs, "satellite-1", "5 Mbit/s", 20.0)
    }),
    ("abr-video-efficiency-satellite-1-middle", |runs| {
        abr_video::efficiency(runs, "satellite-1", "7.5 Mbit/s", 0.0)
    }),
    ("abr-video-efficiency-satellite-1-middle-late", |runs| {
        abr_video::efficiency(runs, "satellite-1", "7.5 Mbit/s", 20.0)
    }),
    ("abr-video-efficiency-satellite-1-high", |runs| {
        abr_video::efficiency(runs, "satellite-1", "10 Mbit/s", 0.0)
    }),
    ("abr-video-efficiency-satellite-1-high-late", |runs| {
        abr_video::efficiency(runs, "satellite-1", "10 Mbit/s", 20.0)
    }),
    ("abr-video-efficiency-satellite-2-low", |runs| {
        abr_video::efficiency(runs, "satellite-2", "5 Mbit/s", 0.0)
    }),
    ("abr-video-efficiency-satellite-2-low-late", |runs| {
        abr_video::efficiency(runs, "satellite-2", "5 Mbit/s", 20.0)
    }),
    ("abr-video-efficiency-satellite-2-middle", |runs| {
        abr_video::efficiency(runs, "satellite-2", "7.5 Mbit/s", 0.0)
    }),
    ("abr-video-efficiency-satellite-2-middle-late", |runs| {
        abr_video::efficiency(runs, "satellite-2", "7.5 Mbit/s", 20.0)
    }),
    ("abr-video-efficiency-satellite-2-high", |runs| {
        abr_video::efficiency(runs, "satellite-2", "10 Mbit/s", 0.0)
    }),
    ("abr-video-efficiency-satellite-2-high-late", |runs| {
        abr_video::efficiency(runs, "satellite-2", "10 Mbit/s", 20.0)
    }),
    ("voip-rate-deviation", |runs| voip_satellite::rate_deviation(runs, "speech")),
    ("voip-rate-mode", voip_satellite::rate_mode),
    ("voip-conference-pisa", |runs| voip_satellite::conference(runs, "conference-pisa")),
    ("voip-conference-genoa", |runs| voip_satellite::conference(runs, "conference-genoa")),
    ("voip-established", |runs| voip_satellite::established(runs, "signalling")),
    ("voip-established-both", |runs| voip_satellite::established(runs, "signalling-both")),
    ("voip-excess-loss", voip_satellite::excess_loss),
    ("voip-iax-deviation", |runs| voip_satellite::steady(runs, "iax", 0, voip_satellite::deviation)),
    ("voip-iax-rate", |runs| voip_satellite::steady(runs, "iax", 0, voip_satellite::mean)),
    ("voip-protocols-idle", |runs| voip_satellite::difference(runs, 0)),
    ("voip-protocols-loaded", |runs| voip_satellite::difference(runs, 2)),
    ("voip-gsm-deviation", |runs| voip_satellite::rate_deviation(runs, "gsm")),
    ("voip-jitter-demand", |runs| voip_satellite::jitter_mean(runs, "jitter-demand")),
    ("voip-jitter-demand-deviation", |runs| voip_satellite::jitter_deviation(runs, "jitter-demand")),
    ("voip-jitter-two-bursts", |runs| voip_satellite::jitter_mean(runs, "jitter-two")),
    ("voip-jitter-three-bursts", |runs| voip_satellite::jitter_mean(runs, "jitter-three")),
    ("votos-equivalent", votos::equivalent),
    ("votos-equivalent-unasked", votos::equivalent_unasked),
    ("votos-equivalent-ignored", votos::equivalent_ignored),
    ("votos-shortest-transient", votos::shortest_transient),
    ("votos-length-ratio", votos::length_ratio),
    ("votos-height-ratio", votos::height_ratio),
    ("votos-height-ratio-middle", votos::height_ratio_middle),
    ("votos-silence", votos::silence),
    ("wichmo-closest", |runs| wichmo::closest(runs, "hybrid")),
    ("wichmo-farthest", |runs| wichmo::farthest(runs, "hybrid")),
    ("wichmo-closest-by-clock", |runs| wichmo::closest(runs, "by-clock")),
    ("wichmo-farthest-by-clock", |runs| wichmo::farthest(runs, "by-clock")),
    ("wichmo-sag-of-trace", |runs| wichmo::sag_of(runs, "itself")),
    ("wichmo-sag-of-bernoulli", |runs| wichmo::sag_of(runs, "bernoulli")),
    ("wichmo-failed-time", wichmo::failed_time),
];

/// Values of arithmetic and of scenarios, the same for every seed, by name.
const CONSTANTS: &[(&str, Code)] = &[
    ("abr-video-on-wire", abr_video::on_wire),
    ("abr-video-ceiling", abr_video::ceiling),
    ("koreasat-padding", koreasat::padding),
    ("koreasat-efficiency", koreasat::efficiency),
    ("koreasat-ceiling", koreasat::ceiling),
    ("votos-granularity", |_| votos::granularity(8)),
    ("votos-granularity-of-a-frame", |_| votos::granularity(1)),
    ("votos-superframe", votos::superframe),
    ("votos-closed-form", votos::closed_form),
    ("wichmo-least-burst-ratio", wichmo::least_burst_ratio),
    ("wichmo-least-gap-ratio", wichmo::least_gap_ratio),
    ("wichmo-loss-by-gaps", wichmo::loss_by_gaps),
];

/// Computes the points of a curve, in base units.
pub(crate) type CurveCode = fn(&StudyRuns) -> Result<Points, String>;

/// Curves by name.
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

/// Returns the curve of that name.
pub(crate) fn curve(name: &str) -> Option<CurveCode> {
    CURVES
        .iter()
        .chain(pep::CURVES)
        .chain(rohc_ule::CURVES)
        .chain(wimax_voip::CURVES)
        .find(|(known, _)| *known == name)
        .map(|(_, code)| *code)
}

/// Returns the function of that name whose value depends on the seed.
pub(crate) fn code(name: &str) -> Option<Code> {
    CODES
        .iter()
        .chain(rohc_ule::CODES)
        .chain(tatpa::CODES)
        .chain(wimax_voip::CODES)
        .find(|(known, _)| *known == name)
        .map(|(_, code)| *code)
}

/// Returns the function of that name whose value is the same for every seed.
pub(crate) fn constant(name: &str) -> Option<Code> {
    CONSTANTS
        .iter()
        .chain(rohc_ule::CONSTANTS)
        .chain(wimax_voip::CONSTANTS)
        .find(|(known, _)| *known == name)
        .map(|(_, code)| *code)
}
