//! What must hold about roles after every step, by the truth of the model: whatever members say, and
//! whatever a controller believes.

use crate::asked::asked;
use crate::invariants::Broken;
use crate::model;
use crate::outcomes::act::{Act, How, ordinal};
use crate::outcomes::{LOOK_MS, broken};
use crate::patroni::{self, Patroni};
use crate::scenario::ensemble;
use crate::world::{NAMESPACE, World};
use ensemble_api::Rule;
use ensemble_conductor::{Ask, EngineCall};
use ensemble_planner::engine::EngineAct;
use serde_json::Value;
use simkube::{Change, Entry, Object, Resource};
use std::collections::{BTreeMap, BTreeSet};

/// A member that has not led for so long is not to be called the leader: answers count for 12 s.
const LED_MS: u64 = 15_000;
/// A member that has run for so long and does not stream is not about to.
const COMING_UP_MS: u64 = 60_000;
/// A leader's loss within this time after our act is by our act.
const BLAME_MS: u64 = 60_000;

/// Checks roles as the journal grows.
#[derive(Clone, Debug, Default)]
pub struct RoleRules {
    read: usize,
    changes: usize,
    /// By pod uid: when we disrupted it, and at which start of its PostgreSQL.
    disrupted: BTreeMap<String, (u64, u64)>,
    /// Changes of leader since a user last did something: by our will, and by others.
    ours: u32,
    others: u32,
    /// A switchover was asked for and has not come about; it was before the user's last act.
    asked: bool,
    asked_before: bool,
    /// To whom.
    asked_to: String,
    /// Switchovers that an engine was asked for, by id.
    switches: BTreeSet<String>,
    /// Changes in place by us.
    pub in_place: u32,
}

/// How often the lead may move for one act of a user. A primary that is to go first hands it over to one
/// whose own turn is still to come.
fn most_changes(world: &World) -> u32 {
    let ensemble = ensemble(world);
    let order = ensemble.as_ref().map(|e| &e["spec"]["rollout"]["order"]);
    1 + u32::from(order.is_some_and(|o| o == "PrimaryFirst"))
}

impl RoleRules {
    /// Looks at what was written since, and at who leads.
    pub fn check(&mut self, world: &World) -> Result<(), Broken> {
        let entries = world.cluster.log().len();
        let Some(model) = patroni::of(world) else {
            self.read = entries;
            return Ok(());
        };
        for at in self.read..entries {
            let entry = &world.cluster.log()[at];
            self.read = at + 1;
            if &*entry.origin.client == "user" {
                (self.ours, self.others) = (0, 0);
                self.asked_before = self.asked;
            }
            if entry.origin.client.starts_with("controller") {
                self.entry(world, model, entry)?;
            }
        }
        while let Some(change) = model.changes().get(self.changes) {
            self.changes += 1;
            self.change(change, most_changes(world))?;
        }
        Ok(())
    }

    fn entry(&mut self, world: &World, model: &Patroni, entry: &Entry) -> Result<(), Broken> {
        let Some(previous) = &entry.previous else {
            return Ok(());
        };
        if entry.resource == world.ensembles && entry.change == Change::Modified {
            lead_is_honest(model, previous, &entry.object)?;
            return arrival_is_true(model, previous, entry);
        }
        let Some(act) = Act::of(entry) else {
            return Ok(());
        };
        self.in_place += u32::from(act.how == How::Change);
        let Some(object) = ensemble(world) else {
            return Ok(());
        };
        let target = Target::new(world, previous, &object, entry.at.0);
        let start = model.start_of(&target.uid);
        let ending = self.told_to_end(model);
        self.disrupted
            .insert(target.uid.clone(), (entry.at.0, start));
        disruption(world, model, &target, &ending)
    }

    /// Members that we disrupted and whose engine has not been started anew since.
    fn told_to_end(&self, model: &Patroni) -> Vec<String> {
        let ending = |name: &&str| {
            let run = model.run_of(name);
            run.is_some_and(|(uid, start)| self.disrupted.get(uid).is_some_and(|d| d.1 == start))
        };
        let names = model.names().filter(ending);
        names.map(str::to_owned).collect()
    }

