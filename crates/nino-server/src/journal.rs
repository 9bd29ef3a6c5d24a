//! Jobs that outlive the process, in an SQLite file: those that wait, and what became of the
//! others. Whatever was queued when the process ended is there when it starts again.
//!
//! Two connections share the file: who reads a long history does not keep a job from being written
//! down.

use crate::job::{Item, Outcome};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Result, params, params_from_iter};
use serde::de::IgnoredAny;
use serde_json::Value;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ended jobs that are kept; ComfyUI keeps as many.
const KEPT: usize = 10_000;
/// Bytes of history that are read at once, or one entry where that is larger.
const PIECE: usize = 1 << 20;
/// `auto_vacuum` of SQLite: pages that nothing uses are given back when that is asked for.
const INCREMENTAL: i64 = 2;
/// A job that was cut off is run again until it was started this often.
pub(crate) const STARTS: usize = 2;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS jobs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        -- pending, running, or how it ended
        status TEXT NOT NULL,
        starts INTEGER NOT NULL DEFAULT 0,
        -- number, id, prompt, extra data, outputs
        job TEXT NOT NULL,
        -- outputs, status and meta of an ended job, and its short form
        entry TEXT,
        summary TEXT,
        created INTEGER NOT NULL DEFAULT 0,
        took INTEGER NOT NULL DEFAULT 0,
        workflow TEXT,
        -- the order in which jobs ended
        ended INTEGER
    );
    CREATE INDEX IF NOT EXISTS by_end ON jobs (ended);
";

pub(crate) struct Journal {
    /// Taken after `reads` by who takes both.
    writes: Mutex<Connection>,
    reads: Mutex<Connection>,
}

/// A job that did not end.
pub(crate) struct Unfinished {
    pub(crate) item: Item,
    /// How often it was started.
    pub(crate) starts: usize,
}

/// Which ended jobs are asked for, of `/api/jobs`.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) statuses: Vec<&'static str>,
    pub(crate) workflow: Option<String>,
    pub(crate) by_duration: bool,
    pub(crate) ascending: bool,
}

