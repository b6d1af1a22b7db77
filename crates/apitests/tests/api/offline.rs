//! The member that somebody names, on a real API server: taken out and put back, removed, replaced.

use anyhow::{Result, bail, ensure};
use ensemble_api::EnsembleRequest;
use ensemble_apitests::Stage;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

async fn names(stage: &Stage) -> Result<Vec<String>> {
    let pods = stage.uids().await?.into_iter();
    Ok(pods.map(|(name, _)| name).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_entry_of_offline_is_refused_with_the_field_and_what_would_do() -> Result<()> {
    let stage = Stage::new("offline_bad").await?;
    let cases: [(Value, &[&str]); 6] = [
        (json!([10_000]), &["spec.offline[0]", "9999"]),
        (json!([-1]), &["spec.offline[0]", "0"]),
        (json!(["5-3"]), &["spec.offline[0]", "lower ordinal first"]),
        (json!(["one"]), &["spec.offline[0]", "[0-9]"]),
        (json!([1, 1]), &["spec.offline[1]", "Duplicate"]),
        (json!((0..13).collect::<Vec<_>>()), &["spec.offline", "12"]),
    ];
    for (offline, words) in cases {
        let mut orders = stage.orders();
        orders["spec"]["offline"] = offline.clone();
        let Err(error) = stage.create(&orders).await else {
            bail!("{offline} was accepted");
        };
        let message = format!("{error:#}");
        for word in words {
            ensure!(message.contains(word), "{word:?} is not in {message:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_named_member_is_taken_out_and_comes_back_on_its_own_claims() -> Result<()> {
    let stage = Stage::new("offline").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let before = stage.uids().await?;
    stage.patch(json!({"spec": {"offline": [1]}})).await?;
    stage.ready().await?;
    assert_eq!(names(&stage).await?, ["orders-0", "orders-2", "orders-3"]);
    stage.patch(json!({"spec": {"offline": []}})).await?;
    stage.ready().await?;
    let after = stage.uids().await?;
    assert_eq!(names(&stage).await?, ["orders-0", "orders-1", "orders-2"]);
    for place in [0, 2] {
        assert_eq!(before.iter().nth(place), after.iter().nth(place));
    }
    // Those of the stand-in are kept as well.
    assert_eq!(stage.claims().await?.len(), 8);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_ordinal_is_marked_on_its_claims_and_never_used_again() -> Result<()> {
    let stage = Stage::new("removed").await?;
    let _controller = stage.controller("one").await?;
    stage.create(&stage.orders()).await?;
    stage.ready().await?;
    let api: Api<EnsembleRequest> = stage.api();
    for (name, what) in [
        ("first", json!({"replace": {"member": "orders-1"}})),
        (
            "second",
            json!({"remove": {"member": "orders-0", "keepVolumes": true}}),
        ),
    ] {
        let mut spec = what;
        spec["ensemble"] = "orders".into();
        let request = json!({"apiVersion": "ensemble.dev/v1alpha1", "kind": "EnsembleRequest",
                             "metadata": {"name": name}, "spec": spec});
        api.create(&PostParams::default(), &serde_json::from_value(request)?)
            .await?;
        stage
            .eventually("the request is done", async || {
                let status = api.get(name).await?.status.unwrap_or_default();
                Ok((status.outcome == Some(ensemble_api::Outcome::Done)).then_some(()))
            })
            .await?;
    }
    stage.ready().await?;
    assert_eq!(names(&stage).await?, ["orders-2", "orders-3", "orders-4"]);
    let status = stage.get().await?.status.unwrap_or_default();
    assert_eq!(status.ledger["members"].retired, "0-1");
    assert_eq!(status.ledger["members"].kept, "0");
    Ok(())
}
