//! Small made-up checkpoints that have all parts of a model.

use crate::made;
use std::path::Path;

/// Puts a checkpoint of a list in `goldens/generate` into a server's folder under a name. It is
/// written once for all tests.
pub(crate) fn put(data: &Path, name: &str, model: &str) {
    let (list, change): (&str, fn(String) -> String) = match model {
        // An SD 1 whose UNet takes a mask and a picture beside the latent.
        "inpaint" => ("tiny_sd1", |list| {
            let first = "input_blocks.0.0.weight 32x";
            list.replace(&format!("{first}4x"), &format!("{first}9x"))
        }),
        list => (list, |list| list),
    };
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("server_{model}.safetensors"));
    if !made.exists() {
        // Tests run side by side: each writes its own, and the first one stays.
        let own = made.with_extension(std::process::id().to_string());
        made::write_list(&change(made::list(list)), &own);
        let _ = std::fs::hard_link(&own, &made);
        std::fs::remove_file(&own).unwrap();
    }
    let place = data.join("models/checkpoints").join(name);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    if !place.exists() {
        std::fs::copy(&made, &place).unwrap();
    }
}
