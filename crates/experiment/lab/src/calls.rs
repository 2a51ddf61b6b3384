//! File of the calls of a run, for flows that have records of them.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bentpipe_assemble::FlowHandle;
use bentpipe_record::{CALLS_FILE, CallRow, RecordedFlow, write_calls, write_whole};
use bentpipe_sim::{ElementId, Network};
use bentpipe_site::{CallReader, RoleHandle};

/// End of a flow whose element has records.
pub struct CallSource {
    flow: Arc<RecordedFlow>,
    at: Arc<str>,
    element: ElementId,
    reader: CallReader,
}

impl CallSource {
    /// Returns all ends with records, in the order of the flows, then roles with records.
    pub(crate) fn of(flows: &[FlowHandle], roles: &[RoleHandle]) -> Vec<CallSource> {
        let of_flows = flows.iter().flat_map(CallSource::of_flow);
        of_flows.chain(roles.iter().filter_map(CallSource::of_role)).collect()
    }

    /// Returns a role with records, whose key is named in place of a flow.
    fn of_role(role: &RoleHandle) -> Option<CallSource> {
        let (name, node) = (role.key.clone(), &role.node);
        let flow = Arc::new(RecordedFlow { name, from: node.clone(), to: node.clone() });
        let at = node.as_str().into();
        Some(CallSource { flow, at, element: role.element, reader: role.calls? })
    }

    fn of_flow(flow: &FlowHandle) -> impl Iterator<Item = CallSource> {
        let named = RecordedFlow { name: flow.name.clone(), from: flow.from.clone(), to: flow.to.clone() };
        let named = Arc::new(named);
        flow.calls.iter().map(move |(node, element, reader)| CallSource {
            flow: Arc::clone(&named),
            at: node.as_str().into(),
            element: *element,
            reader: *reader,
        })
    }

    fn rows(&self, network: &mut Network) -> impl Iterator<Item = CallRow> {
        let records = self.reader.read(network, self.element);
        (1..).zip(records).map(|(number, record)| CallRow {
            flow: Arc::clone(&self.flow),
            number,
            at: Arc::clone(&self.at),
            record,
        })
    }
}

/// Writes the calls of a run that is over. A run without any has no file.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn write(sources: &[CallSource], network: &mut Network, folder: &Path) -> io::Result<()> {
    if sources.is_empty() {
        return Ok(());
    }
    let mut rows = Vec::new();
    for source in sources {
        rows.extend(source.rows(network));
    }
    let mut bytes = Vec::new();
    write_calls(&rows, network.now(), &mut bytes).map_err(io::Error::other)?;
    write_whole(&folder.join(CALLS_FILE), |file| file.write_all(&bytes))
}
