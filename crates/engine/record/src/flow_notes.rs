//! Facts about flows that their figures alone do not show.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fact about a flow in a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct FlowNote {
    /// Flow: "flow.download", of copies with their number.
    pub flow: String,
    /// Fact.
    #[serde(flatten)]
    pub fact: FlowFact,
}

/// Cause of no goodput, or of packets that are not in the flow's account.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "fact", rename_all = "kebab-case")]
pub enum FlowFact {
    /// Turned off for all of its time (`active = false`).
    Inactive,
    /// The application asks for nothing.
    NothingAsked,
    /// Start at the end of the run or later.
    StartsAfterEnd,
    /// Start of a copy when the flow has stopped.
    StartsAfterStop,
    /// End in the warm-up, which measures leave out.
    EndsInWarmUp,
    /// Silence in the window of measures: each call or copy begins later, or is over.
    NothingSent,
    /// Carriage in ATM cells, without packets.
    Cells,
    /// Carriage in packets that another element sends.
    CarriedBy {
        /// Sender in the accounts: "node.lander.dtn".
        sender: String,
    },
}

impl FlowFact {
    /// Returns `true` for a cause of no goodput.
    pub fn is_idle(&self) -> bool {
        !matches!(self, FlowFact::Cells | FlowFact::CarriedBy { .. })
    }
}

/// The rest of a sentence: after "has no goodput: ", or "its data are ".
impl fmt::Display for FlowFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlowFact::Inactive => "it is turned off for all of its time (active = false)",
            FlowFact::NothingAsked => "its application asks for nothing",
            FlowFact::StartsAfterEnd => "it would start after the end of the run",
            FlowFact::StartsAfterStop => "it would start after its stop",
            FlowFact::EndsInWarmUp => "its time ends in the warm-up, which is left out",
            FlowFact::NothingSent => "it sent nothing in the window of measures, so it is left out",
            FlowFact::Cells => "in ATM cells, which lines and ends of channels count",
            FlowFact::CarriedBy { sender } => {
                return write!(f, "in packets of {sender}");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let sender = "node.a.dtn".to_owned();
        let notes = [FlowFact::StartsAfterEnd, FlowFact::CarriedBy { sender }]
            .map(|fact| FlowNote { flow: "flow.a".into(), fact });
        let text = serde_json::to_string(&notes).expect("text");
        let expected = "[{\"flow\":\"flow.a\",\"fact\":\"starts-after-end\"},\
                        {\"flow\":\"flow.a\",\"fact\":\"carried-by\",\"sender\":\"node.a.dtn\"}]";
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Vec<FlowNote>>(&text).expect("notes"), notes);
        assert_eq!(notes.map(|note| note.fact.is_idle()), [true, false]);
    }
}
