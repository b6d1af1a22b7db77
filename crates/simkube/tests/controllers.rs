//! Garbage collection, budgets, services, jobs, namespaces.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use serde_json::{Value, json};
use simkube::{Cluster, Part, Propagation, Request, Resource};

fn owner(cluster: &mut Cluster, name: &str) -> Value {
    let body = json!({"metadata": {"name": name}});
    let object = cluster.create(Resource::ConfigMaps, NS, body).unwrap();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": object["metadata"]["uid"],
    })
}

fn owned(cluster: &mut Cluster, name: &str, owners: Vec<Value>) {
    let body = json!({"metadata": {"name": name, "ownerReferences": owners}});
    cluster.create(Resource::Secrets, NS, body).unwrap();
}

fn exists(cluster: &Cluster, name: &str) -> bool {
    cluster.get(Resource::Secrets, NS, name).is_some()
}

#[test]
fn dependents_follow_their_owner_in_the_background() {
    let mut cluster = cluster();
    let o = owner(&mut cluster, "owner");
    owned(&mut cluster, "dependent", vec![o]);
    cluster.advance_ms(1000);
    assert!(exists(&cluster, "dependent"));
    cluster
        .call(&Request::delete(Resource::ConfigMaps, NS, "owner"))
        .unwrap();
    assert!(exists(&cluster, "dependent"));
    cluster.advance_ms(1000);
    assert!(!exists(&cluster, "dependent"));
}

#[test]
fn an_owner_of_the_same_name_but_another_uid_is_no_owner() {
    let mut cluster = cluster();
    let mut o = owner(&mut cluster, "owner");
    o["uid"] = json!("another");
    owned(&mut cluster, "dependent", vec![o]);
    cluster.advance_ms(1000);
    assert!(!exists(&cluster, "dependent"));
}

