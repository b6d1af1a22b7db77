//! The commands against an API server of a few lines: what they write, in which order, and how they
//! end.
#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod support;

use clap::Parser;
use ensemble_cli::args::{Cli, Command};
use ensemble_cli::commands;
use ensemble_cli::exit::Exit;
use ensemble_cli::failure::Failure;
use serde_json::json;
use support::{Fake, ensemble, path_of, revision};

/// Runs a command line against the server.
async fn run(fake: &Fake, line: &str) -> Result<Exit, Failure> {
    let cli = Cli::parse_from(["ensemble"].into_iter().chain(line.split_whitespace()));
    let (global, cluster) = (cli.global, fake.cluster());
    match cli.command {
        Command::Status(args) => commands::status::run(&cluster, &global, &args).await,
        Command::Why(args) => commands::why::run(&cluster, &global, &args.name).await,
        Command::History(args) => commands::history::run(&cluster, &global, &args.name).await,
        Command::Pause(args) => commands::pause::run(&cluster, &global, &args, true).await,
        Command::Resume(args) => commands::pause::run(&cluster, &global, &args, false).await,
        Command::Waive(args) => commands::waive::run(&cluster, &global, &args).await,
        Command::Undo(args) => commands::undo::run(&cluster, &global, &args).await,
        Command::Uninstall(args) => commands::uninstall::run(&cluster, &global, &args).await,
        Command::Install(args) => {
            commands::install::apply_to(&cluster.client, &global, &args).await
        }
        other => panic!("not for a cluster: {other:?}"),
    }
}

#[tokio::test]
async fn status_and_why_exit_with_how_the_ensemble_stands() {
    let states = [
        ("Ready", 0),
        ("Working", 2),
        ("Deleting", 2),
        ("Waiting", 3),
        ("Paused", 3),
        ("Suspended", 3),
        ("Stalled", 4),
    ];
    for (state, code) in states {
        let fake = Fake::new();
        fake.put(&path_of("orders"), ensemble("orders", state));
        for line in [
            "status orders",
            "why ens/orders",
            "why orders -o json",
            "status orders -o yaml",
        ] {
            assert_eq!(
                run(&fake, line).await.unwrap().code(),
                code,
                "{line}: {state}"
            );
        }
        assert_eq!(
            run(&fake, "status").await.unwrap().code(),
            0,
            "a list that can be read"
        );
        assert!(fake.writes().is_empty(), "reading writes nothing");
    }
}

#[tokio::test]
async fn a_waiver_is_one_request_that_names_rule_member_time_and_reason() {
    let fake = Fake::new();
    let mut orders = ensemble("orders", "Waiting");
    orders["status"]["members"] = json!([
        {"name": "orders-0", "presence": "Serving"}, {"name": "orders-1", "presence": "Unhealthy"}]);
    fake.put(&path_of("orders"), orders);
    let line =
        "waive orders within-budget --member MEMBER --reason broken --for 10m --no-wait -o json";
    let near = run(&fake, &line.replace("MEMBER", "orders-2"))
        .await
        .unwrap_err();
    assert!(
        near.message
            .contains("--member: 'orders-2' is not a member of orders"),
        "{near}"
    );
    assert!(fake.writes().is_empty());
    let exit = run(&fake, &line.replace("MEMBER", "orders-1"))
        .await
        .unwrap();
    assert_eq!(exit, Exit::Converged);
    let writes = fake.writes();
    assert_eq!(writes.len(), 1);
    let (to, body) = writes[0].split_once(" {").unwrap();
    assert_eq!(
        to,
        "POST /apis/ensemble.dev/v1alpha1/namespaces/default/ensemblerequests"
    );
    let body: serde_json::Value = serde_json::from_str(&format!("{{{body}")).unwrap();
    let waive = json!({"rule": "within-budget", "member": "orders-1", "forSeconds": 600});
    assert_eq!(body["spec"]["waive"], waive);
    assert_eq!(body["spec"]["reason"], "broken");
    assert_eq!(body["metadata"]["generateName"], "orders-waive-");
}

#[test]
fn a_waiver_that_says_too_little_is_refused_before_anything_is_asked() {
    let whole = "ensemble waive orders within-budget --member orders-1 --reason broken --for 10m";
    let parse = |line: &str| Cli::try_parse_from(line.split_whitespace());
    assert!(parse(whole).is_ok());
    let cases = [
        (
            "within-budget",
            "within-budgte",
            "did you mean 'within-budget'?",
        ),
        ("within-budget", "data-present", "cannot be waived"),
        ("--for 10m", "--for 10", "write a time with its unit"),
        ("--for 10m", "--for 2d", "write a time with its unit"),
        ("--for 10m", "--for 25h", "at most 24h"),
        ("--for 10m", "", "--for <TIME>"),
        ("--member orders-1", "", "--member <MEMBER>"),
        ("--reason broken", "", "--reason <TEXT>"),
    ];
    for (part, bad, words) in cases {
        let error = parse(&whole.replace(part, bad)).unwrap_err().to_string();
        assert!(error.contains(words), "{bad}: {error}");
    }
}

