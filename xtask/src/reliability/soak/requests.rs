//! Random requests of every model kind at hand, made the same for the same random numbers.

use crate::reliability::{Folder, Options, Random, args, files, nino, text};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const SAMPLERS: [&str; 6] = ["euler", "heun", "dpmpp_2m", "dpmpp_2m_sde", "lms", "uni_pc"];

/// A request: a verb with all of its flags, which `plan` takes as they are.
pub(super) struct Request {
    pub(super) kind: String,
    /// What `plan` is asked for.
    pub(super) plan: Vec<String>,
    pub(super) run: Vec<String>,
}

impl Request {
    /// A verb whose plan takes the same flags.
    fn of(kind: String, verb: &str, flags: &[String]) -> Request {
        Request {
            kind,
            plan: [&args(&["plan", verb])[..], flags].concat(),
            run: [&args(&[verb])[..], flags].concat(),
        }
    }
}

struct Checkpoint {
    kind: &'static str,
    /// The built-in model has no file, and cannot start from a picture.
    path: Option<PathBuf>,
}

struct Vae {
    kind: &'static str,
    decoder: PathBuf,
    encoder: PathBuf,
    channels: usize,
    /// Pixels for each pixel of a latent.
    scale: usize,
    is_clip: bool,
}

/// A video model; text encoder and VAE are in the file of another one.
struct VideoModel {
    kind: &'static str,
    path: PathBuf,
    /// Whether it needs a first frame.
    needs_image: bool,
    /// What else it takes.
    guides: &'static [&'static str],
}

/// Model files; those that are not there are left out.
pub(super) struct Models<'a> {
    options: &'a Options,
    folder: &'a Folder,
    checkpoints: Vec<Checkpoint>,
    vaes: Vec<Vae>,
    videos: Vec<VideoModel>,
}

