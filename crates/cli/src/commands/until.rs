//! `status NAME --wait`: ends when the ensemble has converged, cannot by itself, or time is up.

use super::{plain, watch};
use crate::args::{Global, Status};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Format};
use crate::view::paint::Paint;
use crate::view::{Seen, members, why};
use ensemble_api::State;
use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use std::future::pending;

/// What the watch has led to.
enum End {
    /// It ended by itself.
    At(Box<Seen>, Exit),
    Interrupted,
    TimedOut,
}

/// Waits.
pub async fn converged(cluster: &Cluster, global: &Global, args: &Status) -> Result<Exit, Failure> {
    let name = args.name.as_deref().unwrap_or_default();
    let mut last = Seen::of(&cluster.ensemble(name).await?);
    let time_is_up = async {
        match args.timeout {
            Some(limit) => tokio::time::sleep(limit).await,
            None => pending().await,
        }
    };
    let end = tokio::select! {
        end = follow(cluster, global, name, &mut last) => end?,
        _ = tokio::signal::ctrl_c() => End::Interrupted,
        () = time_is_up => End::TimedOut,
    };
    match end {
        End::Interrupted => {
            output::say(format!("interrupted; the work on {name} goes on"));
            Ok(Exit::Interrupted)
        }
        End::TimedOut => {
            output::say(format!(
                "{name} has not converged in time; the work on it goes on"
            ));
            explain(global, &last);
            Ok(Exit::TimedOut)
        }
        End::At(seen, exit) => {
            if exit != Exit::Converged {
                explain(global, &seen);
            }
            Ok(exit)
        }
    }
}

async fn follow(
    cluster: &Cluster,
    global: &Global,
    name: &str,
    last: &mut Seen,
) -> Result<End, Failure> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watch::events(cluster.ensembles(), config));
    let mut line = String::new();
    while let Some(event) = events.next().await {
        let object = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => object,
            Ok(Event::Delete(_)) => {
                return Err(Failure::error(format!("{name} was deleted meanwhile")));
            }
            Ok(Event::Init | Event::InitDone) => continue,
            Err(error) => {
                output::say(format!("the watch was cut ({error}); trying again"));
                continue;
            }
        };
        *last = Seen::of(&object);
        let now = members::transition(last, Timestamp::now());
        let content = now.split_once("  ").map_or("", |(_, rest)| rest).to_owned();
        if content != line {
            match global.output {
                Format::Json => output::print(&format!("{}\n", plain(&object)?))?,
                Format::Yaml => {
                    output::print(&format!("---\n{}", output::yaml(&plain(&object)?)?))?
                }
                Format::Table => output::print(&format!("{now}\n"))?,
            }
            line = content;
        }
        if let Some(exit) = ended(last) {
            return Ok(End::At(Box::new(last.clone()), exit));
        }
    }
    Err(Failure::error("the watch has ended"))
}

/// Whether there is nothing more to wait for.
fn ended(seen: &Seen) -> Option<Exit> {
    match seen.report().map(|report| report.state) {
        Some(State::Ready | State::Stalled | State::Paused | State::Suspended) => Some(seen.exit()),
        _ => None,
    }
}

/// Says on stderr what it waits for, so that stdout stays one line per change.
fn explain(global: &Global, seen: &Seen) {
    let paint = Paint::choose(global.color);
    match seen.report() {
        Some(report) => output::say(why::why(&seen.name, report, Timestamp::now(), paint)),
        None => output::say(seen.silence()),
    }
}