#[tokio::test]
async fn a_status_of_an_older_spec_is_not_taken_for_the_newest() {
    let fake = Fake::new();
    let mut stale = ensemble("orders", "Ready");
    stale["metadata"]["generation"] = json!(4);
    fake.put(&path_of("orders"), stale);
    assert_eq!(run(&fake, "status orders").await.unwrap(), Exit::Working);
    assert_eq!(run(&fake, "why orders").await.unwrap(), Exit::Working);
}

#[tokio::test]
async fn one_status_that_cannot_be_read_does_not_hide_the_others() {
    let fake = Fake::new();
    let mut odd = ensemble("odd", "Ready");
    odd["status"]["plan"]["state"] = json!("Ecstatic");
    fake.put(&path_of("odd"), odd);
    fake.put(&path_of("orders"), ensemble("orders", "Ready"));
    assert_eq!(run(&fake, "status").await.unwrap(), Exit::Converged);
    assert_eq!(run(&fake, "why odd").await.unwrap(), Exit::Error);
}

#[tokio::test]
async fn waiting_ends_when_there_is_nothing_more_to_wait_for_or_time_is_up() {
    let ends = [
        ("Ready", 0),
        ("Paused", 3),
        ("Suspended", 3),
        ("Stalled", 4),
        ("Working", 5),
        ("Waiting", 5),
    ];
    for (state, code) in ends {
        let fake = Fake::new();
        fake.put(&path_of("orders"), ensemble("orders", state));
        let exit = run(&fake, "status orders --wait --timeout 1s")
            .await
            .unwrap();
        assert_eq!(exit.code(), code, "{state}");
    }
}

#[tokio::test]
async fn a_missing_ensemble_is_told_with_its_namespace_and_where_else_to_look() {
    let failure = run(&Fake::new(), "why orders").await.unwrap_err();
    assert_eq!(failure.exit.code(), 1);
    let text = failure.to_string();
    assert!(
        text.contains("no Ensemble 'orders' in namespace 'default'"),
        "{text}"
    );
    assert!(text.contains("status -A"), "{text}");
}

#[tokio::test]
async fn a_cluster_without_the_definitions_is_told_how_to_get_them() {
    for line in ["status", "why orders", "pause orders"] {
        let text = run(&Fake::bare(), line).await.unwrap_err().to_string();
        assert!(text.contains("ensemble install --apply"), "{line}: {text}");
    }
}

#[tokio::test]
async fn pause_and_resume_write_one_field_and_only_if_it_differs() {
    let fake = Fake::new();
    fake.put(&path_of("orders"), ensemble("orders", "Working"));
    run(&fake, "resume orders").await.unwrap();
    assert!(fake.writes().is_empty(), "it was not paused");
    run(&fake, "pause orders").await.unwrap();
    let write = format!(
        "PATCH {} {}",
        path_of("orders"),
        json!({"spec": {"rollout": {"paused": true}}})
    );
    assert_eq!(fake.writes(), [write]);
    run(&fake, "resume orders").await.unwrap();
    assert_eq!(
        fake.at(&path_of("orders")).unwrap()["spec"]["rollout"]["paused"],
        false
    );
}

#[tokio::test]
async fn undo_puts_the_whole_old_template_back_at_the_version_it_read() {
    let fake = Fake::new();
    let mut orders = ensemble("orders", "Stalled");
    orders["spec"]["template"]["metadata"] = json!({"labels": {"new": "yes"}});
    fake.put(&path_of("orders"), orders);
    for (number, image) in [(1, "db:1"), (2, "db:2")] {
        let (path, object) = revision("orders", number, image);
        fake.put(&path, object);
    }
    assert_eq!(run(&fake, "undo orders").await.unwrap(), Exit::Converged);
    let template = fake.at(&path_of("orders")).unwrap()["spec"]["template"].clone();
    assert_eq!(
        template,
        json!({"spec": {"containers": [{"name": "db", "image": "db:1"}]}})
    );
    let writes = fake.writes();
    assert!(
        writes[0].starts_with("PUT") && writes[0].contains("resourceVersion"),
        "{writes:?}"
    );
    let failure = run(&fake, "undo orders --to 7").await.unwrap_err();
    assert!(
        failure
            .to_string()
            .contains("--to: orders has no revision 7"),
        "{failure}"
    );
    assert_eq!(run(&fake, "history orders").await.unwrap(), Exit::Converged);
}

