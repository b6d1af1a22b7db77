//! Limits on the number of members: the API server refuses what is outside of them, whoever asks.

use anyhow::{Result, bail, ensure};
use ensemble_api::Ensemble;
use ensemble_apitests::Stage;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

fn limited(stage: &Stage, replicas: u32, scaling: Value) -> Value {
    let mut orders = stage.orders();
    orders["spec"]["replicas"] = replicas.into();
    orders["spec"]["scaling"] = scaling;
    orders
}

/// What the API server says to a number of members that somebody asks for by `/scale`, as
/// `kubectl scale` and an autoscaler do.
async fn scale(stage: &Stage, replicas: u32) -> Result<(), String> {
    scale_by(stage, replicas, PatchParams::default()).await
}

async fn scale_by(stage: &Stage, replicas: u32, params: PatchParams) -> Result<(), String> {
    let api: Api<Ensemble> = stage.api();
    let body = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let answer = api.patch_scale("orders", &params, &body).await;
    answer.map(|_| ()).map_err(|error| error.to_string())
}

fn says(answer: Result<(), String>, words: &[&str]) -> Result<()> {
    let Err(message) = answer else {
        bail!("accepted, where it should say {words:?}");
    };
    for word in words {
        ensure!(message.contains(word), "{word:?} is not in {message:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn scaling_outside_of_the_limits_is_refused_with_the_limit_and_what_would_do() -> Result<()> {
    let stage = Stage::new("limits").await?;
    let limits = json!({"min": 3, "max": 7, "oddOnly": true});
    stage.create(&limited(&stage, 3, limits)).await?;
    says(scale(&stage, 1).await, &["spec.scaling.min", "at least"])?;
    says(scale(&stage, 9).await, &["spec.scaling.max", "at most"])?;
    says(
        scale(&stage, 4).await,
        &["spec.replicas", "4", "even, and", "odd number"],
    )?;
    says(scale(&stage, 0).await, &["spec.replicas", "0"])?;
    ensure!(scale(&stage, 5).await.is_ok(), "5 is within the limits");
    // An edit of the spec is judged alike.
    let edit = stage.patch(json!({"spec": {"replicas": 6}})).await;
    says(
        edit.map(|_| ()).map_err(|e| format!("{e:#}")),
        &["even, and"],
    )?;
    ensure!(stage.get().await?.spec.replicas == 5);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_outside_of_its_own_limits_is_not_created() -> Result<()> {
    let stage = Stage::new("limits_create").await?;
    let cases: [(u32, Value, &[&str]); 4] = [
        (4, json!({"oddOnly": true}), &["even, and"]),
        (2, json!({"min": 3}), &["below spec.scaling.min"]),
        (9, json!({"max": 7}), &["above spec.scaling.max"]),
        (
            3,
            json!({"min": 5, "max": 3}),
            &["spec.scaling", "min is above max"],
        ),
    ];
    for (replicas, scaling, words) in cases {
        let created = stage.create(&limited(&stage, replicas, scaling)).await;
        says(created.map(|_| ()).map_err(|e| format!("{e:#}")), words)?;
    }
    Ok(())
}

/// Takes the rules of the definition away, and puts them back.
async fn rules(stage: &Stage, kept: Option<Value>) -> Result<Value> {
    let api: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let name = "ensembles.ensemble.dev";
    let mut crd = serde_json::to_value(api.get(name).await?)?;
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let spec = &mut schema["properties"]["spec"];
    let before = spec["x-kubernetes-validations"].take();
    if let Some(kept) = kept {
        spec["x-kubernetes-validations"] = kept;
    }
    let crd = serde_json::from_value(crd)?;
    api.replace(name, &PostParams::default(), &crd).await?;
    Ok(before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_was_there_before_its_limit_blocks_no_other_edit() -> Result<()> {
    let stage = Stage::own_cluster("limits_before").await?;
    let kept = rules(&stage, None).await?;
    let orders = limited(&stage, 4, json!({"oddOnly": true}));
    stage
        .eventually("it is accepted without the rules", async || {
            Ok(stage.create(&orders).await.ok())
        })
        .await?;
    rules(&stage, Some(kept)).await?;
    stage
        .eventually("the rules are back", async || {
            let asked = scale_by(&stage, 6, PatchParams::default().dry_run()).await;
            Ok(asked.is_err().then_some(()))
        })
        .await?;
    stage.patch(json!({"spec": {"minReadySeconds": 7}})).await?;
    says(scale(&stage, 8).await, &["even, and"])?;
    ensure!(scale(&stage, 5).await.is_ok(), "5 is odd");
    Ok(())
}
