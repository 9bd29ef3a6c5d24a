//! Connections: how many there are, how long one may take to say something, and their end.

use axum::Router;
use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Sleep, sleep, timeout};

/// Connections at once; more wait until one ends.
const CONNECTIONS: usize = 4096;
/// How long a client may take for the head of a request, and be silent between two of them.
const HEAD: Duration = Duration::from_secs(30);
/// How long a client may be silent within the body of a request, or not take what it is sent.
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
            .serve_connection(TokioIo::new(Read::new(stream, SILENCE)), service)
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

/// A connection that ends in an error where its client takes nothing for too long, so that a file
/// which nobody reads does not keep its place.
struct Read {
    stream: TcpStream,
    longest: Duration,
    /// Runs while the client does not take what is sent.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Read {
    fn new(stream: TcpStream, longest: Duration) -> Read {
        Read {
            stream,
            longest,
            patience: None,
        }
    }

    /// The outcome of a write, or an error once the client had long enough.
    fn patient<T>(
        &mut self,
        context: &mut Context<'_>,
        sent: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.patience = None;
            return sent;
        }
        let patience = self
            .patience
            .get_or_insert_with(|| Box::pin(sleep(self.longest)));
        match patience.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Read {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Read {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.patient(context, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.patient(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(context);
        self.patient(context, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// A client that takes nothing is let go, and one that takes a little now and then is not.
    #[test]
    fn who_does_not_read_is_let_go() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let mut read = Read::new(stream, Duration::from_millis(200));
            let bytes = vec![0; 32 << 20];
            let sent = read.write_all(&bytes).await;
            assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
            drop(client);
        });
    }
}
