//! What goes wrong in a simulation, as its user names it.

use super::record::Recorder;
use crate::process::Process;
use crate::world::World;
use ensemble_planner::roster::Roster;
use ensemble_planner::view::{EnsembleView, View};
use serde_json::{Value, json};
use simkube::config::Behaviour;
use simkube::{Request, Resource};
use std::str::FromStr;

/// One thing that goes wrong, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    kind: Kind,
    whom: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NodeDies,
    NodeParted,
    Drain,
    PodDeleted,
    ClaimDeleted,
    ControllerDies,
    StatusWiped,
    ImageMissing,
    CrashLoop,
    NeverReady,
}

/// The kinds, with what each is about: a node, a member, or nothing.
pub const TROUBLES: [(&str, &str); 9] = [
    ("NodeDies", "NODE"),
    ("NodeParted", "NODE"),
    ("PodDeleted", "MEMBER"),
    ("ClaimDeleted", "MEMBER"),
    ("ControllerDies", ""),
    ("StatusWiped", ""),
    ("ImageMissing", ""),
    ("CrashLoop", ""),
    ("NeverReady", ""),
];

const KINDS: [Kind; 9] = [
    Kind::NodeDies,
    Kind::NodeParted,
    Kind::PodDeleted,
    Kind::ClaimDeleted,
    Kind::ControllerDies,
    Kind::StatusWiped,
    Kind::ImageMissing,
    Kind::CrashLoop,
    Kind::NeverReady,
];

/// How long a node is away.
const AWAY_MS: u64 = 600_000;
/// How often a drain tries again.
const DRAIN_MS: u64 = 5_000;
/// When a drain gives up.
const DRAIN_PATIENCE_MS: u64 = 1_800_000;

impl Trouble {
    /// A node is drained.
    pub fn drain(node: &str) -> Self {
        Self {
            kind: Kind::Drain,
            whom: Some(node.to_owned()),
        }
    }

    /// The node that it is about.
    pub fn node(&self) -> Option<&str> {
        let of_node = matches!(self.kind, Kind::NodeDies | Kind::NodeParted | Kind::Drain);
        self.whom.as_deref().filter(|_| of_node)
    }

    /// The member that it is about.
    pub fn member(&self) -> Option<&str> {
        let of_member = matches!(self.kind, Kind::PodDeleted | Kind::ClaimDeleted);
        self.whom.as_deref().filter(|_| of_member)
    }

    /// Whether it is about how the newest images behave: then it is there from the beginning.
    fn of_images(&self) -> Option<Behaviour> {
        match self.kind {
            Kind::ImageMissing => Some(Behaviour::missing()),
            Kind::CrashLoop => Some(Behaviour::crashing(1)),
            Kind::NeverReady => Some(Behaviour::never_ready()),
            _ => None,
        }
    }
}

impl FromStr for Trouble {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, whom) = match text.split_once('@') {
            Some((kind, whom)) => (kind, Some(whom.to_owned())),
            None => (text, None),
        };
        let found = TROUBLES
            .iter()
            .zip(KINDS)
            .find(|((name, _), _)| name.eq_ignore_ascii_case(kind));
        let Some(((name, about), kind)) = found else {
            let written = |(name, about): &(&str, &str)| match *about {
                "" => (*name).to_owned(),
                about => format!("{name}[@{about}]"),
            };
            let all: Vec<String> = TROUBLES.iter().map(written).collect();
            return Err(format!("no such fault; there are {}", all.join(", ")));
        };
        if whom.is_some() && about.is_empty() {
            return Err(format!(
                "{name} is about nobody in particular: write {name}"
            ));
        }
        if whom.as_deref() == Some("") {
            return Err(format!("write {name}@{about}, or {name} alone"));
        }
        Ok(Self { kind, whom })
    }
}

/// Troubles that are still to come or to pass.
#[derive(Default)]
pub(super) struct Pending {
    waiting: Vec<Trouble>,
    heal: Vec<(u64, String)>,
    /// Node, next try, end of patience.
    drains: Vec<(String, u64, u64)>,
}

impl Pending {
    pub fn wait(&mut self, troubles: &[Trouble]) {
        self.waiting = troubles.to_vec();
    }

    pub fn under_way(&self) -> bool {
        !self.heal.is_empty() || !self.drains.is_empty()
    }

    pub fn next_at(&self) -> Option<u64> {
        let drains = self.drains.iter().map(|(_, at, _)| *at);
        self.heal.iter().map(|(at, _)| *at).chain(drains).min()
    }

    /// All that waits begins; whether there was any.
    pub fn begin(
        &mut self,
        world: &mut World,
        controller: &mut Process,
        recorder: &mut Recorder,
    ) -> bool {
        let now = std::mem::take(&mut self.waiting);
        for trouble in &now {
            self.one(trouble, world, controller, recorder);
        }
        !now.is_empty()
    }

