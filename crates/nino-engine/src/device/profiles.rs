//! Profiles: settings for a kind of card, under one name.
//!
//! The RX 580's are those of its tuning guide: of 8 GiB 7168 MiB are used and two pictures at 512
//! pixels at a time, of 4 GiB 3584 MiB with 8-bit weights and one picture; tiles of 512. gfx1151
//! has tiles of 768 with an overlap of 96. `safe` is where the guide begins: 6656 MiB, one picture,
//! small tiles. Those named after a size alone are for any card of that memory: seven eighths of
//! it, and weights in so few bits that Flux.1's twelve billion stay on the card as far as they can.

use crate::Precision;
use nino_dtype::DType;

/// Settings for a kind of card; `None` leaves a setting as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceProfile {
    pub name: &'static str,
    /// The most bytes that plans may use.
    pub budget: Option<u64>,
    pub precision: Option<Precision>,
    /// The type that weights are held in.
    pub quantize: Option<DType>,
    /// The side of fast tiles in pixels, and how far they overlap.
    pub tile_size: Option<usize>,
    pub overlap: Option<usize>,
    /// The pictures at a time that its memory is meant for.
    pub max_batch: Option<usize>,
}

const NONE: DeviceProfile = DeviceProfile {
    name: "",
    budget: None,
    precision: None,
    quantize: None,
    tile_size: None,
    overlap: None,
    max_batch: None,
};

/// Every profile there is.
pub const DEVICE_PROFILES: [DeviceProfile; 9] = [
    DeviceProfile {
        name: "rx580-4gb",
        budget: Some(3584 << 20),
        quantize: Some(DType::Q8_0),
        tile_size: Some(512),
        max_batch: Some(1),
        ..NONE
    },
    DeviceProfile {
        name: "rx580-8gb",
        budget: Some(7168 << 20),
        tile_size: Some(512),
        max_batch: Some(2),
        ..NONE
    },
    DeviceProfile {
        name: "gfx1151",
        precision: Some(Precision::Auto),
        tile_size: Some(768),
        overlap: Some(96),
        ..NONE
    },
    DeviceProfile {
        name: "4gb",
        budget: Some(3584 << 20),
        quantize: Some(DType::Q4_K),
        max_batch: Some(1),
        ..NONE
    },
    DeviceProfile {
        name: "6gb",
        budget: Some(5376 << 20),
        quantize: Some(DType::Q4_K),
        max_batch: Some(1),
        ..NONE
    },
    DeviceProfile {
        name: "8gb",
        budget: Some(7168 << 20),
        quantize: Some(DType::Q4_K),
        max_batch: Some(2),
        ..NONE
    },
    DeviceProfile {
        name: "12gb",
        budget: Some(10_752 << 20),
        quantize: Some(DType::Q8_0),
        ..NONE
    },
    DeviceProfile {
        name: "16gb",
        budget: Some(14_336 << 20),
        quantize: Some(DType::Q8_0),
        ..NONE
    },
    DeviceProfile {
        name: "safe",
        budget: Some(6656 << 20),
        tile_size: Some(512),
        max_batch: Some(1),
        ..NONE
    },
];

impl DeviceProfile {
    /// The profile of this name, in capitals or not.
    pub fn find(name: &str) -> Option<&'static DeviceProfile> {
        DEVICE_PROFILES
            .iter()
            .find(|p| p.name.eq_ignore_ascii_case(name))
    }
}
