//! What a member says of its cluster: the answer to `GET /cluster`.
//!
//! With Kubernetes as its store, Patroni answers from what its own watches brought: no call is made
//! for it, and it is as fresh as they are. While its watches are broken it does not answer at all.
//! A lock that was not renewed in time by that member's own clock is no lock.

use crate::failure::Failure;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The cluster by one member's word.
#[derive(Clone, Debug, Default)]
pub(super) struct Topology {
    pub(super) members: Vec<Listed>,
    pub(super) paused: bool,
}

/// One member in the list.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    role: String,
    pub(super) lag: Option<u64>,
    /// Where its own REST API is.
    pub(super) at: Option<SocketAddr>,
}

impl Topology {
    pub(super) fn read(cluster: &Value) -> Result<Self, Failure> {
        let members = cluster["members"].as_array().ok_or_else(|| {
            Failure::Unreadable("GET /cluster: there is no list of members in it".into())
        })?;
        Ok(Self {
            members: members.iter().filter_map(Listed::read).collect(),
            paused: cluster["pause"] == true,
        })
    }

    /// Who holds the lock.
    pub(super) fn lock(&self) -> Option<&str> {
        let holds = |m: &&Listed| matches!(m.role.as_str(), "leader" | "standby_leader");
        self.members.iter().find(holds).map(|m| m.name.as_str())
    }

    /// Those that commits wait for: `quorum_standby` since 4.0.
    pub(super) fn sync_standbys(&self) -> BTreeSet<String> {
        let named = |m: &&Listed| matches!(m.role.as_str(), "sync_standby" | "quorum_standby");
        let found = self.members.iter().filter(named);
        found.map(|m| m.name.clone()).collect()
    }

    pub(super) fn member(&self, name: &str) -> Option<&Listed> {
        self.members.iter().find(|m| m.name == name)
    }
}

impl Listed {
    fn read(member: &Value) -> Option<Self> {
        Some(Self {
            name: member["name"].as_str()?.into(),
            role: member["role"].as_str().unwrap_or_default().into(),
            // The word "unknown" is no number.
            lag: member["lag"].as_u64(),
            at: member["api_url"].as_str().and_then(address),
        })
    }
}

/// The address in `http://10.0.0.1:8008/patroni`; nothing if there is a name in its place.
fn address(url: &str) -> Option<SocketAddr> {
    let (_, rest) = url.split_once("://")?;
    rest.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_from_a_url_and_a_name_is_not() {
        for (url, expected) in [
            ("http://10.0.0.1:8008/patroni", Some("10.0.0.1:8008")),
            ("https://[fd00::1]:8008/patroni", Some("[fd00::1]:8008")),
            ("http://pg-0.pg-members:8008/patroni", None),
            ("nonsense", None),
        ] {
            let expected = expected.map(|e| e.parse().unwrap());
            assert_eq!(address(url), expected, "{url}");
        }
    }
}
