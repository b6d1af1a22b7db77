//! Who may waive a safety rule, asked of a real API server: a request that waives takes a right of its own.

use anyhow::{Context, Result, bail};
use ensemble_api::EnsembleRequest;
use ensemble_api::request::EnsembleRequestStatus;
use ensemble_apitests::Stage;
use ensemble_cli::commands::apply::apply;
use ensemble_cli::manifests;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

const USER: &str = "alice";

/// Alice may create requests, as whoever may edit the namespace.
async fn let_alice_ask(stage: &Stage) -> Result<()> {
    for object in manifests::with_definitions() {
        if object["kind"] != "CustomResourceDefinition" {
            apply(&stage.client, &object).await?;
        }
    }
    let rules = json!([{"apiGroups": ["ensemble.dev"],
                        "resources": ["ensemblerequests"], "verbs": ["create", "get"]}]);
    grant(stage, "asks", rules).await
}

async fn grant(stage: &Stage, name: &str, rules: Value) -> Result<()> {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": name, "namespace": stage.namespace});
    let version = format!("{group}/v1");
    let role = json!({"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": rules});
    let binding = json!({"apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": USER}]});
    apply(&stage.client, &role).await?;
    apply(&stage.client, &binding).await?;
    Ok(())
}

fn request(name: &str, spec: Value) -> Result<EnsembleRequest> {
    let mut request = json!({"apiVersion": "ensemble.dev/v1alpha1", "kind": "EnsembleRequest",
                             "metadata": {"name": name}, "spec": spec});
    request["spec"]["ensemble"] = "orders".into();
    Ok(serde_json::from_value(request)?)
}

fn waive(name: &str) -> Result<EnsembleRequest> {
    let waive = json!({"rule": "within-budget", "member": "orders-2", "forSeconds": 600});
    request(name, json!({"waive": waive, "reason": "a test"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn to_waive_takes_a_right_of_its_own() -> Result<()> {
    let stage = Stage::new("waive_right").await?;
    let_alice_ask(&stage).await?;
    let alice: Api<EnsembleRequest> = Api::namespaced(stage.acting_as(USER)?, &stage.namespace);
    let create = PostParams::default();
    alice
        .create(&create, &request("go", json!({"switch": {}}))?)
        .await
        .context("a request that waives nothing needs nothing more")?;
    // A policy is in force a moment after it was created: until then a dry run passes.
    let trial = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let refused = stage.eventually("the policy is in force", async || {
        Ok(alice.create(&trial, &waive("try")?).await.err())
    });
    let refused = format!("{:#}", refused.await?);
    for word in ["spec.waive", USER, "ensemble-waiver", &stage.namespace] {
        assert!(refused.contains(word), "{refused}");
    }
    let rules = json!([{"apiGroups": ["ensemble.dev"], "resources": ["ensembles"],
                        "resourceNames": ["orders"], "verbs": ["waive"]}]);
    grant(&stage, "waives", rules).await?;
    stage
        .eventually("alice may waive", async || {
            Ok(alice.create(&create, &waive("granted")?).await.ok())
        })
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiver_that_says_too_little_is_refused_by_its_field() -> Result<()> {
    let stage = Stage::new("waive_fields").await?;
    let api: Api<EnsembleRequest> = stage.api();
    let with = |change: &dyn Fn(&mut Value)| -> Result<Value> {
        let mut request = serde_json::to_value(waive("bad")?)?;
        change(&mut request["spec"]);
        Ok(request)
    };
    let cases: [(Value, &[&str]); 5] = [
        (
            with(&|s| s["reason"] = "  ".into())?,
            &["spec.reason", "required"],
        ),
        (
            with(&|s| s["waive"]["rule"] = "claims-intact".into())?,
            &["spec.waive.rule", "within-budget"],
        ),
        (
            with(&|s| s["waive"]["forSeconds"] = 5.into())?,
            &["spec.waive.forSeconds", "60"],
        ),
        (
            with(&|s| s["waive"]["member"] = "".into())?,
            &["spec.waive.member"],
        ),
        (
            with(&|s| s["switch"] = json!({}))?,
            &["exactly one of rebuild, switch, approve, waive, remove and replace"],
        ),
    ];
    for (bad, words) in cases {
        let bad: EnsembleRequest = serde_json::from_value(bad)?;
        let Err(error) = api.create(&PostParams::default(), &bad).await else {
            bail!("accepted: {bad:?}");
        };
        let message = format!("{error:#}");
        for word in words {
            assert!(message.contains(word), "{message}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiver_is_accepted_shown_and_ends() -> Result<()> {
    let stage = Stage::new("waive_ends").await?;
    stage.create(&stage.orders()).await?;
    let _controller = stage.controller("one").await?;
    let api: Api<EnsembleRequest> = stage.api();
    let mut asked = waive("once")?;
    if let Some(waive) = &mut asked.spec.waive {
        waive.for_seconds = 60;
    }
    api.create(&PostParams::default(), &asked).await?;
    let status = async || -> Result<EnsembleRequestStatus> {
        Ok(api.get("once").await?.status.unwrap_or_default())
    };
    let accepted = stage.eventually("it is accepted", async || Ok(status().await?.waiver));
    let accepted = accepted.await?;
    stage
        .eventually("the Ensemble shows it", async || {
            let waivers = stage.status().await?.plan.waivers;
            Ok(waivers.into_iter().find(|w| w.until == accepted.until))
        })
        .await?;
    stage
        .eventually("it ends", async || Ok(status().await?.outcome))
        .await?;
    let message = status().await?.message;
    assert!(
        message.contains("expired at") && message.contains("not used"),
        "{message}"
    );
    Ok(())
}