impl Journal {
    pub(crate) fn open(path: &Path) -> Result<Journal> {
        let writes = Connection::open(path)?;
        let vacuum: i64 = writes.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
        writes.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
        // With a write-ahead log, what was committed is there after a kill.
        writes.pragma_update(None, "journal_mode", "WAL")?;
        writes.pragma_update(None, "synchronous", "NORMAL")?;
        writes.execute_batch(TABLES)?;
        // A file with tables takes the setting when it is written anew.
        if vacuum != INCREMENTAL
            && let Err(e) = writes.execute_batch("VACUUM")
        {
            tracing::warn!("{} keeps the room of removed jobs: {e}", path.display());
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reads = Connection::open_with_flags(path, flags)?;
        Ok(Journal {
            writes: Mutex::new(writes),
            reads: Mutex::new(reads),
        })
    }

    pub(crate) fn add(&self, item: &Item) -> Result<()> {
        self.writes().execute(
            "INSERT OR REPLACE INTO jobs (id, status, job, created, workflow)
             VALUES (?1, 'pending', ?2, ?3, ?4)",
            params![
                item.id,
                item.to_json().to_string(),
                item.created().unwrap_or(0) as i64,
                item.workflow_id(),
            ],
        )?;
        Ok(())
    }

    pub(crate) fn start(&self, id: &str) -> Result<()> {
        let change = "UPDATE jobs SET status = 'running', starts = starts + 1 WHERE id = ?1";
        self.writes().execute(change, [id]).map(drop)
    }

    /// A running job waits again, as if it had not been started.
    pub(crate) fn put_back(&self, id: &str) -> Result<()> {
        let change = "UPDATE jobs SET status = 'pending', starts = 0 WHERE id = ?1";
        self.writes().execute(change, [id]).map(drop)
    }

    /// Writes down how a job ended. `then` is run before anybody can read of it.
    pub(crate) fn end(&self, item: &Item, outcome: &Outcome, then: impl FnOnce()) -> Result<()> {
        let _nobody_reads = self.reads();
        let ended = self.write_end(item, outcome);
        then();
        ended
    }

    fn write_end(&self, item: &Item, outcome: &Outcome) -> Result<()> {
        let took = outcome.finished().zip(outcome.started());
        let took = took.map_or(0, |(end, start)| end.saturating_sub(start));
        let db = self.writes();
        db.execute(
            "UPDATE jobs SET status = ?2, entry = ?3, summary = ?4, took = ?5,
             ended = (SELECT COALESCE(MAX(ended), 0) + 1 FROM jobs) WHERE id = ?1",
            params![
                item.id,
                outcome.ended.name(),
                outcome.entry().to_string(),
                outcome.summary(item).to_string(),
                took as i64,
            ],
        )?;
        let gone = db.execute(
            "DELETE FROM jobs WHERE ended <= (SELECT MAX(ended) FROM jobs) - ?1",
            [KEPT as i64],
        )?;
        if gone > 0 {
            shrink(&db)?;
        }
        Ok(())
    }

    /// Removes jobs that wait.
    pub(crate) fn remove(&self, ids: &[String]) -> Result<()> {
        let db = self.writes();
        for id in ids {
            db.execute("DELETE FROM jobs WHERE id = ?1 AND ended IS NULL", [id])?;
        }
        shrink(&db)
    }

    /// The jobs that did not end, in the order they came in.
    pub(crate) fn unfinished(&self) -> Result<Vec<Unfinished>> {
        let db = self.reads();
        let mut rows =
            db.prepare("SELECT job, starts FROM jobs WHERE ended IS NULL ORDER BY seq")?;
        let rows = rows.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })?;
        let mut found = Vec::new();
        for row in rows {
            let (job, starts) = row?;
            let item = serde_json::from_str(&job).ok().and_then(Item::from_json);
            if let Some(item) = item {
                let starts = starts as usize;
                found.push(Unfinished { item, starts });
            }
        }
        Ok(found)
    }

    /// The rows of ComfyUI's history: `most` entries from `offset` on, or the last ones.
    pub(crate) fn history(&self, most: Option<usize>, offset: Option<usize>) -> Result<Vec<i64>> {
        let db = self.reads();
        let count: i64 = db.query_row("SELECT COUNT(ended) FROM jobs", [], |row| row.get(0))?;
        let most = most.map_or(i64::MAX, |most| most as i64);
        let offset = offset.map_or((count - most).max(0), |offset| offset as i64);
        let select = "SELECT seq FROM jobs WHERE ended IS NOT NULL
                      ORDER BY ended LIMIT ?1 OFFSET ?2";
        let mut rows = db.prepare(select)?;
        let rows = rows.query_map([most, offset], |row| row.get(0))?;
        rows.collect()
    }

    /// Entries of ComfyUI's history as members of an object, with commas between them: of the
    /// first of these rows, and of more as long as they are small. Says how many rows that were.
    /// One that was forgotten meanwhile is nothing.
    pub(crate) fn entries(&self, rows: &[i64]) -> Result<(String, usize)> {
        let select = "SELECT id, job, entry FROM jobs WHERE seq = ?1 AND ended IS NOT NULL";
        let db = self.reads();
        let mut query = db.prepare_cached(select)?;
        let mut text = String::new();
        for (i, row) in rows.iter().enumerate() {
            if text.len() > PIECE {
                return Ok((text, i));
            }
            let found = query.query_row([row], member).optional()?.flatten();
            if let Some(member) = found {
                text.push_str(if text.is_empty() { "" } else { ", " });
                text.push_str(&member);
            }
        }
        Ok((text, rows.len()))
    }

    /// ComfyUI's history of one job: empty where it is unknown or did not end.
    pub(crate) fn history_of(&self, id: &str) -> Result<Value> {
        let select = "SELECT id, job, entry FROM jobs WHERE id = ?1 AND ended IS NOT NULL";
        let found = self.reads().query_row(select, [id], member).optional()?;
        let text = format!("{{{}}}", found.flatten().unwrap_or_default());
        // What is no JSON is no member.
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    pub(crate) fn forget(&self, ids: &[String]) -> Result<()> {
        let db = self.writes();
        for id in ids {
            db.execute("DELETE FROM jobs WHERE id = ?1 AND ended IS NOT NULL", [id])?;
        }
        shrink(&db)
    }

    pub(crate) fn forget_all(&self) -> Result<()> {
        let db = self.writes();
        db.execute("DELETE FROM jobs WHERE ended IS NOT NULL", [])?;
        shrink(&db)?;
        // Else the file is as large as before until the log is full.
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    /// The short forms of ended jobs, `most` of them from `offset` on, and how many there are.
    pub(crate) fn ended(
        &self,
        wanted: &Wanted,
        most: usize,
        offset: usize,
    ) -> Result<(Vec<Value>, usize)> {
        let mut clauses = vec!["ended IS NOT NULL".to_owned()];
        let mut values: Vec<Sql> = Vec::new();
        let marks = vec!["?"; wanted.statuses.len()].join(", ");
        clauses.push(format!("status IN ({marks})"));
        values.extend(wanted.statuses.iter().map(|s| Sql::from((*s).to_owned())));
        if let Some(workflow) = &wanted.workflow {
            clauses.push("workflow = ?".to_owned());
            values.push(Sql::from(workflow.clone()));
        }
        let clauses = clauses.join(" AND ");
        let db = self.reads();
        let count = format!("SELECT COUNT(*) FROM jobs WHERE {clauses}");
        let total: i64 = db.query_row(&count, params_from_iter(&values), |row| row.get(0))?;
        let by = if wanted.by_duration {
            "took"
        } else {
            "created"
        };
        let order = if wanted.ascending { "ASC" } else { "DESC" };
        let select = format!(
            "SELECT summary FROM jobs WHERE {clauses} ORDER BY {by} {order}, seq {order}
             LIMIT {most} OFFSET {offset}"
        );
        let mut rows = db.prepare(&select)?;
        let rows = rows.query_map(params_from_iter(&values), |row| row.get::<_, String>(0))?;
        let texts = rows.collect::<Result<Vec<String>>>()?;
        let jobs = texts
            .iter()
            .filter_map(|text| serde_json::from_str(text).ok());
        Ok((jobs.collect(), total as usize))
    }

    /// The short form of one ended job.
    pub(crate) fn summary(&self, id: &str) -> Result<Option<Value>> {
        let select = "SELECT summary FROM jobs WHERE id = ?1 AND ended IS NOT NULL";
        let found = self
            .reads()
            .query_row(select, [id], |row| row.get::<_, String>(0));
        let found = found.optional()?;
        Ok(found.and_then(|text| serde_json::from_str(&text).ok()))
    }

    fn writes(&self) -> MutexGuard<'_, Connection> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reads(&self) -> MutexGuard<'_, Connection> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the room of removed jobs back to the disk.
fn shrink(db: &Connection) -> Result<()> {
    // Every step of the statement gives back a page.
    let mut vacuum = db.prepare_cached("PRAGMA incremental_vacuum")?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    Ok(())
}

/// A job's id and entry as a member of an object; `None` of a row that cannot be read.
fn member(row: &rusqlite::Row<'_>) -> Result<Option<String>> {
    let (id, job, entry): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let rest = entry
        .strip_prefix('{')
        .filter(|_| is_json(&entry) && is_json(&job));
    Ok(rest.map(|rest| {
        let comma = if rest.trim_start() == "}" { "" } else { "," };
        format!("{}: {{\"prompt\": {job}{comma} {rest}", Value::from(id))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a server that did not give room back does so when jobs are forgotten.
    #[test]
    fn an_older_journal_shrinks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.sqlite");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(TABLES).unwrap();
        let text = "x".repeat(1 << 20);
        for i in 0..8 {
            let insert = "INSERT INTO jobs (id, status, job, ended) VALUES (?1, 'failed', ?2, ?1)";
            db.execute(insert, params![i, text]).unwrap();
        }
        drop(db);
        let size = || path.metadata().unwrap().len();
        let journal = Journal::open(&path).unwrap();
        assert!(size() > 8 << 20);
        assert_eq!(journal.history(None, None).unwrap().len(), 8);
        journal.forget_all().unwrap();
        assert!(size() < 1 << 20, "{}", size());
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert!(journal.history(None, None).unwrap().is_empty());
    }
}
