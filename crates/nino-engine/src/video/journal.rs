//! What a clip's sampling has come to, in a file: the network's outputs, as soon as they are there.
//! A run that was killed is repeated with these in place of the model's work, and so comes to the
//! same clip to the byte, whatever the sampler keeps from step to step.
//!
//! The file is a line that says what it is, the settings it belongs to, and records one after the
//! other, each with a sum of its bytes. What a killed program left half-written at the end is cut
//! off.

use crate::sample::Remember;
use crate::{EngineError, Latent};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file of predictions.
pub struct Journal {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    records: Vec<Record>,
    /// The first record that was not asked for yet.
    next: usize,
}

/// One record of the file.
#[derive(Clone, Copy)]
struct Record {
    kind: u32,
    expert: u32,
    sigma: u32,
    /// Where its values begin, and how many they are.
    at: u64,
    len: usize,
}

const FIRST_LINE: &[u8] = b"nino video journal 2\n";
/// The network's outputs of one call.
const PREDICTION: u32 = 1;
/// The latent that an expert came to.
const FINISHED: u32 = 2;
/// Kind, expert, noise level, length, sum.
const HEAD: usize = 5 * 4 + 4;
/// Settings of more bytes are none of ours.
const MAX_SETTINGS: u32 = 1 << 20;

impl Journal {
    /// Begins a journal, over one that is there.
    pub fn create(path: &Path, settings: &str) -> Result<Journal, EngineError> {
        let failed = failed(path, "write");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let mut file = options.open(path).map_err(&failed)?;
        let head = [FIRST_LINE, &(settings.len() as u32).to_le_bytes()].concat();
        file.write_all(&[&head[..], settings.as_bytes()].concat())
            .map_err(&failed)?;
        Ok(Journal::of(path, file, Vec::new()))
    }

    /// Opens the journal of a run that did not come to its end; `settings` have to be those it was
    /// begun with.
    pub fn open(path: &Path, settings: &str) -> Result<Journal, EngineError> {
        let failed = failed(path, "read");
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).open(path).map_err(&failed)?;
        let mut input = BufReader::new(&mut file);
        let other = || EngineError::OtherJournal {
            path: path.to_owned(),
        };
        let mut line = [0; FIRST_LINE.len()];
        let mut len = [0; 4];
        let read = input
            .read_exact(&mut line)
            .and_then(|()| input.read_exact(&mut len));
        read.map_err(|_| other())?;
        let len = u32::from_le_bytes(len);
        if line != *FIRST_LINE || len > MAX_SETTINGS {
            return Err(other());
        }
        let mut found = vec![0; len as usize];
        input.read_exact(&mut found).map_err(|_| other())?;
        if found != settings.as_bytes() {
            return Err(other());
        }
        let start = (FIRST_LINE.len() + 4 + found.len()) as u64;
        let (records, end) = whole_records(&mut input, start).map_err(&failed)?;
        drop(input);
        file.set_len(end).map_err(&failed)?;
        file.seek(SeekFrom::End(0)).map_err(&failed)?;
        Ok(Journal::of(path, file, records))
    }

    fn of(path: &Path, file: File, records: Vec<Record>) -> Journal {
        Journal {
            path: path.to_owned(),
            state: Mutex::new(State {
                file,
                records,
                next: 0,
            }),
        }
    }

    /// Predictions that are there to be repeated.
    pub fn predictions(&self) -> usize {
        let state = self.state();
        let all = state.records.iter();
        all.filter(|r| r.kind == PREDICTION).count()
    }

    /// The latent that an expert came to, into one of its shape; `None` where it did not.
    pub(super) fn finished(
        &self,
        expert: usize,
        like: &Latent,
    ) -> Result<Option<Latent>, EngineError> {
        let mut state = self.state();
        let is_it = |r: &Record| r.kind == FINISHED && r.expert == expert as u32;
        let Some(at) = state.records.iter().position(is_it) else {
            return Ok(None);
        };
        let record = state.records[at];
        let mut latent = like.without_values();
        latent.values = vec![0.0; record.len];
        state
            .read(record, &mut latent.values)
            .map_err(failed(&self.path, "read"))?;
        state.next = at + 1;
        Ok(Some(latent))
    }

    /// Keeps the latent that an expert came to.
    pub(super) fn finish(&self, expert: usize, latent: &Latent) -> Result<(), EngineError> {
        self.append(FINISHED, expert as u32, 0, &latent.values)
    }

    fn append(
        &self,
        kind: u32,
        expert: u32,
        sigma: u32,
        values: &[f32],
    ) -> Result<(), EngineError> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut head = Vec::with_capacity(HEAD);
        for number in [kind, expert, sigma] {
            head.extend(number.to_le_bytes());
        }
        head.extend((values.len() as u64).to_le_bytes());
        head.extend(sum(&head, &bytes).to_le_bytes());
        let mut state = self.state();
        let written = state.file.write_all(&[&head[..], &bytes].concat());
        written.map_err(failed(&self.path, "write"))?;
        // What is written now is not to be repeated by this run.
        state.next = state.records.len();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A journal as one expert's sampling sees it.
