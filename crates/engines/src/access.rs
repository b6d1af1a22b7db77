//! What a Secret brings: who we are, and whom we trust.

use std::collections::BTreeMap;
use std::fmt;

/// What a Secret brought.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// For HTTP's basic authentication.
    pub username: Option<String>,
    /// For HTTP's basic authentication.
    pub password: Option<String>,
    /// The authority that signs the members' certificates, PEM.
    pub ca: Option<Vec<u8>>,
    /// Our own certificate and what leads to its authority, PEM.
    pub certificate: Option<Vec<u8>>,
    /// Its private key, PEM.
    pub key: Option<Vec<u8>>,
}

/// What is wrong with a Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Something needed is not there.
    #[error("{key} is missing in the Secret: {why}")]
    Missing {
        /// The Secret's key.
        key: &'static str,
        /// Why it is needed.
        why: &'static str,
    },
    /// Something is there and cannot be used.
    #[error("{key} in the Secret cannot be used: {cause}")]
    Unusable {
        /// The Secret's key.
        key: &'static str,
        /// What is wrong with it.
        cause: String,
    },
}

impl Access {
    /// Reads a Secret's data. With `tls`, what TLS needs must be there; without, it is left alone.
    pub fn from_secret(tls: bool, data: &BTreeMap<String, Vec<u8>>) -> Result<Self, AccessError> {
        let bytes = |key: &str| data.get(key).filter(|v| tls && !v.is_empty()).cloned();
        let access = Self {
            tls,
            username: text(data, "username")?,
            password: text(data, "password")?,
            ca: bytes("ca.crt"),
            certificate: bytes("tls.crt"),
            key: bytes("tls.key"),
        };
        access.check()?;
        Ok(access)
    }

    /// Whether what belongs together is there together.
    pub(crate) fn check(&self) -> Result<(), AccessError> {
        let missing = |key, why| Err(AccessError::Missing { key, why });
        match (&self.username, &self.password) {
            (Some(_), None) => return missing("password", "it has a username"),
            (None, Some(_)) => return missing("username", "it has a password"),
            (Some(name), _) if name.contains(':') => {
                let cause = "a username with a colon cannot be sent".into();
                let key = "username";
                return Err(AccessError::Unusable { key, cause });
            }
            _ => {}
        }
        if !self.tls {
            return Ok(());
        }
        match (&self.ca, &self.certificate, &self.key) {
            (None, _, _) => missing("ca.crt", "tls is on, and no other authority is trusted"),
            (_, Some(_), None) => missing("tls.key", "it has tls.crt"),
            (_, None, Some(_)) => missing("tls.crt", "it has tls.key"),
            _ => Ok(()),
        }
    }
}

/// One line of text. The newline that editors add to a file is not part of a password.
fn text(
    data: &BTreeMap<String, Vec<u8>>,
    key: &'static str,
) -> Result<Option<String>, AccessError> {
    let Some(bytes) = data.get(key) else {
        return Ok(None);
    };
    let unusable = |cause: &str| AccessError::Unusable {
        key,
        cause: cause.into(),
    };
    let text = std::str::from_utf8(bytes).map_err(|_| unusable("it is not UTF-8"))?;
    let line = text.trim_end_matches(['\r', '\n']);
    match line {
        "" => Ok(None),
        _ if line.chars().any(char::is_control) => Err(unusable("it has control characters")),
        _ => Ok(Some(line.into())),
    }
}

/// Says what is there, never what it is.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = |is: bool| if is { "set" } else { "none" };
        f.debug_struct("Access")
            .field("tls", &self.tls)
            .field("username", &there(self.username.is_some()))
            .field("password", &there(self.password.is_some()))
            .field("ca", &there(self.ca.is_some()))
            .field("certificate", &there(self.certificate.is_some()))
            .field("key", &there(self.key.is_some()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(entries: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        let bytes = |(k, v): &(&str, &str)| (k.to_string(), v.as_bytes().to_vec());
        entries.iter().map(bytes).collect()
    }

    #[test]
    fn the_newline_of_an_editor_is_not_part_of_a_password() {
        let data = secret(&[("username", "admin"), ("password", "pass word\n")]);
        let access = Access::from_secret(false, &data).unwrap();
        assert_eq!(access.password.as_deref(), Some("pass word"));
    }

    #[test]
    fn what_is_missing_or_wrong_in_a_secret_is_named() {
        type Case<'a> = (bool, &'a [(&'a str, &'a str)], &'a str);
        let cases: &[Case<'_>] = &[
            (false, &[("username", "a")], "password is missing"),
            (false, &[("password", "a")], "username is missing"),
            (
                false,
                &[("username", "a:b"), ("password", "c")],
                "username in the Secret cannot",
            ),
            (
                false,
                &[("username", "a\0"), ("password", "c")],
                "control characters",
            ),
            (true, &[], "ca.crt is missing"),
            (
                true,
                &[("ca.crt", "x"), ("tls.crt", "y")],
                "tls.key is missing",
            ),
            (
                true,
                &[("ca.crt", "x"), ("tls.key", "y")],
                "tls.crt is missing",
            ),
        ];
        for (tls, data, expected) in cases {
            let error = Access::from_secret(*tls, &secret(data)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn what_tls_needs_is_left_alone_without_tls() {
        let access = Access::from_secret(false, &secret(&[("ca.crt", "x")])).unwrap();
        assert_eq!(access, Access::default());
    }

    #[test]
    fn no_secret_is_ever_printed() {
        let access = Access {
            username: Some("alice".into()),
            password: Some("sesame".into()),
            key: Some(b"sesame".to_vec()),
            ..Access::default()
        };
        let printed = format!("{access:?}");
        assert!(
            !printed.contains("sesame") && !printed.contains("alice"),
            "{printed}"
        );
    }
}
