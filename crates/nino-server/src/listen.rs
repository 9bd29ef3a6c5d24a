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
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

/// Connections at once, WebSockets among them; more wait until one ends.
const CONNECTIONS: usize = 8192;
/// Files that the rest of the server may have open: models, pictures, the journal, an `ffmpeg`.
const FILES: usize = 256;
/// The least number of connections, however few files the system allows.
const LEAST: usize = 16;
/// How long a client may take for the head of a request, and be silent between two of them.
const HEAD: Duration = Duration::from_secs(30);
/// How long a client may be silent within the body of a request, or not take what it is sent.
const SILENCE: Duration = Duration::from_secs(30);
/// Bytes of a body that have to come in a second, after a first while of [`SILENCE`]. What comes
/// more slowly keeps its room from others.
const RATE: usize = 64 << 10;
/// How long requests may take to end when the server stops.
const LAST: Duration = Duration::from_secs(3);

/// How many connections there may be, as far as the system allows files to be open.
pub(crate) fn places() -> usize {
    let files = nino_files::raise_open_files().unwrap_or(usize::MAX);
    files.saturating_sub(FILES).clamp(LEAST, CONNECTIONS)
}

/// A connection's place among all, which a request finds among its extensions, and which a
/// WebSocket keeps.
#[derive(Clone)]
pub(crate) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Serves until `stop` is true, `places` connections at once.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    places: usize,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(places));
    // Is closed when the last connection has ended, but for WebSockets, which end by themselves.
    let (open, mut closed) = mpsc::channel::<()>(1);
    loop {
        let accepted = tokio::select! {
            () = asked(&mut stop) => break,
            accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, listener.accept().await)
            } => accepted,
        };
        let (place, stream) = match accepted {
            (Ok(permit), Ok((stream, _))) => {
                let place = Place {
                    _permit: Arc::new(permit),
                };
                (place, stream)
            }
            // Nobody closes the places.
            (Err(_), _) => break,
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
            let mut request = request.map(|body| Body::new(Patient::new(body, SILENCE)));
            request.extensions_mut().insert(place.clone());
            inner.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD)
            .serve_connection(TokioIo::new(Read::new(stream, SILENCE)), service)
            .with_upgrades();
        let (mut stop, open) = (stop.clone(), open.clone());
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
            drop(open);
        });
    }
    drop(open);
    let _ = timeout(LAST, closed.recv()).await;
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

/// A body that ends in an error where nothing comes for too long, or little for longer.
struct Patient<B> {
    body: B,
    silence: Duration,
    /// When it was asked for first.
    since: Option<Instant>,
    received: usize,
    patience: Pin<Box<Sleep>>,
}

#[derive(Debug, thiserror::Error)]
enum PatientError<E> {
    #[error("the body comes too slowly: the least is {} KiB a second", RATE >> 10)]
    Slow,
    #[error(transparent)]
    Body(E),
}

impl<B> Patient<B> {
    fn new(body: B, silence: Duration) -> Patient<B> {
        Patient {
            body,
            silence,
            since: None,
            received: 0,
            patience: Box::pin(sleep(silence)),
        }
    }

    /// When what came until now is too little.
    fn due(&self, since: Instant) -> Instant {
        since + self.silence + Duration::from_secs_f64(self.received as f64 / RATE as f64)
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Patient<B> {
    type Data = Bytes;
    type Error = PatientError<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let since = self.since.unwrap_or_else(Instant::now);
        if self.since.is_none() {
            // The request may have waited for room until now.
            self.since = Some(since);
            self.patience = Box::pin(sleep(self.silence));
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let data = frame
                .as_ref()
                .and_then(|frame| frame.as_ref().ok()?.data_ref());
            self.received += data.map_or(0, Bytes::len);
            let now = Instant::now();
            let due = self.due(since);
            if frame.is_some() && now > due {
                return Poll::Ready(Some(Err(PatientError::Slow)));
            }
            let until = due.min(now + self.silence);
            self.patience = Box::pin(sleep_until(until));
            return Poll::Ready(frame.map(|frame| frame.map_err(PatientError::Body)));
        }
        match self.patience.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(PatientError::Slow))),
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

    /// A body that gives a byte now and then, as long as it is asked.
    struct Drips(Pin<Box<Sleep>>);

    impl HttpBody for Drips {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            if self.0.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.0 = Box::pin(sleep(Duration::from_millis(10)));
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    /// A client that sends a byte now and then would keep the room of its body for ever.
    #[test]
    fn a_body_that_drips_is_given_up() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let drips = Drips(Box::pin(sleep(Duration::ZERO)));
            let mut body = Patient::new(drips, Duration::from_millis(300));
            let mut next = async || {
                std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
            };
            let since = Instant::now();
            while let Some(Ok(_)) = next().await {
                assert!(since.elapsed() < Duration::from_secs(10), "it goes on");
            }
            assert!(since.elapsed() >= Duration::from_millis(300));
        });
    }
}
