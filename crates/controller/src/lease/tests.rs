use super::*;
use crate::testing::{ApiServer, Trouble};
use serde_json::json;
use simkube::{Request as Call, Resource};
use tokio::task::JoinHandle;

/// A candidate that runs, and what it says.
struct Candidate {
    leading: Leading,
    told: mpsc::Receiver<Message>,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), ControllerError>>,
}

fn start(server: &Arc<ApiServer>, identity: &str) -> Candidate {
    let options = Options {
        identity: Some(identity.into()),
        ..Options::default()
    };
    let lease = Lease::new(&server.client(), &options);
    let leading = lease.leading();
    let (tell, told) = mpsc::channel(16);
    let (stop, stopping) = watch::channel(false);
    Candidate {
        leading,
        told,
        stop,
        task: tokio::spawn(lease.run(tell, stopping)),
    }
}

impl Candidate {
    /// The next thing that it says, which must come.
    async fn says(&mut self) -> Option<i64> {
        let said = tokio::time::timeout(Duration::from_secs(300), self.told.recv()).await;
        match said.expect("it says something") {
            Some(Message::Lead(epoch)) => epoch,
            _ => panic!("a candidate speaks of nothing but the lead"),
        }
    }

    /// Whether it has said something that nobody has heard yet.
    fn is_quiet(&mut self) -> bool {
        self.told.try_recv().is_err()
    }

