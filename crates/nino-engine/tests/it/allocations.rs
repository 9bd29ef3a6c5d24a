//! Nothing is allocated between steps: counted by an allocator that knows whose allocation it is.

use super::{cpu, root, store};
use nino_engine::{Checkpoint, Control, Event, GenerateRequest, Stage, generate};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Of this thread, so that tests beside this one do not show; the workers of a CPU run the same
    /// kernels as the thread that asks them.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[test]
fn a_step_allocates_nothing() {
    let model = Checkpoint::open(&root().join("models/nino-emoji.gguf"), None).unwrap();
    let request = GenerateRequest {
        steps: 5,
        ..GenerateRequest::new(&model, "a smiling sun")
    };
    let cancel = AtomicBool::new(false);
    let mut sampling = false;
    let mut counts = Vec::with_capacity(16);
    let mut on_event = |event: Event| match event {
        Event::Stage(stage) => sampling = stage == Stage::Sample,
        Event::Progress { done: 1.., .. } if sampling => counts.push(COUNT.get()),
        _ => {}
    };
    let control = &mut Control {
        cancel: &cancel,
        on_event: &mut on_event,
    };
    generate(&store(cpu()), &model, &request, control, &mut |_| Ok(())).unwrap();
    let steps: Vec<usize> = counts.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(
        steps,
        [0, 0, 0, 0],
        "allocations of the steps after the first"
    );
}
