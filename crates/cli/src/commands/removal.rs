//! `remove` and `replace`: one member leaves for good, as an EnsembleRequest of the user's.

use super::ask::{blank, create, outcome};
use crate::args::{Global, duration, ensemble_name};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use clap::Args;
use ensemble_api::EnsembleRequestSpec;
use ensemble_api::request;
use std::time::Duration;

/// Which member, and how long to wait.
#[derive(Args, Debug)]
pub struct Member {
    /// The ensemble
    #[arg(value_parser = ensemble_name)]
    pub name: String,
    /// The member, such as orders-1
    #[arg(value_name = "MEMBER")]
    pub member: String,
    /// Why, for those who read the request later
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// How long to wait for the outcome: 90s, 10m
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m")]
    pub timeout: Duration,
    /// Only ask
    #[arg(long, conflicts_with = "timeout")]
    pub no_wait: bool,
}

/// `remove`.
#[derive(Args, Debug)]
pub struct Remove {
    /// Which member.
    #[command(flatten)]
    pub which: Member,
    /// Keep its PersistentVolumeClaims, whatever spec.storage.whenScaled says
    #[arg(long)]
    pub keep_volumes: bool,
}

/// Asks for a removal, and waits for what comes of it.
pub async fn remove(cluster: &Cluster, global: &Global, args: &Remove) -> Result<Exit, Failure> {
    let which = &args.which;
    let spec = EnsembleRequestSpec {
        remove: Some(request::Remove {
            member: which.member.clone(),
            keep_volumes: args.keep_volumes,
        }),
        ..blank(&which.name, which.reason.clone())
    };
    ask(cluster, global, "remove", spec, which).await
}

/// Asks for a replacement, and waits for what comes of it.
pub async fn replace(cluster: &Cluster, global: &Global, which: &Member) -> Result<Exit, Failure> {
    let spec = EnsembleRequestSpec {
        replace: Some(request::Replace {
            member: which.member.clone(),
        }),
        ..blank(&which.name, which.reason.clone())
    };
    ask(cluster, global, "replace", spec, which).await
}

async fn ask(
    cluster: &Cluster,
    global: &Global,
    what: &str,
    spec: EnsembleRequestSpec,
    which: &Member,
) -> Result<Exit, Failure> {
    cluster.ensemble(&which.name).await?;
    let made = create(cluster, what, spec).await?;
    let wait = (!which.no_wait).then_some(which.timeout);
    outcome(cluster, global, &made, wait).await
}
