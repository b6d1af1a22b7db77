//! What goes wrong with a call, and around the controller.

use super::{NODE_AWAY_MS, Rehearsal, Violation};
use crate::fault::What;
use crate::invariants::LATE;
use crate::model;
use crate::process::{Process, now};
use crate::world::{self, NAMESPACE};
use crate::{role_faults, translate};
use ensemble_conductor::{ApiCall, ApiError, CallId, Kind, Outcome, WATCHED};
use serde_json::json;
use simkube::{Request, Resource};

/// When a process that ends and comes back ends: its kubelet starts it again after one and after ten
/// seconds.
const CRASHES_MS: [u64; 3] = [1, 5_000, 20_000];
/// For so long a kubelet holds back a container that ended as often, and once more by itself.
const BACK_OFF_MS: u64 = 40_000;
/// After that long, one whose Lease another has taken has noticed.
const LEASE_MS: i64 = 30_000;
/// By how much a clock is set.
const HOUR_MS: i64 = 3_600_000;

impl Rehearsal {
    /// Sends a call on a bad day.
    pub(super) fn faulty(
        &mut self,
        process: usize,
        id: CallId,
        call: &ApiCall,
        number: u32,
        what: What,
    ) -> Result<(), Violation> {
        let refuse = |code: u16, reason: &str| {
            Outcome::Refused(ApiError {
                code,
                reason: reason.into(),
                message: "injected".into(),
            })
        };
        match what {
            What::CrashBefore => self.restart(process),
            What::ClockBack => self.restart_behind(process),
            What::CrashAfter => {
                self.execute(process, call, number)?;
                self.restart(process);
            }
            What::AnswerLost => {
                self.execute(process, call, number)?;
                self.scene
                    .answer(process, id, Outcome::Unknown("answer lost".into()));
            }
            What::NeverSent => {
                self.scene
                    .answer(process, id, Outcome::Unknown("not sent".into()));
            }
            What::Conflict => self.scene.answer(process, id, refuse(409, "Conflict")),
            What::ServerError => self.scene.answer(process, id, refuse(500, "")),
            What::TooMany => self
                .scene
                .answer(process, id, refuse(429, "TooManyRequests")),
            What::LateWrite => {
                let name = format!("{}{LATE}", self.scene.controllers[process].name);
                let request = translate::request(&self.scene.world, call, &name);
                let due = self.scene.now() + 30_000;
                self.late.push((due, request));
                self.restart(process);
            }
            What::PodTouched => {
                self.touch(if call.kind() == Kind::Pod {
                    call.name()
                } else {
                    "orders-1"
                });
                self.arrives(process, id, call, number)?;
            }
            other => {
                self.surroundings(other);
                let still_there = process < self.scene.controllers.len();
                if still_there {
                    self.arrives(process, id, call, number)?;
                }
            }
        }
        Ok(())
    }

    /// What goes wrong around the controller.
    pub(super) fn surroundings(&mut self, what: What) {
        let at = now(&self.scene.world);
        let back = self.scene.now() + NODE_AWAY_MS;
        match what {
            What::Stale => self.scene.controllers[0].blind_until = Some(at.plus_ms(20_000)),
            What::PodsStale => {
                self.scene.controllers[0].blind_to_pods_until = Some(at.plus_ms(20_000))
            }
            What::ClaimsStale => {
                self.scene.controllers[0].blind_to_claims_until = Some(at.plus_ms(20_000))
            }
            What::ContainerCrashes => self.crash_thrice(),
            What::Expired => {
                for kind in WATCHED {
                    self.scene.controllers[0].list(&mut self.scene.world, kind);
                }
                self.scene.controllers[0].list(&mut self.scene.world, Kind::Node);
            }
            What::SecondLeader => {
                for controller in &mut self.scene.controllers {
                    let until = at.plus_ms(LEASE_MS);
                    controller.leads_until.get_or_insert(until);
                }
                self.start_another();
            }
            What::NodeDies => {
                self.scene.world.cluster.kill_node("node-b");
                self.heal.push((back, "node-b"));
            }
            What::NodeParted => {
                self.scene.world.cluster.partition_node("node-c");
                self.heal.push((back, "node-c"));
            }
            What::StatusWiped => {
                let body = json!({"status": null});
                let request = Request::patch(self.scene.world.ensembles, NAMESPACE, "orders", body);
                let _ = self
                    .scene
                    .world
                    .cluster
                    .call(&request.status().client("fault"));
            }
            What::PodDeleted => {
                let request = Request::delete(Resource::Pods, NAMESPACE, "orders-1");
                let _ = self.scene.world.cluster.call(&request.client("user"));
            }
            What::LabelStripped => {
                let body = json!({"metadata": {"labels": {"ensemble.dev/ensemble": null}}});
                let request = Request::patch(Resource::Pods, NAMESPACE, "orders-0", body);
                let _ = self.scene.world.cluster.call(&request.client("user"));
            }
            What::LabelEdited => {
                let body = json!({"metadata": {"labels": {"ensemble.dev/ensemble": "other"}}});
                let request = Request::patch(Resource::Pods, NAMESPACE, "orders-0", body);
                let _ = self.scene.world.cluster.call(&request.client("user"));
            }
            What::OldDefinition => world::age_definition(&mut self.scene.world),
            What::PodTouched => self.touch("orders-1"),
            What::ClockBack => self.restart_behind(0),
            What::ClockAhead => self.scene.controllers[0].clock_off_by_ms += HOUR_MS,
            other => role_faults::apply(&mut self.scene.world, other),
        }
    }

    /// A member's process ends, again soon after its kubelet has started it, and once more after that.
    fn crash_thrice(&mut self) {
        let leader = model::of(&self.scene.world).and_then(|m| m.leader().map(str::to_owned));
        let pod = leader.unwrap_or_else(|| "orders-1".to_owned());
        let now = self.scene.now();
        for after in CRASHES_MS {
            self.crashes.push((now + after, pod.clone()));
            self.held_back_until = Some(now + after + BACK_OFF_MS);
        }
    }

    /// Somebody writes into a pod what concerns nobody; it has another version then.
    fn touch(&mut self, pod: &str) {
        let at = self.scene.now().to_string();
        let body = json!({"metadata": {"annotations": {"somebody": at}}});
        let request = Request::patch(Resource::Pods, NAMESPACE, pod, body);
        let _ = self.scene.world.cluster.call(&request.client("user"));
    }

    /// One more controller, with a later epoch.
    fn start_another(&mut self) {
        self.start_off_by(0);
    }

    /// The same, with a clock that is off by so much.
    fn start_off_by(&mut self, ms: i64) {
        self.epoch += 1;
        self.started += 1;
        let name = format!("controller-{}", self.started);
        let another = Process::start_off_by(&mut self.scene.world, &name, self.epoch, ms);
        self.scene.controllers.push(another);
    }

    /// The controller dies, and another starts where the clock was set back.
    fn restart_behind(&mut self, process: usize) {
        let dead = self.scene.controllers.remove(process);
        dead.close(&mut self.scene.world);
        self.start_off_by(dead.clock_off_by_ms - HOUR_MS);
    }

    /// The controller dies, whatever was on its way is lost, and another starts.
    fn restart(&mut self, process: usize) {
        let dead = self.scene.controllers.remove(process);
        dead.close(&mut self.scene.world);
        self.start_another();
    }
}
