//! Just enough zip: the central directory of an archive whose members are stored uncompressed, as
//! `torch.save` writes it. Layout: PKWARE APPNOTE 4.3, zip64 included.

use std::collections::{HashMap, HashSet};

use crate::Source;

const END: [u8; 4] = *b"PK\x05\x06";
const END_64: [u8; 4] = *b"PK\x06\x06";
const END_64_LOCATOR: [u8; 4] = *b"PK\x06\x07";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// End record plus the longest comment.
const MAX_END: u64 = 22 + 65535;
/// Pickles of real checkpoints have a few hundred KB; storages are never read through here.
const MAX_READ: u64 = 512 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("cannot read {len} bytes at offset {offset}: {reason}")]
    Read {
        offset: u64,
        len: u64,
        reason: std::io::Error,
    },
    #[error("no end record: the file is truncated or not a zip")]
    NoEnd,
    #[error("{what} at offset {offset} does not start with its signature")]
    Signature { what: &'static str, offset: u64 },
    #[error("{what} at offset {offset} with {len} bytes is outside the file of {size}")]
    Outside {
        what: &'static str,
        offset: u64,
        len: u64,
        size: u64,
    },
    #[error("directory entry at offset {offset} is truncated")]
    Entry { offset: u64 },
    #[error("member name at offset {offset} is not UTF-8")]
    Utf8 { offset: u64 },
    #[error("member {name:?} appears twice")]
    Duplicate { name: String },
    #[error("member {name:?} is compressed (method {method}); re-save it with torch.save")]
    Compressed { name: String, method: u16 },
    #[error("member {name:?} says {stored} bytes stored and {plain} plain, though not compressed")]
    Sizes {
        name: String,
        stored: u64,
        plain: u64,
    },
    #[error("member {name:?} at offset {offset} overlaps {other:?}")]
    Overlap {
        name: String,
        other: String,
        offset: u64,
    },
    #[error("member {name:?} has {len} bytes, at most {most} are read")]
    TooLong { name: String, len: u64, most: u64 },
    #[error("no data.pkl in it: not a PyTorch file")]
    NoPickle,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) size: u64,
    method: u16,
    header: u64,
}

#[derive(Debug)]
pub(super) struct Archive {
    members: Vec<Member>,
    by_name: HashMap<String, usize>,
}

impl Archive {
    pub(super) fn read<S: Source + ?Sized>(source: &S) -> Result<Archive, Problem> {
        let (offset, len) = directory_range(source)?;
        let directory = read_vec(source, "central directory", offset, len)?;
        let mut members = Vec::new();
        let mut pos = 0;
        while pos < directory.len() {
            let (member, used) = read_member(&directory[pos..], offset + pos as u64)?;
            members.push(member);
            pos += used;
        }
        check_overlaps(&members, source.size())?;
        let mut seen = HashSet::new();
        if let Some(twice) = members.iter().find(|m| !seen.insert(m.name.as_str())) {
            return Err(Problem::Duplicate {
                name: twice.name.clone(),
            });
        }
        let by_name = members
            .iter()
            .enumerate()
            .map(|(i, m)| (m.name.clone(), i))
            .collect();
        Ok(Archive { members, by_name })
    }

    pub(super) fn find(&self, name: &str) -> Option<&Member> {
        self.by_name.get(name).map(|&i| &self.members[i])
    }

    /// The member `<folder>/suffix` and its folder with the slash; the folder's name is free.
    pub(super) fn find_suffix(&self, suffix: &str) -> Option<(&str, &Member)> {
        self.members.iter().find_map(|m| {
            let root = m.name.strip_suffix(suffix)?;
            (root.is_empty() || root.ends_with('/') && root.matches('/').count() == 1)
                .then_some((root, m))
        })
    }

    /// Where a member's bytes begin, past its local header.
    pub(super) fn data_offset<S: Source + ?Sized>(
        source: &S,
        member: &Member,
    ) -> Result<u64, Problem> {
        if member.method != 0 {
            return Err(Problem::Compressed {
                name: member.name.clone(),
                method: member.method,
            });
        }
        let local = read_vec(source, "local header", member.header, 30)?;
        if local[..4] != LOCAL {
            return Err(Problem::Signature {
                what: "local header",
                offset: member.header,
            });
        }
        let skip = 30 + u64::from(u16_at(&local, 26)) + u64::from(u16_at(&local, 28));
        let offset = member.header + skip;
        check_range(source, "member", offset, member.size)?;
        Ok(offset)
    }

    pub(super) fn bytes<S: Source + ?Sized>(
        source: &S,
        member: &Member,
    ) -> Result<Vec<u8>, Problem> {
        if member.size > MAX_READ {
            let (name, len) = (member.name.clone(), member.size);
            return Err(Problem::TooLong {
                name,
                len,
                most: MAX_READ,
            });
        }
        let offset = Self::data_offset(source, member)?;
        read_vec(source, "member", offset, member.size)
    }
}

