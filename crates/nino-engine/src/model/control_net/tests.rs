use super::fitted;
use crate::{Image, Upscale};

#[test]
fn pictures_are_cut_in_the_middle_and_take_the_nearest_pixel() {
    // Columns 0 to 5 of a picture of two rows.
    let values = (0..12).flat_map(|i| [(i % 6) as f32; 3]).collect();
    let image = Image {
        width: 6,
        height: 2,
        values,
    };
    let square = fitted(&image, [4, 4], Upscale::NearestExact);
    let row: Vec<f32> = square.values[..12].chunks_exact(3).map(|p| p[0]).collect();
    assert_eq!(
        row.iter().map(|v| *v as u8).collect::<Vec<_>>(),
        [2, 2, 3, 3]
    );
    let wide = fitted(&image, [2, 6], Upscale::NearestExact);
    assert_eq!(wide, image);
}
