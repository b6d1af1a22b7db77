//! `/healthz`, `/readyz` and `/metrics`.

use crate::ControllerError;
use crate::clock::Clock;
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
    clock: Clock,
    stopping: watch::Receiver<bool>,
) -> Result<Server, ControllerError> {
    let Some(address) = address else {
        return Ok(Server(None));
    };
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ControllerError::Listen { address, source })?;
    tracing::info!(%address, "serving /healthz, /readyz and /metrics");
    Ok(Server(Some(tokio::spawn(accept(
        listener, metrics, clock, stopping,
    )))))
}

async fn accept(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    clock: Clock,
    stopping: watch::Receiver<bool>,
) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let (metrics, clock, stopping) = (metrics.clone(), clock.clone(), stopping.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let path = request.uri().path();
                let response = answer(path, &metrics, clock.now(), *stopping.borrow());
                async move { Ok::<_, Infallible>(response) }
            });
            // A client that goes away in the middle is its own affair.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(path: &str, metrics: &Metrics, now: Time, stopping: bool) -> Response<Full<Bytes>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn code(path: &str, metrics: &Metrics, stopping: bool) -> u16 {
        answer(path, metrics, Time(0), stopping).status().as_u16()
    }

    #[test]
    fn it_is_alive_from_the_start_and_ready_once_everything_was_listed() {
        let metrics = Metrics::new();
        assert_eq!(code("/healthz", &metrics, false), 200);
        assert_eq!(code("/readyz", &metrics, false), 503);
        metrics.ready.set(1);
        assert_eq!(code("/readyz", &metrics, false), 200);
    }

    #[test]
    fn who_stops_is_no_longer_ready_but_still_alive() {
        let metrics = Metrics::new();
        metrics.ready.set(1);
        assert_eq!(code("/readyz", &metrics, true), 503);
        assert_eq!(code("/healthz", &metrics, true), 200);
    }

    #[test]
    fn metrics_are_served_and_nothing_else() {
        let metrics = Metrics::new();
        assert_eq!(code("/metrics", &metrics, false), 200);
        assert_eq!(code("/", &metrics, false), 404);
        assert_eq!(code("/metrics/more", &metrics, false), 404);
    }

    #[tokio::test]
    async fn a_port_that_somebody_else_has_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let (_stop, stopping) = watch::channel(false);
        let served = serve(
            Some(address),
            Arc::new(Metrics::new()),
            Clock::of_test(),
            stopping,
        );
        let error = served.await.err().unwrap().to_string();
        assert!(error.contains(&address.to_string()), "{error}");
    }
}
