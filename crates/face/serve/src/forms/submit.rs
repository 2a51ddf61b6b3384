//! Submitted forms, written into the text in place.

use toml_edit::DocumentMut;

use super::fields::{Branch, Field, Kind, fields};
use crate::drafts;
use crate::problem::Result;

/// Writes the values of a form into the text. Fields that were not sent, or that have their old values, stay as they are.
///
/// # Errors
/// Returns an error if the text is not TOML.
pub(crate) fn apply(text: &str, path: &[String], sent: &[(String, String)]) -> Result<String> {
    let mut writer = Writer { document: drafts::parsed_text(text)?, has_changes: false, sent };
    let fields = fields(&writer.document, path);
    writer.fields(&fields, "")?;
    // A text that nothing changed is returned as it was written.
    Ok(if writer.has_changes { writer.document.to_string() } else { text.to_owned() })
}

struct Writer<'a> {
    document: DocumentMut,
    has_changes: bool,
    sent: &'a [(String, String)],
}

impl Writer<'_> {
    fn sent(&self, name: &str) -> Option<String> {
        let sent = self.sent.iter().find(|(sent, _)| sent == name)?;
        Some(sent.1.trim().replace("\r\n", "\n"))
    }

    fn edit(&mut self, key: &str, value: Option<&str>) -> Result<()> {
        self.has_changes = true;
        drafts::edit_in(&mut self.document, key, value)
    }

    fn fields(&mut self, fields: &[Field], branch: &str) -> Result<()> {
        fields.iter().try_for_each(|field| self.field(field, branch))
    }

    /// Writes a field. `branch` has the kinds of the tables around it.
    fn field(&mut self, field: &Field, branch: &str) -> Result<()> {
        let name = format!("{}{branch}", field.key);
        match &field.kind {
            Kind::Group { fields, .. } => self.fields(fields, branch),
            Kind::Kinds { chosen, branches } => self.kinds(field, (chosen, branches), branch),
            Kind::Text { value, .. } => self.leaf(&field.key, &name, value, |text| quoted(&text)),
            Kind::Choice { value, is_number: false, .. } => {
                self.leaf(&field.key, &name, value, |text| quoted(&text))
            }
            Kind::Choice { value, .. }
            | Kind::Number { value }
            | Kind::Switch { value }
            | Kind::Toml { value } => self.leaf(&field.key, &name, value, |text| text),
        }
    }

    fn leaf(&mut self, key: &str, name: &str, old: &str, toml: impl Fn(String) -> String) -> Result<()> {
        match self.sent(name) {
            None => {}
            Some(sent) if sent == old.trim() => {}
            Some(sent) if sent.is_empty() => self.edit(key, None)?,
            Some(sent) => self.edit(key, Some(&toml(sent)))?,
        }
        Ok(())
    }

    fn kinds(
        &mut self,
        field: &Field,
        (chosen, branches): (&String, &Vec<Branch>),
        branch: &str,
    ) -> Result<()> {
        let kind = self.sent(&format!("{}.kind{branch}", field.key)).unwrap_or_else(|| chosen.clone());
        if kind.is_empty() {
            if !chosen.is_empty() {
                self.edit(&field.key, None)?;
            }
            return Ok(());
        }
        let Some((_, _, fields)) = branches.iter().find(|(name, ..)| *name == kind) else { return Ok(()) };
        let branch = format!("{branch}@{kind}");
        if kind != *chosen {
            self.edit(&field.key, None)?;
            self.edit(&field.key, Some(&format!("{{ kind = {} }}", quoted(&kind))))?;
        } else if self.changes(fields, &branch) {
            // A word that stands for a table becomes one, so that it has room for keys.
            let key = format!("{}.kind", field.key);
            if drafts::value_in(&self.document, &key).is_none() {
                let table = format!("{{ kind = {} }}", quoted(&kind));
                self.edit(&field.key, Some(&table))?;
            }
        }
        self.fields(fields, &branch)
    }

    /// Returns `true` if any leaf was sent with a value.
    fn changes(&self, fields: &[Field], branch: &str) -> bool {
        fields.iter().any(|field| match &field.kind {
            Kind::Group { fields, .. } => self.changes(fields, branch),
            Kind::Kinds { .. } => {
                self.sent(&format!("{}.kind{branch}", field.key)).is_some_and(|kind| !kind.is_empty())
            }
            _ => self.sent(&format!("{}{branch}", field.key)).is_some_and(|sent| !sent.is_empty()),
        })
    }
}

fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}
