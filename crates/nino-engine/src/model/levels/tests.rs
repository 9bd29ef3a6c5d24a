//! Files that tell what they predict.

use super::detect;
use nino_models::{Denoiser, Family, FileParams, unet};
use nino_sample::Prediction;
use std::sync::Arc;

/// The prediction and the largest level of a file with these tensors.
fn found(family: Family, tensors: &[(&str, &[f32])]) -> (Prediction, f32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, values) in tensors {
        let first = data.len();
        data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        entries.push(format!(
            r#""{name}":{{"dtype":"F32","shape":[{}],"data_offsets":[{first},{}]}}"#,
            values.len(),
            data.len()
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    std::fs::write(&path, file).unwrap();
    let reader = Arc::new(nino_weights::open(&path).unwrap());
    let net = Denoiser::Unet(unet::Config::sd21());
    let sampling = detect(family, &reader, &FileParams::new(&reader), &net).unwrap();
    (sampling.prediction, sampling.sigma_max())
}

#[test]
fn sdxl_files_say_v_and_zero_terminal_snr() {
    let (what, max) = found(Family::Sdxl, &[("other", &[0.0])]);
    assert!(
        what == Prediction::Eps && (max - 14.61).abs() < 0.01,
        "{max}"
    );
    let (what, max) = found(Family::Sdxl, &[("v_pred", &[0.0])]);
    assert!(what == Prediction::V && (max - 14.61).abs() < 0.01, "{max}");
    let (what, max) = found(Family::Sdxl, &[("v_pred", &[0.0]), ("ztsnr", &[0.0])]);
    assert!(what == Prediction::V && max > 4000.0, "{max}");
    let (what, max) = found(Family::Sdxl, &[("edm_vpred.sigma_max", &[120.0])]);
    assert!(what == Prediction::V && (max - 120.0).abs() < 0.01, "{max}");
}

#[test]
fn playground_is_known_by_its_statistics() {
    let both: [(&str, &[f32]); 2] = [("edm_mean", &[0.0; 4]), ("edm_std", &[1.0; 4])];
    let (what, max) = found(Family::Sdxl, &both);
    assert!(
        what == Prediction::Edm && (max - 80.0).abs() < 0.01,
        "{max}"
    );
    assert_eq!(found(Family::Sdxl, &both[..1]).0, Prediction::Eps);
}

#[test]
fn sd2_files_show_v_in_a_bias() {
    let name = "output_blocks.11.1.transformer_blocks.0.norm1.bias";
    assert_eq!(found(Family::Sd2, &[(name, &[0.1, -0.1])]).0, Prediction::V);
    assert_eq!(
        found(Family::Sd2, &[(name, &[0.05, -0.05])]).0,
        Prediction::Eps
    );
}
