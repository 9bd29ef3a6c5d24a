//! Web addresses: where a request goes, and whether two of them go to the same origin.
//!
//! Only what this crate needs of RFC 3986: `http` and `https`, a host, a port, a path with a query.
//! A user name and password in an address are dropped, so that they reach neither a server nor a
//! message.

use std::fmt::{self, Write as _};

/// The longest address that is taken; signed ones have about a thousand characters.
const MOST_BYTES: usize = 8 << 10;

/// Scheme, host and port. A token is meant for exactly one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    https: bool,
    /// In small letters.
    host: String,
    port: u16,
}

/// Where a request goes. As text it has no query, because queries hold signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    origin: Origin,
    /// Begins with `/`, and has every byte escaped that HTTP does not carry.
    path: String,
    query: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("it does not begin with https:// or http://")]
    Scheme,
    #[error("its host is not a name or a number")]
    Host,
    #[error("its port is not a number from 1 to 65535")]
    Port,
    #[error("it has control characters in it")]
    Control,
    #[error("it is longer than {MOST_BYTES} bytes")]
    TooLong,
}

impl Origin {
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn is_https(&self) -> bool {
        self.https
    }
}

impl Address {
    pub fn parse(text: &str) -> Result<Address, AddressError> {
        if text.len() > MOST_BYTES {
            return Err(AddressError::TooLong);
        }
        if text.contains(char::is_control) {
            return Err(AddressError::Control);
        }
        let (scheme, rest) = text.split_once("://").ok_or(AddressError::Scheme)?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(AddressError::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (path, query) = path_and_query(rest);
        Ok(Address {
            origin: origin(https, authority)?,
            path,
            query,
        })
    }

    /// Where an answer's `Location` leads.
    pub fn redirected(&self, location: &str) -> Result<Address, AddressError> {
        let scheme = if self.origin.https { "https" } else { "http" };
        if location.starts_with("//") {
            return Address::parse(&format!("{scheme}:{location}"));
        }
        let first = location.split(['/', '?', '#']).next().unwrap_or_default();
        if first.contains(':') {
            return Address::parse(location);
        }
        if location.len() > MOST_BYTES {
            return Err(AddressError::TooLong);
        }
        if location.contains(char::is_control) {
            return Err(AddressError::Control);
        }
        let whole = if location.starts_with('/') {
            location.to_owned()
        } else if location.starts_with('?') {
            format!("{}{location}", self.path)
        } else {
            let folder = self.path.rfind('/').map_or("", |at| &self.path[..at]);
            format!("{folder}/{location}")
        };
        let (path, query) = path_and_query(&whole);
        Ok(Address {
            origin: self.origin.clone(),
            path,
            query,
        })
    }

    /// The address of something below this one: every part is escaped, so none can add a folder, a
    /// query or a header.
    #[must_use]
    pub fn below<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Address {
        let mut path = self.path.trim_end_matches('/').to_owned();
        for part in parts {
            path.push('/');
            path.push_str(&escaped(part));
        }
        Address {
            origin: self.origin.clone(),
            path,
            query: None,
        }
    }

    #[must_use]
    pub fn with_query(mut self, query: &str) -> Address {
        self.query = Some(query.to_owned());
        self
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The parts of the path, as they were before they were escaped.
    pub fn parts(&self) -> Vec<String> {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        parts.map(unescaped).collect()
    }

    /// All of it, as a request needs it.
    pub(crate) fn full(&self) -> String {
        match &self.query {
            Some(query) => format!("{self}?{query}"),
            None => self.to_string(),
        }
    }
}

fn origin(https: bool, authority: &str) -> Result<Origin, AddressError> {
    // A user name and a password end at the last `@`.
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or(AddressError::Host)?;
        check_host(host, |c| c.is_ascii_hexdigit() || ":.".contains(c))?;
        (format!("[{host}]"), after)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        let (host, after) = authority.split_at(end);
        check_host(host, |c| c.is_ascii_alphanumeric() || ".-_".contains(c))?;
        (host.to_owned(), after)
    };
    let port = match port.strip_prefix(':') {
        Some("") => None,
        Some(digits) => {
            let port = digits.parse().ok().filter(|&port: &u16| port > 0);
            Some(port.ok_or(AddressError::Port)?)
        }
        None if port.is_empty() => None,
        None => return Err(AddressError::Host),
    };
    Ok(Origin {
        https,
        host: host.to_ascii_lowercase(),
        port: port.unwrap_or(if https { 443 } else { 80 }),
    })
}

fn check_host(host: &str, known: impl Fn(char) -> bool) -> Result<(), AddressError> {
    if host.is_empty() || !host.chars().all(known) {
        return Err(AddressError::Host);
    }
    Ok(())
}

/// Without the fragment, which is not sent.
fn path_and_query(text: &str) -> (String, Option<String>) {
    let text = text.split('#').next().unwrap_or_default();
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(carried(query))),
        None => (text, None),
    };
    let path = if path.is_empty() { "/" } else { path };
    (carried(path), query)
}

/// Text that is escaped already, with what HTTP cannot carry escaped as well.
fn carried(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b);
    escape(text, plain)
}

/// One part of a path, from a name as people write it.
fn escaped(name: &str) -> String {
    escape(name, |b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
}

fn escape(text: &str, plain: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// What is not a whole escape, or not UTF-8 after it, stays as it is.
fn unescaped(part: &str) -> String {
    let bytes = part.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let value = digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok());
        out.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).unwrap_or_else(|_| part.to_owned())
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.https {
            ("https", 443)
        } else {
            ("http", 80)
        };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != usual {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}
