use super::*;
use crate::testing::{ApiServer, Trouble};
use ensemble_conductor::WATCHED;
use serde_json::json;
use simkube::{NodeSpec, Resource, WatchId, WatchOptions};

fn key(name: &str) -> EnsembleKey {
    ("shop".to_owned(), name.to_owned())
}

fn ensemble(name: &str) -> Arc<Value> {
    Arc::new(json!({
        "apiVersion": "ensemble.dev/v1alpha1", "kind": "Ensemble",
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"),
            "resourceVersion": "1", "generation": 1,
        },
        "spec": {
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "db", "image": "db:1"}]}},
            "claims": [{"name": "data", "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}],
            "rollout": {"prePull": "Skip"},
        },
    }))
}

fn pod(ensemble: &str, node: &str) -> Arc<Value> {
    Arc::new(json!({
        "metadata": {
            "name": format!("{ensemble}-0"), "namespace": "shop", "uid": format!("uid-{ensemble}-0"),
            "resourceVersion": "1", "labels": {labels::ENSEMBLE: ensemble},
        },
        "spec": {"nodeName": node},
    }))
}

fn node(name: &str, ready: bool) -> Arc<Value> {
    let status = if ready { "True" } else { "False" };
    Arc::new(json!({
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }))
}

fn stage(server: &Arc<ApiServer>) -> (Stage, mpsc::Receiver<Message>) {
    let (tell, told) = mpsc::channel(1024);
    let leading = Leading::for_a_test();
    let stage = Stage::new(
        server.client(),
        Clock::of_test(),
        &Options::default(),
        Arc::new(Metrics::new()),
        Watches::default(),
        leading,
        tell,
    );
    (stage, told)
}

impl Stage {
    fn lists(&mut self, kind: Kind, objects: Vec<Arc<Value>>) {
        let asked = self.clock.now();
        self.take(Message::Watch(kind, News::Listed(objects, asked)));
    }

    /// Everything was listed once, and we lead.
    fn knows(&mut self, ensembles: &[&str], pods: Vec<Arc<Value>>, nodes: Vec<Arc<Value>>) {
        let ensembles = ensembles.iter().map(|name| ensemble(name)).collect();
        for kind in WATCHED {
            match kind {
                Kind::Ensemble => self.lists(kind, Vec::clone(&ensembles)),
                Kind::Pod => self.lists(kind, pods.clone()),
                _ => self.lists(kind, Vec::new()),
            }
        }
        self.lists(Kind::Node, nodes);
        self.take(Message::Lead(Some(1)));
        self.tell_nodes();
        self.act();
    }

