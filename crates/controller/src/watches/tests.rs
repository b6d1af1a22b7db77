use super::*;
use futures::channel::mpsc as stream_channel;
use kube::core::Status;
use serde_json::json;
use std::sync::Mutex;

type Feed = stream_channel::UnboundedSender<watcher::Result<watcher::Event<Arc<Value>>>>;

/// A watch whose events the test sends; each new stream replaces the feed.
struct Watched {
    feed: Arc<Mutex<Vec<Feed>>>,
    again: Arc<Notify>,
    told: mpsc::Receiver<Message>,
    task: tokio::task::JoinHandle<()>,
}

fn watch(kind: Kind) -> Watched {
    let feed: Arc<Mutex<Vec<Feed>>> = Arc::default();
    let again = Arc::new(Notify::new());
    let (tell, told) = mpsc::channel(16);
    let fresh = {
        let feed = feed.clone();
        move || {
            let (send, events) = stream_channel::unbounded();
            feed.lock().unwrap().push(send);
            events.boxed()
        }
    };
    let task = tokio::spawn(follow(kind, fresh, Clock::of_test(), again.clone(), tell));
    Watched {
        feed,
        again,
        told,
        task,
    }
}

fn object(name: &str) -> Arc<Value> {
    Arc::new(json!({"metadata": {"name": name}}))
}

impl Watched {
    /// The newest stream brings that.
    async fn brings(&self, event: watcher::Event<Arc<Value>>) {
        tokio::task::yield_now().await;
        let feed = self.feed.lock().unwrap();
        feed.last().unwrap().unbounded_send(Ok(event)).unwrap();
    }

    async fn fails(&self, code: u16) {
        tokio::task::yield_now().await;
        let status = Status {
            code,
            ..Status::default()
        };
        let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
        let feed = self.feed.lock().unwrap();
        feed.last().unwrap().unbounded_send(Err(error)).unwrap();
    }

    async fn lists(&self, names: &[&str]) {
        self.brings(watcher::Event::Init).await;
        for name in names {
            self.brings(watcher::Event::InitApply(object(name))).await;
        }
        self.brings(watcher::Event::InitDone).await;
    }

    /// What it tells next, in words, if it does within a second.
    async fn tells(&mut self) -> Option<String> {
        let told = tokio::time::timeout(Duration::from_secs(1), self.told.recv()).await;
        let name = |o: &Arc<Value>| o["metadata"]["name"].as_str().unwrap().to_owned();
        Some(match told.ok()?? {
            Message::Watch(_, News::Applied(o)) => format!("applied {}", name(&o)),
            Message::Watch(_, News::Deleted(o)) => format!("deleted {}", name(&o)),
            Message::Watch(_, News::Listed(all, _)) => {
                format!(
                    "listed {}",
                    all.iter().map(name).collect::<Vec<_>>().join(",")
                )
            }
            Message::NoNodes => "no nodes".to_owned(),
            _ => panic!("a watch tells of nothing else"),
        })
    }

