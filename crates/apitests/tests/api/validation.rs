//! Bad input: the message names the field, what is wrong and what would be right.

use anyhow::{Result, bail};
use ensemble_apitests::Stage;
use serde_json::{Value, json};

async fn refused(stage: &Stage, ensemble: &Value) -> Result<String> {
    match stage.create(ensemble).await {
        Ok(_) => bail!("it was accepted"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_specs_are_refused_with_the_field_and_the_remedy() -> Result<()> {
    let stage = Stage::new("validation").await?;
    let bad = |change: &dyn Fn(&mut Value)| {
        let mut orders = stage.orders();
        change(&mut orders);
        orders
    };
    let cases: [(Value, &[&str]); 9] = [
        (
            bad(&|o| o["metadata"]["name"] = "a".repeat(53).into()),
            &["metadata.name", "shorter"],
        ),
        (
            bad(&|o| o["spec"]["template"]["spec"]["restartPolicy"] = "Never".into()),
            &["restartPolicy", "Always"],
        ),
        (
            bad(&|o| o["spec"]["template"]["spec"]["hostname"] = "x".into()),
            &["hostname", "remove"],
        ),
        (
            bad(&|o| {
                o["spec"]["template"]["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}])
            }),
            &["spec.claims", "same name"],
        ),
        (
            bad(&|o| o["spec"]["template"]["metadata"]["labels"]["ensemble.dev/x"] = "y".into()),
            &["ensemble.dev/", "prefix"],
        ),
        (
            bad(&|o| o["spec"]["replicas"] = 1001.into()),
            &["spec.replicas", "1000"],
        ),
        (
            bad(&|o| o["spec"]["engine"] = json!({})),
            &["spec.engine", "exactly one of patroni, etcd and labels"],
        ),
        (
            bad(&|o| o["spec"]["engine"] = json!({"patroni": {}, "etcd": {}})),
            &["spec.engine", "exactly one of patroni, etcd and labels"],
        ),
        (
            bad(&|o| o["spec"]["engine"] = json!({"etcd": {"port": 0}})),
            &["spec.engine.etcd.port", "1"],
        ),
    ];
    for (ensemble, words) in cases {
        let message = refused(&stage, &ensemble).await?;
        for word in words {
            assert!(message.contains(word), "{message}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_change_says_so() -> Result<()> {
    let stage = Stage::new("immutable").await?;
    stage.create(&stage.orders()).await?;
    let cases = [
        (
            json!({"spec": {"serviceName": "other"}}),
            "spec.serviceName",
        ),
        (
            json!({"spec": {"claims": [{"name": "data", "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]}}),
            "added or removed",
        ),
        (
            json!({"spec": {"claims": [
            {"name": "data", "spec": {"resources": {"requests": {"storage": "2Gi"}}}},
            {"name": "wal", "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]}}),
            "put back",
        ),
    ];
    for (patch, words) in cases {
        let Err(error) = stage.patch(patch).await else {
            bail!("{words}: accepted")
        };
        assert!(format!("{error:#}").contains(words), "{error:#}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_members_of_etcd_cannot_change_yet_and_the_message_says_so() -> Result<()> {
    let stage = Stage::new("etcd-replicas").await?;
    let mut orders = stage.orders();
    orders["spec"]["engine"] = json!({"etcd": {}});
    stage.create(&orders).await?;
    let Err(error) = stage.patch(json!({"spec": {"replicas": 5}})).await else {
        bail!("accepted")
    };
    let message = format!("{error:#}");
    for words in [
        "spec.replicas",
        "spec.engine.etcd",
        "put back the old number",
    ] {
        assert!(message.contains(words), "{message}");
    }
    Ok(())
}
