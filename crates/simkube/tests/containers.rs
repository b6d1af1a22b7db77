//! Readiness, resizing, init containers, and processes with a mind of their own.
#![allow(clippy::unwrap_used)]

mod common;

use std::any::Any;
use std::sync::{Arc, Mutex};

use common::*;
use serde_json::{Value, json};
use simkube::config::Behaviour;
use simkube::{
    Cluster, NodeSpec, Object, Process, ProcessEvent, Readiness, Request, Resource, SimTime,
    Subresource, Workload, WorkloadApi,
};

fn probed(name: &str) -> Value {
    let mut body = pod(name);
    body["spec"]["containers"][0]["readinessProbe"] = json!({"httpGet": {"port": 80}});
    body
}

#[test]
fn a_container_with_a_probe_is_ready_when_the_probe_passes() {
    let mut cluster = cluster();
    cluster
        .config_mut()
        .images
        .set("web:1", Behaviour::ready_after(7000));
    cluster.create(Resource::Pods, NS, probed("web-0")).unwrap();
    cluster.advance_ms(5000);
    let pod = get_pod(&cluster, "web-0");
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(condition(&pod, "Ready").as_deref(), Some("False"));
    assert!(cluster.advance_until(5000, |c| is_ready(c, "web-0")));
}

#[test]
fn a_readiness_gate_holds_a_pod_back_until_somebody_opens_it() {
    let mut cluster = cluster();
    let mut body = pod("web-0");
    body["spec"]["readinessGates"] = json!([{"conditionType": "example.com/open"}]);
    cluster.create(Resource::Pods, NS, body).unwrap();
    cluster.advance_ms(5000);
    let pod = get_pod(&cluster, "web-0");
    assert_eq!(condition(&pod, "ContainersReady").as_deref(), Some("True"));
    assert_eq!(condition(&pod, "Ready").as_deref(), Some("False"));
    let mut conditions = pod["status"]["conditions"].clone();
    conditions
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "example.com/open", "status": "True"}));
    let open = json!({"status": {"conditions": conditions}});
    cluster
        .call(&Request::patch(Resource::Pods, NS, "web-0", open).status())
        .unwrap();
    assert!(cluster.advance_until(5000, |c| is_ready(c, "web-0")));
}

#[test]
fn init_containers_run_one_after_the_other_before_the_rest() {
    let mut cluster = cluster();
    let mut body = pod("web-0");
    body["spec"]["initContainers"] =
        json!([{"name": "one", "image": "init:1"}, {"name": "two", "image": "init:1"}]);
    cluster.create(Resource::Pods, NS, body).unwrap();
    cluster.advance_ms(1500);
    let pod = get_pod(&cluster, "web-0");
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(condition(&pod, "Initialized").as_deref(), Some("False"));
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    assert!(cluster.advance_until(10_000, |c| is_ready(c, "web-0")));
    let inits = get_pod(&cluster, "web-0")["status"]["initContainerStatuses"].clone();
    assert_eq!(inits[1]["state"]["terminated"]["exitCode"], 0);
}

fn resize(cluster: &mut Cluster, cpu: &str) -> Result<Object, simkube::Status> {
    let mut container = get_pod(cluster, "web-0")["spec"]["containers"][0].clone();
    container["resources"]["requests"]["cpu"] = json!(cpu);
    let patch = json!({"spec": {"containers": [container]}});
    let request = Request::patch(Resource::Pods, NS, "web-0", patch).part(Subresource::Resize);
    Ok(cluster.call(&request)?.into_object().unwrap())
}

fn sized() -> Value {
    let mut body = pod("web-0");
    body["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    body
}

#[test]
fn a_resize_is_applied_without_a_restart() {
    let mut cluster = cluster();
    ready_pod(&mut cluster, sized());
    resize(&mut cluster, "2").unwrap();
    let under_way = |c: &Cluster| {
        condition(&get_pod(c, "web-0"), "PodResizeInProgress").as_deref() == Some("True")
    };
    assert!(cluster.advance_until(5000, under_way));
    cluster.advance_ms(5000);
    let pod = get_pod(&cluster, "web-0");
    assert_eq!(condition(&pod, "PodResizeInProgress"), None);
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["allocatedResources"]["cpu"], "2");
    assert_eq!(status["restartCount"], 0);
    assert_eq!(pod["status"]["observedGeneration"], 2);
}

