//! How long the Service that clients write through leads to nobody who takes writes.

use super::broken;
use crate::invariants::Broken;
use crate::patroni::Patroni;
use crate::world::{NAMESPACE, World};
use ensemble_api::Rule;
use simkube::Resource;

/// A label is seen, a Service written and its endpoints follow: seconds, and some more if a call fails on
/// the way. Whoever is cut off or dead for longer has a reason of its own, which `calm` excludes.
const FOLLOWS_MS: u64 = 2_000;

/// Since when the primary takes writes, carries its label and is not in its Service.
#[derive(Clone, Debug, Default)]
pub(super) struct Routing {
    unrouted: Option<u64>,
}

impl Routing {
    /// Time has passed, on a day on which nothing was made to go wrong.
    pub fn passes(&mut self, world: &World, model: &Patroni) -> Result<(), Broken> {
        let now = model.now();
        let Some(seen) = unrouted(world, model) else {
            self.unrouted = None;
            return Ok(());
        };
        let since = *self.unrouted.get_or_insert(now);
        match now > since + FOLLOWS_MS {
            true => broken(
                Rule::PrimaryRouted.as_str(),
                format!("{seen}; {}", model.describe()),
            ),
            false => Ok(()),
        }
    }
}

/// The primary, if its Service exists and does not select it.
fn unrouted(world: &World, model: &Patroni) -> Option<String> {
    let leader = model.labelled_leader()?;
    let get = |resource, name: &str| world.cluster.get(resource, NAMESPACE, name);
    let service = get(Resource::Services, "orders-primary")?;
    let pod = get(Resource::Pods, leader)?;
    let mut selector = service["spec"]["selector"].as_object()?.iter();
    let labels = &pod["metadata"]["labels"];
    let (key, value) = selector.find(|(key, value)| &labels[key.as_str()] != *value)?;
    Some(format!(
        "{leader} takes writes and is labelled {key}={}, and its Service selects {value}",
        labels[key.as_str()]
    ))
}
