//! ControlNets and style models, with their images.

use clap::{Args, ValueEnum};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Args)]
#[command(next_help_heading = "ControlNet")]
pub(crate) struct ControlArgs {
    /// ControlNet or T2I adapter with its hint image and strength: FILE:IMAGE or FILE:IMAGE:0.8;
    /// may be repeated
    #[arg(long, value_name = "FILE:IMAGE[:N]")]
    pub(crate) control: Vec<ControlArg>,
    /// Preprocessor for the hint images
    #[arg(long, value_name = "WHAT", requires = "control")]
    pub(crate) preprocess: Option<PreprocessArg>,
    /// Control type of a union ControlNet: openpose, depth, canny, ... [default: none]
    #[arg(long, value_name = "KIND", requires = "control")]
    pub(crate) control_mode: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Style")]
pub(crate) struct StyleArgs {
    /// Style model (Flux Redux) with a reference image and its strength: FILE:IMAGE or
    /// FILE:IMAGE:0.8; may be repeated
    #[arg(long, value_name = "FILE:IMAGE[:N]")]
    pub(crate) style: Vec<ControlArg>,
    /// What the strength of --style scales
    #[arg(long, value_name = "HOW", requires = "style", value_enum,
          default_value_t = StyleTypeArg::Multiply)]
    pub(crate) style_type: StyleTypeArg,
    /// Vision encoder of the style model [default: SigLIP, found by its usual names]
    #[arg(long, value_name = "FILE", requires = "style")]
    pub(crate) clip_vision: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StyleTypeArg {
    /// The style's tokens
    Multiply,
    /// The attention to the style's tokens
    AttnBias,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreprocessArg {
    /// Canny edges, as ComfyUI's Canny with its default thresholds
    Canny,
}

/// A ControlNet, its hint image and its strength.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ControlArg {
    pub(crate) file: PathBuf,
    pub(crate) image: PathBuf,
    pub(crate) strength: f32,
}

impl fmt::Display for ControlArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, image) = (self.file.display(), self.image.display());
        write!(f, "{file}:{image}:{}", self.strength)
    }
}

impl FromStr for ControlArg {
    type Err = String;

    fn from_str(text: &str) -> Result<ControlArg, String> {
        let (rest, strength) = match text.rsplit_once(':') {
            Some((rest, number)) => match number.parse::<f32>() {
                Ok(strength) => (rest, strength),
                Err(_) => (text, 1.0),
            },
            None => (text, 1.0),
        };
        if !strength.is_finite() {
            return Err(format!("the strength {strength} is not a finite number"));
        }
        let (file, image) = divided(rest).ok_or_else(|| {
            "a control is a ControlNet's file and a hint image, such as canny.safetensors:edges.png:0.8"
                .to_owned()
        })?;
        Ok(ControlArg {
            file: PathBuf::from(file),
            image: PathBuf::from(image),
            strength,
        })
    }
}

/// `FILE:IMAGE`, either of which may begin with the letter of a drive.
fn divided(text: &str) -> Option<(&str, &str)> {
    let is_drive = |at: usize| {
        let letter = text[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_ascii_alphabetic());
        let starts = at == 1 || text[..at - 1].ends_with(':');
        letter && starts && text[at + 1..].starts_with(['/', '\\'])
    };
    let colons = text.match_indices(':').map(|(at, _)| at);
    let at = colons.into_iter().find(|&at| at > 0 && !is_drive(at))?;
    let (file, image) = (&text[..at], &text[at + 1..]);
    (!file.is_empty() && !image.is_empty()).then_some((file, image))
}

#[cfg(test)]
mod tests {
    use super::ControlArg;
    use std::path::Path;

    #[test]
    fn a_control_is_a_file_a_picture_and_a_strength() {
        for (text, file, image, strength) in [
            ("c.pth:e.png", "c.pth", "e.png", 1.0),
            ("c.pth:e.png:0.5", "c.pth", "e.png", 0.5),
            (r"C:\\c.pth:D:\\e.png:2", r"C:\\c.pth", r"D:\\e.png", 2.0),
            ("c:e", "c", "e", 1.0),
        ] {
            let found: ControlArg = text.parse().unwrap();
            assert_eq!(found.file, Path::new(file), "{text}");
            assert_eq!(found.image, Path::new(image), "{text}");
            assert!((found.strength - strength).abs() < 1e-6, "{text}");
            assert_eq!(found.to_string().parse::<ControlArg>().unwrap(), found);
        }
        for wrong in ["", "c.pth", "c.pth:", ":e.png", "c.pth:e.png:inf"] {
            assert!(wrong.parse::<ControlArg>().is_err(), "{wrong}");
        }
    }
}