#[test]
fn a_second_owner_keeps_a_dependent_alive() {
    let mut cluster = cluster();
    let owners = vec![owner(&mut cluster, "one"), owner(&mut cluster, "two")];
    owned(&mut cluster, "dependent", owners);
    cluster
        .call(&Request::delete(Resource::ConfigMaps, NS, "one"))
        .unwrap();
    cluster.advance_ms(1000);
    let left = cluster.get(Resource::Secrets, NS, "dependent").unwrap();
    let refs = left["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(refs.len(), 1);
    assert_eq!(refs[0]["name"], "two");
}

#[test]
fn foreground_deletion_removes_the_owner_last() {
    let mut cluster = cluster();
    let mut o = owner(&mut cluster, "owner");
    o["blockOwnerDeletion"] = json!(true);
    let body = json!({"metadata": {
        "name": "dependent", "ownerReferences": [o], "finalizers": ["example.com/hold"],
    }});
    cluster.create(Resource::Secrets, NS, body).unwrap();
    let delete = Request::delete(Resource::ConfigMaps, NS, "owner");
    cluster
        .call(&delete.propagation(Propagation::Foreground))
        .unwrap();
    cluster.advance_ms(5000);
    assert!(cluster.get(Resource::ConfigMaps, NS, "owner").is_some());
    assert!(exists(&cluster, "dependent"));
    let release = json!({"metadata": {"finalizers": null}});
    cluster
        .call(&Request::patch(Resource::Secrets, NS, "dependent", release))
        .unwrap();
    cluster.advance_ms(1000);
    assert!(!exists(&cluster, "dependent"));
    assert!(cluster.get(Resource::ConfigMaps, NS, "owner").is_none());
}

#[test]
fn orphaned_dependents_stay_without_their_reference() {
    let mut cluster = cluster();
    let o = owner(&mut cluster, "owner");
    owned(&mut cluster, "dependent", vec![o]);
    let delete = Request::delete(Resource::ConfigMaps, NS, "owner");
    cluster
        .call(&delete.propagation(Propagation::Orphan))
        .unwrap();
    cluster.advance_ms(1000);
    assert!(cluster.get(Resource::ConfigMaps, NS, "owner").is_none());
    let left = cluster.get(Resource::Secrets, NS, "dependent").unwrap();
    assert!(left["metadata"].get("ownerReferences").is_none());
}

#[test]
fn a_paused_collector_catches_up_when_it_resumes() {
    let mut cluster = cluster();
    let o = owner(&mut cluster, "owner");
    owned(&mut cluster, "dependent", vec![o]);
    cluster.pause(Part::Collector);
    cluster
        .call(&Request::delete(Resource::ConfigMaps, NS, "owner"))
        .unwrap();
    cluster.advance_ms(60_000);
    assert!(exists(&cluster, "dependent"));
    cluster.resume(Part::Collector);
    cluster.advance_ms(1000);
    assert!(!exists(&cluster, "dependent"));
}

fn budget(cluster: &mut Cluster, spec: Value) -> impl Fn(&Cluster) -> Value + use<> {
    let body = json!({"metadata": {"name": "web"}, "spec": spec});
    cluster
        .create(Resource::PodDisruptionBudgets, NS, body)
        .unwrap();
    |c: &Cluster| c.get(Resource::PodDisruptionBudgets, NS, "web").unwrap()["status"].clone()
}

#[test]
fn a_budget_with_a_number_allows_what_is_healthy_beyond_it() {
    let mut cluster = cluster();
    for i in 0..3 {
        ready_pod(&mut cluster, pod(&format!("web-{i}")));
    }
    let selector = json!({"matchLabels": {"app": "web"}});
    let status = budget(
        &mut cluster,
        json!({"minAvailable": 2, "selector": selector}),
    );
    cluster.advance_ms(100);
    let s = status(&cluster);
    assert_eq!(s["expectedPods"], 3);
    assert_eq!(s["currentHealthy"], 3);
    assert_eq!(s["desiredHealthy"], 2);
    assert_eq!(s["disruptionsAllowed"], 1);

    cluster.call(&Request::evict(NS, "web-0")).unwrap();
    let refusal = cluster.call(&Request::evict(NS, "web-1")).unwrap_err();
    assert_eq!(refusal.code, 429);
    assert_eq!(
        refusal.details.unwrap().causes[0].reason,
        "DisruptionBudget"
    );
    cluster.advance_ms(5000);
    assert!(cluster.call(&Request::evict(NS, "web-1")).is_err());
    cluster.create(Resource::Pods, NS, pod("web-0")).unwrap();
    assert!(cluster.advance_until(10_000, |c| is_ready(c, "web-0")));
    cluster.advance_ms(100);
    cluster.call(&Request::evict(NS, "web-1")).unwrap();
}

#[test]
fn a_percentage_needs_an_owner_with_a_scale() {
    let mut cluster = cluster();
    let o = owner(&mut cluster, "owner");
    let mut body = pod("web-0");
    let mut o = o;
    o["controller"] = json!(true);
    body["metadata"]["ownerReferences"] = json!([o]);
    ready_pod(&mut cluster, body);
    let selector = json!({"matchLabels": {"app": "web"}});
    let status = budget(
        &mut cluster,
        json!({"maxUnavailable": "50%", "selector": selector}),
    );
    cluster.advance_ms(100);
    let s = status(&cluster);
    assert_eq!(s["disruptionsAllowed"], 0);
    assert_eq!(s["conditions"][0]["reason"], "SyncFailed");
}

#[test]
fn slices_lead_to_ready_pods_and_show_leaving_ones_as_terminating() {
    let mut cluster = cluster();
    let service = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    cluster.create(Resource::Services, NS, service).unwrap();
    cluster.config_mut().images.set(
        "web:1",
        simkube::config::Behaviour {
            stop_after_ms: Some(5000),
            ..Default::default()
        },
    );
    ready_pod(&mut cluster, pod("web-0"));
    cluster.advance_ms(100);
    let slice = || cluster.objects(Resource::EndpointSlices, NS)[0].clone();
    let endpoint = slice()["endpoints"][0].clone();
    assert_eq!(
        endpoint["conditions"],
        json!({"ready": true, "serving": true, "terminating": false})
    );
    assert_eq!(endpoint["targetRef"]["name"], "web-0");
    cluster
        .call(&Request::delete(Resource::Pods, NS, "web-0"))
        .unwrap();
    cluster.advance_ms(100);
    let endpoint = cluster.objects(Resource::EndpointSlices, NS)[0]["endpoints"][0].clone();
    assert_eq!(
        endpoint["conditions"],
        json!({"ready": false, "serving": true, "terminating": true})
    );
    cluster.advance_ms(10_000);
    assert_eq!(
        cluster.objects(Resource::EndpointSlices, NS)[0]["endpoints"],
        json!([])
    );
    cluster
        .call(&Request::delete(Resource::Services, NS, "web"))
        .unwrap();
    cluster.advance_ms(1000);
    assert!(cluster.objects(Resource::EndpointSlices, NS).is_empty());
}

fn job(image: &str) -> Value {
    json!({
        "metadata": {"name": "backup"},
        "spec": {"backoffLimit": 1, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": image}],
        }}},
    })
}

