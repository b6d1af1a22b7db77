//! The binary itself: arguments, exit codes, pages that need no cluster.
#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

use ensemble_cli::docs::Page;
use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn ensemble(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ensemble"))
        .args(line.split_whitespace())
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn wrong_arguments_are_an_error_and_help_is_not() {
    for line in [
        "why",
        "frobnicate",
        "status --timeout 5m",
        "why sts/orders",
        "undo orders --to x",
    ] {
        assert_eq!(ensemble(line).status.code(), Some(1), "{line}");
    }
    for line in ["--help", "--version", "why --help", "version"] {
        assert_eq!(ensemble(line).status.code(), Some(0), "{line}");
    }
}

#[test]
fn help_lists_the_exit_codes() {
    let help = stdout(&ensemble("--help"));
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "5 ", "6 ", "130 "] {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(code)),
            "{code}: {help}"
        );
    }
}

#[test]
fn without_a_cluster_the_error_says_how_to_name_one() {
    let output = ensemble("status");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "stdout is for data");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--kubeconfig"), "{text}");
}

#[test]
fn manifests_are_yaml_that_reads_back() {
    for line in [
        "crd",
        "install",
        "install --watch-namespace shop",
        "crd -o yaml",
    ] {
        let text = stdout(&ensemble(line));
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert!(objects.len() >= 2, "{line}");
        assert!(
            objects
                .iter()
                .all(|o| o["kind"].is_string() && o["metadata"]["name"].is_string()),
            "{line}"
        );
    }
    let list: Value = serde_json::from_str(&stdout(&ensemble("install -o json"))).unwrap();
    assert_eq!(list["kind"], "List");
}

#[test]
fn the_definitions_are_printed_as_they_are_in_the_code() {
    let printed: Vec<Value> = serde_saphyr::from_multiple(&stdout(&ensemble("crd"))).unwrap();
    assert_eq!(printed, ensemble_api::crd::all_json());
}

#[test]
fn completion_knows_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&ensemble(&format!("completion {shell}")));
        assert!(script.contains("uninstall"), "{shell}");
    }
}

#[test]
fn the_demo_plays_to_its_end_without_a_cluster() {
    let output = ensemble("demo --exit --speed 0");
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "Act 7 of 7",
        "ImageMissing",
        "no member was touched",
        "no rule was broken",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = ensemble("demo --exit --speed 0 -o json");
    let summary: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(summary["fewestReady"], 2);
}

#[test]
fn exploring_finds_nothing_and_says_how_much_it_looked_at() {
    let line = "explore --scenario create --faults CrashAfter,answerlost --schedules 5 -o json";
    let output = ensemble(line);
    assert_eq!(output.status.code(), Some(0));
    let findings: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(findings["failures"], serde_json::json!([]));
    assert!(findings["rehearsals"].as_u64().unwrap() > 20, "{findings}");
}

#[test]
fn exploring_for_a_time_ends_in_time_and_says_how_far_it_came() {
    let began = std::time::Instant::now();
    let output = ensemble("explore --minutes 0.05 -o json");
    assert_eq!(output.status.code(), Some(0));
    let long = began.elapsed().as_secs_f64();
    assert!(long > 2.9, "{long}: there is always something left to try");
    assert!(long < 30.0, "{long}");
    let findings: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(findings["singleFaultsPercent"].as_u64().unwrap() < 100);
    assert!(findings["rehearsals"].as_u64().unwrap() > 0, "{findings}");
    assert!(output.stderr.is_empty(), "a program reads the document");
}

#[test]
fn what_exploring_comes_to_is_data_and_how_far_it_is_is_talk() {
    let output = ensemble("explore --scenario create --faults CrashAfter");
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("failures: 0"), "{text}");
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.starts_with("create  "), "{talk}");
}

#[test]
fn a_replay_prints_a_trace_with_its_faults() {
    for (line, part) in [
        (
            "explore --scenario create --replay CrashAfter@3,Stale@5",
            "FAULT CrashAfter at call 3",
        ),
        ("explore --scenario create --replay", "user: create"),
    ] {
        let output = ensemble(line);
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert!(stdout(&output).contains(part), "{line}");
    }
}

#[test]
fn a_wrong_scenario_or_fault_is_told_the_right_ones() {
    for (line, part) in [
        ("explore --scenario rol", "create, roll, scale"),
        ("explore --faults Crash", "CrashBefore, CrashAfter"),
        (
            "explore --scenario roll --replay Crash@1",
            "CrashBefore, CrashAfter",
        ),
        ("explore --scenario roll --replay Stale", "KIND@CALL"),
        ("explore --replay Stale@1", "--scenario"),
        ("explore --minutes 0", "as in 5 or 0.5"),
        ("explore --minutes 1 --schedules 5", "--schedules"),
    ] {
        let output = ensemble(line);
        assert_eq!(output.status.code(), Some(1), "{line}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(part), "{line}: {text}");
    }
}

#[test]
fn samples_are_what_the_kinds_understand() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");
    let mut count = 0;
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            let known = match object["kind"].as_str() {
                Some("Ensemble") => {
                    serde_json::from_value::<ensemble_api::Ensemble>(object).is_ok()
                }
                Some("EnsembleRequest") => {
                    serde_json::from_value::<ensemble_api::EnsembleRequest>(object).is_ok()
                }
                // What an Ensemble stands on; an API server tells whether it understands that.
                Some(
                    "ServiceAccount" | "Role" | "RoleBinding" | "Secret" | "ConfigMap" | "Service",
                ) => true,
                _ => false,
            };
            assert!(known, "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 2);
}

#[test]
fn generated_pages_of_the_documentation_are_up_to_date() {
    for page in Page::ALL {
        let path = format!(
            "{}/../../docs/reference/{}",
            env!("CARGO_MANIFEST_DIR"),
            page.file()
        );
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == ensemble_cli::docs::page(page),
            "{} is out of date: run `make docs`",
            page.file()
        );
    }
}

#[test]
fn every_reason_and_every_rule_is_explained_without_a_cluster() {
    for reason in ensemble_api::Reason::ALL {
        let output = ensemble(&format!("explain {reason}"));
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{reason}");
        assert!(text.starts_with(&format!("{reason}: ")), "{text}");
        assert!(
            text.contains("you may") && text.contains("clears"),
            "{text}"
        );
    }
    let listed = stdout(&ensemble("explain"));
    for rule in ensemble_api::Rule::ALL {
        assert!(listed.contains(rule.as_str()), "{rule}");
    }
    assert!(stdout(&ensemble("explain within-budget")).contains("demands"));
    assert!(stdout(&ensemble("explain -o json imagemissing")).contains("\"ImageMissing\""));
}

#[test]
fn a_misspelt_word_is_answered_with_the_one_that_was_meant() {
    let output = ensemble("explain ImageMising");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("ensemble explain ImageMissing"), "{text}");
}

#[test]
fn a_file_with_zones_of_its_own_is_simulated_on_nodes_in_these_zones() {
    let output = ensemble("simulate -f ../../samples/zones.yaml");
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("create cache-4"), "{said}");
    assert!(said.contains("no rule was broken"), "{said}");
}
