//! What a member said, put together from its answers.

use super::{Alarm, Listed, Sighting};
use crate::failure::Failure;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// From its answers to `maintenance/status` and `cluster/member/list`, which a learner refuses.
pub(super) fn read(status: &Value, list: Result<Value, Failure>) -> Result<Sighting, Failure> {
    let missing = |what: &str| Failure::Unreadable(format!("it does not tell its {what}"));
    let header = &status["header"];
    let member = number(&header["member_id"]).ok_or_else(|| missing("member_id"))?;
    let cluster = number(&header["cluster_id"]).ok_or_else(|| missing("cluster_id"))?;
    let learner = status["isLearner"] == true;
    let listed = match list {
        Ok(list) => listed(&list)?,
        Err(_) if learner => BTreeMap::new(),
        Err(failure) => return Err(failure),
    };
    // What is 0 is left out.
    let count = |key: &str| number(&status[key]).unwrap_or(0);
    Ok(Sighting {
        cluster,
        member,
        term: count("raftTerm"),
        leader: count("leader"),
        index: count("raftIndex"),
        applied: count("raftAppliedIndex"),
        learner,
        listed,
        alarms: alarms(&status["errors"]),
        version: status["version"].as_str().unwrap_or_default().to_owned(),
        database_mib: count("dbSize") >> 20,
    })
}

/// Numbers of 64 bits are texts in JSON.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

fn listed(list: &Value) -> Result<BTreeMap<u64, Listed>, Failure> {
    let members = list["members"].as_array();
    let members = members.ok_or_else(|| Failure::Unreadable("it lists no members".into()))?;
    let one = |member: &Value| {
        let id = number(&member["ID"])?;
        let urls = member["peerURLs"].as_array().into_iter().flatten();
        let hosts = urls.filter_map(|url| host(url.as_str()?));
        let listed = Listed {
            name: member["name"].as_str().unwrap_or_default().to_owned(),
            hosts: hosts.collect(),
            learner: member["isLearner"] == true,
        };
        Some((id, listed))
    };
    let read = members.iter().map(one).collect::<Option<_>>();
    read.ok_or_else(|| Failure::Unreadable("it lists a member without an ID".into()))
}

/// The first label of the host name in an address; an address of numbers has none.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split(['/', ':']).next()?;
    let label = host.split('.').next()?;
    // An address of version 6 stands in brackets.
    let is_name = !label.starts_with('[') && label.chars().any(|c| c.is_ascii_alphabetic());
    is_name.then(|| label.to_owned())
}

/// `memberID:12919973624204876822 alarm:NOSPACE`; other errors are left out: that nobody leads is told
/// otherwise.
fn alarms(errors: &Value) -> BTreeSet<Alarm> {
    let errors = errors.as_array().into_iter().flatten();
    let alarm = |error: &Value| {
        let (member, kind) = error.as_str()?.split_once(" alarm:")?;
        Some(Alarm {
            member: member.strip_prefix("memberID:")?.trim().parse().ok()?,
            kind: kind.trim().to_owned(),
        })
    };
    errors.filter_map(alarm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_known_by_the_host_name_of_its_peers_address() {
        for (url, label) in [
            ("http://orders-0.orders-members:2380", Some("orders-0")),
            (
                "https://orders-0.orders-members.shop.svc:2380/",
                Some("orders-0"),
            ),
            ("https://orders-0:2380", Some("orders-0")),
            ("http://127.0.0.1:2380", None),
            ("http://[fd00::1]:2380", None),
            ("orders-0:2380", None),
        ] {
            assert_eq!(host(url).as_deref(), label, "{url}");
        }
    }
}