/// Members of one archive never share bytes; those that do are how small files become huge.
fn check_overlaps(members: &[Member], size: u64) -> Result<(), Problem> {
    let mut order: Vec<&Member> = members.iter().collect();
    order.sort_by_key(|m| m.header);
    for pair in order.windows(2) {
        let end = pair[0]
            .header
            .saturating_add(30)
            .saturating_add(pair[0].size);
        if end > pair[1].header {
            let (name, other) = (pair[1].name.clone(), pair[0].name.clone());
            return Err(Problem::Overlap {
                name,
                other,
                offset: pair[1].header,
            });
        }
    }
    match order.last() {
        Some(m) if m.header.saturating_add(30).saturating_add(m.size) > size => {
            Err(Problem::Outside {
                what: "member",
                offset: m.header,
                len: m.size,
                size,
            })
        }
        _ => Ok(()),
    }
}

fn directory_range<S: Source + ?Sized>(source: &S) -> Result<(u64, u64), Problem> {
    let size = source.size();
    let tail_len = size.min(MAX_END);
    let tail = read_vec(source, "end record", size - tail_len, tail_len)?;
    let at = (0..tail.len().saturating_sub(21))
        .rev()
        .find(|&i| {
            tail[i..i + 4] == END && i + 22 + usize::from(u16_at(&tail, i + 20)) == tail.len()
        })
        .ok_or(Problem::NoEnd)?;
    let end = &tail[at..];
    let (len, offset) = (u64::from(u32_at(end, 12)), u64::from(u32_at(end, 16)));
    let end_offset = size - tail_len + at as u64;
    let is_64 = end_offset >= 20
        && (len == 0xffff_ffff || offset == 0xffff_ffff || u16_at(end, 10) == 0xffff);
    if is_64 {
        let locator = read_vec(source, "zip64 locator", end_offset - 20, 20)?;
        if locator[..4] == END_64_LOCATOR {
            let at = u64_at(&locator, 8);
            let record = read_vec(source, "zip64 end record", at, 56)?;
            if record[..4] != END_64 {
                return Err(Problem::Signature {
                    what: "zip64 end record",
                    offset: at,
                });
            }
            return Ok((u64_at(&record, 48), u64_at(&record, 40)));
        }
    }
    Ok((offset, len))
}

fn read_member(bytes: &[u8], offset: u64) -> Result<(Member, usize), Problem> {
    if bytes.len() < 46 {
        return Err(Problem::Entry { offset });
    }
    if bytes[..4] != CENTRAL {
        return Err(Problem::Signature {
            what: "directory entry",
            offset,
        });
    }
    let [name_len, extra_len, comment_len] = [28, 30, 32].map(|at| usize::from(u16_at(bytes, at)));
    let used = 46 + name_len + extra_len + comment_len;
    if bytes.len() < used {
        return Err(Problem::Entry { offset });
    }
    let name = std::str::from_utf8(&bytes[46..46 + name_len])
        .map_err(|_| Problem::Utf8 { offset })?
        .to_owned();
    let extra = &bytes[46 + name_len..46 + name_len + extra_len];
    let mut plain = u64::from(u32_at(bytes, 24));
    let mut stored = u64::from(u32_at(bytes, 20));
    let mut header = u64::from(u32_at(bytes, 42));
    let mut wide = wide_fields(extra);
    for field in [&mut plain, &mut stored, &mut header] {
        if *field == 0xffff_ffff {
            *field = wide.next().ok_or(Problem::Entry { offset })?;
        }
    }
    let method = u16_at(bytes, 10);
    if method == 0 && stored != plain {
        return Err(Problem::Sizes {
            name,
            stored,
            plain,
        });
    }
    Ok((
        Member {
            name,
            size: stored,
            method,
            header,
        },
        used,
    ))
}

/// The 64-bit values of the zip64 extra field, those that did not fit 32 bits in fixed order.
fn wide_fields(mut extra: &[u8]) -> impl Iterator<Item = u64> {
    let mut values = Vec::new();
    while extra.len() >= 4 {
        let len = usize::from(u16_at(extra, 2)).min(extra.len() - 4);
        if u16_at(extra, 0) == 1 {
            let (words, _) = extra[4..4 + len].as_chunks::<8>();
            values = words.iter().map(|&w| u64::from_le_bytes(w)).collect();
        }
        extra = &extra[4 + len..];
    }
    values.into_iter()
}

fn check_range<S: Source + ?Sized>(
    source: &S,
    what: &'static str,
    offset: u64,
    len: u64,
) -> Result<(), Problem> {
    let size = source.size();
    if offset.checked_add(len).is_none_or(|end| end > size) {
        return Err(Problem::Outside {
            what,
            offset,
            len,
            size,
        });
    }
    Ok(())
}

fn read_vec<S: Source + ?Sized>(
    source: &S,
    what: &'static str,
    offset: u64,
    len: u64,
) -> Result<Vec<u8>, Problem> {
    check_range(source, what, offset, len)?;
    let mut bytes = vec![0; len as usize];
    source
        .read_exact_at(&mut bytes, offset)
        .map_err(|reason| Problem::Read {
            offset,
            len,
            reason,
        })?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