#[test]
fn a_resize_that_does_not_fit_now_is_deferred_and_one_that_never_will_is_refused() {
    let mut cluster = Cluster::new(1);
    cluster
        .add_node(NodeSpec::new("n1").capacity("4", "8Gi", 10))
        .unwrap();
    ready_pod(&mut cluster, sized());
    let mut other = pod("other");
    other["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}});
    ready_pod(&mut cluster, other);
    resize(&mut cluster, "3").unwrap();
    cluster.advance_ms(5000);
    let pod = get_pod(&cluster, "web-0");
    assert_eq!(condition(&pod, "PodResizePending").as_deref(), Some("True"));
    assert_eq!(
        pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"],
        "1"
    );
    cluster
        .call(&Request::delete(Resource::Pods, NS, "other"))
        .unwrap();
    cluster.advance_ms(200_000);
    let pod = get_pod(&cluster, "web-0");
    assert_eq!(condition(&pod, "PodResizePending"), None);
    assert_eq!(
        pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"],
        "3"
    );
    assert_eq!(resize(&mut cluster, "5").unwrap_err().code, 403);
}

/// A model that leads with the oldest process, labels its pod, and is ready only then.
#[derive(Clone, Default)]
struct Oldest {
    running: Vec<Process>,
    told: Arc<Mutex<Vec<String>>>,
    wake_at: Option<SimTime>,
}

impl Workload for Oldest {
    fn event(&mut self, now: SimTime, process: &Process, _: &Object, event: &ProcessEvent) {
        let word = match event {
            ProcessEvent::Started { .. } => "started",
            ProcessEvent::Stopping { .. } => "stopping",
            ProcessEvent::Stopped { .. } => "stopped",
        };
        self.told
            .lock()
            .unwrap()
            .push(format!("{} {word}", process.pod));
        match event {
            ProcessEvent::Started { .. } => self.running.push(process.clone()),
            ProcessEvent::Stopped { .. } => self.running.retain(|p| p.id != process.id),
            ProcessEvent::Stopping { .. } => {}
        }
        self.wake_at = Some(now.plus_ms(500));
    }

    fn readiness(&self, _: SimTime, process: &Process) -> Readiness {
        let leads = self.running.first().is_some_and(|p| p.id == process.id);
        if leads {
            Readiness::Ready
        } else {
            Readiness::NotReady
        }
    }

    fn next_wake(&self) -> Option<SimTime> {
        self.wake_at
    }

    fn wake(&mut self, api: &mut WorkloadApi<'_>) {
        self.wake_at = None;
        if let Some(first) = self.running.first() {
            let label = json!({"metadata": {"labels": {"role": "primary"}}});
            let request = Request::patch(Resource::Pods, &first.namespace, &first.pod, label);
            let _unreachable = api.call(&first.node, &request.client("model"));
        }
    }

    fn clone_box(&self) -> Box<dyn Workload> {
        Box::new(self.clone())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn a_process_model_hears_of_containers_labels_pods_and_answers_probes() {
    let mut cluster = cluster();
    let model = Oldest::default();
    let told = model.told.clone();
    cluster.attach_workload(Box::new(model));
    for i in 0..2 {
        cluster
            .create(Resource::Pods, NS, probed(&format!("web-{i}")))
            .unwrap();
        cluster.advance_ms(5000);
    }
    assert_eq!(
        get_pod(&cluster, "web-0")["metadata"]["labels"]["role"],
        "primary"
    );
    assert!(is_ready(&cluster, "web-0"));
    assert!(!is_ready(&cluster, "web-1"));
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0"))
        .unwrap();
    cluster.advance_ms(15_000);
    assert!(is_ready(&cluster, "web-1"));
    assert_eq!(
        get_pod(&cluster, "web-1")["metadata"]["labels"]["role"],
        "primary"
    );
    let said = told.lock().unwrap().clone();
    assert_eq!(
        said,
        [
            "web-0 started",
            "web-1 started",
            "web-0 stopping",
            "web-0 stopped"
        ]
    );
}

#[test]
fn the_same_seed_and_calls_give_the_same_history() {
    let run = || {
        let mut cluster = cluster();
        for i in 0..3 {
            ready_pod(&mut cluster, probed(&format!("web-{i}")));
        }
        cluster.kill_node("n1");
        cluster.advance_ms(400_000);
        cluster.heal_node("n1");
        cluster.advance_ms(10_000);
        cluster.log().to_vec()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_clone_goes_its_own_way() {
    fn can_be_sent<T: Send>(_: &T) {}
    let mut one = cluster();
    can_be_sent(&one);
    ready_pod(&mut one, pod("web-0"));
    let two = one.clone();
    one.call(&Request::delete(Resource::Pods, NS, "web-0"))
        .unwrap();
    one.advance_ms(10_000);
    assert!(one.get(Resource::Pods, NS, "web-0").is_none());
    assert!(is_ready(&two, "web-0"));
}
