//! One question, one connection, one answer.
//!
//! Patroni speaks HTTP/1.0 and closes after every answer, so there is nothing to keep: a connection
//! is opened for each question, to the given address and nowhere else. No names are looked up, no
//! proxy is asked, no redirect is followed, nothing is sent twice.

use crate::access::{Access, AccessError};
use crate::failure::Failure;
use crate::target::Target;
use crate::tls;
use base64::Engine as _;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT,
};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// The longest answer that is read.
const LONGEST: usize = 1 << 20;

/// A question.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) body: Vec<u8>,
    /// What lets us in, where that is not the same for all questions.
    pub(crate) token: Option<HeaderValue>,
    /// For connecting, asking and hearing the whole answer.
    pub(crate) patience: Duration,
}

/// An answer, whatever its status.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// How questions are sent.
#[derive(Clone)]
pub(crate) struct Wire {
    tls: Option<TlsConnector>,
    credentials: Option<HeaderValue>,
}

impl Wire {
    pub(crate) fn new(access: &Access) -> Result<Self, AccessError> {
        Ok(Self {
            tls: tls::config(access)?.map(TlsConnector::from),
            credentials: credentials(access)?,
        })
    }

    /// Asks, and waits as long as the question has patience.
    pub(crate) async fn ask(
        &self,
        target: &Target,
        question: &Question,
    ) -> Result<Answer, Failure> {
        let seconds = question.patience.as_secs();
        let late = || Failure::Unreachable(format!("no answer within {seconds} s"));
        let exchange = self.exchange(target, question);
        tokio::time::timeout(question.patience, exchange)
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(&self, target: &Target, question: &Question) -> Result<Answer, Failure> {
        let nowhere = || Failure::Unreachable(format!("{:?} is no address", target.address));
        let socket = target.socket().ok_or_else(nowhere)?;
        let request = self.request(socket, question)?;
        let stream = TcpStream::connect(socket).await.map_err(failure)?;
        let Some(tls) = &self.tls else {
            return talk(stream, request).await;
        };
        let name = ServerName::IpAddress(socket.ip().into());
        let stream = tls.connect(name, stream).await.map_err(failure)?;
        talk(stream, request).await
    }

    fn request(
        &self,
        socket: SocketAddr,
        question: &Question,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::builder()
            .method(&question.method)
            .uri(question.path)
            .header(HOST, socket.to_string())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, "ensemble")
            .header(CONNECTION, "close");
        if !question.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        // An address may have gone to a stranger since. Without TLS a password goes along only
        // where Patroni wants one: with what changes something, just after the member was seen.
        let credentials = self.credentials.as_ref();
        let needed = self.tls.is_some() || question.method != Method::GET;
        if let Some(credentials) = credentials.filter(|_| needed) {
            request = request.header(AUTHORIZATION, credentials);
        } else if let Some(token) = &question.token {
            request = request.header(AUTHORIZATION, token);
        }
        let body = Full::new(Bytes::from(question.body.clone()));
        request
            .body(body)
            .map_err(|e| Failure::Unreachable(e.to_string()))
    }
}

fn credentials(access: &Access) -> Result<Option<HeaderValue>, AccessError> {
    let (Some(username), Some(password)) = (&access.username, &access.password) else {
        return Ok(None);
    };
    let encoded = base64::prelude::BASE64_STANDARD.encode(format!("{username}:{password}"));
    let value = HeaderValue::from_str(&format!("Basic {encoded}"));
    let mut value = value.map_err(|e| AccessError::Unusable {
        key: "password",
        cause: e.to_string(),
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

async fn talk<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Answer, Failure>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(failure)?;
    // Ends with this function, also when it is given up half way.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let response = sender.send_request(request).await.map_err(failure)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LONGEST).collect().await;
    let body = body.map_err(|e| Failure::from(&*e as &(dyn Error + 'static)))?;
    Ok(Answer {
        status,
        body: body.to_bytes(),
    })
}

fn failure(error: impl Error + 'static) -> Failure {
    Failure::from(&error as &(dyn Error + 'static))
}
