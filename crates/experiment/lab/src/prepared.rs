//! Networks ready to run, with their captures and logs.

use bentpipe_assemble::{self as assemble, Built};
use bentpipe_scenario::Scenario;
use bentpipe_sim::Network;
use bentpipe_site::{Artefact, CaptureFormat, Growth, Input, Judge};

use crate::calls::CallSource;
use crate::packets;
use crate::video::{self, Finish};

/// A network that is ready to run.
pub struct Prepared {
    /// The network.
    pub network: Network,
    /// Captures asked for: a file name without its ending, and the inputs that packets pass.
    pub captures: Vec<CapturePoint>,
    /// Other files that a run leaves, such as burst time plans.
    pub artefacts: Vec<Artefact<Input>>,
    /// Ends of flows that have records of calls.
    pub calls: Vec<CallSource>,
    /// Files of flows that grow during the run: their names.
    pub growing: Vec<(String, Growth)>,
    /// Evaluation after the run.
    pub finish: Option<Finish>,
}

/// Returns the files of flows that grow during a run: their names.
pub fn growing(judges: &[(String, Box<dyn Judge>)]) -> Vec<(String, Growth)> {
    let of = |(flow, judge): &(String, Box<dyn Judge>)| {
        let grown = judge.grows().into_iter();
        grown.map(|growth| (format!("{flow}-{}", growth.name), growth)).collect::<Vec<_>>()
    };
    judges.iter().flat_map(of).collect()
}

/// A point of capture.
pub struct CapturePoint {
    /// The file's name without its ending.
    pub name: String,
    /// The inputs that packets pass.
    pub inputs: Vec<Input>,
    /// Format of the file.
    pub format: Box<dyn CaptureFormat>,
}

impl CapturePoint {
    /// Returns the capture points of a scenario: packets, and the line's units if they differ.
    pub fn of(captures: Vec<assemble::Capture>) -> Vec<CapturePoint> {
        let both = captures.into_iter().flat_map(|capture| {
            let name = capture.name.replace(':', "-");
            let on_line = capture.on_line.map(|point| CapturePoint {
                name: format!("{name}-{}", point.suffix),
                inputs: point.inputs,
                format: point.format,
            });
            let inputs = vec![capture.sent, capture.received];
            [Some(CapturePoint { name, inputs, format: capture.format }), on_line]
        });
        both.flatten().collect()
    }
}

impl Prepared {
    /// Prepares a network that is built. `keeps_files`: what is judged after the run stays in its folder. The probe of the
    /// scenario names the flows whose packets are recorded.
    pub fn new(built: Built, keeps_files: bool, scenario: &Scenario) -> Prepared {
        let Built { mut network, mut artefacts, flows, roles, .. } = built;
        let captures = CapturePoint::of(built.captures);
        let growing = growing(&built.judges);
        let finish = video::finish(built.judges, keeps_files);
        artefacts.extend(packets::record(&mut network, &flows, scenario));
        let calls = CallSource::of(&flows, &roles);
        Prepared { network, captures, artefacts, calls, growing, finish }
    }
}
