//! `ensemble plan` on a real API server: what it foretells is what then happens.

use anyhow::Result;
use ensemble_apitests::Stage;
use ensemble_cli::args::Plan;
use ensemble_cli::cluster::Cluster;
use ensemble_cli::commands::plan::foretell;
use ensemble_cli::exit::Exit;
use ensemble_rehearsal::forecast::End;
use serde_json::{Value, json};
use std::path::PathBuf;

fn cluster(stage: &Stage) -> Cluster {
    Cluster {
        client: stage.client.clone(),
        namespace: stage.namespace.clone(),
    }
}

/// `plan orders -f` with that Ensemble.
fn plan_of(stage: &Stage, ensemble: &Value) -> Result<Plan> {
    let file: PathBuf = std::env::temp_dir().join(format!("{}.json", stage.namespace));
    std::fs::write(&file, ensemble.to_string())?;
    Ok(Plan {
        name: "orders".into(),
        file: Some(file),
    })
}

fn with_image(stage: &Stage, image: &str) -> Value {
    let mut orders = stage.orders();
    orders["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    orders
}

#[tokio::test]
async fn what_a_plan_foretells_is_what_then_happens() -> Result<()> {
    let stage = Stage::new("plan_comes_true").await?;
    let fresh = plan_of(&stage, &stage.orders())?;
    let told = foretell(&cluster(&stage), &fresh).await.unwrap();
    assert_eq!(told.forecast.created_pods, 3, "{:?}", told.forecast);
    assert_eq!(told.forecast.created_claims, 6);

    let controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let same = foretell(&cluster(&stage), &fresh).await.unwrap();
    assert_eq!(same.forecast.end, End::Nothing, "{:?}", same.forecast);
    assert!(same.changes.is_empty(), "{:?}", same.changes);

    let before = stage.uids().await?;
    let change = plan_of(&stage, &with_image(&stage, "fake/db:2"))?;
    let told = foretell(&cluster(&stage), &change).await.unwrap();
    assert_eq!(told.changes.len(), 1, "{:?}", told.changes);
    assert_eq!(told.forecast.end, End::Converged, "{:?}", told.forecast);
    let (recreated, restarts) = (told.forecast.recreated_pods, told.forecast.restarts);
    assert_eq!(recreated + restarts, 3, "{:?}", told.forecast);
    assert_eq!(stage.uids().await?, before, "a plan changes nothing");

    stage.image("fake/db:2").await?;
    let status = stage.ready().await?;
    assert_eq!(
        status.plan.id, told.forecast.plan,
        "the plan that was shown"
    );
    let after = stage.uids().await?;
    let kept = after.iter().filter(|pod| before.contains(pod)).count();
    assert_eq!(kept, 3 - recreated as usize, "by the method that was shown");
    controller.stop().await
}

#[tokio::test]
async fn what_the_api_server_would_refuse_a_plan_refuses() -> Result<()> {
    let stage = Stage::new("plan_refused").await?;
    stage.create(&stage.orders()).await?;
    let mut renamed = stage.orders();
    renamed["spec"]["replicas"] = json!(-3);
    let mut misspelt = stage.orders();
    misspelt["spec"]["replicsa"] = json!(5);
    for (ensemble, field) in [(renamed, "spec.replicas"), (misspelt, "spec.replicsa")] {
        let plan = plan_of(&stage, &ensemble)?;
        let failure = foretell(&cluster(&stage), &plan).await.err().unwrap();
        assert_eq!(failure.exit, Exit::Error);
        assert!(failure.message.contains(field), "{failure}");
    }
    Ok(())
}
