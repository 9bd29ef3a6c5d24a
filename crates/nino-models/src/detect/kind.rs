//! The table of known models: the network each is, what users call it, and its tensors.
//!
//! A model's row gives the sizes of a network that this crate records, or a list of `unwritten`.

use super::unwritten::wan::{Wan, wan};
use crate::clip::Config as Clip;
use crate::describe::{self, TensorSpec};
use crate::flux::Config as Flux;
use crate::kl::{Config as Kl, QuantConv};
use crate::t5::Config as T5;
use crate::taehv::Config as Taehv;
use crate::unet::Config as Unet;
use crate::wan::Config as WanVae;
use crate::{Denoiser, Network, Taesd, Vae};
use nino_weights::names::Net;

/// The place of a network in a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Diffusion,
    ControlNet,
    Vae,
    TextEncoder,
    ImageEncoder,
}

/// A model's tensors under canonical names: more than one list where files of it differ, none where
/// only a name is known.
type Lists = Vec<Vec<TensorSpec>>;

macro_rules! kinds {
    ($($variant:ident, $net:ident, $label:literal, $lists:expr;)*) => {
        /// A model that can be told from others.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind { $($variant,)* }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)*];

            pub fn net(self) -> Net {
                match self { $(Kind::$variant => Net::$net,)* }
            }

            /// What users call it.
            pub fn label(self) -> &'static str {
                match self { $(Kind::$variant => $label,)* }
            }

            pub(super) fn lists(self) -> Lists {
                match self { $(Kind::$variant => $lists,)* }
            }
        }
    };
}

kinds! {
    Sd1, Unet, "Stable Diffusion 1.x", unet(Unet::sd15());
    Sd1Inpaint, Unet, "Stable Diffusion 1.x inpainting", unet(Unet::sd15().with_inputs(9));
    Sd1Edit, Unet, "Stable Diffusion 1.x InstructPix2Pix", unet(Unet::sd15().with_inputs(8));
    Sd2, Unet, "Stable Diffusion 2.x", unet(Unet::sd21());
    Sd2Inpaint, Unet, "Stable Diffusion 2.x inpainting", unet(Unet::sd21().with_inputs(9));
    Sd2Depth, Unet, "Stable Diffusion 2.x depth", unet(Unet::sd21().with_inputs(5));
    BkSdmBase, Unet, "BK-SDM base (distilled SD 1.x)", unet(Unet::bk_sdm_base());
    BkSdmSmall, Unet, "BK-SDM small (distilled SD 1.x)", unet(Unet::bk_sdm_small());
    BkSdmTiny, Unet, "BK-SDM tiny (distilled SD 1.x)", unet(Unet::bk_sdm_tiny());
    BkSdmV2Base, Unet, "BK-SDM base (distilled SD 2.x)", unet(Unet::bk_sdm_base().like_sd2());
    BkSdmV2Small, Unet, "BK-SDM small (distilled SD 2.x)", unet(Unet::bk_sdm_small().like_sd2());
    BkSdmV2Tiny, Unet, "BK-SDM tiny (distilled SD 2.x)", unet(Unet::bk_sdm_tiny().like_sd2());
    Sdxl, Unet, "Stable Diffusion XL base", unet(Unet::sdxl());
    SdxlInpaint, Unet, "Stable Diffusion XL inpainting", unet(Unet::sdxl().with_inputs(9));
    SdxlEdit, Unet, "Stable Diffusion XL InstructPix2Pix", unet(Unet::sdxl().with_inputs(8));
    SdxlRefiner, Unet, "Stable Diffusion XL refiner", unet(Unet::sdxl_refiner());
    NinoEmoji, Unet, "nino-emoji", unet(Unet::nino_emoji());
    ControlNet, ControlNet, "ControlNet", Vec::new();
    FluxDev, Flux, "Flux.1 dev", flux(Flux::dev());
    FluxSchnell, Flux, "Flux.1 schnell", flux(Flux::schnell());
    FluxFill, Flux, "Flux.1 Fill dev", flux(Flux::dev().with_inputs(96));
    FluxControl, Flux, "Flux.1 Canny or Depth dev", flux(Flux::dev().with_inputs(32));
    Chroma, Flux, "Chroma", flux(Flux::chroma());
    Wan21T2v1B, Wan, "Wan 2.1 text-to-video 1.3B", by_hand(wan(&Wan::small(16)));
    Wan21T2v14B, Wan, "Wan 2.1 text-to-video 14B", by_hand(wan(&Wan::large(16, false)));
    Wan22T2v14BHigh, Wan, "Wan 2.2 text-to-video 14B, high noise", by_hand(wan(&Wan::large(16, false)));
    Wan22T2v14BLow, Wan, "Wan 2.2 text-to-video 14B, low noise", by_hand(wan(&Wan::large(16, false)));
    Wan21I2v14B, Wan, "Wan 2.1 image-to-video 14B", by_hand(wan(&Wan::large(36, true)));
    Wan22I2v14BHigh, Wan, "Wan 2.2 image-to-video 14B, high noise", by_hand(wan(&Wan::large(36, false)));
    Wan22I2v14BLow, Wan, "Wan 2.2 image-to-video 14B, low noise", by_hand(wan(&Wan::large(36, false)));
    Wan22Ti2v5B, Wan, "Wan 2.2 text/image-to-video 5B", by_hand(wan(&Wan::medium()));
    SdVae, KlVae, "SD VAE (KL, 4 channels)", kl_vae(Kl::sd());
    SdxlVae, KlVae, "SDXL VAE (KL, 4 channels)", kl_vae(Kl::sd());
    FluxVae, KlVae, "Flux VAE (KL, 16 channels)", kl_vae(Kl::flux());
    Sd3Vae, KlVae, "SD3 VAE (KL, 16 channels)", kl_vae(Kl::flux());
    Flux2Vae, KlVae, "Flux.2 VAE (KL, 32 channels)", flux2_vae();
    Wan21Vae, WanVae, "Wan 2.1 VAE (16 channels)", wan_vae(WanVae::wan21());
    Wan22Vae, WanVae, "Wan 2.2 VAE (48 channels)", wan_vae(WanVae::wan22());
    TaeSd1, Taesd, "TAESD for SD 1.x/2.x (4 channels)", taesd(4);
    TaeSdxl, Taesd, "TAESD for SDXL (4 channels)", taesd(4);
    TaeSd3, Taesd, "TAESD for SD3 (16 channels)", taesd(16);
    TaeFlux, Taesd, "TAESD for Flux.1 (16 channels)", taesd(16);
    TaeFlux2, Taesd, "TAESD for Flux.2 (32 channels)", taesd(32);
    TaeHunyuan, Taehv, "TAEHV for HunyuanVideo (16 channels)", taehv(Taehv::hunyuan());
    TaeWan21, Taehv, "TAEHV for Wan 2.1 (16 channels)", taehv(Taehv::hunyuan());
    TaeWan22, Taehv, "TAEHV for Wan 2.2 (48 channels)", taehv(Taehv::wan22());
    TaeHunyuan15, Taehv, "TAEHV for HunyuanVideo 1.5 (32 channels)", taehv(Taehv::hunyuan15());
    ClipL, ClipText, "CLIP-L text encoder", clip(Clip::clip_l());
    ClipH, ClipText, "CLIP-H text encoder (open_clip)", clip(Clip::clip_h());
    ClipHPenultimate, ClipText, "CLIP-H text encoder, 23 layers (diffusers SD 2)", clip(Clip::clip_h_penultimate());
    ClipG, ClipText, "CLIP-G text encoder (open_clip)", clip(Clip::clip_g());
    NinoEmojiText, ClipText, "nino-emoji text encoder", clip(Clip::nino_emoji());
    ClipVision, ClipVision, "CLIP vision encoder", Vec::new();
    T5Xxl, T5, "T5 v1.1 XXL encoder", t5(T5::xxl());
    T5Xl, T5, "T5 v1.1 XL encoder", t5(T5::xl());
    T5Large, T5, "T5 v1.1 large encoder", t5(T5::large());
    T5Base, T5, "T5 v1.1 base encoder", t5(T5::base());
    Umt5Xxl, T5, "UMT5 XXL encoder", t5(T5::xxl().multilingual());
    Umt5Base, T5, "UMT5 base encoder", t5(T5::base().multilingual());
}

