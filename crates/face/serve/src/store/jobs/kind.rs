//! Kinds and states of jobs, and their form in the database and in JSON.

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Question of a search.
///
/// Its answer is the last value of a key for which conditions on measures hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// Key and its values in the order of the search.
    ///
    /// Expected are `KEY=[LIST]` or `KEY=RANGE`, such as `flow.call.count='1 to 30 by 1'`.
    pub(crate) over: String,
    /// Conditions, each as `MEASURE <= VALUE` or `MEASURE >= VALUE`.
    ///
    /// A `*` in a measure's name stands for any text.
    #[serde(rename = "while")]
    pub(crate) conditions: Vec<String>,
}

/// Characters of a question's key with its values, and number of conditions, in a list.
const LISTED: (usize, usize) = (300, 10);

impl Question {
    /// Returns the length of its texts in bytes.
    pub(crate) fn len(&self) -> usize {
        self.over.len() + self.conditions.iter().map(String::len).sum::<usize>()
    }

    /// Leaves the beginning of its texts.
    pub(super) fn shorten(&mut self) {
        let cut = |text: &mut String| *text = text.chars().take(LISTED.0).collect();
        self.conditions.truncate(LISTED.1);
        self.conditions.iter_mut().chain([&mut self.over]).for_each(cut);
    }
}

/// Work of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "KindRow")]
pub(crate) enum JobKind {
    /// Published study, perhaps shortened.
    Study { name: String, quick: bool },
    /// Version of a scenario.
    Scenario { version: i64, method: Method },
}

/// Treatment of a scenario by a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Simulation of each point with each seed.
    Simulate,
    /// Emulation in real time, alone on the machine.
    Emulate,
    /// Campaign of many runs.
    Campaign,
    /// Search for the last value of a key.
    Search(Question),
    /// Programs on other machines, by a job file: TOML.
    Sites(String),
}

/// Name of a job's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KindName {
    Simulate,
    Emulate,
    Study,
    Campaign,
    Search,
    Sites,
}

/// Kind of a job as a row of the database, and as fields in JSON.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct KindRow {
    /// Kind: "simulate", "emulate", "study", "campaign", "search" or "sites".
    #[schemars(with = "String")]
    pub(crate) kind: KindName,
    /// Number of the scenario's version, unless it is a study.
    pub(crate) version: Option<i64>,
    /// Name of the study.
    pub(crate) study: Option<String>,
    /// Question, if it is a search. In lists it is cut off after 300 characters and 10 conditions.
    pub(crate) search: Option<Question>,
    /// Job file, if it runs on sites: TOML. In lists it has its first 1000 characters.
    pub(crate) sites: Option<String>,
    /// Set if the study is shortened.
    pub(crate) quick: bool,
}

impl JobKind {
    pub(crate) fn name(&self) -> KindName {
        match self {
            JobKind::Study { .. } => KindName::Study,
            JobKind::Scenario { method, .. } => method.name(),
        }
    }

    /// Returns the treatment of the scenario, unless the job is a study.
    pub(crate) fn method(&self) -> Option<&Method> {
        match self {
            JobKind::Study { .. } => None,
            JobKind::Scenario { method, .. } => Some(method),
        }
    }

    /// Returns the number of the scenario's version, unless the job is a study.
    pub(crate) fn version(&self) -> Option<i64> {
        match self {
            JobKind::Study { .. } => None,
            JobKind::Scenario { version, .. } => Some(*version),
        }
    }
}

impl Method {
    pub(crate) fn name(&self) -> KindName {
        match self {
            Method::Simulate => KindName::Simulate,
            Method::Emulate => KindName::Emulate,
            Method::Campaign => KindName::Campaign,
            Method::Search(_) => KindName::Search,
            Method::Sites(_) => KindName::Sites,
        }
    }
}

impl From<JobKind> for KindRow {
    fn from(kind: JobKind) -> KindRow {
        let mut row = KindRow {
            kind: kind.name(),
            version: kind.version(),
            study: None,
            search: None,
            sites: None,
            quick: false,
        };
        match kind {
            JobKind::Study { name, quick } => (row.study, row.quick) = (Some(name), quick),
            JobKind::Scenario { method: Method::Search(question), .. } => row.search = Some(question),
            JobKind::Scenario { method: Method::Sites(file), .. } => row.sites = Some(file),
            JobKind::Scenario { .. } => {}
        }
        row
    }
}

