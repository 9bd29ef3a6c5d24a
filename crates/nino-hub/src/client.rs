//! One client for all requests. The only file that names the HTTP library.
//!
//! A request runs on a thread of its own, which hands over the headers and then the body in pieces.
//! The caller waits for these in short slices, so that it can stop at any moment and holds every
//! limit itself; the thread ends by the library's own time limits at the latest.
//!
//! Redirects are followed here and not by the library, which would give the token to another port
//! of the same host.

use crate::address::{Address, Origin};
use crate::answer::Headers;
use crate::body::{Body, Message, wait};
use crate::{HubError, Limits, Watcher};
use std::fmt;
use std::io::Read;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;
use ureq::{Agent, http};

/// Bytes of a body that are handed over at a time.
const PIECE: usize = 128 << 10;
/// Pieces that may wait for the caller.
const AHEAD: usize = 4;

/// An access token. It is never shown.
#[derive(Clone)]
pub struct Token(http::HeaderValue);

impl Token {
    pub fn new(text: &str) -> Result<Token, HubError> {
        let value = http::HeaderValue::from_str(&format!("Bearer {}", text.trim()));
        let mut value = value.map_err(|_| HubError::Token)?;
        value.set_sensitive(true);
        Ok(Token(value))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A token, and the one origin that may see it.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    pub(crate) token: Token,
    pub(crate) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Head,
    Get,
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) address: Address,
    /// The first byte that is wanted.
    pub(crate) start: u64,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    /// Where it came from, after redirects.
    pub(crate) address: Address,
    pub(crate) body: Body,
}

pub(crate) struct Client {
    agent: Agent,
    pub(crate) limits: Limits,
    credentials: Option<Credentials>,
}

impl Client {
    /// `proxy` says whether the system's proxy is used, as the `HTTPS_PROXY` variable names it.
    pub(crate) fn new(limits: Limits, credentials: Option<Credentials>, proxy: bool) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(limits.connect))
            .timeout_connect(Some(limits.connect))
            .timeout_send_request(Some(limits.answer))
            .timeout_recv_response(Some(limits.answer))
            .timeout_per_read(Some(limits.stall))
            .max_response_header_size(limits.most_header_bytes)
            .user_agent(concat!("nino/", env!("CARGO_PKG_VERSION")));
        let config = if proxy { config } else { config.proxy(None) };
        Client {
            agent: config.build().into(),
            limits,
            credentials,
        }
    }

    /// Follows redirects until one that `is_enough` or an answer that is none, and gives an error
    /// for answers that say no.
    pub(crate) fn ask(
        &self,
        mut request: Request,
        watcher: &dyn Watcher,
        mut is_enough: impl FnMut(&Answer) -> bool,
    ) -> Result<Answer, HubError> {
        let asked = request.address.clone();
        for _ in 0..=self.limits.redirects {
            let answer = self.exchange(&request, watcher)?;
            let location = answer.headers.get("location");
            let location = location.filter(|_| (300..400).contains(&answer.status));
            let Some(location) = location else {
                return checked(answer);
            };
            if is_enough(&answer) {
                return Ok(answer);
            }
            let next = request.address.redirected(location);
            let next = next.map_err(|why| HubError::BadRedirect {
                url: request.address.to_string(),
                why,
            })?;
            if request.address.origin().is_https() && !next.origin().is_https() {
                return Err(HubError::Downgrade {
                    url: request.address.to_string(),
                });
            }
            tracing::debug!("{} leads to {next}", request.address);
            request.address = next;
        }
        Err(HubError::TooManyRedirects {
            url: asked.to_string(),
            most: self.limits.redirects,
        })
    }

    /// One request and the headers of its answer; the body comes when it is asked for.
    fn exchange(&self, request: &Request, watcher: &dyn Watcher) -> Result<Answer, HubError> {
        let url = request.address.to_string();
        let no_answer = |why: String| HubError::NoAnswer {
            url: url.clone(),
            why,
        };
        let sent = self.http_request(request);
        let sent = sent.map_err(|error| no_answer(error.to_string()))?;
        let (sender, receiver) = sync_channel(AHEAD);
        let agent = self.agent.clone();
        let thread = std::thread::Builder::new().name("download".to_owned());
        let thread = thread.spawn(move || run(&agent, sent, &sender));
        thread.map_err(|error| no_answer(error.to_string()))?;
        // The library's own limits say better what took too long; this one holds if they do not.
        let Limits {
            connect, answer, ..
        } = self.limits;
        let deadline = Instant::now() + 2 * connect + 2 * answer;
        let (status, headers) = match wait(&receiver, deadline, watcher)? {
            Some(Message::Head { status, headers }) => (status, headers),
            Some(Message::Failed(why)) => return Err(no_answer(why)),
            Some(Message::Bytes(_) | Message::End) => {
                return Err(no_answer("it has no headers".to_owned()));
            }
            None => return Err(no_answer("it took too long".to_owned())),
        };
        Ok(Answer {
            status,
            headers,
            address: request.address.clone(),
            body: Body::new(receiver, url, &self.limits),
        })
    }

    fn http_request(&self, request: &Request) -> Result<http::Request<()>, http::Error> {
        let method = match request.method {
            Method::Head => http::Method::HEAD,
            Method::Get => http::Method::GET,
        };
        let mut builder = http::Request::builder()
            .method(method)
            .uri(request.address.full())
            // Compressed answers would make lengths and ranges meaningless.
            .header("accept-encoding", "identity");
        let known = self.credentials.as_ref();
        if let Some(known) = known.filter(|c| c.origin == *request.address.origin()) {
            builder = builder.header("authorization", known.token.0.clone());
        }
        if request.start > 0 {
            builder = builder.header("range", format!("bytes={}-", request.start));
        }
        builder.body(())
    }
}

fn checked(answer: Answer) -> Result<Answer, HubError> {
    let url = || answer.address.to_string();
    if !(200..300).contains(&answer.status) {
        let retry_after = answer.headers.get("retry-after");
        return Err(HubError::Status {
            url: url(),
            status: answer.status,
            retry_after: retry_after.and_then(|s| s.parse().ok()),
        });
    }
    let encoding = answer.headers.get("content-encoding");
    if let Some(encoding) = encoding.filter(|e| !e.eq_ignore_ascii_case("identity")) {
        return Err(HubError::BadAnswer {
            url: url(),
            what: "encoding",
            why: format!("{encoding:?} was not asked for"),
        });
    }
    Ok(answer)
}

/// The thread of a request. It ends when all is handed over or nobody listens any more.
fn run(agent: &Agent, request: http::Request<()>, sender: &SyncSender<Message>) {
    let response = match agent.run(request) {
        Ok(response) => response,
        Err(error) => {
            let _ = sender.send(Message::Failed(error.to_string()));
            return;
        }
    };
    let (parts, body) = response.into_parts();
    let pairs = parts.headers.iter().filter_map(|(name, value)| {
        let value = std::str::from_utf8(value.as_bytes()).ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    let head = Message::Head {
        status: parts.status.as_u16(),
        headers: Headers::new(pairs),
    };
    let mut open = sender.send(head).is_ok();
    let mut reader = body.into_reader();
    while open {
        let mut piece = vec![0; PIECE];
        let message = match reader.read(&mut piece) {
            Ok(0) => Message::End,
            Ok(n) => {
                piece.truncate(n);
                Message::Bytes(piece)
            }
            Err(error) => Message::Failed(error.to_string()),
        };
        open = matches!(message, Message::Bytes(_));
        open &= sender.send(message).is_ok();
    }
}