impl<'a> Models<'a> {
    pub(super) fn new(options: &'a Options, folder: &'a Folder) -> Result<Models<'a>> {
        let mut checkpoints = vec![Checkpoint {
            kind: "nino-emoji",
            path: None,
        }];
        for kind in [
            "tiny_sd1",
            "tiny_sd2",
            "tiny_sdxl",
            "tiny_flux",
            "tiny_chroma",
            "tiny_klein",
            "tiny_z_image",
            "tiny_qwen_image",
            "tiny_krea2",
            "tiny_anima",
        ] {
            let path = folder.at(&format!("{kind}.safetensors"));
            files::checkpoint(&path, kind, "")?;
            checkpoints.push(Checkpoint {
                kind,
                path: Some(path),
            });
        }
        Ok(Models {
            options,
            folder,
            checkpoints,
            vaes: vaes(folder)?,
            videos: videos(folder)?,
        })
    }

    pub(super) fn request(&self, random: &mut Random) -> Result<Request> {
        match random.below(6) {
            0 => self.decode(random),
            1 => self.encode(random),
            2 => self.video(random),
            _ => self.generate(random),
        }
    }

    fn generate(&self, random: &mut Random) -> Result<Request> {
        let model = &self.checkpoints[random.below(self.checkpoints.len())];
        let mut kind = model.kind.to_owned();
        let takes_references = ["tiny_klein", "tiny_qwen_image"].contains(&model.kind);
        let side = |random: &mut Random| 64 * (1 + random.below(8));
        let (width, height) = (side(random), side(random));
        let size = format!("{width}x{height}");
        let (steps, batch) = (1 + random.below(3), 1 + random.below(2));
        let sampler = random.pick(&SAMPLERS);
        let mut flags = args(&["a fox", "--size", &size, "--device", "cpu", "--seed", "1"]);
        flags.extend(args(&["--steps", &steps.to_string()]));
        flags.extend(args(&["--batch", &batch.to_string()]));
        flags.extend(args(&["--cfg", random.pick(&["1", "4"])]));
        flags.extend(args(&["--sampler", sampler]));
        if let Some(path) = &model.path {
            flags.extend(["--model".to_owned(), text(path)]);
        }
        match random.below(7) {
            // Three of seven are plain text to image.
            0..3 => {}
            6 if takes_references => {
                kind += " reference";
                let picture = text(&self.picture((height, width), random)?);
                flags.extend(args(&["--reference", &picture]));
            }
            3 => {
                kind += " hires";
                flags.extend(args(&["--hires", "1.5x"]));
            }
            how if model.path.is_some() => {
                kind += if how == 4 { " image" } else { " mask" };
                let picture = text(&self.picture((height, width), random)?);
                flags.extend(args(&["--image", &picture, "--strength", "0.7"]));
                if how == 5 {
                    flags.extend(args(&["--mask", &picture, "--paste"]));
                }
            }
            _ => {
                kind += " count";
                flags.extend(args(&["--count", "2"]));
            }
        }
        flags.extend(args(&["--force", "-o", &text(&self.folder.at("out.png"))]));
        Ok(Request::of(kind, "generate", &flags))
    }

    fn video(&self, random: &mut Random) -> Result<Request> {
        let model = &self.videos[random.below(self.videos.len())];
        let mut kind = model.kind.to_owned();
        let side = |random: &mut Random| 16 * (3 + random.below(10));
        let (width, height) = (side(random), side(random));
        let size = format!("{width}x{height}");
        let frames = (1 + 4 * random.below(4)).to_string();
        let (path, parts) = (text(&model.path), text(&self.videos[0].path));
        let mut flags = args(&["a fox", "--size", &size, "--device", "cpu", "--seed", "1"]);
        flags.extend(args(&["--model", &path, "--vae", &parts, "--clip", &parts]));
        flags.extend(args(&["--frames", &frames, "--steps", "2"]));
        flags.extend(args(&["--cfg", random.pick(&["1", "4"])]));
        let needed = model.needs_image.then_some("--image");
        for guide in needed.into_iter().chain(model.guides.iter().copied()) {
            if needed == Some(guide) || random.below(2) == 0 {
                kind += &guide.replace("--", " ");
                let picture = text(&self.picture((height, width), random)?);
                flags.extend(args(&[guide, &picture]));
            }
        }
        flags.extend(args(&["--force", "-o", &text(&self.folder.at("out.webp"))]));
        Ok(Request::of(kind, "video", &flags))
    }

    fn decode(&self, random: &mut Random) -> Result<Request> {
        let vae = &self.vaes[random.below(self.vaes.len())];
        let latent = self.latent(vae, random)?;
        let out = self
            .folder
            .at(if vae.is_clip { "out.y4m" } else { "out.png" });
        let flags = [
            &text(&latent),
            "--vae",
            &text(&vae.decoder),
            "--device",
            "cpu",
        ];
        let run = args(&["decode", "--force", "-o", &text(&out)]);
        Ok(Request {
            kind: format!("{} decode", vae.kind),
            plan: [args(&["plan", "decode"]), args(&flags)].concat(),
            run: [run, args(&flags)].concat(),
        })
    }

    fn encode(&self, random: &mut Random) -> Result<Request> {
        let vae = &self.vaes[random.below(self.vaes.len())];
        let latent = self.latent(vae, random)?;
        let input = self
            .folder
            .at(if vae.is_clip { "in.y4m" } else { "in.png" });
        self.decoded(vae, &latent, &input)?;
        let out = text(&self.folder.at("out.latent"));
        let flags = [
            &text(&input),
            "--vae",
            &text(&vae.encoder),
            "--device",
            "cpu",
        ];
        let run = args(&["encode", "--force", "-o", &out]);
        Ok(Request {
            kind: format!("{} encode", vae.kind),
            plan: [args(&["plan", "encode"]), args(&flags)].concat(),
            run: [run, args(&flags)].concat(),
        })
    }

    /// Writes a latent for a VAE, of a random size.
    fn latent(&self, vae: &Vae, random: &mut Random) -> Result<PathBuf> {
        let most = if vae.is_clip { 24 } else { 56 };
        let (h, w) = (8 + random.below(most), 8 + random.below(most));
        let latent = self.folder.at("in.latent");
        let shape = if vae.is_clip {
            vec![1, vae.channels, 2 + random.below(3), h, w]
        } else {
            vec![1, vae.channels, h, w]
        };
        files::latent(&latent, &shape)?;
        Ok(latent)
    }

    /// Writes a picture of `[height, width]` pixels: random numbers, decoded.
    fn picture(&self, (height, width): (usize, usize), random: &mut Random) -> Result<PathBuf> {
        let stills: Vec<&Vae> = self.vaes.iter().filter(|v| !v.is_clip).collect();
        let vae = stills[random.below(stills.len())];
        let (latent, picture) = (self.folder.at("start.latent"), self.folder.at("start.png"));
        let shape = [1, vae.channels, height / vae.scale, width / vae.scale];
        files::latent(&latent, &shape)?;
        self.decoded(vae, &latent, &picture)?;
        Ok(picture)
    }

    fn decoded(&self, vae: &Vae, latent: &Path, to: &Path) -> Result<()> {
        let words = args(&["decode", &text(latent), "--vae", &text(&vae.decoder)]);
        let more = args(&["--device", "cpu", "--force", "-o", &text(to)]);
        let mut command = nino(self.options, &self.folder.0, &[words, more].concat());
        let said = command.stdout(Stdio::null()).output();
        let said = said.context("nino does not start")?;
        if !said.status.success() {
            bail!(
                "no input was made: {}",
                String::from_utf8_lossy(&said.stderr)
            );
        }
        Ok(())
    }
}

