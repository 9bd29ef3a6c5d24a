//! Numbers of Pillow 13.0's `resize` with `LANCZOS`.

use super::*;

/// The bytes that Pillow was given.
fn picture(width: usize, height: usize) -> Picture {
    let rgb = (0..width * height * 3).map(|i| ((i * 97 + 13) % 256) as u8);
    Picture {
        width,
        height,
        rgb: rgb.collect(),
    }
}

#[test]
fn numbers_are_pillows() {
    let smaller = [
        26, 131, 180, 118, 214, 48, 198, 85, 138, 60, 118, 195, 97, 199, 70, 187, 58, 117, 117,
        101, 224, 72, 195, 109, 175, 124, 90, 91, 86, 203, 61, 189, 87, 161, 164, 79,
    ];
    assert_eq!(resized(&picture(7, 5), 3, 4).rgb, smaller);
    let larger = [
        0, 88, 214, 8, 120, 255, 35, 173, 221, 53, 192, 31, 106, 218, 0, 138, 234, 48, 69, 169,
        145, 81, 131, 197, 118, 87, 202, 146, 116, 95, 102, 152, 83, 66, 165, 121, 151, 255, 89,
        160, 148, 104, 206, 8, 133, 244, 46, 154, 104, 92, 183, 0, 101, 198, 87, 188, 187, 100,
        150, 106, 136, 106, 35, 165, 134, 80, 121, 171, 126, 84, 183, 134, 18, 114, 255, 34, 146,
        136, 60, 199, 0, 79, 217, 10, 132, 244, 56, 163, 255, 65,
    ];
    assert_eq!(resized(&picture(4, 3), 6, 5).rgb, larger);
    assert_eq!(resized(&picture(4, 3), 4, 3), picture(4, 3));
    // Columns first.
    let lower = [
        112, 114, 154, 112, 125, 152, 91, 129, 125, 154, 157, 102, 126, 144, 142, 129, 150, 130,
        120, 130, 144, 125, 100, 122, 150, 136, 127, 149, 101, 122, 136, 137, 114, 96, 130, 111,
    ];
    assert_eq!(resized(&picture(5, 9), 4, 3).rgb, lower);
}
