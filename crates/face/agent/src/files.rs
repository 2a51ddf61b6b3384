//! Files that a scenario of the controller names.
//!
//! Those of the site are not the controller's to read: the scenario has access to the files that came with it.

use std::path::Path;

use bentpipe_scenario::{Access, Document};

/// Most bytes of the name of a file that a scenario names.
const MAX_NAME: usize = 100;

/// Returns `true` if scenarios can name a file so.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
        && !name.eq_ignore_ascii_case("scenario.toml")
}

/// Checks a scenario of a controller, with the names of its files in a folder.
///
/// # Errors
/// Returns its errors, or the key by which it names a file that was not given.
pub(crate) fn check_scenario(text: &str, (inputs, given): (&Path, &[String])) -> Result<(), String> {
    let document = parsed(text, given)?;
    let own = |name: &String| (name.clone(), name.clone());
    let access = match given {
        [] => Access::default(),
        given => Access::named(inputs, given.iter().map(own)).map_err(|error| format!("inputs: {error}"))?,
    };
    document.with_access(access).scenario().map(drop).map_err(|error| error.to_string())
}

/// Parses a scenario that names files of these names and no others.
///
/// # Errors
/// Returns its errors, or the key by which it names a file that was not given.
pub(crate) fn parsed(text: &str, given: &[String]) -> Result<Document, String> {
    let document = Document::parse("scenario.toml", text.as_bytes()).map_err(|error| error.to_string())?;
    let is_given = |name: &str| given.iter().any(|given| given == name);
    let problem = |name: &str| (!is_given(name)).then(|| "files of the site cannot be named".to_owned());
    document.check_files(problem).map_err(|error| error.to_string())?;
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "title = \"t\"\nduration = \"2 s\"\nnode.a = {}\nnode.b = {}\n\
                            [link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n[[event]]\nat = \"0.1 s\"\n";

    #[test]
    fn a_scenario_reads_the_files_that_came_with_it_and_no_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let (inputs, secret) = (folder.path().join("inputs"), folder.path().join("secret"));
        std::fs::create_dir(&inputs).expect("made");
        std::fs::write(&secret, "root:not-for-you\n").expect("written");
        std::fs::write(inputs.join("rate.csv"), "time_s,link.l.rate\n0.1,2 Mbit/s\n").expect("written");
        std::fs::write(inputs.join("other.csv"), "time_s,link.l.rate\n0.1,2 Mbit/s\n").expect("written");
        std::os::unix::fs::symlink(&secret, inputs.join("link.csv")).expect("linked");
        let given = ["rate.csv".to_owned(), "link.csv".to_owned()];
        let check = |text: &str| check_scenario(&format!("{SCENARIO}{text}"), (&inputs, &given));
        assert_eq!(check("file = \"rate.csv\"\n"), Ok(()));
        let secret = secret.display();
        for bad in [
            format!("file = \"{secret}\"\n"),
            "file = \"other.csv\"\n".to_owned(),
            "file = \"../secret\"\n".to_owned(),
            "file = \"link.csv\"\n".to_owned(),
            format!("set = {{ \"link.l.delay_changes.file\" = \"{secret}\" }}\n"),
            format!("[sweep]\n\"event.0.\\tfile\" = [\"{secret}\"]\n"),
            format!("[sweep]\n\"event.0.\\u00a0file\" = [\"rate.csv\", \"{secret}\"]\n"),
            format!("[sweep.s]\n\"event.0.fi\\\"le\" = [\"{secret}\"]\n"),
            format!("[sweep]\n\"event.0\" = [{{ at = \"0.1 s\", file = \"{secret}\" }}]\n"),
        ] {
            let why = check(&bad).expect_err(&bad);
            assert!(!why.contains("not-for-you"), "{bad}: {why}");
        }
    }
}