#[test]
fn a_job_runs_a_pod_to_its_end_and_completes() {
    let mut cluster = cluster();
    cluster.create(Resource::Jobs, NS, job("backup:1")).unwrap();
    let done = |c: &Cluster| {
        let job = c.get(Resource::Jobs, NS, "backup").unwrap();
        condition(&job, "Complete").as_deref() == Some("True")
    };
    assert!(cluster.advance_until(30_000, done));
    let job = cluster.get(Resource::Jobs, NS, "backup").unwrap();
    assert_eq!(job["status"]["succeeded"], 1);
    let pods = cluster.objects(Resource::Pods, NS);
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["status"]["phase"], "Succeeded");
    let delete = Request::delete(Resource::Jobs, NS, "backup");
    cluster
        .call(&delete.propagation(Propagation::Background))
        .unwrap();
    cluster.advance_ms(5000);
    assert!(cluster.objects(Resource::Pods, NS).is_empty());
}

#[test]
fn a_failing_job_is_tried_again_and_then_given_up() {
    let mut cluster = cluster();
    cluster
        .config_mut()
        .images
        .set("backup:bad", simkube::config::Behaviour::crashing(3));
    cluster
        .create(Resource::Jobs, NS, job("backup:bad"))
        .unwrap();
    let failed = |c: &Cluster| {
        let job = c.get(Resource::Jobs, NS, "backup").unwrap();
        condition(&job, "Failed").as_deref() == Some("True")
    };
    assert!(cluster.advance_until(120_000, failed));
    let job = cluster.get(Resource::Jobs, NS, "backup").unwrap();
    assert_eq!(job["status"]["failed"], 2);
    assert_eq!(cluster.objects(Resource::Pods, NS).len(), 2);
}

#[test]
fn a_namespace_is_emptied_pods_first_and_refuses_new_content() {
    let mut cluster = cluster();
    cluster.add_namespace("prod");
    cluster
        .create(Resource::Pods, "prod", pod("web-0"))
        .unwrap();
    cluster
        .create(
            Resource::ConfigMaps,
            "prod",
            json!({"metadata": {"name": "c"}}),
        )
        .unwrap();
    cluster.advance_ms(5000);
    cluster
        .call(&Request::delete(Resource::Namespaces, "", "prod"))
        .unwrap();
    let late = cluster.create(
        Resource::ConfigMaps,
        "prod",
        json!({"metadata": {"name": "d"}}),
    );
    let refusal = late.unwrap_err();
    assert_eq!(refusal.code, 403);
    assert_eq!(
        refusal.details.unwrap().causes[0].reason,
        "NamespaceTerminating"
    );
    cluster.advance_ms(60);
    assert!(cluster.get(Resource::ConfigMaps, "prod", "c").is_some());
    cluster.advance_ms(10_000);
    assert!(cluster.get(Resource::Namespaces, "", "prod").is_none());
    assert!(cluster.objects(Resource::ConfigMaps, "prod").is_empty());
}
