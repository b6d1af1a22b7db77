//! Ways to the database.

use anyhow::{Context, Result, bail, ensure};
use std::str::FromStr;
use std::time::Duration;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, NoTls};

/// How long one server may take to answer, its name's resolution and the login included.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// A named way to the database, with a table of its own.
#[derive(Clone, Debug)]
pub struct Via {
    /// Its name.
    pub name: String,
    /// One for each server, in the order in which they are tried.
    servers: Vec<Config>,
}

/// An open connection.
pub struct Connection {
    /// To send statements.
    pub client: Client,
    /// The server's own address.
    pub server: String,
}

impl Via {
    /// The name of its table.
    pub fn table(&self) -> String {
        format!("writer_{}", self.name)
    }

    /// The same, with a password where the connection string has none.
    pub fn with_password(mut self, password: Option<&str>) -> Via {
        if let Some(password) = password {
            let without = self
                .servers
                .iter_mut()
                .filter(|s| s.get_password().is_none());
            without.for_each(|server| {
                server.password(password);
            });
        }
        self
    }

    /// The same, refusing servers that only read.
    pub fn to_primary(mut self) -> Via {
        for server in &mut self.servers {
            server.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        self
    }

    /// Connects to the first server that suits, as libpq does. Names are resolved anew every time:
    /// a member that was recreated has another address.
    ///
    /// The library can try several servers by itself, but its time limit ends when the socket is
    /// open: a server that hangs during the login would hang us.
    pub async fn connect(&self) -> Result<Connection> {
        let mut last = anyhow::anyhow!("no server is named");
        for server in &self.servers {
            match tokio::time::timeout(CONNECT_LIMIT, open(server)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => last = error,
                Err(_) => last = anyhow::anyhow!("no answer within {CONNECT_LIMIT:?}"),
            }
        }
        Err(last)
    }
}

async fn open(server: &Config) -> Result<Connection> {
    let (client, connection) = server.connect(NoTls).await?;
    // It ends with the client, or with an error that the client's next statement tells.
    tokio::spawn(connection);
    let row = client
        .query_one("SELECT coalesce(host(inet_server_addr()), 'local')", &[])
        .await?;
    let server = row.try_get(0)?;
    Ok(Connection { client, server })
}

impl FromStr for Via {
    type Err = anyhow::Error;

    /// `NAME=CONNECTION STRING`.
    fn from_str(text: &str) -> Result<Via> {
        let (name, connection) = text.split_once('=').context("expected NAME=CONNECTION")?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        ensure!(
            !name.is_empty() && name.len() <= 40 && name.chars().all(plain),
            "{name:?} becomes part of a table's name: use a-z, 0-9 and _"
        );
        let all: Config = connection
            .parse()
            .with_context(|| format!("{connection:?} is no connection string"))?;
        ensure!(!all.get_hosts().is_empty(), "the connection names no host");
        let servers = (0..all.get_hosts().len()).map(|n| single(&all, n));
        Ok(Via {
            name: name.to_owned(),
            servers: servers.collect::<Result<_>>()?,
        })
    }
}

/// The settings for one of several servers.
fn single(all: &Config, number: usize) -> Result<Config> {
    let mut one = Config::new();
    let Some(Host::Tcp(host)) = all.get_hosts().get(number) else {
        bail!("only hosts that are reached over the network");
    };
    let ports = all.get_ports();
    let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
    one.host(host)
        .port(port)
        .dbname(all.get_dbname().unwrap_or("postgres"))
        .user(all.get_user().unwrap_or("postgres"))
        .application_name("writer")
        .target_session_attrs(all.get_target_session_attrs())
        .connect_timeout(CONNECT_LIMIT)
        // A server that vanished without a word is noticed; one that is only slow is waited for.
        .tcp_user_timeout(Duration::from_secs(2))
        .keepalives_idle(Duration::from_secs(1))
        .keepalives_interval(Duration::from_secs(1))
        .keepalives_retries(2);
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    Ok(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_of_a_string_is_a_server_with_its_own_port() -> Result<()> {
        let text = "hosts=host=a,b port=1,2 user=u target_session_attrs=read-write";
        let via: Via = text.parse()?;
        assert_eq!(via.table(), "writer_hosts");
        let told: Vec<_> = via
            .servers
            .iter()
            .map(|s| (s.get_hosts().to_vec(), s.get_ports().to_vec()))
            .collect();
        let tcp = |name: &str| vec![Host::Tcp(name.to_owned())];
        assert_eq!(told, [(tcp("a"), vec![1]), (tcp("b"), vec![2])]);
        for server in &via.servers {
            let wanted = server.get_target_session_attrs();
            assert_eq!(wanted, TargetSessionAttrs::ReadWrite);
        }
        Ok(())
    }

    #[test]
    fn a_password_is_added_only_where_none_is_given() -> Result<()> {
        let one: Via = "a=host=x".parse()?;
        let one = one.with_password(Some("new"));
        assert_eq!(one.servers[0].get_password(), Some(&b"new"[..]));
        let two: Via = "a=host=x password=old".parse()?;
        let two = two.with_password(Some("new"));
        assert_eq!(two.servers[0].get_password(), Some(&b"old"[..]));
        Ok(())
    }

    #[test]
    fn a_name_that_is_no_part_of_a_table_name_is_refused() {
        for text in ["a b=host=x", "A=host=x", "=host=x", "a;=host=x", "a"] {
            assert!(text.parse::<Via>().is_err(), "{text}");
        }
    }
}
