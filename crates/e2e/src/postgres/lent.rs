//! One sample for several tests, one after the other, as long as each leaves it as it was: bringing one
//! up takes longer than many a test.

use super::{LIMIT, NAME, Postgres, Shape, member};
use crate::ensemble::{ensembles, ready};
use crate::stage::{Need, enter, who_borrow};
use anyhow::Result;
use ensemble_testbed::harness::{Cluster, TestNamespace};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The namespaces of samples that nobody has at present.
static IDLE: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<String>> {
    IDLE.lock().unwrap_or_else(|error| error.into_inner())
}

/// Runs a test on a sample that others may have had before, with the lead there.
pub async fn on_lent(
    need: Need,
    leader: u32,
    test: impl AsyncFnOnce(&Cluster, &Postgres<'_>) -> Result<()>,
) -> Result<()> {
    let mut turn = enter(need).await;
    let cluster = Cluster::connect().await?;
    crate::ensemble::install(&cluster).await?;
    let found = idle().pop();
    let is_new = found.is_none();
    let namespace = match found {
        Some(name) => TestNamespace::existing(&cluster, name),
        None => TestNamespace::create(&cluster, "lent").await?,
    };
    let as_found = namespace
        .watch(async |namespace| {
            let shape = Shape::ensemble(leader);
            let postgres = if is_new {
                Postgres::up(namespace, shape).await?
            } else {
                Postgres { namespace, shape }
            };
            postgres.lead_at(&member(leader)).await?;
            ready(namespace, NAME, LIMIT).await?;
            turn.note("up");
            let before = look(&postgres).await?;
            test(&cluster, &postgres).await?;
            postgres.stop_writing().await?;
            Ok(before == look(&postgres).await?)
        })
        .await;
    if matches!(as_found, Ok(true)) && who_borrow() > idle().len() {
        idle().push(namespace.name);
    } else {
        namespace.delete().await?;
    }
    as_found.map(drop)
}

/// What must be the same for the next one: what is asked for, and that nobody was restarted.
async fn look(postgres: &Postgres<'_>) -> Result<(Value, BTreeMap<String, String>)> {
    let api = ensembles(postgres.namespace.client(), &postgres.namespace.name);
    let mut spec = api.get(NAME).await?.data["spec"].clone();
    prune(&mut spec);
    Ok((spec, postgres.marks().await?))
}

/// What was taken back leaves an empty place, which asks for nothing.
fn prune(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.values_mut().for_each(prune);
        fields.retain(|_, field| *field != json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_back_is_as_if_it_had_never_been_asked_for() {
        let mut spec = json!({"engine": {"container": "db", "patroni": {"parameters": {}}}});
        prune(&mut spec);
        assert_eq!(spec, json!({"engine": {"container": "db"}}));
    }
}
