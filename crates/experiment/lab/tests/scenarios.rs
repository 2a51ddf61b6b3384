//! The examples of `scenarios/`: each is read, checked and built at every point, and its beginning is run.

use std::path::{Path, PathBuf};

use bentpipe_assemble::{Built, checked};
use bentpipe_lab::budget::Budget;
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_scenario::{Document, Traffic};
use bentpipe_units::{Span, Time};

fn examples() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let entries =
        std::fs::read_dir(folder).expect("the examples").map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    files.sort();
    assert!(files.len() >= 7, "{files:?}");
    files
}

#[test]
fn every_example_is_built_and_carries_packets() {
    for file in examples() {
        let document = bentpipe_paths::document(&file).unwrap_or_else(|error| panic!("{error}"));
        let plan = Plan::new(&document, Seeds::default()).unwrap_or_else(|refusal| panic!("{refusal}"));
        for point in &plan.points {
            let mut built = Built::new(&point.scenario, point.seeds[0], document.access()).expect("possible");
            // The first contact of deep space begins after ten minutes, a query takes longer to Mars, and callers take turns.
            let late = ["deep-space.toml", "pabx.toml", "sensor-field.toml"];
            let is_late = late.iter().any(|name| file.ends_with(name));
            let seconds = if is_late { 1000 } else { 2 };
            built.network.run_until(Time::ZERO + Span::from_secs(seconds));
            assert!(built.network.work().deliveries > 100, "{}: nothing moves", file.display());
            let budget = Budget::new(&point.scenario).expect("ways").to_string();
            assert!(budget.contains("max goodput"), "{budget}");
        }
    }
}

#[test]
fn a_scenario_as_run_reads_back_as_itself() {
    for file in examples() {
        let document = bentpipe_paths::document(&file).expect("readable");
        let scenario = checked(&document).expect("valid");
        let text = scenario.to_toml().expect("TOML");
        // Files' paths start at the example's folder.
        let folder = file.parent().expect("a folder").display().to_string();
        let text = ["\n", " "].iter().fold(text, |text, before| {
            text.replace(&format!("{before}file = \""), &format!("{before}file = \"{folder}/"))
        });
        let access = bentpipe_paths::any_file(Path::new(""));
        let again = Document::parse("as-run.toml", text.as_bytes());
        let again = again.and_then(|document| checked(&document.with_access(access)));
        let mut again = again.unwrap_or_else(|refusal| panic!("{refusal}\n{text}"));
        for (flow, original) in again.flow.values_mut().zip(scenario.flow.values()) {
            if let Traffic::Replay(_) = original.traffic {
                flow.traffic.clone_from(&original.traffic);
            }
        }
        for (link, original) in again.link.values_mut().zip(scenario.link.values()) {
            link.delay_changes.clone_from(&original.delay_changes);
        }
        assert_eq!(again, scenario, "{}", file.display());
    }
}

/// An independent validator has to agree that the examples are what the schema says.
#[test]
fn the_examples_agree_with_the_json_schema() {
    let validator = jsonschema::validator_for(bentpipe_scenario::catalogue::schema()).expect("a schema");
    for file in examples() {
        let text = std::fs::read_to_string(&file).expect("readable");
        let value: toml::Value = toml::from_str(&text).expect("TOML");
        let value = serde_json::to_value(value).expect("JSON");
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{} at {}", error, error.instance_path))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", file.display());
    }
    let wrong = serde_json::json!({ "title": "t", "duration": 5, "node": {}, "link": {} });
    assert!(!validator.is_valid(&wrong));
}
