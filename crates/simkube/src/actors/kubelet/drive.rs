//! Bringing a pod up: volumes, sandbox, init containers, containers.

use std::sync::Arc;

use serde_json::Value;

use super::container::{ContainerSim, Surroundings};
use super::{LocalPod, MIN_GRACE_S, Stage, earliest};
use crate::cluster::Cluster;
use crate::time::SimTime;
use crate::value::{int, items, text, text_or_empty};
use crate::workload::ProcessEvent;

impl Cluster {
    pub(super) fn start(&mut self, node: &Arc<str>, local: &mut LocalPod) -> Option<SimTime> {
        let now = self.now();
        if local.stage == Stage::Volumes {
            if !self.mount(node, local) {
                return None;
            }
            local.stage = Stage::Sandbox(now.plus_ms(self.config.delays.sandbox_ms));
        }
        if let Stage::Sandbox(at) = local.stage {
            if at > now {
                return Some(at);
            }
            local.address = Some(self.server.ids.address());
            local.stage = Stage::Init;
        }
        if local.stage == Stage::Init {
            let wake = self.run_inits(node, local);
            if local.stage == Stage::Init {
                return wake;
            }
        }
        self.run_containers(node, local)
    }

    /// Init containers run one after the other; sidecars among them stay.
    fn run_inits(&mut self, node: &Arc<str>, local: &mut LocalPod) -> Option<SimTime> {
        let pod = local.pod.clone();
        let specs = items(&pod, "spec.initContainers");
        let mut wake = None;
        for (index, spec) in specs.iter().enumerate() {
            let sidecar = text(spec, "restartPolicy") == Some("Always");
            wake = earliest(wake, self.step_container(node, local, true, index, spec));
            let Some(container) = local.inits.get(index) else {
                continue;
            };
            let done = if sidecar {
                container.is_running()
            } else {
                container.exit_code() == Some(0)
            };
            if !done {
                if container.has_ended() {
                    local.finished = Some("Failed");
                    self.unmount(local);
                }
                return wake;
            }
        }
        local.stage = Stage::Main;
        wake
    }

    fn run_containers(&mut self, node: &Arc<str>, local: &mut LocalPod) -> Option<SimTime> {
        let pod = local.pod.clone();
        let specs = items(&pod, "spec.containers");
        let mut wake = self.sync_resize(node, local);
        for (index, spec) in specs.iter().enumerate() {
            wake = earliest(wake, self.step_container(node, local, false, index, spec));
        }
        let sidecars = items(&pod, "spec.initContainers");
        for (index, spec) in sidecars.iter().enumerate() {
            if text(spec, "restartPolicy") == Some("Always") {
                wake = earliest(wake, self.step_container(node, local, true, index, spec));
            }
        }
        if local.containers.iter().all(ContainerSim::has_ended) {
            let ok = local.containers.iter().all(|c| c.exit_code() == Some(0));
            local.finished = Some(if ok { "Succeeded" } else { "Failed" });
            self.unmount(local);
            return None;
        }
        wake
    }

    fn step_container(
        &mut self,
        node: &Arc<str>,
        local: &mut LocalPod,
        init: bool,
        index: usize,
        spec: &Value,
    ) -> Option<SimTime> {
        let sidecar = init && text(spec, "restartPolicy") == Some("Always");
        let policy = match (init, text_or_empty(&local.pod, "spec.restartPolicy")) {
            _ if sidecar => "Always",
            (true, "Always") => "OnFailure",
            (_, policy) => policy,
        };
        let grace_ms = int(&local.pod, "spec.terminationGracePeriodSeconds")
            .unwrap_or(30)
            .max(MIN_GRACE_S);
        let finite = !sidecar && (init || policy != "Always");
        let mut events = Vec::new();
        let list = if init {
            &mut local.inits
        } else {
            &mut local.containers
        };
        let container = list.get_mut(index)?;
        let mut around = Surroundings {
            now: self.server.now,
            spec,
            policy,
            finite,
            grace_ms: grace_ms.unsigned_abs() * 1000,
            images: &self.config.images,
            pulled: &mut self.nodes.get_mut(node)?.images,
            ids: &mut self.server.ids,
            events: &mut events,
        };
        container.step(&mut around);
        let mut wake = container.deadline(around.now);
        let name = container.name.clone();
        self.tell(
            node,
            local,
            events.into_iter().map(|e| (name.clone(), e)).collect(),
        );
        wake = earliest(wake, self.ask_readiness(node, local, init, index, spec));
        wake
    }

    /// The attached model may overrule the image's readiness, where there is a probe.
    fn ask_readiness(
        &mut self,
        node: &Arc<str>,
        local: &mut LocalPod,
        init: bool,
        index: usize,
        spec: &Value,
    ) -> Option<SimTime> {
        let workload = self.workload.as_ref()?;
        let period = int(spec, "readinessProbe.periodSeconds")?;
        let list = if init {
            &local.inits
        } else {
            &local.containers
        };
        let container = list.get(index).filter(|c| c.is_running())?;
        let now = self.server.now;
        let said = workload.readiness(now, &local.process(node, container));
        let list = if init {
            &mut local.inits
        } else {
            &mut local.containers
        };
        list[index].overruled = said;
        Some(now.plus_s(period.max(1).unsigned_abs()))
    }

    pub(super) fn tell(
        &mut self,
        node: &Arc<str>,
        local: &LocalPod,
        events: Vec<(String, ProcessEvent)>,
    ) {
        if self.workload.is_none() {
            return;
        }
        for (container, event) in events {
            if let Some(container) = local.all().find(|c| c.name == container) {
                let process = local.process(node, container);
                self.tell_workload(&process, &local.pod, &event);
            }
        }
    }
}
