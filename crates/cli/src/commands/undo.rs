//! `undo NAME [--to REVISION]`: an earlier template, written as the user.

use super::{git_warning, plain};
use crate::args::{Global, Undo};
use crate::cluster::{Cluster, FIELD_MANAGER};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::view::Seen;
use crate::view::history::Revision;
use kube::api::PostParams;
use serde_json::Value;

/// Goes back.
pub async fn run(cluster: &Cluster, global: &Global, args: &Undo) -> Result<Exit, Failure> {
    let name = &args.change.name;
    let mut object = cluster.ensemble(name).await?;
    let revisions: Vec<Revision> = cluster
        .revisions(name)
        .await?
        .iter()
        .map(Revision::of)
        .collect();
    let now = object
        .data
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_default();
    let seen = Seen::of(&object);
    let reached = seen
        .status()
        .map(|status| status.current_revision().to_owned())
        .unwrap_or_default();
    let wanted = choose(name, &revisions, &now, &reached, args.to)?;
    let template = template_of(name, wanted)?;
    if template == now {
        let text = || format!("{name} already asks for revision {}\n", wanted.number);
        output::print(&output::render(global.output, &plain(&object)?, text)?)?;
        return Ok(Exit::Converged);
    }
    let Some(spec) = object.data.get_mut("spec").and_then(Value::as_object_mut) else {
        return Err(Failure::error(format!("Ensemble '{name}' has no spec")));
    };
    spec.insert("template".into(), template);
    // A PUT at the version just read: the whole template is put back, not merged with today's, and a
    // change made meanwhile is not lost.
    let params = PostParams {
        dry_run: args.change.dry_run,
        field_manager: Some(FIELD_MANAGER.into()),
    };
    let changed = cluster.ensembles().replace(name, &params, &object).await;
    let doing = format!(
        "cannot put revision {} back into Ensemble '{name}'",
        wanted.number
    );
    let changed = changed.map_err(|error| Failure::of_call(&doing, error))?;
    let dry = if args.change.dry_run {
        " (dry run)"
    } else {
        ""
    };
    let text = || {
        format!(
            "{name} goes back to revision {} ({}){dry}\n",
            wanted.number, wanted.name
        )
    };
    output::print(&output::render(global.output, &plain(&changed)?, text)?)?;
    output::say(git_warning(&object));
    Ok(Exit::Converged)
}

/// Which revision to go back to.
fn choose<'r>(
    name: &str,
    revisions: &'r [Revision],
    now: &Value,
    reached: &str,
    to: Option<i64>,
) -> Result<&'r Revision, Failure> {
    let look = format!("see what there is: ensemble history {name}");
    if let Some(number) = to {
        let found = revisions.iter().find(|revision| revision.number == number);
        return found.ok_or_else(|| {
            Failure::error(format!("--to: {name} has no revision {number}")).hint(look)
        });
    }
    let differs = |revision: &&Revision| template_of(name, revision).is_ok_and(|t| t != *now);
    // A rollout that has not arrived goes back to where everybody last was.
    let whole = revisions
        .iter()
        .find(|revision| revision.name == reached)
        .filter(differs);
    let before = revisions.iter().rev().find(differs);
    whole.or(before).ok_or_else(|| {
        Failure::error(format!("{name} has no other revision to go back to")).hint(look)
    })
}

fn template_of(name: &str, revision: &Revision) -> Result<Value, Failure> {
    match &revision.template {
        Some(template) => Ok(Value::Object(template.0.clone())),
        None => Err(Failure::error(format!(
            "revision {} of {name} ({}) holds no template that can be read",
            revision.number, revision.name
        ))
        .hint(format!("choose another with --to: ensemble history {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn revision(number: i64, image: &str) -> Revision {
        let template = json!({"spec": {"containers": [{"name": "db", "image": image}]}});
        let template = serde_json::from_value(template).unwrap();
        Revision {
            number,
            name: format!("orders-{image}"),
            created: None,
            template: Some(template),
        }
    }

    fn chosen(asked: &str, reached: &str, to: Option<i64>) -> Result<i64, Failure> {
        let revisions = [revision(1, "a"), revision(2, "b"), revision(3, "c")];
        let now = template_of("orders", &revision(0, asked)).unwrap();
        let reached = format!("orders-{reached}");
        choose("orders", &revisions, &now, &reached, to).map(|revision| revision.number)
    }

    #[test]
    fn a_rollout_that_has_not_arrived_goes_back_to_where_everybody_was() {
        assert_eq!(chosen("c", "a", None).unwrap(), 1);
    }

    #[test]
    fn a_rollout_that_has_arrived_goes_back_to_the_revision_before() {
        assert_eq!(chosen("c", "c", None).unwrap(), 2);
    }

    #[test]
    fn the_user_may_name_the_revision_and_a_missing_one_is_said() {
        assert_eq!(chosen("c", "c", Some(1)).unwrap(), 1);
        let failure = chosen("c", "c", Some(9)).unwrap_err();
        assert!(failure.to_string().contains("no revision 9"), "{failure}");
        assert!(
            failure.to_string().contains("ensemble history orders"),
            "{failure}"
        );
    }

    #[test]
    fn with_nothing_to_go_back_to_it_says_so() {
        let only = [revision(1, "a")];
        let now = template_of("orders", &only[0]).unwrap();
        assert!(choose("orders", &only, &now, "orders-a", None).is_err());
    }
}
