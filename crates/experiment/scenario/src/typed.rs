//! Types made of a tree that the schema allows.

use serde::de::DeserializeOwned;

use super::check::join;
use super::error::Diagnostic;
use super::tree::Node;

/// Deserialises a tree that the schema allows.
pub(super) fn typed<T: DeserializeOwned>(root: &Node) -> Result<T, Diagnostic> {
    serde_path_to_error::deserialize(root.to_toml()).map_err(|error| {
        // "receive[1]" is "receive.1" here.
        let key =
            error.path().to_string().replace('[', ".").replace(']', "").trim_start_matches('.').to_owned();
        let problem = error.inner().message().trim().replace('\n', ", ");
        let mut key = if key == "." { String::new() } else { key };
        // Tables with a `kind`, and those whose keys are another's, hide the rest of the path.
        let at = if key.is_empty() { Some(root) } else { root.at(&key) };
        if let Some(more) = at.and_then(|node| node.quoted_in(&problem)) {
            key = join(&key, &more);
        }
        Diagnostic { origin: root.nearest_origin(&key), key, problem }
    })
}
