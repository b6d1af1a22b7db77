//! A door from this machine's loopback into a network namespace.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::{TcpListener, TcpStream};

/// Accepts connections on loopback and carries them to an address inside a namespace, for ever.
///
/// A socket belongs to the namespace its thread was in when it was made: the listener is made
/// first, then the thread moves, and all connections it makes start inside.
pub fn serve(listen: SocketAddr, namespace: &str, target: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("failed to listen on {listen}"))?;
        let path = format!("/run/netns/{namespace}");
        let file = File::open(&path).with_context(|| format!("failed to open {path}"))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("failed to enter {path}"))?;
        loop {
            match listener.accept().await {
                Ok((incoming, _)) => {
                    tokio::spawn(carry(incoming, target));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    })
}

async fn carry(mut incoming: TcpStream, target: SocketAddr) {
    // When the target is down, the client sees its connection closed, as it should.
    if let Ok(mut outgoing) = TcpStream::connect(target).await {
        let _ = incoming.set_nodelay(true);
        let _ = outgoing.set_nodelay(true);
        let _ = tokio::io::copy_bidirectional(&mut incoming, &mut outgoing).await;
    }
}
