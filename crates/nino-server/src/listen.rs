//! Connections: how many there are, how long one may take to say something, and their end.

use axum::Router;
use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Sleep, sleep, timeout};

/// Connections at once; more wait until one ends.
const CONNECTIONS: usize = 4096;
/// How long a client may take for the head of a request, and be silent between two of them.
const HEAD: Duration = Duration::from_secs(30);
/// How long a client may be silent within the body of a request.
const SILENCE: Duration = Duration::from_secs(30);
/// How long requests may take to end when the server stops.
const LAST: Duration = Duration::from_secs(3);

/// Serves until `stop` is true.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = asked(&mut stop) => break,
            accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, listener.accept().await)
            } => accepted,
        };
        let (place, stream) = match accepted {
            (place, Ok((stream, _))) => (place, stream),
            (_, Err(e)) => {
                // Too many open files, most likely: some will close.
                tracing::warn!("a connection could not be taken: {e}");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let inner = TowerToHyperService::new(router.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let request = request.map(|body| Body::new(Patient::new(body)));
            inner.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut stop = stop.clone();
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            // How a connection ended is no news.
            tokio::select! {
                _ = connection.as_mut() => {}
                () = asked(&mut stop) => {
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(LAST, connection).await;
                }
            }
            drop(place);
        });
    }
    let _ = timeout(LAST, places.acquire_many(CONNECTIONS as u32)).await;
}

/// Waits until the server is asked to stop, or nobody is left who could ask.
async fn asked(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A body that ends in an error where nothing comes for too long.
struct Patient {
    body: Incoming,
    patience: Pin<Box<Sleep>>,
}

#[derive(Debug, thiserror::Error)]
enum PatientError {
    #[error("nothing came for {} seconds", SILENCE.as_secs())]
    Silent,
    #[error(transparent)]
    Body(#[from] hyper::Error),
}

impl Patient {
    fn new(body: Incoming) -> Patient {
        Patient {
            body,
            patience: Box::pin(sleep(SILENCE)),
        }
    }
}

impl HttpBody for Patient {
    type Data = Bytes;
    type Error = PatientError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, PatientError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.patience = Box::pin(sleep(SILENCE));
            return Poll::Ready(frame.map(|frame| Ok(frame?)));
        }
        match self.patience.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(PatientError::Silent))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
