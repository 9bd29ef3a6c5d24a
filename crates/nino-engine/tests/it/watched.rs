//! A session with something done before each run.

use nino_graph::{ExecError, Node, OpTime, RunOptions, Session};

pub(crate) struct Watched<F> {
    pub(crate) session: Box<dyn Session>,
    /// An error of it takes the run's place.
    pub(crate) before_run: F,
}

impl<F: FnMut() -> Result<(), ExecError> + Send> Session for Watched<F> {
    fn write(&mut self, input: Node, bytes: &[u8]) -> Result<(), ExecError> {
        self.session.write(input, bytes)
    }
    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        (self.before_run)()?;
        self.session.run(options)
    }
    fn read(&mut self, output: Node, dst: &mut [u8]) -> Result<(), ExecError> {
        self.session.read(output, dst)
    }
    fn write_part(&mut self, input: Node, at: usize, bytes: &[u8]) -> Result<(), ExecError> {
        self.session.write_part(input, at, bytes)
    }
    fn read_part(&mut self, output: Node, at: usize, dst: &mut [u8]) -> Result<(), ExecError> {
        self.session.read_part(output, at, dst)
    }
    fn poison(&mut self) -> Result<(), ExecError> {
        self.session.poison()
    }
    fn arena_bytes(&self) -> usize {
        self.session.arena_bytes()
    }
    fn profile(&self) -> Vec<OpTime> {
        self.session.profile()
    }
}
