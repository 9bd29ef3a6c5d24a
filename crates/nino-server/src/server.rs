//! Starting, serving and stopping.

use crate::app::{App, Counts};
use crate::config::Config;
use crate::downloads::Downloads;
use crate::error::ServerError;
use crate::folders::{Claim, Folders};
use crate::gallery::Words;
use crate::hub::Hub;
use crate::journal::Journal;
use crate::models::Models;
use crate::names::Names;
use crate::plan::Needs;
use crate::queue::Queue;
use crate::{listen, recipe, routes, worker};
use nino_engine::Store;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

/// A server that has its address and can be run.
pub struct Server {
    app: Arc<App>,
    claim: Claim,
    /// Connections at once.
    places: usize,
    listener: TcpListener,
    address: SocketAddr,
    stop: Arc<watch::Sender<bool>>,
}

/// Asks a server to stop, from any thread.
#[derive(Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Takes the address and the data folder, makes the folders and opens the list of jobs. Jobs
    /// that the last server did not finish are in the queue again.
    pub fn bind(config: Config) -> Result<Server, ServerError> {
        if config.devices.is_empty() {
            return Err(ServerError::NoDevice);
        }
        let token = config.token.as_deref();
        if token.is_some_and(|token| token.trim().is_empty()) {
            return Err(ServerError::EmptyToken);
        }
        let listen = |source| ServerError::Listen {
            address: config.listen,
            source,
        };
        let listener = TcpListener::bind(config.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let claim = Claim::of(&config.place.data)?;
        let folders = Folders::make(&config.place.data);
        let folders = folders.map_err(|(path, source)| ServerError::Folder { path, source })?;
        let path = config.place.data.join("user/nino.sqlite");
        let journal = Journal::open(&path);
        let journal = journal.map_err(|source| ServerError::Journal { path, source })?;
        let stores = config.devices.iter();
        let stores = stores.map(|opened| Store::new(Arc::clone(&opened.device)));
        let places = listen::places();
        let app = App {
            models: Models::new(config.library.clone(), &config.place.cache),
            downloads: Arc::new(Downloads::new(config.downloads.clone())),
            queue: Queue::new(journal),
            // Others are to find a place beside those who stay.
            hub: Hub::new(places / 2),
            stores: stores.collect(),
            started: Instant::now(),
            counts: Counts::default(),
            names: Names::default(),
            settings: std::sync::Mutex::default(),
            needs: Needs::default(),
            words: Words::default(),
            bodies: Arc::new(Semaphore::new(routes::bodies::pieces(config.max_upload))),
            unpacking: Arc::new(Semaphore::new(routes::UNPACKING)),
            progress: std::sync::Mutex::default(),
            folders,
            config,
        };
        routes::prompt::restore(&app);
        recipe::remove_left_inputs(&app);
        Ok(Server {
            app: Arc::new(app),
            claim,
            places,
            listener,
            address,
            stop: Arc::new(watch::Sender::new(false)),
        })
    }

    /// The address that it listens on, with the port that it was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn stopper(&self) -> Stop {
        Stop(Arc::clone(&self.stop))
    }

    /// Serves until it is asked to stop. The job that runs then has a while to end; what is queued
    /// stays for the next start.
    pub fn run(self) -> Result<(), ServerError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("http")
            .enable_all()
            .build()
            .map_err(ServerError::Threads)?;
        let address = self.address;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)
        };
        let listener = listener.map_err(|source| ServerError::Listen { address, source })?;
        let mut workers = Vec::new();
        for (seat, store) in self.app.stores.iter().enumerate() {
            let (app, store) = (Arc::clone(&self.app), store.clone());
            let thread = thread::Builder::new().name("device".to_owned());
            let worker = thread.spawn(move || worker::work(&app, seat, &store));
            workers.push(worker.map_err(ServerError::Threads)?);
        }
        let router = routes::router(Arc::clone(&self.app));
        let (stopped, mut asked) = (self.stop.subscribe(), self.stop.subscribe());
        let app = Arc::clone(&self.app);
        runtime.block_on(async move {
            // Requests and the job that runs end at the same time: many a request waits for a job.
            let ending = async move {
                let _ = asked.wait_for(|stop| *stop).await;
                let _ = tokio::task::spawn_blocking(move || end(&app, workers)).await;
            };
            tokio::join!(
                listen::serve(listener, router, self.places, stopped),
                ending
            );
        });
        self.app.hub.close();
        runtime.shutdown_timeout(Duration::from_secs(1));
        drop(self.claim);
        Ok(())
    }
}

/// Starts nothing more, waits for the jobs that run, and stops those that take too long.
fn end(app: &App, workers: Vec<JoinHandle<()>>) {
    let since = Instant::now();
    app.queue.stop();
    app.downloads.stop_all();
    while workers.iter().any(|worker| !worker.is_finished()) {
        if since.elapsed() > app.config.grace {
            app.queue.interrupt(None);
        }
        thread::sleep(Duration::from_millis(10));
    }
    for worker in workers {
        if worker.join().is_err() {
            tracing::error!("the thread of a device ended in a panic");
        }
    }
}
