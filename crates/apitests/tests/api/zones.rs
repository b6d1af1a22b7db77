//! Zones: what the API server refuses, with the field and what would be right.

use anyhow::{Result, ensure};
use ensemble_apitests::Stage;
use serde_json::{Value, json};

fn zoned(stage: &Stage, zones: Value) -> Value {
    let mut orders = stage.orders();
    orders["spec"]["zones"] = zones;
    orders
}

#[tokio::test(flavor = "multi_thread")]
async fn zones_that_cannot_be_are_refused_by_their_field() -> Result<()> {
    let stage = Stage::new("zones").await?;
    let cases: [(Value, &[&str]); 3] = [
        (json!({"names": []}), &["spec.zones.names", "at least 1"]),
        (
            json!({"names": ["a", "a"]}),
            &["spec.zones.names[1]", "Duplicate"],
        ),
        (
            json!({"names": ["a b"]}),
            &["spec.zones.names[0]", "should match"],
        ),
    ];
    for (zones, words) in cases {
        let refused = stage.create(&zoned(&stage, zones.clone())).await;
        let Err(error) = refused else {
            anyhow::bail!("{zones} was accepted");
        };
        let message = format!("{error:#}");
        for word in words {
            ensure!(message.contains(word), "{word:?} is not in {message:?}");
        }
    }
    stage
        .create(&zoned(&stage, json!({"names": ["a", "b"]})))
        .await?;
    let stored = stage.get().await?.spec.zones;
    ensure!(stored.is_some_and(|z| z.topology_key == "topology.kubernetes.io/zone"));
    Ok(())
}
