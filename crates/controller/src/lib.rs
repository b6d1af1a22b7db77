//! The shell: kube watches in, API calls out, leader election, metrics, events. It decides nothing.
//!
//! One task owns all conductors and tells each what concerns it; calls run beside it, a bounded
//! number at once, each ensemble in its turn.

mod alarms;
mod calls;
mod clock;
mod engine;
mod events;
mod lease;
mod metrics;
mod nodes;
mod queue;
mod resources;
mod server;
mod shared;
mod stage;
#[cfg(test)]
mod testing;
mod watches;

pub use ensemble_conductor::{KINDS, KindInfo, LOOK};

use kube::{Client, Config};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// How a controller is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The only namespace it looks after; None is all of them.
    pub namespace: Option<String>,
    /// Whether it may read nodes although it looks after one namespace only.
    pub nodes: bool,
    /// Where `/healthz`, `/readyz` and `/metrics` are served; None is nowhere.
    pub listen: Option<SocketAddr>,
    /// Where its Lease lives; by default the namespace it runs in.
    pub lease_namespace: Option<String>,
    /// The name of its Lease.
    pub lease_name: String,
    /// Who it is among the candidates; by default its host name.
    pub identity: Option<String>,
    /// How many calls run at once.
    pub concurrency: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: None,
            nodes: true,
            listen: None,
            lease_namespace: None,
            lease_name: "ensemble-controller".into(),
            identity: None,
            concurrency: 64,
        }
    }
}

/// Why a controller ended.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Its port cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// Why it cannot.
        source: std::io::Error,
    },
    /// The API server answers with older state than it gave before.
    #[error(
        "the API server went back in time (Lease {lease} was at version {before}, now {now}): etcd \
         was restored; starting anew from what it says now"
    )]
    WentBack {
        /// The Lease that shows it.
        lease: String,
        /// The version seen before.
        before: u64,
        /// The version seen now.
        now: u64,
    },
    /// A part of it ended, which none should.
    #[error("{0} ended unexpectedly")]
    Ended(&'static str),
}

/// A client that retries nothing: a delete that is repeated after we lost the lead is not ours to
/// make any more, and the conductor has its own pauses.
pub fn client(mut config: Config) -> Result<Client, kube::Error> {
    config.default_retry = false;
    Client::try_from(config)
}

/// Runs until `shutdown`, then hands the lead over and returns.
pub async fn run(
    options: Options,
    client: Client,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ControllerError> {
    let metrics = Arc::new(metrics::Metrics::new());
    let (stop, stopping) = watch::channel(false);
    let clock = clock::Clock::new();
    let server = server::serve(
        options.listen,
        metrics.clone(),
        clock.clone(),
        stopping.clone(),
    )
    .await?;
    let (tell, told) = mpsc::channel(1024);
    let watches = watches::Watches::start(&client, &clock, &options, &tell);
    let lease = lease::Lease::new(&client, &options);
    let leading = lease.leading();
    let election = tokio::spawn(lease.run(tell.clone(), stopping.clone()));
    let stage = stage::Stage::new(client, clock, &options, metrics, watches, leading, tell);
    let mut stage = tokio::spawn(stage.run(told, stopping));
    tokio::pin!(election);
    let ended = tokio::select! {
        () = shutdown => Ok(()),
        result = &mut election => flatten(result, "leader election"),
        result = &mut stage => flatten(result.map(Ok), "the main loop"),
    };
    tracing::info!("stopping: no new calls, then the lead is handed over");
    let _ = stop.send(true);
    if !stage.is_finished() {
        // Calls under way are awaited before the lead is given away.
        let _ = stage.await;
    }
    if !election.is_finished() {
        let _ = election.await;
    }
    drop(server);
    ended
}

fn flatten(
    result: Result<Result<(), ControllerError>, tokio::task::JoinError>,
    what: &'static str,
) -> Result<(), ControllerError> {
    match result {
        Ok(Err(error)) => Err(error),
        _ => Err(ControllerError::Ended(what)),
    }
}
