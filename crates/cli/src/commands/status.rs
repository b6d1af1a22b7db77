//! `status [NAME]`.

use super::{plain, until, watch};
use crate::args::{Global, Status};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::view::paint::Paint;
use crate::view::{Seen, list, members};
use jiff::Timestamp;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

/// Lists ensembles, shows one, or goes on showing.
pub async fn run(cluster: &Cluster, global: &Global, args: &Status) -> Result<Exit, Failure> {
    if args.wait {
        return until::converged(cluster, global, args).await;
    }
    if args.watch {
        return watch::run(cluster, global, args).await;
    }
    match &args.name {
        Some(name) => one(cluster, global, name).await,
        None => all(cluster, global, args).await,
    }
}

async fn one(cluster: &Cluster, global: &Global, name: &str) -> Result<Exit, Failure> {
    let object = cluster.ensemble(name).await?;
    let seen = Seen::of(&object);
    let text = || members::picture(&seen, Timestamp::now(), Paint::choose(global.color));
    output::print(&output::render(global.output, &plain(&object)?, text)?)?;
    Ok(seen.exit())
}

async fn all(cluster: &Cluster, global: &Global, args: &Status) -> Result<Exit, Failure> {
    let mut params = ListParams::default();
    params.label_selector.clone_from(&args.selector);
    let found = api(cluster, args).list(&params).await;
    let found = found
        .map_err(|error| Failure::of_call(&listing(cluster, args), error))?
        .items;
    let seen: Vec<Seen> = found.iter().map(Seen::of).collect();
    if seen.is_empty() {
        output::say(nothing(cluster, args));
    }
    let items: Result<Vec<Value>, Failure> = found.iter().map(plain).collect();
    let text = || match seen.is_empty() {
        true => String::new(),
        false => list::list(
            &seen,
            args.all_namespaces,
            Timestamp::now(),
            Paint::choose(global.color),
        ),
    };
    output::print(&output::render(global.output, &output::list(items?), text)?)?;
    Ok(Exit::Converged)
}

/// Where to look.
pub fn api(cluster: &Cluster, args: &Status) -> Api<DynamicObject> {
    if args.all_namespaces {
        cluster.all_ensembles()
    } else {
        cluster.ensembles()
    }
}

/// What is being done, for errors.
pub fn listing(cluster: &Cluster, args: &Status) -> String {
    match args.all_namespaces {
        true => "cannot list ensembles in all namespaces".to_owned(),
        false => format!("cannot list ensembles in namespace '{}'", cluster.namespace),
    }
}

fn nothing(cluster: &Cluster, args: &Status) -> String {
    let labelled = args
        .selector
        .as_ref()
        .map(|labels| format!(" with labels {labels}"));
    let labelled = labelled.unwrap_or_default();
    match args.all_namespaces {
        true => format!("no ensembles{labelled} in any namespace"),
        false => format!(
            "no ensembles{labelled} in namespace '{}'; -A looks in all",
            cluster.namespace
        ),
    }
}
