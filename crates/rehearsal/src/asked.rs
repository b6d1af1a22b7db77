//! Which members are asked for, by what stands in the Ensemble: written once more, for those who check.

use crate::outcomes::act::ordinal;
use crate::world::World;
use ensemble_api::names::Ordinals;
use serde_json::Value;
use std::collections::BTreeSet;

/// The ordinals that an Ensemble takes out.
pub fn offline(ensemble: &Value) -> BTreeSet<u32> {
    let entries = ensemble["spec"]["offline"].as_array().into_iter().flatten();
    let text = |e: &Value| e.as_str().map_or_else(|| e.to_string(), str::to_owned);
    entries
        .flat_map(|e| Ordinals::parse(&text(e)).0.0)
        .collect()
}

/// The ordinals that an Ensemble asks for.
pub fn asked(world: &World, ensemble: &Value) -> BTreeSet<u32> {
    let replicas = ensemble["spec"]["replicas"].as_u64().unwrap_or(1) as usize;
    let ledger = &ensemble["status"]["ledger"]["members"];
    let read = |text: &str| Ordinals::parse(text).0.0;
    let stored = |field: &str| read(ledger[field].as_str().unwrap_or_default());
    let mut aside = stored("retired");
    aside.extend(offline(ensemble));
    let mut free = (0..).filter(|o| !aside.contains(o));
    let mut asked: BTreeSet<u32> = free.by_ref().take(replicas).collect();
    let requests = world.cluster.objects(world.requests, &world.namespace);
    let open = requests.iter().filter(|r| r["status"]["outcome"].is_null());
    let replaced: BTreeSet<u32> = open
        .filter_map(|r| ordinal(r["spec"]["replace"]["member"].as_str()?))
        .collect();
    let successors = replaced.intersection(&asked).count();
    asked.extend(free.take(successors));
    asked
}