    fn change(&mut self, change: &patroni::Change, most: u32) -> Result<(), Broken> {
        if change.from.is_none() || change.from.as_ref() == Some(&change.to) {
            return Ok(());
        }
        let led = change.from_run.as_ref();
        let act = led.and_then(|(uid, _)| self.disrupted.get(uid));
        // What we did to it as a replica, before it was started anew and led, is over.
        let hurt = act
            .zip(led)
            .is_some_and(|((at, start), (_, led))| at + BLAME_MS >= change.at && start >= led);
        if change.asked_by_us && change.to == self.asked_to {
            self.asked = false;
            self.ours += u32::from(!std::mem::take(&mut self.asked_before));
        } else {
            // An engine that hands over to another than was asked for has to be asked once more.
            self.others += 1;
        }
        if change.lost > 0 && (hurt || change.asked_by_us) {
            let seen = format!("{} acknowledged writes, {change:?}", change.lost);
            return broken("no-write-lost", seen);
        }
        // Whenever others move it, it may have to be moved once more.
        if self.ours > most * (1 + self.others) {
            let seen = format!("{} changes of leader for one act of a user", self.ours);
            return broken("one-change-of-leader", seen);
        }
        Ok(())
    }

    /// A controller asks an engine for something.
    pub fn asked(&mut self, world: &World, call: &EngineCall) -> Result<(), Broken> {
        if let Ask::Do(EngineAct::SwitchOver { leader, candidate }) = call.ask() {
            self.switch_is_stored(world, leader, candidate)?;
        }
        let Some(model) = patroni::of(world) else {
            return Ok(());
        };
        let now = world.cluster.now().0;
        match call.ask() {
            Ask::Do(EngineAct::SwitchOver { leader, candidate }) => {
                successor(model, candidate, now)?;
                if let Some(object) = ensemble(world) {
                    nobody_else_away(world, [leader, candidate], &object, now)?;
                }
                (self.asked, self.asked_before) = (true, false);
                self.asked_to.clone_from(candidate);
                Ok(())
            }
            Ask::Do(EngineAct::Restart) => {
                let pod = world.cluster.get(Resource::Pods, NAMESPACE, call.member());
                let (Some(object), Some(pod)) = (ensemble(world), pod) else {
                    return Ok(());
                };
                let mut target = Target::new(world, &pod, &object, now);
                // The engine itself keeps the lead while it restarts.
                target.leader_may = true;
                if let Some(wrong) = model.wrong_after_restart(call.member()) {
                    return broken(Rule::ParametersInOrder.as_str(), wrong);
                }
                let ending = self.told_to_end(model);
                let start = model.start_of(&target.uid);
                self.disrupted.insert(target.uid.clone(), (now, start));
                disruption(world, model, &target, &ending)
            }
            Ask::Observe | Ask::Do(EngineAct::Nudge | EngineAct::Configure(_)) => Ok(()),
        }
    }

    /// An engine is asked for what is stored as asked, and once: whoever comes after us then knows
    /// that it may come about.
    fn switch_is_stored(&mut self, world: &World, from: &str, to: &str) -> Result<(), Broken> {
        let object = ensemble(world);
        let stored = object.as_ref().map(|e| &e["status"]["switchover"]);
        let fits = |s: &&Value| s["phase"] == "Asked" && s["from"] == from && s["to"] == to;
        let Some(stored) = stored.filter(fits) else {
            let seen = format!("{from} -> {to} is asked for, and stored is {stored:?}");
            return broken("switch-is-stored-first", seen);
        };
        let id = stored["id"].as_str().unwrap_or_default();
        if self.switches.insert(id.to_owned()) {
            return Ok(());
        }
        broken("switch-is-asked-once", format!("{from} -> {to}, {id}"))
    }

