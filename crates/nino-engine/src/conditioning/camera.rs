//! A camera's path through a clip, as the ray of every pixel in every frame. Behaviour: ComfyUI's
//! `WanCameraEmbedding`, after <https://github.com/hehao13/CameraCtrl> (Plücker coordinates:
//! Sitzmann et al. 2021).

use crate::sample::LatentShape;
use crate::{ClipSize, LatentSize};

/// How a camera moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CameraMove {
    /// ComfyUI's name for it.
    pub name: &'static str,
    /// Where it goes, in units of [`REACH`].
    to: [f64; 3],
    /// How far it turns about its view, in units of [`TURN`].
    turn: f64,
}

/// A camera's path through a clip of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct CameraPath {
    pub motion: CameraMove,
    pub size: ClipSize,
    /// 1 is the usual speed.
    pub speed: f64,
    pub lens: Lens,
}

/// A camera's lens, in shares of the picture's width and height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lens {
    /// Focal lengths, above 0.
    pub focal: [f64; 2],
    /// Where the middle of the view is.
    pub center: [f64; 2],
}

impl Default for Lens {
    fn default() -> Lens {
        Lens {
            focal: [0.5; 2],
            center: [0.5; 2],
        }
    }
}

/// The path of a whole clip at speed 1 along one axis.
const REACH: f64 = 1.5;
/// The turn of a whole clip at speed 1.
const TURN: f64 = std::f64::consts::FRAC_PI_3;
/// Width by height of the pictures that focal lengths are meant for.
const TRAINED: f64 = 1280.0 / 720.0;
/// Frames under one latent frame.
const TIME: usize = 4;
/// Pixels along a side of a latent pixel.
const SIDE: usize = 8;
/// Numbers of a ray: its moment and its direction.
const RAY: usize = 6;

const fn moves(name: &'static str, to: [f64; 3], turn: f64) -> CameraMove {
    CameraMove { name, to, turn }
}

impl CameraMove {
    /// All there are.
    pub const ALL: [CameraMove; 9] = [
        moves("Static", [0.0, 0.0, 0.0], 0.0),
        moves("Pan Up", [0.0, -1.0, 0.0], 0.0),
        moves("Pan Down", [0.0, 1.0, 0.0], 0.0),
        moves("Pan Left", [-1.0, 0.0, 0.0], 0.0),
        moves("Pan Right", [1.0, 0.0, 0.0], 0.0),
        moves("Zoom In", [0.0, 0.0, 2.0], 0.0),
        moves("Zoom Out", [0.0, 0.0, -2.0], 0.0),
        moves("Anti Clockwise (ACW)", [0.0, 0.0, 0.0], -1.0),
        moves("ClockWise (CW)", [0.0, 0.0, 0.0], 1.0),
    ];

    /// The move of ComfyUI's name.
    pub fn find(name: &str) -> Option<CameraMove> {
        CameraMove::ALL.into_iter().find(|m| m.name == name)
    }
}

impl CameraPath {
    /// The size of the latents that it is for.
    pub(crate) fn latent(&self) -> LatentSize {
        LatentSize {
            frames: self.size.frames.saturating_sub(1) / TIME + 1,
            height: self.size.height / SIDE,
            width: self.size.width / SIDE,
        }
    }

    /// The rays of the pixels under every latent pixel, `[t, h, w, 6·4·8·8]`. The first frame
    /// stands for all four of its latent frame.
    fn values(&self) -> Vec<f32> {
        let LatentSize {
            frames,
            height,
            width,
        } = self.latent();
        let [fx, fy] = self.focal();
        let [w, h] = [self.size.width as f64, self.size.height as f64];
        let [cx, cy] = self.lens.center;
        let direction = |x: usize, y: usize| {
            let to = [
                (x as f64 + 0.5 - cx * w) / (fx * w),
                (y as f64 + 0.5 - cy * h) / (fy * h),
                1.0,
            ];
            let length = to.iter().map(|v| v * v).sum::<f64>().sqrt();
            to.map(|v| v / length)
        };
        let under = SIDE * SIDE;
        let mut values = vec![0.0; frames * height * width * RAY * TIME * under];
        for (i, rays) in values.chunks_exact_mut(RAY * TIME * under).enumerate() {
            let (t, y, x) = (i / (height * width), i / width % height, i % width);
            for sub in 0..TIME {
                let pose = self.pose((t * TIME + sub).saturating_sub(TIME - 1));
                for pixel in 0..under {
                    let to = direction(x * SIDE + pixel % SIDE, y * SIDE + pixel / SIDE);
                    for (c, v) in pose.ray(to).into_iter().enumerate() {
                        rays[(c * TIME + sub) * under + pixel] = v as f32;
                    }
                }
            }
        }
        values
    }

    /// Focal lengths for the clip's shape.
    fn focal(&self) -> [f64; 2] {
        let [fx, fy] = self.lens.focal;
        let shape = self.size.width as f64 / self.size.height as f64;
        if TRAINED > shape {
            [fx * TRAINED / shape, fy]
        } else {
            [fx, fy * shape / TRAINED]
        }
    }

    /// Where the camera is in a frame.
    fn pose(&self, frame: usize) -> Pose {
        let share = frame as f64 / self.size.frames as f64 * self.speed;
        let (sine, cosine) = (share * TURN * self.motion.turn).sin_cos();
        Pose {
            sine,
            cosine,
            at: self.motion.to.map(|v| share * REACH * v),
        }
    }
}

struct Pose {
    sine: f64,
    cosine: f64,
    at: [f64; 3],
}

impl Pose {
    /// The ray in a direction of the camera's own.
    fn ray(&self, [x, y, z]: [f64; 3]) -> [f64; RAY] {
        let (s, c, [ax, ay, az]) = (self.sine, self.cosine, self.at);
        let [dx, dy, dz] = [c * x - s * y, s * x + c * y, z];
        let moment = [ay * dz - az * dy, az * dx - ax * dz, ax * dy - ay * dx];
        [moment[0], moment[1], moment[2], dx, dy, dz]
    }
}

impl super::ClipHints {
    /// Whether a model is told a camera's path.
    pub(crate) fn sees_camera(&self, model: &crate::DiffusionModel) -> bool {
        self.camera.is_some() && model.net().wants().camera.is_some()
    }

    /// What a model is told of the camera, `[b, t, h, w, channels]`.
    pub(crate) fn camera_values(&self, shape: LatentShape) -> Vec<f32> {
        let camera = self.camera.as_ref();
        camera.map_or_else(Vec::new, |path| path.values().repeat(shape.batch))
    }

    /// Bytes that hold that in memory, as numbers and as they go to a device.
    pub(crate) fn camera_bytes(&self, shape: LatentShape) -> usize {
        let rays = shape.batch * shape.pixels() * RAY * TIME * SIDE * SIDE;
        self.camera
            .as_ref()
            .map_or(0, |_| 2 * rays * size_of::<f32>())
    }
}
