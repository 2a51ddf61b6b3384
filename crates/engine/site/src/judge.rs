//! Steps after a run: what arrived of a flow is judged.

/// Data about a flow after the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// Measures: name, unit, value.
    pub measures: Vec<(&'static str, &'static str, f64)>,
    /// Videos to be decoded and compared by another program: what was sent, and what arrived.
    pub videos: Vec<[Vec<u8>; 2]>,
    /// Settings of the test card that was sent, if a program made one. Its pictures before coding can be compared too.
    pub card: Option<serde_json::Value>,
    /// Files for the run's folder: the ends of their names, and content.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// Received bytes.
    pub received: Vec<u8>,
}

/// File of a flow that grows during the run.
///
/// After the run, a file of [`Judged`] with the same name takes its place.
pub struct Growth {
    /// End of the file's name.
    pub name: &'static str,
    /// Returns what was added since the last call.
    pub more: Box<dyn FnMut() -> Vec<u8> + Send>,
}

/// Step after a run.
pub trait Judge: Send {
    /// Returns what is known without other programs.
    fn judge(&mut self) -> Judged;

    /// Returns files that grow during the run, so that others can read them. Default: none.
    fn grows(&self) -> Vec<Growth> {
        Vec::new()
    }
}
