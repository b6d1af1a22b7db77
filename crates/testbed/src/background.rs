//! Work that goes on beside a test, on a thread and runtime of its own.
//!
//! A test's own runtime ends with the test; what several tests share must not live on it.

use std::thread::JoinHandle;

use anyhow::{Context, Result};
use tokio::sync::oneshot;

use crate::phase::say;

/// Work in the background; dropping it ends the work.
pub struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the work.
    pub fn start<Work, Ended>(name: &'static str, work: Work) -> Result<Background>
    where
        Work: FnOnce() -> Ended + Send + 'static,
        Ended: Future<Output = Result<()>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .with_context(|| format!("failed to make a runtime for {name}"))?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    outcome = work() => if let Err(error) = outcome {
                        say(&format!("{name} ended: {error:#}"));
                    },
                    _ = stopped => {}
                }
            });
        });
        Ok(Background {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The work may have ended by itself; then nobody listens.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
