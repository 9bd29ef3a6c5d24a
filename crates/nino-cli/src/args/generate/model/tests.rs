//! Numbers and strengths as people type them.

use super::{LoraArg, clip_skip};

#[test]
fn clip_skip_counts_either_way() {
    assert_eq!(clip_skip("2"), Ok(2));
    assert_eq!(clip_skip("-24"), Ok(24));
    for wrong in ["0", "25", "-25", "last", "-2147483648"] {
        assert!(clip_skip(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn strengths_follow_the_file() {
    let lora = |text: &str| {
        let l: LoraArg = text.parse().unwrap();
        (l.file.to_string_lossy().into_owned(), l.unet, l.clip)
    };
    assert_eq!(lora("a.safetensors"), ("a.safetensors".into(), 1.0, 1.0));
    assert_eq!(lora("a:0.8"), ("a".into(), 0.8, 0.8));
    assert_eq!(lora("a:0.8:-0.5"), ("a".into(), 0.8, -0.5));
    assert_eq!(lora(r"C:\x\a.pt:1"), (r"C:\x\a.pt".into(), 1.0, 1.0));
    let told = "ink:abc".parse::<LoraArg>().unwrap_err();
    assert!(
        told.contains("\"abc\"") && told.contains("ink:0.8"),
        "{told}"
    );
    for wrong in ["", ":0.8", "a:inf"] {
        assert!(wrong.parse::<LoraArg>().is_err(), "{wrong}");
    }
}
