//! `waive`: one safety rule is suspended for one member and a while, as an EnsembleRequest of the user's.

use super::ask::{blank, create, named, until};
use crate::args::{Global, Waive};
use crate::cluster::Cluster;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use ensemble_api::request::{self, AcceptedWaiver, EnsembleRequest};
use ensemble_api::status::{EnsembleStatus, MEMBERS_MAX};
use ensemble_api::{EnsembleRequestSpec, Outcome, Rule};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::time::Duration;

/// Asks for a waiver, and waits until it is accepted or refused.
pub async fn run(cluster: &Cluster, global: &Global, args: &Waive) -> Result<Exit, Failure> {
    let object = cluster.ensemble(&args.name).await?;
    let status = object.data.get("status").cloned().unwrap_or(Value::Null);
    is_member(args, &serde_json::from_value(status).unwrap_or_default())?;
    let spec = EnsembleRequestSpec {
        waive: Some(request::Waive {
            rule: args.rule.to_string(),
            member: args.member.clone(),
            for_seconds: u32::try_from(args.length.as_secs()).unwrap_or(u32::MAX),
        }),
        ..blank(&args.name, Some(args.reason.clone()))
    };
    let made = create(cluster, "waive", spec).await?;
    if args.no_wait {
        return shown(global, &made, &format!("{} created", named(&made)));
    }
    output::say(format!(
        "created {}; waiting until the controller accepts it",
        named(&made)
    ));
    let waited = tokio::select! {
        known = until(cluster, &made, |s| s.waiver.is_some() || s.outcome.is_some()) => Some(known?),
        () = tokio::time::sleep(args.timeout) => None,
        _ = tokio::signal::ctrl_c() => {
            output::say(format!("interrupted; {} stays", named(&made)));
            return Ok(Exit::Interrupted);
        }
    };
    let Some(known) = waited else {
        output::say(format!(
            "not accepted yet; {} stays. Does the controller run? {}",
            named(&made),
            cluster.pasted(&format!("ensemble why {}", args.name))
        ));
        return Ok(Exit::TimedOut);
    };
    let words = told(cluster, args, &known);
    shown(global, &known, &words)?;
    let outcome = known.status.as_ref().and_then(|s| s.outcome);
    Ok(match outcome {
        None => Exit::Converged,
        Some(Outcome::Done) => Exit::Blocked,
        Some(Outcome::Refused | Outcome::Failed) => Exit::Refused,
    })
}

/// What became of it, in words.
fn told(cluster: &Cluster, args: &Waive, known: &EnsembleRequest) -> String {
    let status = known.status.clone().unwrap_or_default();
    match &status.waiver {
        Some(AcceptedWaiver { until, .. }) if status.outcome.is_none() => {
            let name = known.metadata.name.as_deref().unwrap_or_default();
            let end = cluster.pasted(&format!("kubectl delete ensemblerequest {name}"));
            format!(
                "{} is suspended for {} until {}; every other rule holds\nto end it earlier: {end}",
                args.rule, args.member, until.0
            )
        }
        _ => status.message,
    }
}

fn shown(global: &Global, request: &EnsembleRequest, words: &str) -> Result<Exit, Failure> {
    let status = request.status.as_ref();
    let waiver = status.and_then(|s| s.waiver.as_ref());
    let value = json!({
        "request": request.metadata.name,
        "ensemble": request.spec.ensemble,
        "waive": request.spec.waive,
        "until": waiver.map(|w| &w.until),
        "outcome": status.and_then(|s| s.outcome),
        "message": words,
    });
    let text = || format!("{words}\n");
    output::print(&output::render(global.output, &value, text)?)?;
    Ok(Exit::Converged)
}

/// A member that the status does not list is a typing error, as far as the list is whole.
fn is_member(args: &Waive, status: &EnsembleStatus) -> Result<(), Failure> {
    let names: Vec<&str> = status.members.iter().map(|m| m.name.as_str()).collect();
    let whole = !names.is_empty() && names.len() < MEMBERS_MAX;
    if !whole || names.contains(&args.member.as_str()) {
        return Ok(());
    }
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let hint = match nearest(&args.member, names) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("its members are {}", sorted.join(", ")),
    };
    let text = format!(
        "--member: '{}' is not a member of {}",
        args.member, args.name
    );
    Err(Failure::error(text).hint(hint))
}

