//! The log: one line of JSON for everything that happened to a writer.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, Write};
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in seconds since 1970.
    pub at: f64,
    /// By which way to the database.
    pub via: String,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened to a writer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// It has a connection.
    Connected {
        /// The server's address.
        server: String,
    },
    /// It got none.
    Refused {
        /// Why.
        error: String,
    },
    /// A row was acknowledged.
    Acked {
        /// The row.
        id: i64,
        /// How long that took.
        millis: f64,
    },
    /// A row was sent and not acknowledged: nobody knows whether it is there.
    Failed {
        /// The row.
        id: i64,
        /// Why.
        error: String,
    },
    /// It was asked to end.
    Stopped,
}

/// Where lines are written, with times that never go back: a clock that is set meanwhile would
/// look like a pause, or hide one.
pub struct Log {
    out: Mutex<Box<dyn Write + Send>>,
    began: Instant,
    began_at: f64,
}

impl Log {
    /// A log in that file, which may exist, or on standard output.
    pub fn open(path: Option<&str>) -> Result<Log> {
        let out: Box<dyn Write + Send> = match path {
            None | Some("-") => Box::new(std::io::stdout()),
            Some(path) => {
                let file = File::options().create(true).append(true).open(path);
                Box::new(file.with_context(|| format!("cannot write to {path}"))?)
            }
        };
        let began_at = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(Log {
            out: Mutex::new(out),
            began: Instant::now(),
            began_at: began_at.as_secs_f64(),
        })
    }

    /// Writes one line, whole.
    pub fn write(&self, via: &str, event: Event) -> Result<()> {
        let entry = Entry {
            at: self.began_at + self.began.elapsed().as_secs_f64(),
            via: via.to_owned(),
            event,
        };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        let mut out = self.out.lock().unwrap_or_else(|broken| broken.into_inner());
        out.write_all(&line).context("cannot write to the log")?;
        out.flush().context("cannot write to the log")
    }
}

/// Reads a log. Its last line may be half written, if the writer still writes.
pub fn read(text: impl BufRead) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut broken = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.context("cannot read the log")?;
        if let Some(earlier) = broken.take() {
            return Err(earlier);
        }
        match serde_json::from_str(&line) {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                broken = Some(anyhow::anyhow!("line {} of the log: {error}", number + 1));
            }
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"at":1.5,"via":"service","event":"acked","id":7,"millis":2.0}"#;

    #[test]
    fn a_line_is_read_as_it_was_written() -> Result<()> {
        let event = Event::Acked { id: 7, millis: 2.0 };
        let via = "service".to_owned();
        let entry = Entry {
            at: 1.5,
            via,
            event,
        };
        assert_eq!(serde_json::to_string(&entry)?, LINE);
        assert_eq!(read(LINE.as_bytes())?, [entry]);
        Ok(())
    }

    #[test]
    fn a_half_written_last_line_is_left_out_and_one_in_the_middle_is_an_error() -> Result<()> {
        let half = &LINE[..20];
        assert_eq!(read(format!("{LINE}\n{half}").as_bytes())?.len(), 1);
        let failure = read(format!("{half}\n{LINE}\n").as_bytes());
        assert!(failure.is_err_and(|e| e.to_string().contains("line 1")));
        Ok(())
    }
}
