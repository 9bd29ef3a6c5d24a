//! Sessions with something done before each run.

use nino_graph::{AroundSession, ExecError, RunOptions, Session};

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

impl<F: FnMut() -> Result<(), ExecError> + Send> AroundSession for Watched<F> {
    fn session(&self) -> &dyn Session {
        &*self.session
    }

    fn session_mut(&mut self) -> &mut dyn Session {
        &mut *self.session
    }

    fn run(&mut self, options: RunOptions<'_>) -> Result<(), ExecError> {
        (self.before_run)()?;
        self.session.run(options)
    }
}
