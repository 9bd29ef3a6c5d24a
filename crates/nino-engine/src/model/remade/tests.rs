//! A weight is made once, and what was made comes back.

use super::*;
use crate::Checkpoint;
use nino_dtype::DType;
use nino_graph::Shape;
use std::path::Path;

#[test]
fn a_weight_is_made_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let model = Checkpoint::open(&root.join("models/nino-emoji.gguf"), None).unwrap();
    let source = model.diffusion.source();
    let wide = |e: &&nino_weights::Entry| e.shape.len() == 2 && e.shape[1].is_multiple_of(32);
    let entry = source.file.index().entries().iter().find(wide).unwrap();
    let param = |dtype: DType| ParamSpec {
        name: entry.name.clone(),
        shape: Shape::try_new(&entry.shape).unwrap(),
        dtype,
        inline: None,
    };
    let (stored, other) = (param(entry.dtype), param(DType::Q4_0));
    assert!(!source.makes(&stored) && source.makes(&other));
    let mut expected = vec![0; other.bytes()];
    source.read(&other, &mut expected).unwrap();
    let remade = Remade {
        source,
        places: Mutex::new(BTreeMap::from([(other.name.clone(), Place::ToBeMade)])),
        store: Mutex::new(tempfile::tempfile().unwrap()),
    };
    let read = || {
        let mut bytes = vec![0; other.bytes()];
        remade.read(&other, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(read(), expected);
    assert_eq!(remade.place(&other.name), Some(Place::At(0)));
    assert_eq!(read(), expected);
    // It comes from the file now.
    expected[0] ^= 1;
    {
        let mut store = remade.store.lock().unwrap();
        store.seek(SeekFrom::Start(0)).unwrap();
        store.write_all(&expected[..1]).unwrap();
    }
    assert_eq!(read(), expected);
}
