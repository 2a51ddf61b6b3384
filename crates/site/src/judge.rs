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

/// Step after a run.
pub trait Judge: Send {
    /// Returns what is known without other programs.
    fn judge(&mut self) -> Judged;
}