/// The first one has the text encoder and the VAE of all. They are in a folder of their own, since
/// the small vocabulary beside them is for their text encoder alone.
fn videos(folder: &Folder) -> Result<Vec<VideoModel>> {
    let wan = folder.at("wan");
    std::fs::create_dir(&wan)?;
    let vocabulary = crate::tree::root().join("goldens/text/small/spiece.model");
    std::fs::copy(vocabulary, wan.join("spiece.model"))?;
    let models: [(&str, bool, &[&str]); 3] = [
        ("tiny_wan", false, &[]),
        ("tiny_wan22_i2v", true, &["--last-image"]),
        ("tiny_wan_vace", false, &["--reference"]),
    ];
    let model = |(kind, needs_image, guides)| {
        let path = wan.join(format!("{kind}.safetensors"));
        files::checkpoint(&path, kind, "")?;
        Ok(VideoModel {
            kind,
            path,
            needs_image,
            guides,
        })
    };
    models.into_iter().map(model).collect()
}

fn vaes(folder: &Folder) -> Result<Vec<Vae>> {
    let (sd, flux) = (
        folder.at("sd_vae.safetensors"),
        folder.at("flux_vae.safetensors"),
    );
    files::checkpoint(&sd, "sd15", "first_stage_model.")?;
    files::checkpoint(&flux, "tiny_flux", "vae.")?;
    let root = crate::tree::root();
    let golden = |name: &str| root.join(format!("goldens/models/{name}.safetensors"));
    let data = |name: &str| root.join(format!("../shared/data/taesd/{name}.safetensors"));
    let whole = |kind, path: PathBuf, channels, scale, is_clip| Vae {
        kind,
        decoder: path.clone(),
        encoder: path,
        channels,
        scale,
        is_clip,
    };
    let halves = |kind, name: &str, channels| Vae {
        decoder: data(&format!("{name}_decoder")),
        encoder: data(&format!("{name}_encoder")),
        ..whole(kind, PathBuf::new(), channels, 8, false)
    };
    let mut vaes = vec![
        whole("sd-vae", sd, 4, 8, false),
        whole("flux-vae", flux, 16, 8, false),
        whole("flux2-vae", golden("kl_flux2"), 32, 8, false),
        whole("small taesd", golden("taesd"), 4, 8, false),
        whole("small taesd3", golden("taesd3"), 16, 8, false),
        whole("small taef2", golden("taef2"), 32, 8, false),
        halves("taesd", "taesd", 4),
        halves("taef1", "taef1", 16),
        whole("small taehv", golden("taehv"), 16, 8, true),
        whole("small taew2.2", golden("taew2_2"), 48, 16, true),
        whole("small wan21", golden("wan21"), 4, 8, true),
        whole("small wan22", golden("wan22"), 4, 16, true),
    ];
    vaes.retain(|v| v.decoder.is_file() && v.encoder.is_file());
    Ok(vaes)
}