impl KindRow {
    /// Returns the kind, if each field that it needs is there, and no other.
    pub(crate) fn kind(self) -> Option<JobKind> {
        let KindRow { kind, version, study, search, sites, quick } = self;
        let method = match (kind, study, search, sites) {
            (KindName::Study, Some(name), None, None) => {
                return version.is_none().then_some(JobKind::Study { name, quick });
            }
            (KindName::Simulate, None, None, None) => Method::Simulate,
            (KindName::Emulate, None, None, None) => Method::Emulate,
            (KindName::Campaign, None, None, None) => Method::Campaign,
            (KindName::Search, None, Some(question), None) => Method::Search(question),
            (KindName::Sites, None, None, Some(file)) => Method::Sites(file),
            _ => return None,
        };
        version.map(|version| JobKind::Scenario { version, method })
    }
}

impl KindName {
    /// Names, in the order of the interface's description.
    pub(crate) const ALL: [KindName; 6] = [
        KindName::Simulate,
        KindName::Emulate,
        KindName::Study,
        KindName::Campaign,
        KindName::Search,
        KindName::Sites,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            KindName::Simulate => "simulate",
            KindName::Emulate => "emulate",
            KindName::Study => "study",
            KindName::Campaign => "campaign",
            KindName::Search => "search",
            KindName::Sites => "sites",
        }
    }

    /// Returns the noun of a page's title for such a job.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            KindName::Simulate | KindName::Study => "Job",
            KindName::Emulate => "Emulation",
            KindName::Campaign => "Campaign",
            KindName::Search => "Search",
            KindName::Sites => "Job on sites",
        }
    }

    /// Returns the remark after a job's name in lists.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            KindName::Simulate | KindName::Study => "",
            KindName::Emulate => " (emulation)",
            KindName::Campaign => " (campaign)",
            KindName::Search => " (search)",
            KindName::Sites => " (sites)",
        }
    }
}

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    /// Waiting for its turn.
    Queued,
    /// Running here or on its sites.
    Running,
    /// Unchanged from its end on.
    Over(End),
}

/// End of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum End {
    Done,
    Failed,
    Cancelled,
}

impl JobState {
    pub(crate) const DONE: JobState = JobState::Over(End::Done);
    pub(crate) const FAILED: JobState = JobState::Over(End::Failed);
    pub(crate) const CANCELLED: JobState = JobState::Over(End::Cancelled);
    /// States, in the order of a job's life.
    pub(crate) const ALL: [JobState; 5] =
        [JobState::Queued, JobState::Running, JobState::DONE, JobState::FAILED, JobState::CANCELLED];

    pub(crate) fn word(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Over(End::Done) => "done",
            JobState::Over(End::Failed) => "failed",
            JobState::Over(End::Cancelled) => "cancelled",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<JobState> {
        JobState::ALL.into_iter().find(|state| state.word() == word)
    }

    /// Returns `true` if the job changes no more.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, JobState::Over(_))
    }
}

impl Serialize for JobState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl ToSql for JobState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.word().into())
    }
}

impl FromSql for JobState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<JobState> {
        JobState::of_word(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for KindName {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.word().into())
    }
}

impl FromSql for KindName {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<KindName> {
        let word = value.as_str()?;
        KindName::ALL.into_iter().find(|name| name.word() == word).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for Question {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(serde_json::json!(self).to_string().into())
    }
}

impl FromSql for Question {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Question> {
        serde_json::from_str(value.as_str()?).map_err(|error| FromSqlError::Other(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> Vec<JobKind> {
        let question = Question { over: "a.b=[1]".to_owned(), conditions: vec!["x <= 1".to_owned()] };
        let methods = [
            Method::Simulate,
            Method::Emulate,
            Method::Campaign,
            Method::Search(question),
            Method::Sites("[task.a]".to_owned()),
        ];
        let study = JobKind::Study { name: "tatpa".to_owned(), quick: true };
        methods.map(|method| JobKind::Scenario { version: 7, method }).into_iter().chain([study]).collect()
    }

    #[test]
    fn a_row_is_a_kind_or_is_refused() {
        for kind in kinds() {
            let row = KindRow::from(kind.clone());
            assert_eq!(row.clone().kind(), Some(kind.clone()));
            for other in KindName::ALL.into_iter().filter(|other| *other != kind.name()) {
                let changed = KindRow { kind: other, ..row.clone() };
                let has_own = row.study.is_some() || row.search.is_some() || row.sites.is_some();
                let needs_own = matches!(other, KindName::Study | KindName::Search | KindName::Sites);
                assert_eq!(changed.kind().is_none(), has_own || needs_own, "{kind:?} as {other:?}");
            }
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for state in JobState::ALL {
            assert_eq!(JobState::of_word(state.word()), Some(state));
            assert_eq!(state.is_over(), !matches!(state.word(), "queued" | "running"));
        }
        for name in KindName::ALL {
            assert_eq!(serde_json::json!(name), serde_json::json!(name.word()));
        }
        assert_eq!(JobState::of_word("lost"), None);
    }
}