    fn one(
        &mut self,
        trouble: &Trouble,
        world: &mut World,
        controller: &mut Process,
        recorder: &mut Recorder,
    ) {
        let now = world.cluster.now().0;
        let node = trouble.whom.clone().unwrap_or_else(|| "node-b".into());
        let member = || {
            let first = format!("{}-0", world.name);
            trouble.whom.clone().unwrap_or(first)
        };
        let said = match trouble.kind {
            Kind::NodeDies => {
                world.cluster.kill_node(&node);
                self.heal.push((now + AWAY_MS, node.clone()));
                format!("{node} loses its power")
            }
            Kind::NodeParted => {
                world.cluster.partition_node(&node);
                self.heal.push((now + AWAY_MS, node.clone()));
                format!("{node} loses its connection; what runs there runs on")
            }
            Kind::Drain => {
                cordon(world, &node, true);
                self.drains
                    .push((node.clone(), now, now + DRAIN_PATIENCE_MS));
                format!("{node} is drained")
            }
            Kind::PodDeleted => {
                let member = member();
                user(
                    world,
                    Request::delete(Resource::Pods, &world.namespace, &member),
                );
                format!("somebody deletes pod {member}")
            }
            Kind::ClaimDeleted => {
                let member = member();
                delete_claims(world, &member);
                user(
                    world,
                    Request::delete(Resource::Pods, &world.namespace, &member),
                );
                format!("somebody deletes the claims and the pod of {member}")
            }
            Kind::ControllerDies => {
                controller.close(world);
                let epoch = controller.epoch + 1;
                *controller = Process::start(world, "controller-2", epoch);
                "the controller dies and another one starts".to_owned()
            }
            Kind::StatusWiped => {
                let body = json!({"status": null});
                let at = Request::patch(world.ensembles, &world.namespace, &world.name, body);
                let _ = world.cluster.call(&at.status().client("fault"));
                "the status is wiped".to_owned()
            }
            Kind::ImageMissing | Kind::CrashLoop | Kind::NeverReady => return,
        };
        recorder.event(world, said);
    }

    /// Nodes come back; drains try again.
    pub fn due(&mut self, world: &mut World, recorder: &mut Recorder) {
        let now = world.cluster.now().0;
        let (back, away) = std::mem::take(&mut self.heal)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.heal = away;
        let back: Vec<(u64, String)> = back;
        for (_, node) in back {
            world.cluster.heal_node(&node);
            recorder.event(world, format!("{node} is back"));
        }
        for (node, next, patience) in std::mem::take(&mut self.drains) {
            if next > now {
                self.drains.push((node, next, patience));
                continue;
            }
            let left = evict_all(world, &node);
            if left == 0 {
                recorder.event(world, format!("{node} is empty"));
            } else if now >= patience {
                let said = format!("{node} still has {left} of our pods; the drain gives up");
                recorder.event(world, said);
            } else {
                self.drains.push((node, now + DRAIN_MS, patience));
            }
        }
    }
}

/// Makes the images of a spec behave as the troubles say.
pub(super) fn spoil_images(world: &mut World, troubles: &[Trouble], images: &[String]) {
    let behaviours = troubles.iter().filter_map(Trouble::of_images);
    for behaviour in behaviours {
        for image in images {
            world.cluster.config_mut().images.set(image, behaviour);
        }
    }
}

fn user(world: &mut World, request: Request) {
    let _ = world.cluster.call(&request.client("user"));
}

fn cordon(world: &mut World, node: &str, off: bool) {
    let body = json!({"spec": {"unschedulable": off}});
    user(world, Request::patch(Resource::Nodes, "", node, body));
}

fn delete_claims(world: &mut World, member: &str) {
    let all = world
        .cluster
        .objects(Resource::PersistentVolumeClaims, &world.namespace);
    let suffix = format!("-{member}");
    let names = all
        .iter()
        .filter_map(|c| c["metadata"]["name"].as_str())
        .filter(|n| n.ends_with(&suffix));
    for name in names {
        let at = Resource::PersistentVolumeClaims;
        user(world, Request::delete(at, &world.namespace.clone(), name));
    }
}

/// Asks for the eviction of every pod on a node; how many are still there.
fn evict_all(world: &mut World, node: &str) -> usize {
    let pods = world.cluster.objects(Resource::Pods, &world.namespace);
    let here: Vec<&Value> = pods
        .iter()
        .map(|p| &**p)
        .filter(|p| p["spec"]["nodeName"] == node)
        .collect();
    for pod in &here {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        if pod["metadata"]["deletionTimestamp"].is_null() {
            let request = Request::evict(&world.namespace.clone(), name);
            let _ = world.cluster.call(&request.client("drain"));
        }
    }
    here.len()
}

/// Whether an Ensemble asks for a member of that name; else who there is.
pub fn asked_for(ensemble: &Value, member: &str) -> Result<(), String> {
    let view = EnsembleView::read(ensemble).map_err(|unreadable| unreadable.to_string())?;
    Roster::of(&view).asked_for(member).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_are_read_with_and_without_a_name() {
        let read = |text: &str| Trouble::from_str(text);
        assert_eq!(read("NodeDies@n1").unwrap().node(), Some("n1"));
        assert_eq!(read("poddeleted@db-1").unwrap().member(), Some("db-1"));
        assert_eq!(read("StatusWiped").unwrap().node(), None);
    }

    #[test]
    fn a_trouble_that_does_not_exist_is_answered_with_those_that_do() {
        let error = Trouble::from_str("Meteor").unwrap_err();
        assert!(error.contains("NodeDies[@NODE]"), "{error}");
        assert!(Trouble::from_str("StatusWiped@x").is_err());
        assert!(Trouble::from_str("NodeDies@").is_err());
    }
}
