//! `history NAME`.

use crate::args::Global;
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::view::Seen;
use crate::view::history::{Revision, history};
use jiff::Timestamp;
use serde_json::Value;

/// Lists revisions.
pub async fn run(cluster: &Cluster, global: &Global, name: &str) -> Result<Exit, Failure> {
    let seen = Seen::of(&cluster.ensemble(name).await?);
    let stored = cluster.revisions(name).await?;
    if stored.is_empty() {
        output::say(format!(
            "{name} has no revisions yet: its controller has not seen it"
        ));
    }
    let status = seen.status();
    let asked = status.map(|status| status.revision()).unwrap_or_default();
    let reached = status
        .map(|status| status.current_revision())
        .unwrap_or_default();
    let revisions: Vec<Revision> = stored.iter().map(Revision::of).collect();
    let items: Result<Vec<Value>, _> = stored.iter().map(serde_json::to_value).collect();
    let items =
        items.map_err(|error| Failure::error(format!("cannot write the revisions: {error}")))?;
    let text = || history(&revisions, asked, reached, Timestamp::now());
    output::print(&output::render(global.output, &output::list(items), text)?)?;
    Ok(Exit::Converged)
}
