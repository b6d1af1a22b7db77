//! `/healthz`, `/readyz` and `/metrics`.

use crate::ControllerError;
use crate::metrics::Metrics;
use ensemble_conductor::Time;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Ends with it.
pub struct Server(Option<tokio::task::JoinHandle<()>>);

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Serves until told to stop.
pub async fn serve(
    address: Option<SocketAddr>,
    metrics: Arc<Metrics>,
    stopping: watch::Receiver<bool>,
) -> Result<Server, ControllerError> {
    let Some(address) = address else {
        return Ok(Server(None));
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ControllerError::Listen { address, source })?;
    tracing::info!(%address, "serving /healthz, /readyz and /metrics");
    Ok(Server(Some(tokio::spawn(accept(
        listener, metrics, stopping,
    )))))
}

async fn accept(listener: TcpListener, metrics: Arc<Metrics>, stopping: watch::Receiver<bool>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (metrics, stopping) = (metrics.clone(), stopping.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(request.uri().path(), &metrics, *stopping.borrow());
                async move { Ok::<_, Infallible>(response) }
            });
            // A client that goes away in the middle is its own affair.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(path: &str, metrics: &Metrics, stopping: bool) -> Response<Full<Bytes>> {
    let now = Time(jiff::Timestamp::now().as_millisecond());
    let (code, body) = match path {
        "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" if stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n".to_owned()),
        "/readyz" if metrics.ready.get() == 1 => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "not everything was listed yet\n".to_owned(),
        ),
        "/metrics" => (StatusCode::OK, metrics.text(now)),
        _ => (
            StatusCode::NOT_FOUND,
            "try /healthz, /readyz or /metrics\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    response
}
