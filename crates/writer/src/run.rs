//! Writing all the time.

use crate::connection::{Connection, Via};
use crate::log::{Event, Log};
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_postgres::error::SqlState;

/// How long to wait between two writes, and before another connection after an error.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two writes.
    pub write: Duration,
    /// After an error.
    pub retry: Duration,
}

/// Writes by one way until told to stop; every outcome is in the log.
pub async fn write(
    via: Via,
    log: Arc<Log>,
    pace: Pace,
    mut stop: watch::Receiver<bool>,
) -> Result<()> {
    let mut writing = Writing {
        via,
        log,
        connection: None,
        next: None,
    };
    loop {
        let pause = tokio::select! {
            _ = stop.wait_for(|stopped| *stopped) => break,
            done = writing.once() => if done? { pace.write } else { pace.retry },
        };
        tokio::select! {
            _ = stop.wait_for(|stopped| *stopped) => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    writing.say(Event::Stopped)
}

struct Writing {
    via: Via,
    log: Arc<Log>,
    connection: Option<Connection>,
    /// The next number; unknown before the table was seen.
    next: Option<i64>,
}

impl Writing {
    fn say(&self, event: Event) -> Result<()> {
        self.log.write(&self.via.name, event)
    }

    /// One attempt: to connect, or to write a row. Whether it succeeded.
    async fn once(&mut self) -> Result<bool> {
        let Some(connection) = &self.connection else {
            return self.connect().await;
        };
        let Some(id) = self.next else {
            return self.prepare().await;
        };
        // A number is never used again: an unacknowledged row may be there all the same.
        self.next = Some(id + 1);
        let statement = format!("INSERT INTO {} (id) VALUES ({id})", self.via.table());
        let began = Instant::now();
        match connection.client.batch_execute(&statement).await {
            Ok(()) => {
                let millis = began.elapsed().as_secs_f64() * 1000.0;
                self.say(Event::Acked { id, millis })?;
                Ok(true)
            }
            Err(error) => {
                self.connection = None;
                let error = described(&error);
                self.say(Event::Failed { id, error })?;
                Ok(false)
            }
        }
    }

    async fn connect(&mut self) -> Result<bool> {
        match self.via.connect().await {
            Ok(connection) => {
                let server = connection.server.clone();
                self.connection = Some(connection);
                self.say(Event::Connected { server })?;
                // The first write follows at once.
                Box::pin(self.once()).await
            }
            Err(error) => {
                let error = format!("{error:#}");
                self.say(Event::Refused { error })?;
                Ok(false)
            }
        }
    }

    /// Makes the table if it is not there, and goes on where an earlier writer ended.
    async fn prepare(&mut self) -> Result<bool> {
        let Some(connection) = &self.connection else {
            return Ok(false);
        };
        match first_number(connection, &self.via.table()).await {
            Ok(next) => {
                self.next = Some(next);
                Ok(true)
            }
            Err(error) => {
                self.connection = None;
                let error = described(&error);
                self.say(Event::Refused { error })?;
                Ok(false)
            }
        }
    }
}

async fn first_number(connection: &Connection, table: &str) -> Result<i64, tokio_postgres::Error> {
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {table} \
         (id bigint PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())"
    );
    connection.client.batch_execute(&create).await?;
    let newest = format!("SELECT coalesce(max(id), 0) + 1 FROM {table}");
    connection.client.query_one(&newest, &[]).await?.try_get(0)
}

/// The server's words where it said some, else the library's.
fn described(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) if said.code() == &SqlState::READ_ONLY_SQL_TRANSACTION => {
            "this server only reads".to_owned()
        }
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    }
}