    fn touched(&self) -> Vec<&str> {
        self.touched.iter().map(|key| key.1.as_str()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_plans_before_everything_was_listed() {
    let (mut stage, _told) = stage(&ApiServer::new());
    stage.take(Message::Lead(Some(1)));
    stage.lists(Kind::Ensemble, vec![ensemble("orders")]);
    for kind in WATCHED.into_iter().filter(|kind| *kind != Kind::Ensemble) {
        stage.act();
        assert_eq!(
            (stage.ready(), stage.calls.waiting()),
            (false, 0),
            "{kind:?}"
        );
        stage.lists(kind, Vec::new());
    }
    stage.act();
    assert!(
        !stage.ready() && stage.calls.waiting() == 0,
        "nodes are missing"
    );
    stage.take(Message::NoNodes);
    stage.act();
    assert!(stage.ready() && stage.calls.waiting() > 0);
    assert_eq!(stage.metrics.ready.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_nodes_change_makes_those_think_again_that_have_a_pod_there() {
    let (mut stage, _told) = stage(&ApiServer::new());
    let pods = vec![pod("here", "a"), pod("there", "b"), pod("nowhere", "")];
    let nodes = vec![node("a", true), node("b", true), node("c", true)];
    stage.knows(&["here", "there", "nowhere"], pods, nodes);
    assert!(stage.touched().is_empty());
    let say = |stage: &mut Stage, news| {
        stage.take(Message::Watch(Kind::Node, news));
        stage.tell_nodes();
    };
    // A pod that has no node waits for one, whichever it is.
    say(&mut stage, News::Applied(node("c", false)));
    assert_eq!(stage.touched(), ["nowhere"]);
    stage.act();
    say(&mut stage, News::Applied(node("b", false)));
    assert_eq!(stage.touched(), ["nowhere", "there"]);
    stage.act();
    say(&mut stage, News::Deleted(node("a", true)));
    assert_eq!(stage.touched(), ["here", "nowhere"]);
    stage.act();
    say(&mut stage, News::Applied(node("b", false)));
    assert!(stage.touched().is_empty(), "that was known");
    // Everybody has the newest view all the same.
    for conductor in stage.conductors.values() {
        let nodes = conductor.snapshot().nodes.as_ref().unwrap();
        assert!(!nodes.contains_key("a") && !nodes["b"].ready && !nodes["c"].ready);
    }
    // That nodes can no longer be read concerns everybody.
    stage.take(Message::NoNodes);
    stage.tell_nodes();
    assert_eq!(stage.touched(), ["here", "nowhere", "there"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_woken_is_whose_time_has_come() {
    let (mut stage, _told) = stage(&ApiServer::new());
    let now = stage.clock.now();
    stage.alarms.set(&key("orders"), now.plus_ms(700));
    stage.alarms.set(&key("stock"), now.plus_ms(5_000));
    assert_eq!(stage.pause(), Duration::from_millis(700));
    tokio::time::advance(Duration::from_millis(700)).await;
    stage.wake_up();
    assert_eq!(stage.touched(), ["orders"]);
    assert_eq!(stage.pause(), Duration::from_millis(4_300));
    // One that is overdue does not make it sleep backwards.
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(stage.pause(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_refused_when_the_lead_is_lost() {
    let (mut stage, _told) = stage(&ApiServer::new());
    stage.knows(&["orders"], Vec::new(), Vec::new());
    assert!(stage.calls.waiting() > 0);
    stage.take(Message::Lead(None));
    assert_eq!(stage.calls.waiting(), 0);
    stage.act();
    assert_eq!(stage.calls.waiting(), 0, "and nothing new is asked for");
    // Each was answered: led again, all is asked for anew.
    tokio::time::advance(Duration::from_secs(120)).await;
    stage.take(Message::Lead(Some(2)));
    stage.act();
    assert!(stage.calls.waiting() > 0);
}

#[tokio::test(start_paused = true)]
async fn an_ensemble_that_is_gone_and_left_nothing_is_forgotten() {
    let (mut stage, _told) = stage(&ApiServer::new());
    stage.knows(&["orders", "stock"], vec![pod("stock", "a")], Vec::new());
    assert_eq!(stage.conductors.len(), 2);
    for name in ["orders", "stock"] {
        let news = News::Deleted(ensemble(name));
        stage.take(Message::Watch(Kind::Ensemble, news));
    }
    stage.act();
    let left: Vec<&EnsembleKey> = stage.conductors.keys().collect();
    assert_eq!(left, [&key("stock")], "its pod is still there");
    assert_eq!(stage.metrics.ensembles.get(), 1);
    // An engine that answers late makes none anew.
    let outcome = EngineOutcome::Replied(ensemble_planner::engine::Reply::Unknown("late".into()));
    stage.take(Message::Engine(key("orders"), CallId(7), outcome));
    assert_eq!(stage.conductors.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_comes_later_is_told_what_others_know_already() {
    let (mut stage, _told) = stage(&ApiServer::new());
    stage.knows(&[], Vec::new(), vec![node("a", true)]);
    let theirs = json!({
        "metadata": {"name": "theirs", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
    });
    stage.lists(Kind::Budget, vec![Arc::new(theirs)]);
    assert!(
        stage.conductors.is_empty(),
        "a budget alone makes no conductor"
    );
    let news = News::Applied(ensemble("orders"));
    stage.take(Message::Watch(Kind::Ensemble, news));
    stage.act();
    let snap = stage.conductors[&key("orders")].snapshot();
    assert!(snap.budgets.contains_key("theirs"));
    assert!(
        snap.nodes
            .as_ref()
            .is_some_and(|nodes| nodes.contains_key("a"))
    );
    assert!(stage.calls.waiting() > 0, "it leads, too");
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_selects_others_than_before_is_taken_from_those() {
    let (mut stage, _told) = stage(&ApiServer::new());
    stage.knows(&["orders", "stock"], Vec::new(), Vec::new());
    let budget = |of: &str| {
        Arc::new(json!({
            "metadata": {"name": "b", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {labels::ENSEMBLE: of}}},
        }))
    };
    let has = |stage: &Stage, name: &str| {
        let snap = stage.conductors[&key(name)].snapshot();
        snap.budgets.contains_key("b")
    };
    stage.take(Message::Watch(
        Kind::Budget,
        News::Applied(budget("orders")),
    ));
    assert!(has(&stage, "orders") && !has(&stage, "stock"));
    stage.take(Message::Watch(Kind::Budget, News::Applied(budget("stock"))));
    assert!(!has(&stage, "orders") && has(&stage, "stock"));
    stage.take(Message::Watch(Kind::Budget, News::Deleted(budget("stock"))));
    assert!(!has(&stage, "orders") && !has(&stage, "stock"));
}

#[test]
fn an_object_belongs_to_the_ensemble_that_it_names() {
    let metadata = json!({
        "name": "x", "namespace": "shop", "labels": {labels::ENSEMBLE: "orders"},
    });
    let labelled = json!({"metadata": metadata});
    let request = json!({"metadata": metadata, "spec": {"ensemble": "stock"}});
    assert_eq!(key_of(Kind::Pod, &labelled), Some(key("orders")));
    assert_eq!(key_of(Kind::Claim, &labelled), Some(key("orders")));
    assert_eq!(key_of(Kind::Ensemble, &labelled), Some(key("x")));
    assert_eq!(key_of(Kind::Request, &request), Some(key("stock")));
    let nobodys = json!({"metadata": {"name": "x", "namespace": "shop"}});
    assert_eq!(key_of(Kind::Pod, &nobodys), None);
    assert_eq!(key_of(Kind::Request, &nobodys), None);
}

/// Watches of the simulated API server, for a main loop that runs.
struct Bridge {
    server: Arc<ApiServer>,
    tell: mpsc::Sender<Message>,
    watches: Vec<(Kind, WatchId)>,
}

fn resource(server: &ApiServer, kind: Kind) -> Resource {
    server.with(|cluster| crate::testing::resource_of(cluster, kind.info()))
}

impl Bridge {
    async fn new(server: &Arc<ApiServer>, stage: &Stage) -> Self {
        let (tell, mut watches) = (stage.tell.clone(), Vec::new());
        for kind in KINDS.iter().map(|info| info.kind) {
            let at = resource(server, kind);
            let options = WatchOptions::default();
            let watch = server.with(|c| c.watch(at, &options)).unwrap();
            let listed = server.with(|c| c.poll(watch));
            let listed = listed.into_iter().map(|event| event.object).collect();
            let news = News::Listed(listed, stage.clock.now());
            tell.send(Message::Watch(kind, news)).await.ok().unwrap();
            watches.push((kind, watch));
        }
        let server = server.clone();
        Self {
            server,
            tell,
            watches,
        }
    }

    /// Carries events for so many seconds.
    async fn carry(&self, seconds: u64) {
        for _ in 0..seconds * 10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.server.passes(100);
            for (kind, watch) in &self.watches {
                for event in self.server.with(|c| c.poll(*watch)) {
                    let news = match event.kind {
                        simkube::EventType::Deleted => News::Deleted(event.object),
                        _ => News::Applied(event.object),
                    };
                    self.tell
                        .send(Message::Watch(*kind, news))
                        .await
                        .ok()
                        .unwrap();
                }
            }
        }
    }
}

/// An API server with a node and an Ensemble.
fn with_an_ensemble() -> Arc<ApiServer> {
    let server = ApiServer::new();
    let at = resource(&server, Kind::Ensemble);
    server.with(|cluster| {
        cluster.add_node(NodeSpec::new("n1")).unwrap();
        let class = json!({
            "metadata": {"name": "disk", "annotations": {
                "storageclass.kubernetes.io/is-default-class": "true",
            }},
            "provisioner": "disk.example",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        cluster.create(Resource::StorageClasses, "", class).unwrap();
        let mut wanted = (*ensemble("orders")).clone();
        wanted["metadata"] = json!({"name": "orders", "namespace": "shop"});
        cluster.create(at, "shop", wanted).unwrap();
    });
    server
}

#[tokio::test(start_paused = true)]
async fn an_ensemble_is_carried_to_where_all_its_members_serve() {
    let server = with_an_ensemble();
    let (stage, told) = stage(&server);
    let bridge = Bridge::new(&server, &stage).await;
    stage.tell.send(Message::Lead(Some(1))).await.ok().unwrap();
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(stage.run(told, stopping));
    bridge.carry(120).await;
    let at = resource(&server, Kind::Ensemble);
    let orders = server.with(|c| c.get(at, "shop", "orders")).unwrap();
    assert_eq!(
        orders["status"]["plan"]["state"], "Ready",
        "{}",
        orders["status"]
    );
    stop.send(true).unwrap();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_under_way_is_awaited_before_the_main_loop_ends() {
    let server = with_an_ensemble();
    let (stage, told) = stage(&server);
    let _bridge = Bridge::new(&server, &stage).await;
    stage.tell.send(Message::Lead(Some(1))).await.ok().unwrap();
    server.is(Trouble::Silent);
    let (stop, stopping) = watch::channel(false);
    let running = tokio::spawn(stage.run(told, stopping));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let sent = server.asked().len();
    assert!(sent > 0);
    stop.send(true).unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!running.is_finished(), "it still waits");
    server.is(Trouble::None);
    tokio::time::timeout(Duration::from_secs(1), running)
        .await
        .expect("it ends once all are answered")
        .unwrap();
    assert_eq!(server.asked().len(), sent, "nothing new is sent meanwhile");
}
