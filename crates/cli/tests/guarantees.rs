//! The page of guarantees against the code: every rule stands on it, and all that it names exists.
#![allow(clippy::unwrap_used)]

use ensemble_api::Rule;
use ensemble_cli::docs::guarantees::{ALL, markdown};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Source {
    path: PathBuf,
    text: String,
}

fn sources(folder: &Path, into: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            into.push(Source { path, text });
        }
    }
}

fn all_sources() -> Vec<Source> {
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    all
}

/// Those that are no tests, but for the list itself.
fn sources_with_rules() -> Vec<Source> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut all);
    }
    all.retain(|s| !s.path.ends_with("api/src/rule.rs"));
    all
}

#[test]
fn every_promise_is_on_the_page_once_with_tests_and_every_guard_beside_its_promise() {
    let page = markdown();
    for rule in Rule::ALL {
        let promised = ALL.iter().filter(|g| g.rule == *rule);
        let is_promise = rule.page().guards.is_none();
        assert_eq!(promised.count(), usize::from(is_promise), "{rule}");
        assert!(page.contains(rule.page().demands), "{rule}");
    }
    for one in ALL {
        assert!(!one.tests.is_empty(), "{}", one.rule);
    }
}

#[test]
fn all_that_a_promise_names_exists() {
    let all = all_sources();
    for one in ALL {
        let file = std::fs::read_to_string(root().join(one.file)).unwrap();
        assert!(file.contains(&format!("Rule::{:?}", one.rule)), "{one:?}");
        for test in one.tests {
            let written = format!("fn {test}(");
            let exists = all.iter().any(|s| s.text.contains(&written));
            assert!(exists, "no test {test}");
        }
    }
}

#[test]
fn every_rule_can_be_switched_off() {
    let all = sources_with_rules();
    // Asked as what was refused: `on(no.predicate, who)`.
    let by_refusal = |rule: &&Rule| **rule != Rule::RoleKnown;
    for rule in Rule::ALL.iter().filter(by_refusal) {
        let written = [
            format!("off(Rule::{rule:?})"),
            format!("on(Rule::{rule:?})"),
            // For one member, which may have it waived.
            format!("on(Rule::{rule:?}, "),
        ];
        let asked = |s: &Source| written.iter().any(|w| s.text.contains(w));
        assert!(all.iter().any(asked), "nobody asks whether {rule} is off");
    }
}

/// A name in quotes would be a second list, which nobody compares with the first.
#[test]
fn no_rule_is_called_by_its_name_in_quotes() {
    for source in sources_with_rules() {
        for rule in Rule::ALL {
            let quoted = source.text.contains(&format!("\"{rule}\""));
            let path = source.path.display();
            assert!(!quoted, "{path}: write Rule::{rule:?}, not \"{rule}\"");
        }
    }
}
