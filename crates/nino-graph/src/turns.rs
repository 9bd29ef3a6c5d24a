//! Sessions of one arena, each safe to hand to another thread.
//!
//! What one session leaves in the arena another finds there, so only one of them may be at work at
//! a time. A lock that they share makes that true whatever threads they end up on.

use crate::{ExecError, Node, OpTime, RunOptions, Session};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session that waits until no other session of its arena is at work.
struct InTurn {
    session: Box<dyn Session>,
    turn: Arc<Mutex<()>>,
}

/// Makes sessions that share an arena wait for each other. A single session has its arena to itself
/// and stays as it is.
pub fn taking_turns(sessions: Vec<Box<dyn Session>>) -> Vec<Box<dyn Session>> {
    if sessions.len() < 2 {
        return sessions;
    }
    let turn = Arc::new(Mutex::new(()));
    let wrap = |session| -> Box<dyn Session> {
        let turn = Arc::clone(&turn);
        Box::new(InTurn { session, turn })
    };
    sessions.into_iter().map(wrap).collect()
}

impl InTurn {
    /// The session, while no other one is at work. A panic in another session is that session's
    /// own.
    fn now(&mut self) -> (MutexGuard<'_, ()>, &mut dyn Session) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (turn, &mut *self.session)
    }
}

impl Session for InTurn {
    fn write(&mut self, input: Node, bytes: &[u8]) -> Result<(), ExecError> {
        let (_turn, session) = self.now();
        session.write(input, bytes)
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        let (_turn, session) = self.now();
        session.run(options)
    }

    fn read(&mut self, output: Node, dst: &mut [u8]) -> Result<(), ExecError> {
        let (_turn, session) = self.now();
        session.read(output, dst)
    }

    fn write_part(&mut self, input: Node, at: usize, bytes: &[u8]) -> Result<(), ExecError> {
        let (_turn, session) = self.now();
        session.write_part(input, at, bytes)
    }

    fn read_part(&mut self, output: Node, at: usize, dst: &mut [u8]) -> Result<(), ExecError> {
        let (_turn, session) = self.now();
        session.read_part(output, at, dst)
    }

    fn clear(&mut self, input: Node) -> Result<(), ExecError> {
        let (_turn, session) = self.now();
        session.clear(input)
    }

    fn poison(&mut self) -> Result<(), ExecError> {
        let (_turn, session) = self.now();
        session.poison()
    }

    fn arena_bytes(&self) -> usize {
        self.session.arena_bytes()
    }

    fn profile(&self) -> Vec<OpTime> {
        self.session.profile()
    }
}
