use super::{e2m1, unit};

#[test]
fn four_bit_floats_are_doubled_integers() {
    let values: Vec<i8> = (0..16).map(e2m1).collect();
    let positive = [0, 1, 2, 3, 4, 6, 8, 12];
    assert_eq!(values[..8], positive);
    assert_eq!(values[8..], positive.map(|v: i8| -v));
}

#[test]
fn units_are_powers_of_two_that_keep_factors_to_integers() {
    for largest in [448.0, 1.0, 0.001_953_125, 240.0, 15.0] {
        let mut factors = [0.0; 16];
        factors[3] = largest;
        let unit = unit(&factors);
        assert!(
            largest <= 127.0 * unit && largest > 63.0 * unit,
            "{largest}: {unit}"
        );
        assert_eq!(unit.to_bits() & 0x007f_ffff, 0, "{unit}");
    }
}
