//! Free ports on loopback, reserved against other testbeds for as long as they are held.

use std::net::TcpListener;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use crate::cache;

/// Below the range that the kernel takes for outgoing connections, so that a server that is
/// stopped for a while finds its port free when it comes back.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A reserved port.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _reservation: std::fs::File,
}

impl Port {
    /// Reserves a port that nobody listens on.
    pub fn reserve() -> Result<Port> {
        let dir = cache::root()?.join("locks");
        std::fs::create_dir_all(&dir)?;
        let width = RANGE.end - RANGE.start;
        let offset = u16::try_from(std::process::id() % u32::from(width))?;
        for step in 0..width {
            let number = RANGE.start + (offset + step) % width;
            let path = dir.join(format!("port-{number}"));
            let file = std::fs::File::create(&path)
                .with_context(|| format!("failed to open {}", path.display()))?;
            let reserved = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if reserved && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Ok(Port {
                    number,
                    _reservation: file,
                });
            }
        }
        bail!("no free port between {} and {}", RANGE.start, RANGE.end)
    }

    /// The port number.
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reservations_never_share_a_port() {
        let (one, two) = (Port::reserve().unwrap(), Port::reserve().unwrap());
        assert_ne!(one.number(), two.number());
    }
}
