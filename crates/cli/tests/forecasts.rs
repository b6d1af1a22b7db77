//! `plan` against an API server that is fed from a cluster in memory, and how a forecast reads.
#![allow(clippy::unwrap_used)] // a test that cannot go on may as well stop

mod support;

use ensemble_cli::args::{Global, Plan};
use ensemble_cli::commands::plan;
use ensemble_cli::exit::Exit;
use ensemble_cli::view::forecast::Told;
use ensemble_cli::view::paint::Paint;
use ensemble_rehearsal::forecast::{Forecast, Given, Stage, Trouble};
use serde_json::{Value, json};
use std::io::Write;
use support::Fake;

fn orders(image: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "ensemble.dev/v1alpha1",
        "kind": "Ensemble",
        "metadata": {"name": "orders", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "rollout": {"method": "Recreate"},
            "template": {"spec": {"containers": [{"name": "db", "image": image}]}},
            "claims": [{"name": "data", "spec": {"accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}}}}],
        },
    })
}

fn begun() -> Stage {
    let mut stage = Stage::blank("default", "orders", 3, &[]);
    stage.put(&orders("db:1", 3)).unwrap();
    stage.play(&[]);
    stage
}

fn serve(given: &Given) -> Fake {
    let fake = Fake::new();
    let keep = |root: &str, plural: &str, objects: &[Value]| {
        for object in objects {
            let name = object["metadata"]["name"].as_str().unwrap();
            let path = match object["metadata"]["namespace"].as_str() {
                Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
                None => format!("{root}/{plural}/{name}"),
            };
            fake.put(&path, object.clone());
        }
    };
    let ensemble: Vec<Value> = given.ensemble.iter().cloned().collect();
    keep("/apis/ensemble.dev/v1alpha1", "ensembles", &ensemble);
    keep("/api/v1", "pods", &given.pods);
    keep("/api/v1", "persistentvolumeclaims", &given.claims);
    keep("/apis/apps/v1", "controllerrevisions", &given.revisions);
    keep("/api/v1", "services", &given.services);
    keep("/apis/policy/v1", "poddisruptionbudgets", &given.budgets);
    keep("/api/v1", "nodes", &given.nodes);
    keep("/api/v1", "persistentvolumes", &given.volumes);
    keep("/apis/storage.k8s.io/v1", "storageclasses", &given.classes);
    fake
}

/// A file that is gone with its owner.
struct File(std::path::PathBuf);

impl File {
    fn with(test: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{test}-{}.yaml", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Self(path)
    }

    fn plan(&self) -> Plan {
        Plan {
            name: "orders".into(),
            file: Some(self.0.clone()),
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_plan_tells_what_would_happen_and_changes_nothing() {
    let begun = begun();
    let fake = serve(&begun.given());
    let mut wanted = begun.ensemble().unwrap();
    wanted["spec"]["replicas"] = json!(4);
    wanted["spec"]["template"]["spec"]["containers"][0]["image"] = json!("db:2");
    let file = File::with("new-image", &wanted.to_string());
    let told = plan::foretell(&fake.cluster(), &file.plan()).await.unwrap();
    // The new member begins at the template that is known to work, and then changes as all do.
    assert_eq!(told.forecast.recreated_pods, 4, "{:?}", told.forecast);
    assert_eq!(told.forecast.created_pods, 1);
    assert_eq!(
        told.changes,
        [
            "spec.replicas  3 -> 4",
            "spec.template.spec.containers[db].image  db:1 -> db:2"
        ]
    );
    assert!(fake.writes().is_empty(), "{:?}", fake.writes());
    assert_eq!(fake.tries().len(), 1, "the API server is asked");
    let global = Global::default();
    let exit = plan::run(&fake.cluster(), &global, &file.plan()).await;
    assert_eq!(exit.unwrap(), Exit::Working);
}

#[tokio::test]
async fn with_nothing_to_do_a_plan_exits_with_zero() {
    let fake = serve(&begun().given());
    let whole = begun().ensemble().unwrap();
    let file = File::with("same", &whole.to_string());
    let exit = plan::run(&fake.cluster(), &Global::default(), &file.plan()).await;
    assert_eq!(exit.unwrap(), Exit::Converged);
    let left = Plan {
        name: "orders".into(),
        file: None,
    };
    let exit = plan::run(&fake.cluster(), &Global::default(), &left).await;
    assert_eq!(exit.unwrap(), Exit::Converged);
}

#[tokio::test]
async fn an_ensemble_that_does_not_exist_yet_is_planned_from_nothing() {
    let mut given = begun().given();
    given.ensemble = None;
    given.pods.clear();
    given.claims.clear();
    given.volumes.clear();
    given.revisions.clear();
    given.services.clear();
    given.budgets.clear();
    let fake = serve(&given);
    let file = File::with("fresh", &orders("db:1", 3).to_string());
    let told = plan::foretell(&fake.cluster(), &file.plan()).await.unwrap();
    assert_eq!(told.forecast.created_pods, 3);
    assert_eq!(told.generation, None);
    assert!(fake.writes().is_empty());
}

#[tokio::test]
async fn a_spec_that_our_rules_refuse_is_an_error_that_names_the_field() {
    let fake = serve(&begun().given());
    let mut bad = orders("db:1", 3);
    bad["spec"]["replicas"] = json!(-1);
    let file = File::with("negative", &bad.to_string());
    let failure = plan::foretell(&fake.cluster(), &file.plan()).await.err();
    let failure = failure.unwrap();
    assert_eq!(failure.exit, Exit::Error);
    assert!(failure.message.contains("spec.replicas"), "{failure}");
}

fn told<'a>(forecast: &'a Forecast, changes: &'a [String]) -> Told<'a> {
    Told {
        name: "orders",
        namespace: "default",
        generation: Some((1, 2)),
        changes,
        notes: &[],
        forecast,
    }
}

#[test]
fn a_plan_reads_as_a_list_of_steps_with_what_they_cost() {
    let mut stage = begun();
    stage.put(&orders("db:2", 3)).unwrap();
    stage.play(&[]);
    let forecast = stage.forecast();
    let changes = ["spec.template.spec.containers[db].image  db:1 -> db:2".to_owned()];
    let text = told(&forecast, &changes).plan("kubectl apply -f orders.yaml", Paint::OFF);
    insta::assert_snapshot!("plan", text);
}

#[test]
fn a_story_tells_what_went_wrong_when_and_how_it_ends() {
    let mut stage = begun();
    stage.put(&orders("db:2", 3)).unwrap();
    let troubles = [Trouble::drain("node-c"), "NodeDies@node-a".parse().unwrap()];
    stage.play(&troubles);
    let forecast = stage.forecast();
    insta::assert_snapshot!("story", told(&forecast, &[]).story(Paint::OFF));
}

#[test]
fn a_plan_that_gets_stuck_says_where_and_what_helps() {
    let mut stage = begun();
    let troubles = ["ImageMissing".parse().unwrap()];
    stage.spoil(&troubles, &["db:2".into()]);
    stage.put(&orders("db:2", 3)).unwrap();
    stage.play(&troubles);
    let forecast = stage.forecast();
    let told = told(&forecast, &[]);
    assert_eq!(told.exit(), Exit::Stalled);
    let text = told.plan("", Paint::OFF);
    assert!(text.contains("Then it stays at: pull"), "{text}");
    assert!(text.contains("[ImageMissing]"), "{text}");
}
