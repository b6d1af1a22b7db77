//! `explain`: the page of a reason or of a safety rule. It is in the binary, so that it is there at
//! night without a network, and is about this version.

use crate::args::{Explain, Global};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use crate::view::explain;
use ensemble_api::{Reason, Rule};
use serde_json::json;

/// Explains one word, or lists all of them.
pub fn run(global: &Global, args: &Explain) -> Result<Exit, Failure> {
    let Some(word) = &args.word else {
        let reasons = Reason::ALL.iter().map(|r| json!(explain::reason(*r)));
        let rules = Rule::ALL.iter().map(|r| json!(explain::rule(*r)));
        let all = json!({
            "reasons": reasons.collect::<Vec<_>>(),
            "rules": rules.collect::<Vec<_>>(),
        });
        output::print(&output::render(global.output, &all, explain::all)?)?;
        return Ok(Exit::Converged);
    };
    let is_it = |known: &str| known.eq_ignore_ascii_case(word);
    let reason = Reason::ALL.iter().find(|r| is_it(r.as_str()));
    let rule = Rule::ALL.iter().find(|r| is_it(r.as_str()));
    let (value, text) = match (reason, rule) {
        (Some(reason), _) => (explain::reason(*reason), explain::reason_page(*reason)),
        (None, Some(rule)) => (explain::rule(*rule), explain::rule_page(*rule)),
        (None, None) => return Err(unknown(word)),
    };
    output::print(&output::render(global.output, &value, || text)?)?;
    Ok(Exit::Converged)
}

/// How alike two words have to be for one to be meant by the other.
const ALIKE: f64 = 0.75;

fn unknown(word: &str) -> Failure {
    let reasons = Reason::ALL.iter().map(|r| r.as_str());
    let known = reasons.chain(Rule::ALL.iter().map(|r| r.as_str()));
    let alike =
        |name: &str| strsim::jaro_winkler(&name.to_ascii_lowercase(), &word.to_ascii_lowercase());
    let nearest = known.map(|name| (alike(name), name));
    let nearest = nearest.max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match nearest.filter(|(how, _)| *how >= ALIKE) {
        Some((_, name)) => format!("did you mean '{name}'? type ensemble explain {name}"),
        None => "type ensemble explain for a list of all reasons and rules".to_owned(),
    };
    Failure::error(format!("'{word}' is neither a reason nor a safety rule")).hint(hint)
}
