//! Every version the testbed builds or installs. Bumping Kubernetes is one line here.

/// The Kubernetes the testbed runs.
pub const KUBERNETES: &str = "1.36.4";

/// The oldest Kubernetes that Ensemble supports; built only for the API tests.
pub const KUBERNETES_OLDEST: &str = "1.34.10";

/// The etcd under [`KUBERNETES`], and the newer tag of the `etcd` image.
pub const ETCD: &str = "3.6.8";

/// The etcd under [`KUBERNETES_OLDEST`], and the older tag of the `etcd` image.
pub const ETCD_OLDEST: &str = "3.5.35";

/// The newest CoreDNS whose client libraries are not newer than [`KUBERNETES`].
pub const COREDNS: &str = "1.14.7";

/// The Debian release the images are made of.
pub const DEBIAN: &str = "bookworm";

/// The version of the client libraries that goes with a Kubernetes version: 1.36.4 -> 0.36.4.
pub fn library_version(kubernetes: &str) -> String {
    match kubernetes.split_once('.') {
        Some((_, rest)) => format!("0.{rest}"),
        None => kubernetes.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_libraries_carry_the_minor_and_patch_version_of_kubernetes() {
        assert_eq!(library_version("1.36.4"), "0.36.4");
    }
}