#[tokio::test]
async fn install_twice_changes_nothing_the_second_time() {
    let fake = Fake::bare();
    assert_eq!(
        run(&fake, "install --apply --wait").await.unwrap(),
        Exit::Converged
    );
    let made = fake.paths();
    assert!(
        made.iter()
            .any(|p| p.ends_with("/namespaces/ensemble-system/deployments/ensemble-controller"))
    );
    assert!(
        made.iter()
            .any(|p| p.ends_with("/customresourcedefinitions/ensembles.ensemble.dev"))
    );
    let versions = |fake: &Fake| -> Vec<_> {
        made.iter()
            .map(|p| fake.at(p).unwrap()["metadata"]["resourceVersion"].clone())
            .collect()
    };
    let before = versions(&fake);
    run(&fake, "install --apply").await.unwrap();
    assert_eq!(versions(&fake), before);
}

#[tokio::test]
async fn a_namespace_that_exists_is_left_as_it_is() {
    let fake = Fake::bare();
    let path = "/api/v1/namespaces/ensemble-system";
    fake.put(
        path,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ensemble-system"}}),
    );
    run(&fake, "install --apply").await.unwrap();
    assert!(fake.at(path).unwrap()["metadata"]["labels"].is_null());
}

#[tokio::test]
async fn uninstall_without_consent_is_refused_and_touches_nothing() {
    let fake = Fake::new();
    fake.put(&path_of("orders"), ensemble("orders", "Ready"));
    let failure = run(&fake, "uninstall --crds").await.unwrap_err();
    assert_eq!(failure.exit.code(), 6);
    assert!(failure.to_string().contains("--yes"), "{failure}");
    assert!(fake.writes().is_empty());
}

#[tokio::test]
async fn uninstall_leaves_every_ensemble_and_the_definitions() {
    let fake = Fake::bare();
    run(&fake, "install --apply").await.unwrap();
    fake.put(&path_of("orders"), ensemble("orders", "Ready"));
    assert_eq!(
        run(&fake, "uninstall --yes").await.unwrap(),
        Exit::Converged
    );
    let left = fake.paths();
    assert!(left.contains(&path_of("orders")), "{left:?}");
    assert_eq!(
        left.iter()
            .filter(|p| p.contains("customresourcedefinitions"))
            .count(),
        2
    );
    let rest: Vec<_> = left
        .iter()
        .filter(|p| p.contains("ensemble-controller"))
        .collect();
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn uninstall_of_the_definitions_lets_every_ensemble_go_as_an_orphan_first() {
    let fake = Fake::bare();
    run(&fake, "install --apply").await.unwrap();
    let mut orders = ensemble("orders", "Ready");
    orders["metadata"]["finalizers"] = json!(["ensemble.dev/claims", "somebody.else/cares"]);
    fake.put(&path_of("orders"), orders);
    let before = fake.writes().len();
    assert_eq!(
        run(&fake, "uninstall --crds --yes").await.unwrap(),
        Exit::Converged
    );
    let writes = fake.writes().split_off(before);
    let at = |what: &str| {
        writes
            .iter()
            .position(|w| w.contains(what))
            .unwrap_or_else(|| panic!("{what}: {writes:#?}"))
    };
    let deployment =
        at("DELETE /apis/apps/v1/namespaces/ensemble-system/deployments/ensemble-controller");
    let finalizer = at(&format!("PATCH {}", path_of("orders")));
    let orphan = at(&format!("DELETE {}", path_of("orders")));
    let crd =
        at("DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/ensembles.ensemble.dev");
    assert!(
        deployment < finalizer && finalizer < orphan && orphan < crd,
        "{writes:#?}"
    );
    assert!(
        writes[finalizer].contains(r#""finalizers":["somebody.else/cares"]"#),
        "{writes:#?}"
    );
    assert!(
        writes[orphan].contains(r#""propagationPolicy":"Orphan""#),
        "{writes:#?}"
    );
    assert!(
        writes[orphan].contains(r#""uid""#),
        "the one that was seen, not another of its name"
    );
    let touched = writes
        .iter()
        .filter(|w| w.contains("persistentvolumeclaims") || w.contains("/pods"));
    assert_eq!(touched.count(), 0, "{writes:#?}");
}

#[tokio::test]
async fn the_definitions_stay_while_another_controller_needs_them() {
    let fake = Fake::bare();
    run(&fake, "install --apply").await.unwrap();
    let path = "/api/v1/namespaces/team-b/pods/ensemble-controller-0";
    let metadata = json!({"name": "ensemble-controller-0", "namespace": "team-b"});
    fake.put(
        path,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}),
    );
    let before = fake.writes().len();
    let failure = run(&fake, "uninstall --crds --yes").await.unwrap_err();
    assert_eq!(failure.exit, Exit::Refused);
    assert!(
        failure.to_string().contains("ensemble uninstall -n team-b"),
        "{failure}"
    );
    assert_eq!(fake.writes().len(), before, "nothing was touched");
}
