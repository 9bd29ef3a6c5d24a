use super::{PERIOD, SyntheticParams};
use nino_dtype::DType;
use nino_graph::{ParamSource, ParamSpec, Shape};

fn values(name: &str, shape: &[usize], dtype: DType, seed: u64) -> Vec<f32> {
    let param = ParamSpec {
        name: name.to_owned(),
        shape: Shape::try_new(shape).unwrap(),
        dtype,
        inline: None,
    };
    let mut bytes = vec![0; param.bytes()];
    SyntheticParams { seed }.read(&param, &mut bytes).unwrap();
    let mut values = vec![0.0; param.shape.numel()];
    nino_dtype::decode(dtype, &bytes, &mut values).unwrap();
    values
}

#[test]
fn one_name_and_seed_give_one_tensor_in_any_type() {
    let f32s = values("conv_in.weight", &[64, 3, 3, 32], DType::F32, 7);
    assert_eq!(
        f32s,
        values("conv_in.weight", &[64, 3, 3, 32], DType::F32, 7)
    );
    assert_ne!(
        f32s,
        values("conv_in.weight", &[64, 3, 3, 32], DType::F32, 8)
    );
    assert_ne!(
        f32s,
        values("conv_out.weight", &[64, 3, 3, 32], DType::F32, 7)
    );
    for (dtype, least) in [(DType::F16, 1e-3), (DType::Q8_0, 2e-3)] {
        let other = values("conv_in.weight", &[64, 3, 3, 32], dtype, 7);
        assert!(f32s.iter().zip(&other).all(|(a, b)| (a - b).abs() < least));
    }
}

#[test]
fn variance_is_one_over_fan_in_and_gains_are_one() {
    let w = values("w.weight", &[128, 3, 3, 64], DType::F32, 1);
    let variance = w.iter().map(|v| v * v).sum::<f32>() / w.len() as f32;
    assert!((variance * 576.0 - 1.0).abs() < 0.02, "{variance}");
    let mean = |v: &[f32]| v.iter().sum::<f32>() / v.len() as f32;
    assert!((mean(&values("norm.weight", &[512], DType::F32, 1)) - 1.0).abs() < 0.01);
    assert!((mean(&values("norm.gamma", &[512, 1, 1], DType::F32, 1)) - 1.0).abs() < 0.01);
    assert!(mean(&values("norm.bias", &[512], DType::F32, 1)).abs() < 0.01);
}

#[test]
fn large_tensors_repeat_and_no_two_rows_near_each_other_are_alike() {
    let width = 3072;
    let rows = 4 * PERIOD / width;
    for dtype in [DType::F16, DType::Q8_0] {
        let w = values("w.weight", &[rows, width], dtype, 1);
        assert_eq!(w[PERIOD..], w[..w.len() - PERIOD]);
        let row = |i: usize| &w[i * width..][..width];
        assert!((1..200).all(|i| row(i) != row(0)));
        let variance = w.iter().map(|v| v * v).sum::<f32>() / w.len() as f32;
        assert!((variance * width as f32 - 1.0).abs() < 0.02, "{variance}");
    }
}
