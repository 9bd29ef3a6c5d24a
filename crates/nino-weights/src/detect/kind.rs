//! The list of models and the part each plays.

use super::spec::{self, Spec};
use crate::names::Net;

/// The place of a network in a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Diffusion,
    ControlNet,
    Vae,
    TextEncoder,
    ImageEncoder,
}

macro_rules! kinds {
    ($($variant:ident, $net:ident, $label:literal, $spec:expr;)*) => {
        /// A model this crate can tell from others.
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

            /// Every tensor it has, under canonical names.
            pub fn spec(self) -> Spec {
                match self { $(Kind::$variant => $spec,)* }
            }
        }
    };
}

use spec::clip::{clip, emoji_clip};
use spec::flux::{Flux, flux};
use spec::kl_vae::kl_vae;
use spec::t5::{T5, t5};
use spec::tiny::{taehv, taesd};
use spec::unet::{BK_BASE, BK_SMALL, BK_TINY, EMOJI, REFINER, SD1, SD2, SDXL, Unet, unet};
use spec::wan::{Wan, wan};
use spec::wan_vae::{wan21_vae, wan22_vae};

kinds! {
    Sd1, Unet, "Stable Diffusion 1.x", unet(&SD1);
    Sd1Inpaint, Unet, "Stable Diffusion 1.x inpainting", unet(&Unet { in_channels: 9, ..SD1 });
    Sd1Edit, Unet, "Stable Diffusion 1.x InstructPix2Pix", unet(&Unet { in_channels: 8, ..SD1 });
    Sd2, Unet, "Stable Diffusion 2.x", unet(&SD2);
    Sd2Inpaint, Unet, "Stable Diffusion 2.x inpainting", unet(&Unet { in_channels: 9, ..SD2 });
    Sd2Depth, Unet, "Stable Diffusion 2.x depth", unet(&Unet { in_channels: 5, ..SD2 });
    BkSdmBase, Unet, "BK-SDM base (distilled SD 1.x)", unet(&BK_BASE);
    BkSdmSmall, Unet, "BK-SDM small (distilled SD 1.x)", unet(&BK_SMALL);
    BkSdmTiny, Unet, "BK-SDM tiny (distilled SD 1.x)", unet(&BK_TINY);
    BkSdmV2Base, Unet, "BK-SDM base (distilled SD 2.x)", unet(&BK_BASE.v2());
    BkSdmV2Small, Unet, "BK-SDM small (distilled SD 2.x)", unet(&BK_SMALL.v2());
    BkSdmV2Tiny, Unet, "BK-SDM tiny (distilled SD 2.x)", unet(&BK_TINY.v2());
    Sdxl, Unet, "Stable Diffusion XL base", unet(&SDXL);
    SdxlInpaint, Unet, "Stable Diffusion XL inpainting", unet(&Unet { in_channels: 9, ..SDXL });
    SdxlEdit, Unet, "Stable Diffusion XL InstructPix2Pix", unet(&Unet { in_channels: 8, ..SDXL });
    SdxlRefiner, Unet, "Stable Diffusion XL refiner", unet(&REFINER);
    NinoEmoji, Unet, "nino-emoji", unet(&EMOJI);
    ControlNet, ControlNet, "ControlNet", Spec::default();
    FluxDev, Flux, "Flux.1 dev", flux(&Flux { in_channels: 64, guidance: true });
    FluxSchnell, Flux, "Flux.1 schnell", flux(&Flux { in_channels: 64, guidance: false });
    FluxFill, Flux, "Flux.1 Fill dev", flux(&Flux { in_channels: 384, guidance: true });
    FluxControl, Flux, "Flux.1 Canny or Depth dev", flux(&Flux { in_channels: 128, guidance: true });
    Wan21T2v1B, Wan, "Wan 2.1 text-to-video 1.3B", wan(&Wan::small(16));
    Wan21T2v14B, Wan, "Wan 2.1 text-to-video 14B", wan(&Wan::large(16, false));
    Wan22T2v14BHigh, Wan, "Wan 2.2 text-to-video 14B, high noise", wan(&Wan::large(16, false));
    Wan22T2v14BLow, Wan, "Wan 2.2 text-to-video 14B, low noise", wan(&Wan::large(16, false));
    Wan21I2v14B, Wan, "Wan 2.1 image-to-video 14B", wan(&Wan::large(36, true));
    Wan22I2v14BHigh, Wan, "Wan 2.2 image-to-video 14B, high noise", wan(&Wan::large(36, false));
    Wan22I2v14BLow, Wan, "Wan 2.2 image-to-video 14B, low noise", wan(&Wan::large(36, false));
    Wan22Ti2v5B, Wan, "Wan 2.2 text/image-to-video 5B", wan(&Wan::medium());
    SdVae, KlVae, "SD VAE (KL, 4 channels)", kl_vae(4);
    SdxlVae, KlVae, "SDXL VAE (KL, 4 channels)", kl_vae(4);
    FluxVae, KlVae, "Flux VAE (KL, 16 channels)", kl_vae(16);
    Sd3Vae, KlVae, "SD3 VAE (KL, 16 channels)", kl_vae(16);
    Flux2Vae, KlVae, "Flux.2 VAE (KL, 32 channels)", kl_vae(32);
    Wan21Vae, WanVae, "Wan 2.1 VAE (16 channels)", wan21_vae();
    Wan22Vae, WanVae, "Wan 2.2 VAE (48 channels)", wan22_vae();
    TaeSd1, Taesd, "TAESD for SD 1.x/2.x (4 channels)", taesd(4);
    TaeSdxl, Taesd, "TAESD for SDXL (4 channels)", taesd(4);
    TaeSd3, Taesd, "TAESD for SD3 (16 channels)", taesd(16);
    TaeFlux, Taesd, "TAESD for Flux.1 (16 channels)", taesd(16);
    TaeFlux2, Taesd, "TAESD for Flux.2 (32 channels)", taesd(32);
    TaeHunyuan, Taehv, "TAEHV for HunyuanVideo (16 channels)", taehv(16, 1);
    TaeWan21, Taehv, "TAEHV for Wan 2.1 (16 channels)", taehv(16, 1);
    TaeWan22, Taehv, "TAEHV for Wan 2.2 (48 channels)", taehv(48, 2);
    TaeHunyuan15, Taehv, "TAEHV for HunyuanVideo 1.5 (32 channels)", taehv(32, 2);
    ClipL, ClipText, "CLIP-L text encoder", clip(12, 768, 3072);
    ClipH, ClipText, "CLIP-H text encoder (open_clip)", clip(24, 1024, 4096);
    ClipHPenultimate, ClipText, "CLIP-H text encoder, 23 layers (diffusers SD 2)", clip(23, 1024, 4096);
    ClipG, ClipText, "CLIP-G text encoder (open_clip)", clip(32, 1280, 5120);
    NinoEmojiText, ClipText, "nino-emoji text encoder", emoji_clip();
    ClipVision, ClipVision, "CLIP vision encoder", Spec::default();
    T5Xxl, T5, "T5 v1.1 XXL encoder", t5(&T5::XXL);
    T5Xl, T5, "T5 v1.1 XL encoder", t5(&T5::XL);
    T5Large, T5, "T5 v1.1 large encoder", t5(&T5::LARGE);
    T5Base, T5, "T5 v1.1 base encoder", t5(&T5::BASE);
    Umt5Xxl, T5, "UMT5 XXL encoder", t5(&T5::UMT5_XXL);
    Umt5Base, T5, "UMT5 base encoder", t5(&T5::UMT5_BASE);
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

    /// Kinds of a network whose tensors are listed.
    pub(super) fn of_net(net: Net) -> impl Iterator<Item = Kind> {
        let listed = !matches!(net, Net::ControlNet | Net::ClipVision);
        Kind::ALL
            .iter()
            .copied()
            .filter(move |k| listed && k.net() == net)
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
