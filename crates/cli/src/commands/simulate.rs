//! `simulate`: a file on a cluster in memory.

use crate::args::{Global, Simulate};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::view::changes;
use crate::view::forecast::Told;
use crate::view::paint::Paint;
use crate::{file, output};
use ensemble_rehearsal::forecast::{self, End, Stage, Trouble};
use serde_json::Value;

/// Plays the file.
pub fn run(global: &Global, args: &Simulate) -> Result<Exit, Failure> {
    let wanted = file::ensemble(&args.file)?;
    let before = match &args.from {
        Some(path) => Some(file::ensemble(path)?),
        None => None,
    };
    let metadata = &wanted["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    let namespace = global
        .namespace
        .as_deref()
        .or(metadata["namespace"].as_str());
    let namespace = namespace.unwrap_or("default").to_owned();
    let (classes, zones) = (file::classes(&wanted), file::zones(&wanted));
    let mut stage = Stage::in_zones(&namespace, &name, args.nodes, &classes, zones.as_ref());
    let troubles = troubles(&stage, args, &wanted)?;
    if let Some(before) = &before {
        check_same(args, before, &name)?;
        bring_up(&mut stage, before, &namespace, args)?;
    }
    let old_images = before.as_ref().map(file::images).unwrap_or_default();
    let mut images = file::images(&wanted);
    images.retain(|i| !old_images.contains(i));
    stage.spoil(&troubles, &images);
    let old = stage.ensemble();
    put(
        &mut stage,
        &wanted,
        &namespace,
        &args.file.display().to_string(),
    )?;
    stage.play(&troubles);
    let new = stage.ensemble();
    let generation = |e: &Option<Value>| {
        e.as_ref()
            .and_then(|e| e["metadata"]["generation"].as_i64())
    };
    let changes = match (&old, &new) {
        (Some(old), Some(new)) => changes::between(&old["spec"], &new["spec"]),
        _ => Vec::new(),
    };
    let mut forecast = stage.forecast();
    // It is made of the uid, which is another one in every cluster.
    forecast.plan.clear();
    let told = Told {
        name: &name,
        namespace: &namespace,
        generation: generation(&old).zip(generation(&new)),
        changes: &changes,
        notes: &[],
        forecast: &forecast,
    };
    let text = || told.story(Paint::choose(global.color));
    output::print(&output::render(global.output, &told.value(), text)?)?;
    Ok(match forecast.end {
        End::Converged if forecast.broken.is_none() => Exit::Converged,
        _ => told.exit(),
    })
}

fn troubles(stage: &Stage, args: &Simulate, wanted: &Value) -> Result<Vec<Trouble>, Failure> {
    let drains = args.drain.iter().map(|node| Trouble::drain(node));
    let troubles: Vec<Trouble> = args.fault.iter().cloned().chain(drains).collect();
    let nodes = stage.nodes();
    for trouble in &troubles {
        if let Some(node) = trouble.node().filter(|n| !nodes.iter().any(|k| k == n)) {
            return Err(
                Failure::error(format!("there is no node '{node}' here")).hint(format!(
                    "there are {}; --nodes says how many",
                    nodes.join(", ")
                )),
            );
        }
        if let Some(member) = trouble.member() {
            forecast::asked_for(wanted, member).map_err(Failure::error)?;
        }
    }
    Ok(troubles)
}

fn check_same(args: &Simulate, before: &Value, name: &str) -> Result<(), Failure> {
    let other = before["metadata"]["name"].as_str().unwrap_or_default();
    if other == name {
        return Ok(());
    }
    let from = args.from.as_deref().unwrap_or(&args.file).display();
    Err(Failure::error(format!(
        "{from}: metadata.name: is '{other}', but {} is about '{name}'",
        args.file.display()
    ))
    .hint("both files must be about one Ensemble"))
}

fn bring_up(
    stage: &mut Stage,
    before: &Value,
    namespace: &str,
    args: &Simulate,
) -> Result<(), Failure> {
    let from = args.from.as_deref().unwrap_or(&args.file).display();
    put(stage, before, namespace, &from.to_string())?;
    stage.play(&[]);
    Ok(())
}

/// What our rules refuse here, the API server would refuse there.
fn put(stage: &mut Stage, ensemble: &Value, namespace: &str, file: &str) -> Result<(), Failure> {
    let mut ensemble = ensemble.clone();
    ensemble["metadata"]["namespace"] = namespace.into();
    stage
        .put(&ensemble)
        .map_err(|status| Failure::error(format!("{file} would be refused: {}", status.message)))
}
