//! The formats fit together and the units go both ways.

use super::*;

#[test]
fn tables_have_a_row_per_channel() {
    for f in &FORMATS {
        assert_eq!(f.rgb.len() * f.pack * f.pack, f.channels, "{}", f.name);
        for c in 0..f.channels {
            let (mul, add) = f.to_model(c);
            let (back_mul, back_add) = f.to_vae(c);
            let there = 1.7f32 * mul + add;
            assert!(
                (there * back_mul + back_add - 1.7).abs() < 1e-5,
                "{} {c}",
                f.name
            );
        }
    }
}

#[test]
fn units() {
    let flux = LatentFormat::by_name("flux").unwrap();
    let (mul, add) = flux.to_model(3);
    assert!((mul * 1.0 + add - (1.0 - 0.1159) * 0.3611).abs() < 1e-6);
    let wan = LatentFormat::by_name("wan21").unwrap();
    assert_eq!(wan.to_vae(0), (2.8184, -0.7571));
    assert!(LatentFormat::by_name("sd4").is_none());
}
