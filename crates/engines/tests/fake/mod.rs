//! A small Patroni: a server that gives prepared answers and remembers what it was asked.

#![allow(dead_code)]

use ensemble_engines::Target;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What is answered to a request.
#[derive(Clone, Debug)]
pub enum Says {
    /// These bytes, and then the connection is closed.
    Bytes(Vec<u8>),
    /// Nothing, for ever.
    Nothing,
}

/// An answer as Patroni sends it: HTTP/1.0, no length.
pub fn says(status: u16, body: &str) -> Says {
    let head = format!("HTTP/1.0 {status} Word\r\nServer: BaseHTTP/0.6\r\n");
    let kind = "Content-Type: application/json\r\n\r\n";
    Says::Bytes(format!("{head}{kind}{body}").into_bytes())
}

pub struct Fake {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Answers requests by their first words, `GET /health`; others get 404.
    pub async fn start(answers: &[(&str, Says)]) -> Self {
        Self::start_at("127.0.0.1:0", answers, None).await
    }

    pub async fn start_at(at: &str, answers: &[(&str, Says)], tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let answers: BTreeMap<String, Says> = answers
            .iter()
            .map(|(k, v)| (k.to_string(), v.clone()))
            .collect();
        let shared = (Arc::new(answers), heard.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let ((answers, heard), tls) = (shared.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &answers, &heard).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &answers, &heard).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { address, heard }
    }

    pub fn target(&self, member: &str) -> Target {
        let peers = ["pg-0", "pg-1", "pg-2"];
        let ip = |n: usize| format!("10.0.0.{n}");
        Target {
            member: member.into(),
            address: self.address.ip().to_string(),
            port: self.address.port(),
            peers: (0..3).map(|n| (ip(n), peers[n].to_string())).collect(),
        }
    }

    /// Everything that was asked, head and body.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    answers: &BTreeMap<String, Says>,
    heard: &Mutex<Vec<String>>,
) -> Option<()> {
    let request = request(&mut stream).await?;
    let key = request.split(" HTTP/").next()?.to_owned();
    heard.lock().unwrap().push(request);
    match answers.get(&key).cloned().unwrap_or_else(|| says(404, "")) {
        Says::Nothing => std::future::pending().await,
        Says::Bytes(bytes) => {
            stream.write_all(&bytes).await.ok()?;
            stream.shutdown().await.ok()
        }
    }
}

async fn request<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        text.push_str(std::str::from_utf8(&buffer[..n]).ok()?);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |l| l.parse().unwrap()) {
            return Some(text);
        }
    }
}
