//! Files of settings, such as a gateway's site file. They are read as scenarios are.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::Error;
use super::check::{Checker, Schema};
use super::document::read_tree;
use super::error::{Diagnostic, ScenarioError};
use super::place;
use super::tree::Node;
use super::typed::typed;

/// Settings file validated against the declaration of `T`.
///
/// That covers its types, its units, and its keys, each with its doc comment.
#[derive(Clone, Debug)]
pub struct Settings<T> {
    name: String,
    text: String,
    folder: PathBuf,
    root: Node,
    value: T,
}

impl<T: DeserializeOwned + schemars::JsonSchema> Settings<T> {
    /// Parses the bytes of the file at `path`, which were read elsewhere.
    ///
    /// # Errors
    /// Returns the errors of [`Settings::parse`].
    pub fn of_file(path: &Path, bytes: &[u8]) -> Result<Settings<T>, Error> {
        let mut settings = Settings::parse(&path.display().to_string(), bytes)?;
        settings.folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(settings)
    }

    /// Parses the bytes of a file called `name` in messages.
    ///
    /// # Errors
    /// Returns all errors: not UTF-8, not TOML, too many bytes, or invalid settings.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Settings<T>, ScenarioError> {
        let (text, mut root) = read_tree(name, bytes)?;
        let refuse = |diagnostics| ScenarioError::new(name, &text, diagnostics);
        let schema = Schema::of::<T>();
        let found = Checker::check(&schema, &root);
        if !found.diagnostics.is_empty() {
            return Err(refuse(found.diagnostics));
        }
        found.shorthands.iter().for_each(|(key, tag)| place::expand(&mut root, key, tag));
        let value = typed(&root).map_err(|diagnostic| refuse(vec![diagnostic]))?;
        Ok(Settings { name: name.to_owned(), text, folder: PathBuf::new(), root, value })
    }
}

impl<T> Settings<T> {
    /// Returns the settings.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the folder at which relative paths start.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns an error of the file for problems found later, each at its key.
    pub fn refusal(&self, problems: impl IntoIterator<Item = (String, String)>) -> ScenarioError {
        let diagnostic = |(key, problem): (String, String)| {
            let origin = self.root.nearest_origin(&key);
            Diagnostic { key, problem, origin }
        };
        ScenarioError::new(&self.name, &self.text, problems.into_iter().map(diagnostic).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_units::Rate;
    use schemars::JsonSchema;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Station {
        rate: Rate,
        #[serde(default)]
        pids: Vec<u16>,
    }

    #[test]
    fn mistakes_have_line_key_and_what_would_be_right() {
        let said = |text: &str| {
            Settings::<Station>::parse("site.toml", text.as_bytes()).expect_err("wrong").to_string()
        };
        assert!(said("rate = \"8 MB\"").starts_with("site.toml:1:8: rate: "), "{}", said("rate = \"8 MB\""));
        assert!(
            said("rate = \"8 Mbit/s\"\nprids = [1]")
                .contains("site.toml:2:1: prids: unknown key: did you mean \"pids\"?")
        );
        assert!(said("rate = \"8 Mbit/s\"\npids = [1, 70000]").starts_with("site.toml:2:12: pids.1"));
        let settings =
            Settings::<Station>::parse("site.toml", b"rate = \"8 Mbit/s\"\npids = [7, 7]").expect("right");
        assert_eq!(
            (settings.value().rate, &settings.value().pids[..]),
            (Rate::from_bps(8_000_000), &[7, 7][..])
        );
        let refusal = settings.refusal([("pids.1".to_owned(), "twice".to_owned())]).to_string();
        assert!(refusal.starts_with("site.toml:2:12: pids.1: twice"), "{refusal}");
    }
}
