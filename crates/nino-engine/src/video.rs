//! Clips: what a video model is shown, and a whole clip in one call.
//!
//! The models come to the device one after the other: the text encoder, CLIP's view of the
//! pictures, the VAE for the frames that are given, each expert, the VAE for the clip. One plan
//! covers all of them.

mod between;
mod given;
mod journal;
mod request;
mod sound;
#[cfg(test)]
mod tests;
mod track_way;
mod tracks;

pub use between::{Between, make_between, plan_between};
pub use given::{ClipSize, Given, blank_frame};
pub use journal::Journal;
pub use request::{Follow, MadeVideo, VideoModel, VideoRequest, make_video, plan_video};
pub use sound::{Before, Sounded, Sounding};
pub use track_way::{Pace, TrackWay};
pub use tracks::{Spread, Tracks};