/// The one that was probably meant.
fn nearest<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let names = names.into_iter();
    let near = names.map(|name| (strsim::damerau_levenshtein(text, name), name));
    let near = near.filter(|(distance, name)| *distance <= name.len() / 3);
    near.min().map(|(_, name)| name)
}

/// Reads a rule that can be waived; completion and help know all of them.
#[derive(Clone)]
pub struct WaivableRule;

impl TypedValueParser for WaivableRule {
    type Value = Rule;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Rule, clap::Error> {
        let read = StringValueParser::new().try_map(|text| rule(&text));
        read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let known = Rule::waivable().map(|r| PossibleValue::new(r.as_str()).help(r.page().demands));
        Some(Box::new(known))
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let all: Vec<&str> = Rule::waivable().map(Rule::as_str).collect();
    let Some(rule) = Rule::named(text) else {
        return Err(match nearest(text, all.iter().copied()) {
            Some(near) => format!("no rule has this name; did you mean '{near}'?"),
            None => format!(
                "no rule has this name; the rules that can be waived are {}",
                all.join(", ")
            ),
        });
    };
    let page = rule.page();
    match page.guards {
        _ if page.waivable => Ok(rule),
        Some(promise) if promise.page().waivable => Err(format!(
            "this rule is part of '{promise}' and is not waived by itself; waive '{promise}'"
        )),
        _ => Err(format!(
            "this rule cannot be waived, because breaking it could lose data or damage objects \
             that are not Ensemble's. It says: {}",
            page.demands
        )),
    }
}

/// A reason that says something.
pub fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    let most = 1024;
    if text.is_empty() {
        return Err("say why you take the risk, for example \"orders-1 is beyond repair\"".into());
    }
    if text.chars().count() > most {
        return Err(format!("at most {most} characters"));
    }
    Ok(text.to_owned())
}

/// For how long a rule may be suspended.
pub fn length(text: &str) -> Result<Duration, String> {
    let length = crate::args::duration(text)?;
    let (least, most) = (
        request::Waive::SHORTEST_SECONDS,
        request::Waive::LONGEST_SECONDS,
    );
    let seconds = length.as_secs();
    if seconds < u64::from(least) || seconds > u64::from(most) {
        return Err("a rule is waived for at least 1m and at most 24h, for example 10m".into());
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_rule_gets_the_name_that_was_meant() {
        assert_eq!(rule(Rule::WithinBudget.as_str()), Ok(Rule::WithinBudget));
        let near = rule("witihn-budget").unwrap_err();
        assert!(near.contains("did you mean 'within-budget'?"), "{near}");
        let far = rule("everything").unwrap_err();
        assert!(far.contains("can be waived are within-budget,"), "{far}");
    }

    #[test]
    fn what_cannot_be_waived_says_why_and_a_guard_names_its_rule() {
        let data = rule(Rule::ClaimsIntact.as_str()).unwrap_err();
        assert!(data.contains("could lose data"), "{data}");
        let guard = rule(Rule::ReadyIsNotInSync.as_str()).unwrap_err();
        assert!(guard.contains("waive 'within-budget'"), "{guard}");
        for one in Rule::ALL {
            assert_eq!(rule(one.as_str()).is_ok(), one.page().waivable, "{one}");
        }
    }

    #[test]
    fn a_waiver_has_a_reason_and_an_end() {
        assert!(reason("   ").is_err() && reason("a disk is lost").is_ok());
        assert_eq!(length("10m").unwrap().as_secs(), 600);
        for text in ["59s", "25h", "10", ""] {
            assert!(length(text).is_err(), "{text}");
        }
    }

    #[test]
    fn completion_offers_exactly_the_rules_that_can_be_waived() {
        let offered: Vec<String> = WaivableRule
            .possible_values()
            .unwrap()
            .map(|v| v.get_name().to_owned())
            .collect();
        assert!(offered.iter().all(|name| rule(name).is_ok()));
        assert!(offered.contains(&Rule::RoleKnown.to_string()));
        assert!(!offered.contains(&Rule::DataPresent.to_string()));
    }
}
