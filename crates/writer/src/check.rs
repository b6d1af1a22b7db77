//! Comparing what was acknowledged with what is in the tables.

use crate::connection::Via;
use crate::log::{self, Entry, Event};
use crate::tally::{Tally, Window, tally};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, Instant};

/// Reads the log, then the tables, in this order: a row that is acknowledged in between is not
/// taken for a lost one. So the check may be made while the writer writes.
pub async fn check(
    path: &str,
    ways: &[Via],
    window: Window,
    limit: Duration,
) -> Result<Vec<Tally>> {
    let entries = read(path)?;
    let mut tallies = Vec::new();
    for via in ways {
        let known = entries.iter().any(|e| e.via == via.name && is_ack(e));
        ensure!(known, "the log has no acknowledged write by {:?}", via.name);
        let stored = stored(&via.clone().to_primary(), limit).await?;
        tallies.push(tally(&via.name, &entries, &stored, window));
    }
    Ok(tallies)
}

fn is_ack(entry: &Entry) -> bool {
    matches!(entry.event, Event::Acked { .. })
}

fn read(path: &str) -> Result<Vec<Entry>> {
    if path == "-" {
        return log::read(std::io::stdin().lock());
    }
    let file = File::open(path).with_context(|| format!("cannot read {path}"))?;
    log::read(BufReader::new(file))
}

/// All numbers in the table, as the primary has them.
async fn stored(via: &Via, limit: Duration) -> Result<BTreeSet<i64>> {
    let began = Instant::now();
    loop {
        match all_numbers(via).await {
            Ok(numbers) => return Ok(numbers),
            Err(error) if began.elapsed() > limit => {
                return Err(error.context(format!("no primary by {:?}", via.name)));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

async fn all_numbers(via: &Via) -> Result<BTreeSet<i64>> {
    let connection = via.connect().await?;
    let query = format!("SELECT id FROM {}", via.table());
    let rows = connection.client.query(&query, &[]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
