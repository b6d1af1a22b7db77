//! `pause` and `resume`: `spec.rollout.paused`, written as the user.

use super::{git_warning, plain};
use crate::args::{Change, Global};
use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// Holds the rollout, or lets it go on.
pub async fn run(
    cluster: &Cluster,
    global: &Global,
    args: &Change,
    pause: bool,
) -> Result<Exit, Failure> {
    let name = &args.name;
    let object = cluster.ensemble(name).await?;
    let paused = object
        .data
        .pointer("/spec/rollout/paused")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let word = if pause { "paused" } else { "resumed" };
    if paused == pause {
        let already = if pause {
            "already paused"
        } else {
            "not paused"
        };
        let text = || format!("{name} is {already}\n");
        output::print(&output::render(global.output, &plain(&object)?, text)?)?;
        return Ok(Exit::Converged);
    }
    let patch = json!({"spec": {"rollout": {"paused": pause}}});
    let params = PatchParams {
        dry_run: args.dry_run,
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let changed = cluster
        .ensembles()
        .patch(name, &params, &Patch::Merge(&patch))
        .await;
    let doing = format!("cannot change spec.rollout.paused of Ensemble '{name}'");
    let changed = changed.map_err(|error| Failure::of_call(&doing, error))?;
    let dry = if args.dry_run { " (dry run)" } else { "" };
    let text = || format!("{name} {word}{dry}\n");
    output::print(&output::render(global.output, &plain(&changed)?, text)?)?;
    output::say(git_warning(&object));
    if pause {
        output::say("members that fail are still repaired; a step that is under way is finished");
    }
    Ok(Exit::Converged)
}
