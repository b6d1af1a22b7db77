use super::*;
use crate::testing::{ApiServer, Trouble};
use ensemble_api::labels;
use ensemble_conductor::WATCHED;
use ensemble_planner::engine::{Answer, Reply, WhyUnknown};
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
    let outcome = EngineOutcome::Replied(Reply::Unknown("late".into()));
    stage.take(Message::Engine(key("orders"), CallId(7), outcome));
    assert_eq!(stage.conductors.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_before_its_ensemble_is_kept_for_it() {
    let (mut stage, _told) = stage(&ApiServer::new());
    stage.knows(&[], Vec::new(), Vec::new());
    let request = Arc::new(json!({
        "metadata": {"name": "go", "namespace": "shop", "uid": "r", "resourceVersion": "1"},
        "spec": {"ensemble": "orders", "switch": {}},
    }));
    let news = News::Applied(request.clone());
    stage.take(Message::Watch(Kind::Request, news));
    stage.act();
    stage.act();
    let news = News::Applied(ensemble("orders"));
    stage.take(Message::Watch(Kind::Ensemble, news));
    stage.act();
    let snap = stage.conductors[&key("orders")].snapshot();
    assert!(snap.requests.contains_key("go"));
    // One whose Ensemble never comes is forgotten when it goes.
    for name in ["Ensemble", "Request"] {
        let news = match name {
            "Ensemble" => Message::Watch(Kind::Ensemble, News::Deleted(ensemble("orders"))),
            _ => Message::Watch(Kind::Request, News::Deleted(request.clone())),
        };
        stage.take(news);
        stage.act();
    }
    assert!(stage.conductors.is_empty());
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

/// An object of `orders` whose label was edited, with its owner or without one.
fn edited(owned: bool) -> Arc<Value> {
    let mut object = (*pod("orders", "a")).clone();
    object["metadata"]["labels"][labels::ENSEMBLE] = "stock".into();
    if owned {
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "ensemble.dev/v1alpha1", "kind": "Ensemble", "name": "orders",
            "uid": "uid-orders", "controller": true,
        }]);
    }
    Arc::new(object)
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_label_was_edited_is_seen_so_by_the_ensemble_that_owns_it() {
    let (mut stage, _told) = stage(&ApiServer::new());
    stage.knows(&["orders", "stock"], vec![pod("orders", "a")], Vec::new());
    stage.take(Message::Watch(Kind::Pod, News::Applied(edited(true))));
    let seen = |stage: &Stage, of: &str| {
        let snap = stage.conductors[&key(of)].snapshot();
        snap.pods.get("orders-0").map(|p| p.meta.ensemble.clone())
    };
    assert_eq!(seen(&stage, "orders").as_deref(), Some("stock"));
    assert_eq!(seen(&stage, "stock"), None);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_owner_and_another_label_is_no_longer_seen_by_whoever_had_it() {
    let (mut stage, _told) = stage(&ApiServer::new());
    stage.knows(&["orders", "stock"], Vec::new(), Vec::new());
    let claims = |stage: &Stage, of: &str| stage.conductors[&key(of)].snapshot().claims.len();
    let claim = News::Applied(pod("orders", "a"));
    stage.take(Message::Watch(Kind::Claim, claim));
    assert_eq!((claims(&stage, "orders"), claims(&stage, "stock")), (1, 0));
    stage.take(Message::Watch(Kind::Claim, News::Applied(edited(false))));
    assert_eq!((claims(&stage, "orders"), claims(&stage, "stock")), (0, 1));
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

/// An engine whose members never answer, but for those of one ensemble.
struct Silent {
    but_for: &'static str,
}

impl ensemble_engines::Speaks for Silent {
    fn observe<'a>(
        &'a self,
        target: &'a ensemble_engines::Target,
        asked: Time,
    ) -> ensemble_engines::Later<'a, Answer> {
        Box::pin(async move {
            if !target.member.starts_with(self.but_for) {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            Answer::unknown(asked, WhyUnknown::Starting)
        })
    }

    fn tell<'a>(
        &'a self,
        _: &'a ensemble_engines::Target,
        _: &'a ensemble_planner::engine::EngineAct,
    ) -> ensemble_engines::Later<'a, Reply> {
        Box::pin(async { Reply::Unknown("silent".into()) })
    }
}

/// An Ensemble with an engine, and so many members that can be asked.
fn with_an_engine(name: &str, members: u32) -> (Arc<Value>, Vec<Arc<Value>>) {
    let mut ensemble = (*ensemble(name)).clone();
    ensemble["spec"]["replicas"] = members.into();
    ensemble["spec"]["engine"] = json!({"patroni": {}});
    let pods = (0..members).map(|ordinal| {
        Arc::new(json!({
            "metadata": {
                "name": format!("{name}-{ordinal}"), "namespace": "shop",
                "uid": format!("uid-{name}-{ordinal}"), "resourceVersion": "1",
                "labels": {
                    labels::ENSEMBLE: name, labels::ORDINAL: ordinal.to_string(),
                    labels::INCARNATION: "0",
                },
                "ownerReferences": [{
                    "apiVersion": "ensemble.dev/v1alpha1", "kind": "Ensemble", "name": name,
                    "uid": format!("uid-{name}"), "controller": true,
                }],
            },
            "spec": {"nodeName": "a"},
            "status": {"podIP": format!("10.{}.{}.{}", name.len(), ordinal / 250, ordinal % 250)},
        }))
    });
    (Arc::new(ensemble), pods.collect())
}

#[tokio::test(start_paused = true)]
async fn two_thousand_silent_members_of_one_ensemble_make_no_other_blind() {
    let (mut stage, mut told) = stage(&ApiServer::new());
    stage.asker.speaks(Arc::new(Silent { but_for: "calm" }));
    let (silent, mut pods) = with_an_engine("silent", 2000);
    let (calm, calms) = with_an_engine("calm", 3);
    pods.extend(calms);
    stage.knows(&[], pods, vec![node("a", true)]);
    for ensemble in [silent, calm] {
        let news = News::Applied(ensemble);
        stage.take(Message::Watch(Kind::Ensemble, news));
    }
    let began = tokio::time::Instant::now();
    let mut heard = BTreeMap::new();
    let mut first_round = None;
    let mut batch = Vec::new();
    while began.elapsed() < Duration::from_secs(11) {
        stage.wake_up();
        stage.act();
        stage.ask_engines();
        let pause = stage.pause();
        let _ = tokio::time::timeout(pause, told.recv_many(&mut batch, 256)).await;
        for message in batch.drain(..) {
            if let Message::Engine(key, ..) = &message {
                *heard.entry(key.1.clone()).or_insert(0) += 1;
                if heard.get("calm") == Some(&3) && first_round.is_none() {
                    first_round = Some(began.elapsed());
                }
            }
            stage.take(message);
        }
    }
    assert_eq!(first_round, Some(Duration::ZERO), "as if it were alone");
    // Everybody of the calm ensemble every five seconds at least, and those of the silent one in turn.
    assert!(heard["calm"] >= 6, "{heard:?}");
    assert!(heard["silent"] >= 4 * 128, "{heard:?}");
}
