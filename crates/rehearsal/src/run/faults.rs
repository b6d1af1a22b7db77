//! What goes wrong with a call, and around the controller.

use super::{NODE_AWAY_MS, Rehearsal, Violation};
use crate::fault::What;
use crate::invariants::LATE;
use crate::process::{Process, now};
use crate::world::NAMESPACE;
use crate::{role_faults, translate};
use ensemble_conductor::{ApiCall, ApiError, CallId, Kind, Outcome, WATCHED};
use serde_json::json;
use simkube::{Request, Resource};

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
        let at = now(&self.world);
        let refuse = |code: u16, reason: &str| {
            Outcome::Refused(ApiError {
                code,
                reason: reason.into(),
                message: "injected".into(),
            })
        };
        match what {
            What::CrashBefore => self.restart(process),
            What::CrashAfter => {
                self.execute(process, call, number)?;
                self.restart(process);
            }
            What::AnswerLost => {
                self.execute(process, call, number)?;
                self.processes[process].answer(at, id, Outcome::Unknown("answer lost".into()));
            }
            What::NeverSent => {
                self.processes[process].answer(at, id, Outcome::Unknown("not sent".into()));
            }
            What::Conflict => self.processes[process].answer(at, id, refuse(409, "Conflict")),
            What::ServerError => self.processes[process].answer(at, id, refuse(500, "")),
            What::TooMany => self.processes[process].answer(at, id, refuse(429, "TooManyRequests")),
            What::LateWrite => {
                let name = format!("{}{LATE}", self.processes[process].name);
                let request = translate::request(&self.world, call, &name);
                let due = self.world.cluster.now().0 + 30_000;
                self.late.push((due, request));
                self.restart(process);
            }
            What::PodTouched => {
                self.touch(if call.kind() == Kind::Pod {
                    call.name()
                } else {
                    "orders-1"
                });
                self.send(process, id, call, number)?;
            }
            other => {
                self.surroundings(other);
                let still_there = process < self.processes.len();
                if still_there {
                    self.send(process, id, call, number)?;
                }
            }
        }
        Ok(())
    }

    /// What goes wrong around the controller.
    pub(super) fn surroundings(&mut self, what: What) {
        let at = now(&self.world);
        let back = self.world.cluster.now().0 + NODE_AWAY_MS;
        match what {
            What::Stale => self.processes[0].blind_until = Some(at.plus_ms(20_000)),
            What::PodsStale => self.processes[0].blind_to_pods_until = Some(at.plus_ms(20_000)),
            What::Expired => {
                for kind in WATCHED {
                    self.processes[0].list(&mut self.world, kind);
                }
                self.processes[0].list(&mut self.world, Kind::Node);
            }
            What::SecondLeader => self.start_another(),
            What::NodeDies => {
                self.world.cluster.kill_node("node-b");
                self.heal.push((back, "node-b"));
            }
            What::NodeParted => {
                self.world.cluster.partition_node("node-c");
                self.heal.push((back, "node-c"));
            }
            What::StatusWiped => {
                let body = json!({"status": null});
                let request = Request::patch(self.world.ensembles, NAMESPACE, "orders", body);
                let _ = self.world.cluster.call(&request.status().client("fault"));
            }
            What::PodDeleted => {
                let request = Request::delete(Resource::Pods, NAMESPACE, "orders-1");
                let _ = self.world.cluster.call(&request.client("user"));
            }
            What::LabelStripped => {
                let body = json!({"metadata": {"labels": {"ensemble.dev/ensemble": null}}});
                let request = Request::patch(Resource::Pods, NAMESPACE, "orders-0", body);
                let _ = self.world.cluster.call(&request.client("user"));
            }
            What::PodTouched => self.touch("orders-1"),
            other => role_faults::apply(&mut self.world, other),
        }
    }

    /// Somebody writes into a pod what concerns nobody; it has another version then.
    fn touch(&mut self, pod: &str) {
        let at = self.world.cluster.now().0.to_string();
        let body = json!({"metadata": {"annotations": {"somebody": at}}});
        let request = Request::patch(Resource::Pods, NAMESPACE, pod, body);
        let _ = self.world.cluster.call(&request.client("user"));
    }

    /// One more controller, with a later epoch.
    fn start_another(&mut self) {
        self.epoch += 1;
        self.started += 1;
        let name = format!("controller-{}", self.started);
        let another = Process::start(&mut self.world, &name, self.epoch);
        self.processes.push(another);
    }

    /// The controller dies, whatever was on its way is lost, and another starts.
    fn restart(&mut self, process: usize) {
        let dead = self.processes.remove(process);
        dead.close(&mut self.world);
        self.start_another();
    }
}
