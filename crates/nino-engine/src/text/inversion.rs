//! Textual inversions: `embedding:name` in a prompt is a file of vectors in the place of token
//! embeddings. Files are found and read as ComfyUI does: by name with or without an ending, in the
//! folders and all below them; a key per encoder, or the first tensor there is.

use nino_weights::{Entry, Error, TensorReader};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

const ENDINGS: [&str; 3] = ["safetensors", "pt", "bin"];
/// Deeper folders than this are not looked into: a link may lead back up.
const MAX_DEPTH: usize = 8;

/// The inversions one encoder asked for, each read once.
pub(super) struct Inversions<'a> {
    folders: &'a [PathBuf],
    /// The encoder's name in files for several: `clip_l`, `clip_g`, `clip_h`.
    key: &'static str,
    read: RefCell<BTreeMap<String, Option<Rc<Vectors>>>>,
    unreadable: RefCell<Vec<String>>,
}

/// Rows of `width` values.
pub(super) struct Vectors {
    pub(super) width: usize,
    pub(super) values: Vec<f32>,
    /// Rows and columns of a picture's tokens.
    pub(super) grid: Option<[usize; 2]>,
    /// What is added to a picture's tokens behind the first, second, … layer, as `values` are laid
    /// out.
    pub(super) deep: Vec<Vec<f32>>,
}

impl<'a> Inversions<'a> {
    pub(super) fn new(folders: &'a [PathBuf], key: &'static str) -> Inversions<'a> {
        Inversions {
            folders,
            key,
            read: RefCell::default(),
            unreadable: RefCell::default(),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<Rc<Vectors>> {
        if let Some(known) = self.read.borrow().get(name) {
            return known.clone();
        }
        let found = self.open(name).map(Rc::new);
        self.read
            .borrow_mut()
            .insert(name.to_owned(), found.clone());
        found
    }

    /// Vectors that no file has, under a name of their own.
    pub(super) fn give(&self, name: &str, vectors: Vectors) {
        let given = Some(Rc::new(vectors));
        self.read.borrow_mut().insert(name.to_owned(), given);
    }

    /// Files that were there and could not be used, in sentences.
    pub(super) fn unreadable(&self) -> Vec<String> {
        self.unreadable.borrow().clone()
    }

    fn open(&self, name: &str) -> Option<Vectors> {
        let path = self.folders.iter().find_map(|f| find(f, name, 0))?;
        let vectors = nino_weights::open(&path).map(|reader| vectors(&reader, self.key));
        match vectors {
            Ok(Some(vectors)) => return Some(vectors),
            Ok(None) => self.note(&path, "holds no vectors"),
            Err(error) => self.note(&path, &error.to_string()),
        }
        None
    }

    fn note(&self, path: &Path, why: &str) {
        let text = format!("{}: {why}", path.display());
        self.unreadable.borrow_mut().push(text);
    }
}

impl Vectors {
    pub(super) fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    pub(super) fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..][..self.width]
    }
}

/// The file of a name in a folder, then in those below it by name. A name never leads outside.
fn find(folder: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let inside = |c: Component| matches!(c, Component::Normal(_));
    if name.is_empty() || !Path::new(name).components().all(inside) {
        return None;
    }
    let plain = folder.join(name);
    let named = ENDINGS.map(|ending| folder.join(format!("{name}.{ending}")));
    if let Some(path) = [plain].into_iter().chain(named).find(|p| p.is_file()) {
        return Some(path);
    }
    let entries = std::fs::read_dir(folder)
        .ok()
        .filter(|_| depth < MAX_DEPTH)?;
    let mut below: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    below.retain(|p| p.is_dir());
    below.sort();
    below.iter().find_map(|f| find(f, name, depth + 1))
}

/// How many vectors a file holds for an encoder (`clip_l`, `clip_g` or `clip_h`), and their width;
/// `None` where it holds none.
pub fn embedding_size(path: &Path, encoder: &str) -> Result<Option<(usize, usize)>, Error> {
    let found = vectors(&nino_weights::open(path)?, encoder);
    Ok(found.map(|v| (v.len(), v.width)))
}

fn vectors(reader: &TensorReader, key: &str) -> Option<Vectors> {
    let mut entries: Vec<&Entry> = reader.index().entries().iter().collect();
    entries.retain(|e| matches!(e.shape.len(), 1 | 2));
    entries.sort_by_key(|e| e.spans.first().map_or(0, |s| s.offset));
    let with = |wanted: &dyn Fn(&str) -> bool| -> Vec<&Entry> {
        entries
            .iter()
            .copied()
            .filter(|e| wanted(&e.name))
            .collect()
    };
    let bundled = |end: String| with(&|n: &str| n.starts_with("bundle_emb.") && n.ends_with(&end));
    let first =
        |found: Vec<&'_ Entry>| -> Vec<Entry> { found.into_iter().take(1).cloned().collect() };
    let choices = [
        first(with(&|n: &str| n.starts_with("string_to_param."))),
        first(with(&|n: &str| n == key)),
        bundled(".string_to_param.*".to_owned())
            .into_iter()
            .cloned()
            .collect(),
        bundled(format!(".{key}")).into_iter().cloned().collect(),
        first(entries.clone()),
    ];
    let chosen = choices.into_iter().find(|c| !c.is_empty())?;
    let width = *chosen[0].shape.last()?;
    let mut values = Vec::new();
    for entry in chosen.iter().filter(|e| e.shape.last() == Some(&width)) {
        let mut rows = vec![0.0; entry.n_values()];
        reader.read_f32(entry, &mut rows).ok()?;
        values.append(&mut rows);
    }
    (width > 0 && !values.is_empty()).then_some(Vectors {
        width,
        values,
        deep: Vec::new(),
        grid: None,
    })
}
