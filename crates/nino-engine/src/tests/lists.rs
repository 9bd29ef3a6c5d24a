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

/// The list of a small Wan that follows a camera: another's with an adapter.
pub(crate) fn with_camera(model: &str) -> String {
    let adapter = "model.diffusion_model.control_adapter";
    let conv = |i| {
        let at = format!("{adapter}.residual_blocks.0.conv{i}");
        format!("{at}.bias 256\n{at}.weight 256x256x3x3\n")
    };
    let first = format!("{adapter}.conv.bias 256\n{adapter}.conv.weight 256x1536x2x2\n");
    list(model) + &first + &conv(1) + &conv(2)
}

/// The list of a Wan of full width: a small one's with other widths of a token and of the MLP, and
/// with UMT5-XXL's but for its vocabulary.
pub(crate) fn wide_wan(small: &str, (width, mlp): (usize, usize)) -> String {
    let wider = |line: &str| {
        let (name, shape) = line.rsplit_once(' ').unwrap();
        let part = name.strip_prefix("model.diffusion_model.");
        let text = name.starts_with("text_encoders.");
        let size = |(i, n): (usize, &str)| {
            let n: usize = n.parse().unwrap();
            match (part, n) {
                (None, 64 | 128) if text => 4096,
                (None, 96) if text => 10_240,
                (None, 2) if text => 64,
                (Some("time_embedding.0.weight"), 256) if i == 1 => n,
                (Some("text_embedding.0.weight"), 64) => 4096,
                (Some(_), 256) => width,
                (Some(_), 384) => mlp,
                // What a camera sees has as many channels.
                (Some("control_adapter.conv.weight"), 1536) => n,
                (Some(_), 1536) => 6 * width,
                _ => n,
            }
        };
        let sizes = shape.split('x').enumerate().map(size);
        let sizes: Vec<String> = sizes.map(|n| n.to_string()).collect();
        format!("{name} {}\n", sizes.join("x"))
    };
    small.lines().map(wider).collect()
}
