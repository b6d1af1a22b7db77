//! `why NAME`.

use crate::args::Global;
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::view::paint::Paint;
use crate::view::{Seen, why};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Says what the ensemble waits for.
pub async fn run(cluster: &Cluster, global: &Global, name: &str) -> Result<Exit, Failure> {
    let seen = Seen::of(&cluster.ensemble(name).await?);
    let text = || match seen.report() {
        Some(report) => why::why(name, report, Timestamp::now(), Paint::choose(global.color)),
        None => seen.silence(),
    };
    output::print(&output::render(global.output, &value(&seen), text)?)?;
    Ok(seen.exit())
}

/// The report with whose it is.
fn value(seen: &Seen) -> Value {
    json!({
        "apiVersion": format!("{}/{}", ensemble_api::GROUP, ensemble_api::VERSION),
        "kind": "EnsembleReport",
        "metadata": {
            "name": seen.name,
            "namespace": seen.namespace,
            "generation": seen.generation,
        },
        "state": seen.state(),
        "plan": seen.report(),
    })
}