impl Kind {
    pub fn part(self) -> Part {
        match self.net() {
            Net::Unet | Net::Flux | Net::Wan => Part::Diffusion,
            Net::ControlNet => Part::ControlNet,
            Net::KlVae | Net::WanVae | Net::Taesd | Net::Taehv => Part::Vae,
            Net::ClipText | Net::T5 => Part::TextEncoder,
            Net::ClipVision => Part::ImageEncoder,
        }
    }

    /// Every tensor it has under canonical names; empty where only a name is known.
    pub fn tensors(self) -> Vec<TensorSpec> {
        self.lists().into_iter().next().unwrap_or_default()
    }

    pub(super) fn of_net(net: Net) -> impl Iterator<Item = Kind> {
        let all = Kind::ALL.iter().copied();
        all.filter(move |k| k.net() == net)
    }

    /// The kind for a network that is recognized but has no list.
    pub(super) fn unlisted(net: Net) -> Kind {
        if net == Net::ClipVision {
            Kind::ClipVision
        } else {
            Kind::ControlNet
        }
    }
}

fn written(network: &Network) -> Lists {
    vec![describe::tensors(network).expect("a test records every model of the table")]
}

fn unet(config: Unet) -> Lists {
    written(&Network::Denoiser(Denoiser::Unet(config)))
}

fn flux(config: Flux) -> Lists {
    written(&Network::Denoiser(Denoiser::Flux(config)))
}

fn t5(config: T5) -> Lists {
    written(&Network::T5(config))
}

fn clip(config: Clip) -> Lists {
    written(&Network::ClipText(config))
}

fn kl_vae(config: Kl) -> Lists {
    written(&Network::Vae(Vae::Kl(config)))
}

/// Black Forest Labs has the convolutions around the latent inside of the halves, others beside.
fn flux2_vae() -> Lists {
    let outside = Kl {
        quant_conv: QuantConv::Outside,
        ..Kl::flux2()
    };
    let mut lists = kl_vae(Kl::flux2());
    lists.extend(kl_vae(outside));
    lists
}

fn wan_vae(config: WanVae) -> Lists {
    written(&Network::Vae(Vae::Wan(config)))
}

fn taesd(latent_channels: usize) -> Lists {
    written(&Network::Vae(Vae::Taesd(Taesd::whole(latent_channels))))
}

fn taehv(config: Taehv) -> Lists {
    written(&Network::Vae(Vae::Taehv(config)))
}

fn by_hand(tensors: Vec<TensorSpec>) -> Lists {
    vec![tensors]
}
