//! `controller`: the only place where the command line meets the controller.

use crate::args::{Controller, Global, LogFormat};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use ensemble_controller::Options;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Runs the controller until it is told to end.
pub async fn run(global: &Global, args: Controller) -> Result<Exit, Failure> {
    log(args.log_format);
    let client = Cluster::connect(global).await?.client;
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| Failure::error(format!("cannot listen for signals: {error}")))?;
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    let ended = ensemble_controller::run(options(args), client, shutdown).await;
    ended.map_err(|error| Failure::error(format!("the controller ended: {error}")))?;
    Ok(Exit::Converged)
}

fn options(args: Controller) -> Options {
    let Controller {
        watch_namespace,
        read_nodes,
        listen,
        lease_namespace,
        lease_name,
        identity,
        concurrency,
        log_format: _,
    } = args;
    Options {
        nodes: watch_namespace.is_none() || read_nodes,
        namespace: watch_namespace,
        listen: Some(listen),
        lease_namespace,
        lease_name,
        identity,
        concurrency,
    }
}

/// Logs go to stderr; `ENSEMBLE_LOG` filters them as `RUST_LOG` would: `info,ensemble=debug`.
fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_env("ENSEMBLE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let logger = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Json => logger.json().flatten_event(true).init(),
        LogFormat::Text => logger.init(),
    }
}
