//! The samples, as `kubectl apply --dry-run=server` would try them.

use anyhow::{Context, Result, ensure};
use ensemble_apitests::Stage;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn every_object_of_every_sample_is_accepted_strictly() -> Result<()> {
    let stage = Stage::new("samples").await?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let mut tried = 0;
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        let text = std::fs::read_to_string(&path)?;
        for object in serde_saphyr::from_multiple::<Value>(&text)? {
            let tried_one = accepted(&stage, object).await;
            tried_one.with_context(|| format!("{}", path.display()))?;
            tried += 1;
        }
    }
    ensure!(tried >= 8, "only {tried} objects");
    Ok(())
}

async fn accepted(stage: &Stage, object: Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("no kind")?;
    let name = object.metadata.name.clone().context("no name")?;
    let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> =
        Api::namespaced_with(stage.client.clone(), &stage.namespace, &kind);
    let mut params = PatchParams::apply("samples").dry_run();
    // A field that is misspelt is an error, not dropped.
    params = params.validation_strict();
    let answer = api.patch(&name, &params, &Patch::Apply(&object)).await;
    answer.with_context(|| format!("{} {name}", types.kind))?;
    Ok(())
}
