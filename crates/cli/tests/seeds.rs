//! The page about the five documents against the code: every test that it names exists where it says,
//! and its sums are right.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// The word before a test, and where such tests are.
const FOLDERS: &[(&str, &str)] = &[
    ("e2e", "crates/e2e/tests/e2e"),
    ("api", "crates/apitests/tests/api"),
    ("rehearsal", "crates/rehearsal/tests"),
    ("order", "crates/rehearsal/tests/rows"),
    ("planner", "crates/planner/tests/behaviour"),
    ("property", "crates/planner/tests/properties"),
    ("cli", "crates/cli/tests"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/seeds.md")).unwrap()
}

/// Rows of the wishes: their cells.
fn wishes(page: &str) -> Vec<Vec<String>> {
    let cells = |row: &str| -> Vec<String> {
        let row = row.trim_matches('|').split('|');
        row.map(|c| c.trim().to_owned()).collect()
    };
    let is_wish = |row: &&str| {
        let number = row.strip_prefix("| ").and_then(|r| r.split(' ').next());
        number.is_some_and(|n| n.parse::<u32>().is_ok())
    };
    page.lines().filter(is_wish).map(cells).collect()
}

/// What stands in a cell as `word file: tests`, one after the other.
fn named(cell: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for group in cell.split(';').map(str::trim).filter(|g| g.contains('`')) {
        let word = group.split(' ').next().unwrap_or_default();
        let mut names = group.split('`').skip(1).step_by(2);
        let file = names.next().unwrap_or_default();
        found.extend(names.map(|test| (word.to_owned(), file.to_owned(), test.to_owned())));
    }
    found
}

#[test]
fn every_test_that_the_page_names_exists_in_its_file() {
    let mut checked = 0;
    for cells in wishes(&page()) {
        for (word, file, test) in named(cells.last().unwrap()) {
            let folder = FOLDERS.iter().find(|(w, _)| *w == word);
            let (_, folder) = folder.unwrap_or_else(|| panic!("no folder for {word:?} ({test})"));
            let path = root().join(folder).join(&file);
            let text = std::fs::read_to_string(&path);
            let text = text.unwrap_or_else(|e| panic!("{word} {file} ({test}): {e}"));
            assert!(
                text.contains(&format!("fn {test}(")),
                "{word} {file}: no test {test}"
            );
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn the_sums_at_the_top_are_those_of_the_rows() {
    let page = page();
    let wishes = wishes(&page);
    let count = |word: &str| wishes.iter().filter(|c| c[2] == word).count();
    let sums = [
        wishes.len(),
        count("met"),
        count("partly"),
        count("not yet"),
    ];
    let row = sums.map(|n| format!("**{n}**")).join(" | ");
    assert!(page.contains(&format!("| **all** | {row} |")), "{row}");
}
