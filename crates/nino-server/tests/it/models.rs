//! Small made-up checkpoints that have all parts of a model.

use crate::made;
use std::path::Path;

/// Puts a checkpoint of a list in `goldens/generate` into a server's folder of checkpoints.
pub(crate) fn put(data: &Path, name: &str, model: &str) {
    put_in(data, "checkpoints", name, model);
}

/// Puts a model into one of a server's folders under a name. `tiny_flux#vae.` is what stands below
/// that prefix in the list. A file is written once for all tests.
pub(crate) fn put_in(data: &Path, folder: &str, name: &str, model: &str) {
    let list = match model.split_once('#') {
        // An SD 1 whose UNet takes a mask and a picture beside the latent.
        _ if model == "inpaint" => {
            let first = "input_blocks.0.0.weight 32x";
            made::list("tiny_sd1").replace(&format!("{first}4x"), &format!("{first}9x"))
        }
        None => made::list(model),
        Some((whole, prefix)) => {
            let lines = made::list(whole);
            let below = lines.lines().filter_map(|line| line.strip_prefix(prefix));
            below.collect::<Vec<_>>().join("\n")
        }
    };
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("server_{model}.safetensors"));
    if !made.exists() {
        // Tests run side by side: each writes its own, and the first one stays.
        let own = made.with_extension(std::process::id().to_string());
        made::write_list(&list, &own);
        let _ = std::fs::hard_link(&own, &made);
        std::fs::remove_file(&own).unwrap();
    }
    let place = data.join("models").join(folder).join(name);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    if !place.exists() {
        std::fs::copy(&made, &place).unwrap();
    }
}
