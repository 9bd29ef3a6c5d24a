use std::collections::BTreeSet;

use super::*;

fn kernels() -> Vec<WideKernel> {
    let sizes = (8..=640).step_by(8);
    let both = |hd| [1, 2].map(|groups| WideKernel::new(hd, groups));
    let plain = sizes.flat_map(both).flatten();
    plain
        .flat_map(|kernel| [false, true].map(|log| WideKernel { log, ..kernel }))
        .collect()
}

#[test]
fn kernels_are_for_heads_of_whole_lines() {
    let sizes: BTreeSet<u32> = kernels().iter().map(|k| k.hd).collect();
    assert_eq!(sizes, BTreeSet::from([64, 128, 192, 256, 384, 512]));
    let parts = |hd| WideKernel::new(hd, 2).map(|k| (k.parts(), k.columns()));
    assert_eq!(parts(512), Some((2, 256)));
    assert_eq!(parts(384), Some((2, 192)));
    assert_eq!(parts(256), Some((1, 256)));
}

#[test]
fn every_kernel_has_its_own_name_and_fits() {
    let mut names = BTreeSet::new();
    for kernel in kernels() {
        let made = kernel.kernel();
        assert_eq!(made, kernel.kernel());
        assert!(made.shared <= Target::Sm90a.shared(), "{}", made.name);
        assert!(made.text.contains(&format!(".entry {}(", made.name)));
        assert!(made.text.contains(&format!("word{}", WORDS - 1)));
        let views = made.text.matches(".param .u64 view").count();
        assert_eq!(views, if kernel.log { 5 } else { 4 }, "{}", made.name);
        assert!(names.insert(made.name));
    }
}

/// Those whose keys and values come in steps.
fn stepping() -> impl Iterator<Item = WideKernel> {
    kernels().into_iter().filter(|kernel| !kernel.overlaps())
}

/// A slot is filled again once the step two before is through, always with the same step.
#[test]
fn the_ring_has_room_for_what_is_on_its_way() {
    for kernel in stepping() {
        let slots = kernel.slots();
        assert!(slots >= 3, "{kernel:?}: {slots}");
        assert!(kernel.steps().is_multiple_of(slots), "{kernel:?}: {slots}");
    }
    assert_eq!(WideKernel::new(512, 2).map(WideKernel::slots), Some(6));
}

/// Scores of 128 keys over the whole head, then 128 keys' values, each 16 deep.
#[test]
fn a_tile_multiplies_every_key_and_value_once() {
    for kernel in kernels() {
        let made = kernel.kernel();
        let count = |form: &str| made.text.matches(form).count() as u32;
        let keys = format!("m64n{KEYS}k16.f32.f16.f16");
        let values = format!("m64n{}k16.f32.f16.f16", kernel.columns());
        // Tiles of which the matrix units work on two at once are written out twice.
        let times = if kernel.overlaps() { 2 } else { 1 };
        let (scores, weights) = (times * kernel.hd / 16, times * KEYS / 16);
        let expected = if keys == values {
            (scores + weights, scores + weights)
        } else {
            (scores, weights)
        };
        assert_eq!((count(&keys), count(&values)), expected, "{}", made.name);
        assert_eq!(
            count(", 0, 1, 1, 0, 0"),
            times,
            "{}: scores start once",
            made.name
        );
    }
}

/// 16 bytes a thread and copy: the queries, the steps ahead of the loop, and a tile's in it.
#[test]
fn every_chunk_is_copied_once() {
    for kernel in stepping() {
        let made = kernel.kernel();
        let copies = made.text.matches("cp.async.cg").count() as u32;
        let ahead = (0..kernel.ahead()).chain(0..kernel.steps()).map(|step| {
            if step < kernel.key_steps() {
                SLOT
            } else {
                VALUE_KEYS * kernel.columns() * 2
            }
        });
        let bytes = kernel.query_bytes() + ahead.sum::<u32>();
        assert_eq!(copies * made.threads * 16, bytes, "{}", made.name);
    }
}

/// The queries by those who compute; by those who copy, a tile of keys before the loop and one of
/// keys and of values in it.
#[test]
fn every_chunk_of_overlapped_tiles_is_copied_once() {
    for kernel in kernels().into_iter().filter(|kernel| kernel.overlaps()) {
        let made = kernel.kernel();
        let copies = made.text.matches("cp.async.cg").count() as u32;
        let queries = kernel.query_bytes() / (16 * kernel.computing());
        let tiles = 3 * KEYS * kernel.hd * 2 / (16 * COPIERS);
        assert_eq!(copies, queries + tiles, "{}", made.name);
        assert_eq!(made.threads, kernel.computing() + COPIERS);
    }
}
