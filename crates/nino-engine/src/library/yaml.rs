//! A strict reader of ComfyUI's `extra_model_paths.yaml`: sections of `key: value`, where a value
//! is one line or, after `|`, several. It is all that file uses; anything else is an error with its
//! line.

/// A section: keys and their lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    values: Vec<(String, Vec<String>)>,
}

#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    #[error("line {line}: expected {expected}, found {found:?}")]
    Syntax {
        line: usize,
        expected: &'static str,
        found: String,
    },
    #[error("the file is longer than {most} bytes")]
    TooLong { most: u64 },
    #[error("cannot read: {0}")]
    Io(#[from] std::io::Error),
}

impl Section {
    pub(super) fn get(&self, key: &str) -> &[String] {
        let found = self.values.iter().find(|(k, _)| k == key);
        found.map_or(&[], |(_, lines)| lines)
    }

    pub(super) fn is_default(&self) -> bool {
        self.get("is_default")
            .first()
            .is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }
}

pub(super) fn read(text: &str) -> Result<Vec<Section>, YamlError> {
    let mut sections: Vec<Section> = Vec::new();
    // The indent of keys whose lines follow, while they do.
    let mut block: Option<usize> = None;
    for (i, raw) in text.lines().enumerate() {
        let indent = raw.len() - raw.trim_start().len();
        let fail = |expected| YamlError::Syntax {
            line: i + 1,
            expected,
            found: raw.trim().to_owned(),
        };
        let line = without_comment(raw);
        if line.is_empty() {
            continue;
        }
        if raw[..indent].contains('\t') {
            return Err(fail("spaces, not tabs, before a key"));
        }
        if let Some(key_indent) = block {
            if indent > key_indent {
                let last = sections.last_mut().and_then(|s| s.values.last_mut());
                let (_, lines) = last.ok_or_else(|| fail("a key"))?;
                lines.push(line.to_owned());
                continue;
            }
            block = None;
        }
        let (key, value) = line.split_once(':').ok_or_else(|| fail("`key: value`"))?;
        let (key, value) = (unquoted(key.trim()), value.trim());
        if indent == 0 {
            if !value.is_empty() {
                return Err(fail("a section name and a colon"));
            }
            sections.push(Section::default());
            continue;
        }
        let section = sections.last_mut().ok_or_else(|| fail("a section name"))?;
        let lines = match value {
            "" | "null" | "~" => Vec::new(),
            "|" | "|-" | "|+" => {
                block = Some(indent);
                Vec::new()
            }
            _ if value.starts_with(['[', '{', '&', '*', '>', '!']) => {
                return Err(fail("a path, or | and one path a line"));
            }
            _ => vec![unquoted(value).to_owned()],
        };
        section.values.push((key.to_owned(), lines));
    }
    Ok(sections)
}

/// A comment begins a line or follows a space.
fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') {
        return "";
    }
    line.split_once(" #")
        .map_or(line, |(before, _)| before.trim_end())
}

fn unquoted(value: &str) -> &str {
    let inside = |q: char| value.strip_prefix(q).and_then(|v| v.strip_suffix(q));
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}
