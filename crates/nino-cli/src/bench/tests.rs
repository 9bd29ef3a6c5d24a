use super::chosen;
use super::report::{share, three};
use crate::device::Ceiling;

#[test]
fn filters_match_op_shape_and_weights() {
    assert!(chosen(Some("conv2d")).unwrap().len() >= 7);
    assert!(!chosen(Some("512@128")).unwrap().is_empty());
    assert!(chosen(None).unwrap().len() > chosen(Some("attention")).unwrap().len());
    let error = chosen(Some("warp drive")).unwrap_err().to_string();
    assert!(
        error.contains("warp drive") && error.contains("attention"),
        "{error}"
    );
}

#[test]
fn share_is_of_the_limit_that_binds() {
    let ceiling = Ceiling {
        flops: 100.0,
        copy_bytes: 10.0,
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} and {b}");
    close(share(1000.0, 10.0, 20.0, ceiling), 0.5); // bound by arithmetic
    close(share(10.0, 100.0, 20.0, ceiling), 0.5); // bound by memory
}

#[test]
fn numbers_keep_three_digits() {
    let cases = [
        (1234.5, "1234"),
        (123.45, "123"),
        (12.345, "12.3"),
        (1.2345, "1.23"),
        (0.0, "0.00"),
    ];
    for (value, text) in cases {
        assert_eq!(three(value), text);
    }
}
