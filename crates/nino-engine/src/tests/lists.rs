//! Lists of tensors that are made of others.

use super::made::list;

/// The list of a model with all blocks of `whole`, a tenth as wide, and the other parts of `small`.
pub(crate) fn narrow_list(whole: &str, small: &str) -> String {
    const WIDTHS: [&str; 8] = ["320", "640", "960", "1280", "1920", "2560", "5120", "10240"];
    let narrow = |size: &str| {
        let end = size.len() - usize::from(WIDTHS.contains(&size));
        size[..end].to_owned()
    };
    let (whole, small) = (list(whole), list(small));
    let blocks = whole.lines().filter(|line| line.starts_with("model."));
    let blocks = blocks.map(|line| {
        let (name, shape) = line.rsplit_once(' ').unwrap();
        let shape: Vec<String> = shape.split('x').map(narrow).collect();
        format!("{name} {}\n", shape.join("x"))
    });
    let rest = small.lines().filter(|line| !line.starts_with("model."));
    blocks.chain(rest.map(|line| format!("{line}\n"))).collect()
}

/// The list of a wide model with the VAE of the small one, which goldens do not need.
pub(crate) fn list_with_vae(wide: &str, small: &str) -> String {
    let small = list(small);
    let vae = small.lines().filter(|line| line.starts_with("vae."));
    vae.fold(list(wide), |all, line| all + line + "\n")
}

/// The list of a wide model whose golden has no text: the VAE of the small one, and its text
/// encoder with tokens of `width` values.
pub(crate) fn wide_list(wide: &str, small: &str, width: usize) -> String {
    let small = list(small);
    let rest = small.lines().filter(|line| !line.starts_with("model."));
    rest.fold(list(wide), |all, line| {
        let (name, shape) = line.rsplit_once(' ').unwrap();
        if !name.starts_with("text_encoders.") {
            return all + line + "\n";
        }
        let wider = |size| match size {
            "64" => width.to_string(),
            "151936" => "16".to_owned(),
            _ => size.to_owned(),
        };
        let shape: Vec<String> = shape.split('x').map(wider).collect();
        all + &format!("{name} {}\n", shape.join("x"))
    })
}
