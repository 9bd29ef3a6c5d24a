//! The polynomial against the table it stands for.

use super::*;

#[test]
fn the_quartic_rounds_to_the_table() {
    for (q, v) in IQ4_VALUES.into_iter().enumerate() {
        assert_eq!(value(q as u8), v, "code {q}");
    }
}
