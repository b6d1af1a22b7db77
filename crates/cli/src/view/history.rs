//! The revisions of an ensemble.

use super::age::age;
use super::list::table;
use ensemble_api::Template;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;

/// A stored revision.
#[derive(Clone, Debug)]
pub struct Revision {
    /// Its number; going back to an old template gives it a new one.
    pub number: i64,
    /// Its name, made of its content.
    pub name: String,
    /// When it was first stored.
    pub created: Option<Timestamp>,
    /// What the user wrote; None if it cannot be read.
    pub template: Option<Template>,
}

impl Revision {
    /// Reads one.
    pub fn of(stored: &ControllerRevision) -> Self {
        let template = stored.data.as_ref().and_then(|data| data.0.get("template"));
        Self {
            number: stored.revision,
            name: stored.name_any(),
            created: stored
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
            template: template.and_then(|t| serde_json::from_value(t.clone()).ok()),
        }
    }
}

/// One row a revision, the newest first. `asked` is what the spec asks for, `reached` what last
/// reached all members.
pub fn history(revisions: &[Revision], asked: &str, reached: &str, now: Timestamp) -> String {
    let rows: Vec<Vec<String>> = revisions
        .iter()
        .rev()
        .map(|revision| {
            let mut marks = Vec::new();
            if revision.name == asked {
                marks.push("asked for");
            }
            if revision.name == reached {
                marks.push("reached all");
            }
            let images = match &revision.template {
                Some(template) => template.images().join(", "),
                None => "cannot be read".to_owned(),
            };
            vec![
                revision.number.to_string(),
                revision.name.clone(),
                revision
                    .created
                    .map_or_else(|| "-".into(), |created| age(created, now)),
                if marks.is_empty() {
                    "-".to_owned()
                } else {
                    marks.join(", ")
                },
                images,
            ]
        })
        .collect();
    table(
        &["REVISION", "NAME", "AGE", "STATE", "IMAGES"],
        &rows,
        |_, cell| cell.to_owned(),
    )
}
