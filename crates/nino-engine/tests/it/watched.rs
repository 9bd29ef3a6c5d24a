//! Sessions with something done before each run.

use nino_graph::{ExecError, Node, OpTime, RunOptions, Session};

struct Watched<F> {
    session: Box<dyn Session>,
    /// An error of it takes the run's place.
    before_run: F,
}

/// Does what `before_run` makes before each run of these.
pub(crate) fn watched<F: FnMut() -> Result<(), ExecError> + Send + 'static>(
    sessions: Vec<Box<dyn Session>>,
    before_run: impl Fn() -> F,
) -> Vec<Box<dyn Session>> {
    let watch = |session| -> Box<dyn Session> {
        Box::new(Watched {
            session,
            before_run: before_run(),
        })
    };
    sessions.into_iter().map(watch).collect()
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
    fn clear(&mut self, input: Node) -> Result<(), ExecError> {
        self.session.clear(input)
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
