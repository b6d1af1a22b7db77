//! How long a whole scenario takes: three pods with claims are created, rolled
//! in place, recreated and deleted, with every actor at work.

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use simkube::{Cluster, NodeSpec, Request, Resource, WatchId, WatchOptions};

const NS: &str = "default";

fn template() -> (Cluster, WatchId) {
    let mut cluster = Cluster::new(1);
    for (node, zone) in [("n1", "a"), ("n2", "b"), ("n3", "c")] {
        cluster
            .add_node(NodeSpec::new(node).zone(zone))
            .expect("a node");
    }
    let class = json!({
        "metadata": {"name": "movable"}, "provisioner": "disk.example",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    cluster
        .create(Resource::StorageClasses, "", class)
        .expect("a class");
    let budget = json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    });
    cluster
        .create(Resource::PodDisruptionBudgets, NS, budget)
        .expect("a budget");
    let service = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    cluster
        .create(Resource::Services, NS, service)
        .expect("a service");
    cluster.advance_ms(100);
    let watch = cluster
        .watch(Resource::Pods, &WatchOptions::default())
        .expect("a watch");
    (cluster, watch)
}

fn claim(i: usize) -> Value {
    json!({
        "metadata": {"name": format!("data-web-{i}")},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "movable",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

fn pod(i: usize) -> Value {
    json!({
        "metadata": {"name": format!("web-{i}"), "labels": {"app": "web"}},
        "spec": {
            "containers": [{
                "name": "main", "image": "web:1",
                "readinessProbe": {"httpGet": {"port": 80}},
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-web-{i}")}}],
        },
    })
}

fn ready(cluster: &Cluster, i: usize, image: &str) -> bool {
    cluster
        .get(Resource::Pods, NS, &format!("web-{i}"))
        .is_some_and(|p| {
            let status = &p["status"]["containerStatuses"][0];
            status["ready"] == true
                && status["image"] == image
                && p["metadata"].get("deletionTimestamp").is_none()
        })
}

/// Runs the scenario; returns how many writes it took.
fn scenario(template: &(Cluster, WatchId)) -> usize {
    let (mut cluster, watch) = template.clone();
    let before = cluster.log().len();
    for i in 0..3 {
        cluster
            .create(Resource::PersistentVolumeClaims, NS, claim(i))
            .expect("a claim");
        cluster.create(Resource::Pods, NS, pod(i)).expect("a pod");
    }
    assert!(cluster.advance_until(60_000, |c| (0..3).all(|i| ready(c, i, "web:1"))));
    for i in 0..3 {
        let name = format!("web-{i}");
        let listed = cluster.call(&Request::list(Resource::Pods, NS).labels("app=web"));
        listed.expect("a list");
        let live = cluster.get(Resource::Pods, NS, &name).expect("the pod");
        let mut new = (*live).clone();
        new["spec"]["containers"][0]["image"] = json!("web:2");
        cluster
            .call(&Request::update(Resource::Pods, NS, &name, new))
            .expect("an update");
        assert!(cluster.advance_until(60_000, |c| ready(c, i, "web:2")));
        cluster.poll(watch);
    }
    cluster.advance_ms(100);
    for i in 0..3 {
        let name = format!("web-{i}");
        cluster
            .call(&Request::evict(NS, &name))
            .expect("an eviction");
        assert!(cluster.advance_until(60_000, |c| c.get(Resource::Pods, NS, &name).is_none()));
        cluster.create(Resource::Pods, NS, pod(i)).expect("a pod");
        assert!(cluster.advance_until(60_000, |c| ready(c, i, "web:1")));
        cluster.poll(watch);
        cluster.advance_ms(100);
    }
    for i in 0..3 {
        cluster
            .call(&Request::delete(Resource::Pods, NS, &format!("web-{i}")))
            .expect("a delete");
    }
    assert!(cluster.advance_until(60_000, |c| c.objects(Resource::Pods, NS).is_empty()));
    cluster.log().len() - before
}

fn bench(criterion: &mut Criterion) {
    let template = template();
    println!("one scenario: {} writes", scenario(&template));
    criterion.bench_function("three pods created, rolled, recreated, deleted", |b| {
        b.iter(|| scenario(&template));
    });
    criterion.bench_function("clone of a prepared cluster", |b| {
        b.iter(|| template.clone())
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
