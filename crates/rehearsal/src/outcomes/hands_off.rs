//! What is never touched, whatever else holds: an engine that is paused, a member at work on its data, a
//! primary that waits for approval, whoever holds the lock.

use super::act::{Act, engine_image, ordinal};
use super::{LOOK_MS, broken};
use crate::asked::asked;
use crate::invariants::Broken;
use crate::patroni::Patroni;
use crate::scenario::{ensemble, status};
use crate::world::World;
use simkube::Resource;

/// We end a process of a member.
pub(super) fn act(world: &World, model: &Patroni, act: &Act) -> Result<(), Broken> {
    approved(world, model, &act.name, &act.image)?;
    let running = world.cluster.running_processes();
    if !running.iter().any(|p| *p.pod_uid == *act.uid) {
        return Ok(());
    }
    not_paused(model, &act.name, act.at)?;
    not_at_work(model, act)
}

/// We ask for another leader: the one that leads is restarted by its engine.
pub(super) fn switch(world: &World, model: &Patroni, from: &str, at: u64) -> Result<(), Broken> {
    not_paused(model, from, at)?;
    if is_asked_for(world) || is_cordoned(world, from) {
        return Ok(());
    }
    let pod = world.cluster.get(Resource::Pods, &world.namespace, from);
    let image = pod.as_ref().and_then(|p| engine_image(p).as_str());
    approved(world, model, from, image.unwrap_or_default())
}

fn not_paused(model: &Patroni, name: &str, at: u64) -> Result<(), Broken> {
    if !model.is_paused_since(at.saturating_sub(LOOK_MS)) {
        return Ok(());
    }
    let seen = format!("{name} was touched while paused; {}", model.describe());
    broken("paused-is-left-alone", seen)
}

/// Data that is half rewound is good for nothing, and what was replayed is replayed again.
fn not_at_work(model: &Patroni, act: &Act) -> Result<(), Broken> {
    match model.at_work(&act.uid) {
        Some((since, how)) if since + LOOK_MS < act.at => {
            let seen = format!(
                "{} was disrupted while its data was {how}; {}",
                act.name,
                model.describe()
            );
            broken("work-on-data-is-let-finish", seen)
        }
        _ => Ok(()),
    }
}

/// Where a person is to say when, whoever leads keeps its pod as it is until one did; until somebody else
/// leads that is also one whose process has just ended.
fn approved(world: &World, model: &Patroni, name: &str, image: &str) -> Result<(), Broken> {
    if model.last_leader() != Some(name) {
        return Ok(());
    }
    let Some(object) = ensemble(world) else {
        return Ok(());
    };
    let spec = &object["spec"];
    let size = spec["replicas"].as_u64().unwrap_or(1);
    let asked = asked(world, &object);
    let wanted = ordinal(name).is_some_and(|o| asked.contains(&o));
    if spec["rollout"]["primary"] != "Supervised" || !wanted || size < 2 || is_approved(world) {
        return Ok(());
    }
    if spec["template"]["spec"]["containers"][0]["image"] == image {
        return Ok(());
    }
    let seen = format!(
        "{name} was touched and nobody said so; {}",
        model.describe()
    );
    broken("no-approval-no-touch", seen)
}

fn is_approved(world: &World) -> bool {
    let revision = status(world).revision().to_owned();
    let requests = world.cluster.objects(world.requests, &world.namespace);
    let mut requests = requests.iter();
    requests.any(|r| r["spec"]["approve"]["revision"] == revision.as_str())
}

fn is_asked_for(world: &World) -> bool {
    let requests = world.cluster.objects(world.requests, &world.namespace);
    requests.iter().any(|r| !r["spec"]["switch"].is_null())
}

fn is_cordoned(world: &World, name: &str) -> bool {
    let pod = world.cluster.get(Resource::Pods, &world.namespace, name);
    let node = pod.and_then(|p| p["spec"]["nodeName"].as_str().map(str::to_owned));
    let node = node.and_then(|n| world.cluster.get(Resource::Nodes, "", &n));
    node.is_some_and(|n| n["spec"]["unschedulable"] == true)
}
