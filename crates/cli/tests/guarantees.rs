//! The page of guarantees against the code: every rule has a promise, and all that it names exists.
#![allow(clippy::unwrap_used)]

use ensemble_cli::docs::guarantees::ALL;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The first words in quotes after each of these.
fn quoted_after(texts: &[String], call: &str) -> BTreeSet<String> {
    let rests = texts.iter().flat_map(|t| t.split(call).skip(1));
    rests
        .filter_map(|rest| rest.trim_start().strip_prefix('"'))
        .filter_map(|rest| rest.split('"').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_rule_of_safety_has_a_promise_with_tests_and_mutants() {
    let mut safety = Vec::new();
    sources(&root().join("crates/planner/src/safety"), &mut safety);
    let rules = quoted_after(&safety, "refuse(");
    assert!(rules.len() > 10, "{rules:?}");
    let promised: BTreeSet<String> = ALL.iter().map(|g| g.predicate.to_owned()).collect();
    let missing: Vec<_> = rules.difference(&promised).collect();
    assert!(missing.is_empty(), "no promise for {missing:?}");
    for one in ALL {
        assert!(
            !one.tests.is_empty() && !one.mutants.is_empty(),
            "{}",
            one.predicate
        );
    }
}

#[test]
fn all_that_a_promise_names_exists() {
    let mut all = Vec::new();
    sources(&root().join("crates"), &mut all);
    let mutants = quoted_after(&all, "is_off(");
    let mut on = quoted_after(&all, "if on(");
    on.extend(mutants);
    for one in ALL {
        let file = std::fs::read_to_string(root().join(one.file)).unwrap();
        assert!(
            file.contains(&format!("\"{}\"", one.predicate)),
            "{}",
            one.predicate
        );
        for test in one.tests {
            let written = format!("fn {test}(");
            assert!(all.iter().any(|t| t.contains(&written)), "no test {test}");
        }
        for mutant in one.mutants {
            assert!(on.contains(*mutant), "no mutant {mutant}");
        }
    }
}