    /// Once all is quiet: one leads, and the primary Service leads to it alone. Where no label tells who
    /// leads, a Service could only lead astray.
    pub fn quiet(&self, world: &World) -> Result<(), Broken> {
        let Some(model) = model::of(world) else {
            return Ok(());
        };
        let service = world
            .cluster
            .get(Resource::Services, NAMESPACE, "orders-primary");
        let service = match (service, model.labels_pods()) {
            (Some(service), true) => service,
            (None, false) if model.leader().is_some() => return Ok(()),
            (None, false) => return broken("one-leads", model.describe()),
            (found, _) => {
                let seen = format!("there is one: {}", found.is_some());
                return broken("primary-service", seen);
            }
        };
        let size = ensemble(world).map(|e| e["spec"]["replicas"].as_u64());
        let nobody = size.flatten() == Some(0);
        let selector = service["spec"]["selector"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let selected = |pod: &&Object| {
            let labels = &pod["metadata"]["labels"];
            selector.iter().all(|(k, v)| &labels[k] == v)
        };
        let pods = world.cluster.objects(Resource::Pods, NAMESPACE);
        let found: Vec<&str> = pods
            .iter()
            .filter(selected)
            .filter_map(|p| p["metadata"]["name"].as_str())
            .collect();
        let leader: Vec<&str> = model.leader().into_iter().collect();
        if found == leader && (nobody || !leader.is_empty()) {
            return Ok(());
        }
        broken(
            "primary-service",
            format!("it leads to {found:?}; {}", model.describe()),
        )
    }
}

/// Somebody that we disrupt.
struct Target {
    name: String,
    uid: String,
    asked: BTreeSet<u32>,
    budget: usize,
    at: u64,
    leader_may: bool,
}

impl Target {
    fn new(world: &World, pod: &Value, ensemble: &Value, at: u64) -> Self {
        let spec = &ensemble["spec"];
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        Self {
            name: text(&pod["metadata"]["name"]),
            uid: text(&pod["metadata"]["uid"]),
            asked: asked(world, ensemble),
            budget: budget(spec),
            at,
            leader_may: spec["rollout"]["primary"] == "Restart",
        }
    }