    async fn stops(self) -> Result<(), ControllerError> {
        self.stop.send(true).unwrap();
        self.task.await.unwrap()
    }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// As it is stored: who holds it, at which transition.
fn stored(server: &ApiServer) -> (String, i64) {
    let lease = server
        .with(|cluster| cluster.get(Resource::Leases, "home", "ensemble-controller"))
        .expect("the Lease");
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    (
        holder.to_owned(),
        lease["spec"]["leaseTransitions"].as_i64().unwrap(),
    )
}

/// Somebody whose process is not in this test holds the Lease.
fn held_by(server: &ApiServer, holder: &str, transitions: i64) {
    let lease = json!({
        "metadata": {"name": "ensemble-controller"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": transitions,
        },
    });
    server
        .with(|cluster| cluster.create(Resource::Leases, "home", lease))
        .unwrap();
}

/// The holder renews, by itself or as somebody else.
fn renew_as(server: &ApiServer, holder: &str) {
    let patch = json!({"spec": {
        "holderIdentity": holder, "renewTime": format!("2026-01-01T00:00:00.{:06}Z", server.asked().len()),
    }});
    let call = Call::patch(Resource::Leases, "home", "ensemble-controller", patch);
    server.with(|cluster| cluster.call(&call)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_a_second_waits() {
    let server = ApiServer::new();
    let mut first = start(&server, "a");
    let epoch = first.says().await.expect("it leads");
    assert!(first.leading.now());
    assert_eq!(stored(&server), ("a".to_owned(), epoch));
    let mut second = start(&server, "b");
    seconds(120).await;
    assert!(second.is_quiet() && !second.leading.now());
    assert!(first.is_quiet() && first.leading.now(), "it renews");
    assert_eq!(stored(&server), ("a".to_owned(), epoch));
}

#[tokio::test(start_paused = true)]
async fn a_lead_that_is_given_away_is_taken_at_once_at_a_higher_epoch() {
    let server = ApiServer::new();
    let mut first = start(&server, "a");
    let epoch = first.says().await.unwrap();
    let mut second = start(&server, "b");
    seconds(5).await;
    let leading = first.leading.clone();
    first.stops().await.unwrap();
    assert!(!leading.now());
    assert_eq!(stored(&server).0, "");
    let handed_over = Instant::now();
    assert_eq!(second.says().await, Some(epoch + 1));
    assert!(handed_over.elapsed() <= PERIOD);
}

#[tokio::test(start_paused = true)]
async fn a_lease_expires_after_its_whole_duration_unchanged_by_our_own_clock() {
    let server = ApiServer::new();
    held_by(&server, "gone", 7);
    let mut candidate = start(&server, "a");
    // Each renewal begins the wait anew.
    for _ in 0..5 {
        seconds(10).await;
        renew_as(&server, "gone");
    }
    let last = Instant::now();
    assert!(candidate.is_quiet());
    assert_eq!(candidate.says().await, Some(8));
    let waited = last.elapsed();
    assert!(
        waited >= DURATION && waited <= DURATION + 2 * PERIOD,
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_identity_in_a_new_process_is_a_new_epoch() {
    let server = ApiServer::new();
    held_by(&server, "a", 7);
    let mut again = start(&server, "a");
    assert_eq!(again.says().await, Some(8));
    seconds(60).await;
    assert!(again.is_quiet(), "and stays the same while it renews");
    assert_eq!(stored(&server), ("a".to_owned(), 8));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_borne_for_ten_seconds_and_not_longer() {
    let server = ApiServer::new();
    let mut candidate = start(&server, "a");
    let epoch = candidate.says().await.unwrap();
    seconds(1).await;
    server.is(Trouble::Fails(503));
    seconds(8).await;
    assert!(candidate.is_quiet() && candidate.leading.now());
    seconds(1).await;
    // Ten seconds after the last renewal began no call is sent, whoever has heard of it or not.
    assert!(!candidate.leading.now());
    assert_eq!(candidate.says().await, None);
    server.is(Trouble::None);
    assert_eq!(candidate.says().await, Some(epoch + 1));
    assert!(candidate.leading.now());
}

#[tokio::test(start_paused = true)]
async fn a_short_failure_costs_nothing() {
    let server = ApiServer::new();
    let mut candidate = start(&server, "a");
    let epoch = candidate.says().await.unwrap();
    server.is(Trouble::Fails(500));
    seconds(5).await;
    server.is(Trouble::None);
    seconds(60).await;
    assert!(candidate.is_quiet() && candidate.leading.now());
    assert_eq!(stored(&server), ("a".to_owned(), epoch));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_takes_the_lead_away_before_others_may_have_it() {
    let server = ApiServer::new();
    let mut candidate = start(&server, "a");
    candidate.says().await.unwrap();
    let renewed = Instant::now();
    server.is(Trouble::Silent);
    seconds(DEADLINE.as_secs()).await;
    assert!(!candidate.leading.now());
    assert_eq!(candidate.says().await, None);
    assert!(renewed.elapsed() < DURATION);
}

#[tokio::test(start_paused = true)]
async fn who_finds_another_in_its_place_stands_down_at_once() {
    let server = ApiServer::new();
    let mut candidate = start(&server, "a");
    candidate.says().await.unwrap();
    renew_as(&server, "b");
    let taken = Instant::now();
    assert_eq!(candidate.says().await, None);
    assert!(!candidate.leading.now());
    assert!(taken.elapsed() <= PERIOD);
    let leading = candidate.leading.clone();
    candidate.stops().await.unwrap();
    assert!(!leading.now());
    assert_eq!(stored(&server).0, "b", "what is not ours is not given away");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_take_the_lead_at_once_one_has_it() {
    let server = ApiServer::new();
    held_by(&server, "", 7);
    let mut candidates = [start(&server, "a"), start(&server, "b")];
    seconds(10).await;
    let leading: Vec<bool> = candidates.iter().map(|c| c.leading.now()).collect();
    assert_eq!(
        leading.iter().filter(|leads| **leads).count(),
        1,
        "{leading:?}"
    );
    let said = candidates.iter_mut().filter_map(|c| c.told.try_recv().ok());
    let said: Vec<Message> = said.collect();
    assert!(
        matches!(said[..], [Message::Lead(Some(8))]),
        "one speaks, once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_takes_no_epoch_back() {
    let server = ApiServer::new();
    let mut candidate = start(&server, "a");
    let epoch = candidate.says().await.unwrap();
    let call = Call::delete(Resource::Leases, "home", "ensemble-controller");
    server.with(|cluster| cluster.call(&call)).unwrap();
    seconds(10).await;
    assert!(candidate.leading.now());
    assert!(stored(&server).1 >= epoch);
    // Far above any count of transitions, and far below the end of the field.
    assert!(
        (1_000_000..i64::from(i32::MAX / 2)).contains(&epoch),
        "{epoch}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_went_back_in_time_ends_the_process() {
    let server = ApiServer::new();
    let mut candidate = start(&server, "a");
    candidate.says().await.unwrap();
    seconds(60).await;
    // As after a restore: the same Lease at an earlier version.
    let backup = ApiServer::new();
    held_by(&backup, "a", 7);
    server.with(|cluster| backup.with(|old| std::mem::swap(cluster, old)));
    let leading = candidate.leading.clone();
    let ended = candidate.task.await.unwrap();
    assert!(matches!(ended, Err(ControllerError::WentBack { before, now, .. }) if now < before));
    assert!(!leading.now());
}

#[tokio::test(start_paused = true)]
async fn who_never_led_gives_nothing_away() {
    let server = ApiServer::new();
    held_by(&server, "b", 7);
    let candidate = start(&server, "a");
    seconds(5).await;
    candidate.stops().await.unwrap();
    assert_eq!(stored(&server), ("b".to_owned(), 7));
    let writes = server.asked();
    assert!(
        writes.iter().all(|(_, call)| call.starts_with("GET")),
        "{writes:?}"
    );
}

#[test]
fn two_runs_on_one_host_are_told_apart() {
    let first = default_identity();
    std::thread::sleep(Duration::from_millis(2));
    assert_ne!(first, default_identity());
}