    /// How many streams there were so far.
    async fn streams(&self) -> usize {
        tokio::task::yield_now().await;
        self.feed.lock().unwrap().len()
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_is_told_as_a_whole_and_what_comes_after_it_one_by_one() {
    let mut pods = watch(Kind::Pod);
    pods.brings(watcher::Event::Init).await;
    pods.brings(watcher::Event::InitApply(object("a"))).await;
    assert_eq!(pods.tells().await, None, "a list that is not complete");
    pods.brings(watcher::Event::InitApply(object("b"))).await;
    pods.brings(watcher::Event::InitDone).await;
    assert_eq!(pods.tells().await.unwrap(), "listed a,b");
    pods.brings(watcher::Event::Apply(object("c"))).await;
    pods.brings(watcher::Event::Delete(object("a"))).await;
    assert_eq!(pods.tells().await.unwrap(), "applied c");
    assert_eq!(pods.tells().await.unwrap(), "deleted a");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_begins_anew_forgets_what_the_broken_one_had() {
    let mut pods = watch(Kind::Pod);
    pods.brings(watcher::Event::Init).await;
    pods.brings(watcher::Event::InitApply(object("gone"))).await;
    pods.lists(&["a"]).await;
    assert_eq!(pods.tells().await.unwrap(), "listed a");
}

#[tokio::test(start_paused = true)]
async fn a_list_says_when_it_was_asked_for_and_not_when_it_came() {
    let mut pods = watch(Kind::Pod);
    seconds(3).await;
    pods.brings(watcher::Event::Init).await;
    seconds(4).await;
    pods.brings(watcher::Event::InitDone).await;
    let Some(Message::Watch(_, News::Listed(_, asked))) = pods.told.recv().await else {
        panic!("a list");
    };
    assert_eq!(asked.0, 3_000);
}

#[tokio::test(start_paused = true)]
async fn who_wants_a_new_list_gets_one_but_not_more_often_than_every_five_seconds() {
    let mut pods = watch(Kind::Pod);
    pods.lists(&[]).await;
    pods.tells().await.unwrap();
    let listed = Instant::now();
    for _ in 0..100 {
        pods.again.notify_one();
    }
    seconds(3).await;
    assert_eq!(pods.streams().await, 1);
    seconds(2).await;
    assert_eq!(pods.streams().await, 2);
    assert!(listed.elapsed() >= BETWEEN_LISTS);
    // All of them wanted the same.
    pods.lists(&[]).await;
    seconds(60).await;
    assert_eq!(pods.streams().await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_under_way_is_not_broken_off_for_another() {
    let pods = watch(Kind::Pod);
    pods.brings(watcher::Event::Init).await;
    pods.again.notify_one();
    seconds(60).await;
    assert_eq!(pods.streams().await, 1);
    pods.brings(watcher::Event::InitDone).await;
    seconds(6).await;
    assert_eq!(pods.streams().await, 2, "it is made up for afterwards");
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_new_list_has_to_wait_is_told_meanwhile() {
    let mut pods = watch(Kind::Pod);
    pods.lists(&[]).await;
    pods.tells().await.unwrap();
    pods.again.notify_one();
    pods.brings(watcher::Event::Apply(object("a"))).await;
    assert_eq!(pods.tells().await.unwrap(), "applied a");
    seconds(6).await;
    assert_eq!(pods.streams().await, 2);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_may_not_be_read_are_something_to_live_with() {
    let mut nodes = watch(Kind::Node);
    nodes.fails(403).await;
    assert_eq!(nodes.tells().await.unwrap(), "no nodes");
    nodes.fails(500).await;
    assert_eq!(nodes.tells().await, None);
    nodes.lists(&["n"]).await;
    assert_eq!(nodes.tells().await.unwrap(), "listed n");
    let mut pods = watch(Kind::Pod);
    pods.fails(403).await;
    assert_eq!(pods.tells().await, None);
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_nobody_listens() {
    let Watched {
        feed, told, task, ..
    } = watch(Kind::Pod);
    drop(told);
    tokio::task::yield_now().await;
    let event = Ok(watcher::Event::Apply(object("a")));
    feed.lock().unwrap()[0].unbounded_send(event).unwrap();
    task.await.unwrap();
}

#[test]
fn an_object_comes_without_the_bookkeeping_of_server_side_apply() {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"newer": "than our library"},
    }))
    .unwrap();
    let plain = plain(object);
    assert_eq!(plain["spec"]["newer"], "than our library");
    assert_eq!(plain["metadata"]["managedFields"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn every_kind_in_the_table_is_watched_and_asked_for_where_it_lives() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let client = {
        let asked = asked.clone();
        crate::testing::deaf(move |uri| asked.lock().unwrap().push(uri))
    };
    let (tell, _told) = mpsc::channel(16);
    let options = Options {
        namespace: Some("shop".into()),
        ..Options::default()
    };
    let watches = Watches::start(&client, &Clock::of_test(), &options, &tell);
    seconds(1).await;
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), KINDS.len(), "{asked:?}");
    for info in KINDS {
        assert!(watches.again.contains_key(&info.kind), "{info:?}");
        let path = match info.is_namespaced() {
            true => resources::collection(info.kind, "shop"),
            false => format!("/api/{}/{}", info.version, info.plural),
        };
        let found = asked
            .iter()
            .find(|uri| uri.starts_with(&format!("{path}?")));
        let uri = found.unwrap_or_else(|| panic!("{path} is not watched: {asked:?}"));
        assert_eq!(
            uri.contains("labelSelector=ensemble.dev"),
            info.is_labelled(),
            "{uri}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_nodes_all_others_are_watched() {
    let (tell, mut told) = mpsc::channel(16);
    let options = Options {
        nodes: false,
        ..Options::default()
    };
    let client = crate::testing::deaf(drop);
    let watches = Watches::start(&client, &Clock::of_test(), &options, &tell);
    assert!(matches!(told.recv().await, Some(Message::NoNodes)));
    let watched: Vec<Kind> = watches.again.keys().copied().collect();
    assert_eq!(watched, ensemble_conductor::WATCHED);
}
