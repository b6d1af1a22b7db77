//! Where one member is asked.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Where one member is asked, and by which addresses its peers are known to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The member's name, which is its pod's.
    pub member: String,
    /// Its pod's address, v4 or v6. Never a name: nothing is looked up.
    pub address: String,
    /// The port of its agent.
    pub port: u16,
    /// All members by the addresses of their pods.
    pub peers: BTreeMap<String, String>,
}

impl Target {
    /// The address and the port together; nothing if the address is none.
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        let ip: IpAddr = self.address.parse().ok()?;
        Some(SocketAddr::new(ip, self.port))
    }

    /// Whether a peer has that name.
    pub(crate) fn is_peer(&self, name: &str) -> bool {
        self.peers.values().any(|peer| peer == name)
    }

    /// The peer at that address.
    pub(crate) fn peer_at(&self, address: IpAddr) -> Option<&str> {
        let at = |(ip, _): &(&String, &String)| same(ip, address);
        self.peers.iter().find(at).map(|(_, name)| name.as_str())
    }
}

/// Addresses are compared as addresses: one v6 address can be written in many ways, and a v4 one
/// may come in v6 clothes.
fn same(written: &str, address: IpAddr) -> bool {
    let written: Result<IpAddr, _> = written.parse();
    written.is_ok_and(|ip| ip.to_canonical() == address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_v6_address_is_bracketed_before_its_port() {
        let target = Target {
            address: "fd00::7".into(),
            port: 8008,
            ..Target::default()
        };
        assert_eq!(target.socket().unwrap().to_string(), "[fd00::7]:8008");
    }

    #[test]
    fn a_name_is_no_address() {
        let target = Target {
            address: "localhost".into(),
            ..Target::default()
        };
        assert_eq!(target.socket(), None);
    }

    #[test]
    fn a_peer_is_found_however_its_address_is_written() {
        let peers = [("fd00:0:0::1", "pg-0"), ("10.0.0.2", "pg-1")];
        let target = Target {
            peers: peers.map(|(k, v)| (k.into(), v.into())).into(),
            ..Target::default()
        };
        for (address, name) in [
            ("fd00::1", Some("pg-0")),
            ("::ffff:10.0.0.2", Some("pg-1")),
            ("10.0.0.3", None),
        ] {
            assert_eq!(target.peer_at(address.parse().unwrap()), name, "{address}");
        }
    }
}
