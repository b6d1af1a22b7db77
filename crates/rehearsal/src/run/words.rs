//! Calls in a few words, for traces.

use ensemble_conductor::{ApiCall, Verb};

/// Whether it changes something.
pub(super) fn is_write(call: &ApiCall) -> bool {
    !matches!(
        call.verb(),
        Verb::Get | Verb::List | Verb::Create { dry_run: true }
    )
}

/// What a status says of what is done and why something is not, in short.
pub(super) fn said_in(call: &ApiCall) -> String {
    let steps = call.body()["status"]["plan"]["steps"].as_array();
    let words = steps.into_iter().flatten().map(|step| {
        let said = [
            &step["action"],
            &step["member"],
            &step["state"],
            &step["blocker"]["message"],
        ];
        let said: Vec<&str> = said.into_iter().filter_map(|v| v.as_str()).collect();
        format!("; {}", said.join(" "))
    });
    words.collect()
}

/// Its verb and kind.
pub(super) fn describe(call: &ApiCall) -> String {
    let verb = match call.verb() {
        Verb::Create { dry_run: true } => "dry-run".to_owned(),
        Verb::Create { .. } => "create".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{verb} {:?}", call.kind())
}