pub(super) struct OfExpert<'a> {
    pub(super) journal: &'a Journal,
    pub(super) expert: usize,
}

impl Remember for OfExpert<'_> {
    fn recall(&self, sigma: f32, out: &mut [f32]) -> Result<bool, EngineError> {
        let mut state = self.journal.state();
        let Some(&record) = state.records.get(state.next) else {
            return Ok(false);
        };
        let expected = (PREDICTION, self.expert as u32, sigma.to_bits(), out.len());
        if (record.kind, record.expert, record.sigma, record.len) != expected {
            return Err(EngineError::OtherJournal {
                path: self.journal.path.clone(),
            });
        }
        let read = state.read(record, out);
        read.map_err(failed(&self.journal.path, "read"))?;
        state.next += 1;
        Ok(true)
    }

    fn keep(&self, sigma: f32, values: &[f32]) -> Result<(), EngineError> {
        let expert = self.expert as u32;
        self.journal
            .append(PREDICTION, expert, sigma.to_bits(), values)
    }
}

impl State {
    fn read(&mut self, record: Record, out: &mut [f32]) -> io::Result<()> {
        let mut bytes = vec![0; record.len * 4];
        self.file.seek(SeekFrom::Start(record.at))?;
        self.file.read_exact(&mut bytes)?;
        self.file.seek(SeekFrom::End(0))?;
        let values = bytes.as_chunks::<4>().0;
        for (v, bytes) in out.iter_mut().zip(values) {
            *v = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }
}

/// The records that are whole, and where the last of them ends.
fn whole_records(input: &mut impl Read, start: u64) -> io::Result<(Vec<Record>, u64)> {
    let mut records = Vec::new();
    let mut end = start;
    loop {
        let mut head = [0; HEAD];
        if !filled(input, &mut head)? {
            return Ok((records, end));
        }
        let number = |i: usize| {
            let bytes = [0, 1, 2, 3].map(|k| head[4 * i + k]);
            u32::from_le_bytes(bytes)
        };
        let len = u64::from(number(3)) | u64::from(number(4)) << 32;
        let Some(bytes) = len.checked_mul(4).filter(|b| *b < 1 << 33) else {
            return Ok((records, end));
        };
        let mut values = vec![0; bytes as usize];
        if !filled(input, &mut values)? || sum(&head[..HEAD - 4], &values) != number(5) {
            return Ok((records, end));
        }
        records.push(Record {
            kind: number(0),
            expert: number(1),
            sigma: number(2),
            at: end + HEAD as u64,
            len: len as usize,
        });
        end += HEAD as u64 + bytes;
    }
}

/// Whether there was as much as is asked for.
fn filled(input: &mut impl Read, out: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(out) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// FNV-1a of both, folded: enough to tell a half-written record.
fn sum(head: &[u8], values: &[u8]) -> u32 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = head.iter().chain(values).fold(0xcbf2_9ce4_8422_2325, step);
    (hash >> 32) as u32 ^ hash as u32
}

fn failed<'a>(path: &'a Path, action: &'static str) -> impl Fn(io::Error) -> EngineError + 'a {
    move |source| EngineError::Journal {
        path: path.to_owned(),
        action,
        source,
    }
}
