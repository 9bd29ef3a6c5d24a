//! Who runs next.

use super::*;
use nino_workflow::{Folder, Graph, Host, HostError, Limits, Output, check};
use serde_json::{Value, json};
use std::path::PathBuf;

struct Nothing;

impl Host for Nothing {
    fn find(&self, _: Folder, name: &str) -> Result<PathBuf, HostError> {
        Ok(PathBuf::from(name))
    }

    fn list(&self, _: Folder) -> Option<Vec<String>> {
        None
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn output(&mut self, _: &Output<'_>) -> Result<Value, HostError> {
        Ok(Value::Null)
    }
}

fn job(number: f64, models: &str, fits: &[bool]) -> Job {
    let prompt = json!({
        "1": { "class_type": "EmptyImage",
               "inputs": { "width": 8, "height": 8, "batch_size": 1, "color": 0 } },
        "2": { "class_type": "PreviewImage", "inputs": { "images": ["1", 0] } },
    });
    let graph = Graph::from_value(prompt.clone(), &Limits::default()).unwrap();
    Job {
        graph: Arc::new(check(&graph, &Nothing, &Limits::default()).unwrap()),
        bytes: 100,
        overtaken: 0,
        models: models.to_owned(),
        fits: fits.to_vec(),
        item: Arc::new(Item {
            id: number.to_string(),
            number,
            prompt,
            extra: Value::Null,
            outputs: Vec::new(),
            client: None,
        }),
    }
}

/// The numbers of the jobs in the order in which a device takes them.
fn taken(seat: &mut Seat, mut pending: Vec<Job>) -> Vec<f64> {
    let mut order = Vec::new();
    while let Some(place) = seat.choose(&mut pending) {
        order.push(pending.remove(place).item.number);
    }
    order
}

#[test]
fn jobs_of_one_model_run_together_and_nobody_waits_for_ever() {
    let jobs = |models: &str| {
        let each = models.chars().enumerate();
        each.map(|(i, model)| job(i as f64, &model.to_string(), &[true]))
            .collect::<Vec<_>>()
    };
    let order = |models: &str| taken(&mut Seat::new(0), jobs(models));
    assert_eq!(order("ababab"), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    assert_eq!(order("aaa"), [0.0, 1.0, 2.0]);
    // Four may overtake, then it is the turn of the one that waits.
    let wanted = [0.0, 2.0, 3.0, 4.0, 5.0, 1.0, 6.0, 7.0];
    assert_eq!(order("abaaaaaa"), wanted);
}

/// A job that a device takes between the request to stop it and the stop is stopped all the same.
#[test]
fn a_job_is_stopped_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::new(Journal::open(&folder.path().join("jobs.sqlite")).unwrap());
    queue.state().pending = vec![job(0.0, "a", &[true]), job(1.0, "a", &[true])];
    let Work::Job(_, cancelled) = queue.take(&mut Seat::new(0), None) else {
        panic!("no job was taken");
    };
    assert!(queue.cancel("0") && cancelled.load(Ordering::Relaxed));
    assert!(queue.cancel("1") && !queue.is_active("1"));
    assert!(!queue.cancel("2"));
}

#[test]
fn who_asked_to_be_first_is_first() {
    let mut seat = Seat::new(0);
    seat.models = "a".to_owned();
    let pending = vec![job(-3.0, "b", &[true]), job(1.0, "a", &[true])];
    assert_eq!(taken(&mut seat, pending), [-3.0, 1.0]);
}

#[test]
fn a_device_takes_what_fits_it() {
    let pending = || {
        vec![
            job(0.0, "large", &[false, true]),
            job(1.0, "small", &[true, true]),
            job(2.0, "large", &[false, true]),
        ]
    };
    assert_eq!(taken(&mut Seat::new(0), pending()), [1.0]);
    assert_eq!(taken(&mut Seat::new(1), pending()), [0.0, 2.0, 1.0]);
}

/// Jumps count for the job that is overtaken, not for the device: several devices, and several
/// first jobs in a row, overtake the same one.
#[test]
fn no_job_is_overtaken_by_more_than_four() {
    let names = ["b", "c", "a", "a", "a", "a", "a", "b", "b", "b", "b", "b"];
    let each = names.iter().enumerate();
    let pending: Vec<Job> = each
        .map(|(i, models)| job(i as f64, models, &[true]))
        .collect();
    let mut seat = Seat::new(0);
    seat.models = "a".to_owned();
    let order = taken(&mut seat, pending);
    for (place, number) in order.iter().enumerate() {
        let later = order[..place].iter().filter(|other| *other > number);
        assert!(later.count() <= 4, "{number} in {order:?}");
    }
    assert_eq!(order[..5], [2.0, 3.0, 4.0, 5.0, 0.0]);
}

/// Waiting jobs have a limit in bytes, whatever their number.
#[test]
fn large_jobs_fill_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::new(Journal::open(&folder.path().join("jobs.sqlite")).unwrap());
    let put = |number: f64| {
        let mut job = job(number, "a", &[true]);
        job.bytes = MOST_BYTES / 3;
        queue.put(job)
    };
    for number in [0.0, 1.0, 2.0] {
        put(number).unwrap();
    }
    assert!(matches!(put(3.0), Err(Refusal::Full)));
    queue.remove(Some(&["1".to_owned()]));
    put(4.0).unwrap();
}

/// A number beyond all measure of the last server's does not become the next one.
#[test]
fn numbers_go_on_behind_sensible_ones() {
    let folder = tempfile::tempdir().unwrap();
    let queue = Queue::new(Journal::open(&folder.path().join("jobs.sqlite")).unwrap());
    for number in [7.0, 1e300, -2.0] {
        queue.restore(job(number, "a", &[true]));
    }
    let next = [queue.number(false), queue.number(false)].map(|n| n as u64);
    assert_eq!(next, [8, 9]);
}

/// A job of which nothing could be kept is not taken: nobody would find what became of it.
#[test]
fn a_job_that_cannot_be_kept_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.sqlite");
    let queue = Queue::new(Journal::open(&path).unwrap());
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("DROP TABLE jobs").unwrap();
    let refused = queue.put(job(0.0, "a", &[true]));
    assert!(matches!(refused, Err(Refusal::Journal(_))));
    assert_eq!(queue.remaining(), 0);
}