    fn others(&self) -> impl Iterator<Item = String> {
        let own = ordinal(&self.name);
        let asked = self.asked.iter().copied();
        asked
            .filter(move |o| Some(*o) != own)
            .map(|o| format!("orders-{o}"))
    }
}

fn budget(spec: &Value) -> usize {
    let most = spec["rollout"]["maxUnavailable"].as_u64().unwrap_or(1);
    usize::try_from(most).unwrap_or(0)
}

/// The one that hands over is away for a while: at most as many others as the budget leaves may be
/// on their way just then.
fn nobody_else_away(
    world: &World,
    both: [&String; 2],
    ensemble: &Value,
    now: u64,
) -> Result<(), Broken> {
    let Some(model) = patroni::of(world) else {
        return Ok(());
    };
    let asked = asked(world, ensemble);
    let away: Vec<&str> = model
        .coming_up()
        .filter(|(name, _)| !both.iter().any(|b| b == name))
        // Whoever is to go is not waited for.
        .filter(|(name, _)| ordinal(name).is_some_and(|o| asked.contains(&o)))
        .filter(|(_, since)| since + LOOK_MS < now && now + LOOK_MS < since + COMING_UP_MS)
        .map(|(name, _)| name)
        .collect();
    if away.len() < budget(&ensemble["spec"]) {
        return Ok(());
    }
    let seen = format!(
        "the lead is to go to {} while {away:?} did not stream; {}",
        both[1],
        model.describe()
    );
    broken(Rule::SwitchWithinBudget.as_str(), seen)
}

fn disruption(
    world: &World,
    model: &Patroni,
    target: &Target,
    ending: &[String],
) -> Result<(), Broken> {
    leader_is_left_alone(model, target, ending)?;
    let running = world.cluster.running_processes();
    let runs = running.iter().any(|p| *p.pod_uid == *target.uid);
    if runs && model.hands_over_for_us() {
        let seen = format!(
            "{} was disrupted while the lead was on its way by our wish; {}",
            target.name,
            model.describe()
        );
        return broken(Rule::NoChangeInASwitch.as_str(), seen);
    }
    // One that does not serve is nobody's loss; whether it is at work on its data is asked elsewhere.
    if !runs || !model.is_up(&target.uid) {
        return Ok(());
    }
    let leaderless = target.at.saturating_sub(model.last_led());
    // Where nobody is to stay, nobody is to lead.
    if leaderless > LOOK_MS && target.replicas > 0 {
        let seen = format!(
            "{} was disrupted and nobody has led for {leaderless} ms; {}",
            target.name,
            model.describe()
        );
        return broken("no-disruption-without-a-leader", seen);
    }
    let out: Vec<String> = target
        .others()
        .filter(|name| !model.in_sync(name) && model.synced_at(name) + LOOK_MS < target.at)
        .collect();
    let counts = usize::from(ordinal(&target.name).is_some_and(|o| target.asked.contains(&o)));
    if out.len() + counts > target.budget {
        let seen = format!(
            "{} was disrupted while {out:?} did not stream; {}",
            target.name,
            model.describe()
        );
        return broken(Rule::ReadyIsNotInSync.as_str(), seen);
    }
    Ok(())
}

/// The leader's pod is disrupted only if it is the only one, or somebody in sync takes over who is
/// not ending by our hand, and the user wants it so. Whoever holds the lock will lead again, also if its
/// process has just ended.
fn leader_is_left_alone(model: &Patroni, target: &Target, ending: &[String]) -> Result<(), Broken> {
    let holds = model.holder() == Some(&target.name) || model.leads(&target.uid);
    if !holds || model.runs_alone(&target.name) {
        return Ok(());
    }
    let heir = |name: &String| !ending.contains(name) && successor(model, name, target.at).is_ok();
    if target.leader_may && target.others().any(|n| heir(&n)) {
        return Ok(());
    }
    let seen = format!(
        "{} leads and was disrupted; {}",
        target.name,
        model.describe()
    );
    broken("leader-is-left-alone", seen)
}

/// Only somebody who streams from the leader may take over; in synchronous mode only the one that
/// commits wait for.
fn successor(model: &Patroni, name: &str, now: u64) -> Result<(), Broken> {
    let streams = model.in_sync(name) || model.synced_at(name) + LOOK_MS >= now;
    let named = model.sync_standby() == Some(name) || model.named_at(name) + LOOK_MS >= now;
    if !streams {
        let seen = format!(
            "{name} is to lead and does not stream; {}",
            model.describe()
        );
        return broken("successor-in-sync", seen);
    }
    if model.is_synchronous() && !named {
        let seen = format!(
            "{name} is to lead and is not the synchronous standby; {}",
            model.describe()
        );
        return broken("successor-in-sync", seen);
    }
    Ok(())
}

/// A switchover is said to have arrived once the one that it went to was promoted.
fn arrival_is_true(model: &Patroni, before: &Value, entry: &Entry) -> Result<(), Broken> {
    let switch = &entry.object["status"]["switchover"];
    let news = *switch != before["status"]["switchover"];
    // One that lies is believed while nobody else can be heard.
    if !news || switch["phase"] != "Arrived" || model.lies() {
        return Ok(());
    }
    let term = switch["term"].as_u64().unwrap_or(0);
    let mut changes = model.changes().iter();
    if changes.any(|c| switch["to"] == c.to.as_str() && c.term > term && c.promoted <= entry.at.0) {
        return Ok(());
    }
    let seen = format!("{switch}, and the truth is {}", model.describe());
    broken("arrival-is-true", seen)
}

/// Status names nobody who has not led just now.
fn lead_is_honest(model: &Patroni, before: &Value, after: &Value) -> Result<(), Broken> {
    let lead = &after["status"]["lead"];
    let Some(name) = lead["member"]
        .as_str()
        .filter(|_| *lead != before["status"]["lead"])
    else {
        return Ok(());
    };
    let led = model.led_at(name).unwrap_or(0);
    // One that lies is believed while nobody else can be heard: a switchover's moment.
    if led + LED_MS >= model.now() || model.lies() {
        return Ok(());
    }
    broken(
        "status-lead-is-honest",
        format!("{name} is said to lead; {}", model.describe()),
    )
}
