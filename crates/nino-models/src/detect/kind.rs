//! The table of known models: the network, the name for users, and the tensors.
//!
//! A model's row gives the hyperparameters of a network that this crate records.

use crate::anima::Config as Anima;
use crate::clip::Config as Clip;
use crate::clip_vision::Config as ClipVision;
use crate::describe::{self, TensorSpec};
use crate::flux::Config as Flux;
use crate::flux2::Config as Flux2;
use crate::kl::{Config as Kl, QuantConv};
use crate::krea2::Config as Krea2;
use crate::llm::Config as Llm;
use crate::qwen_image::Config as QwenImage;
use crate::qwen_vision::Config as QwenVision;
use crate::qwen3_vision::Config as Qwen3Vision;
use crate::redux::Config as Redux;
use crate::t5::Config as T5;
use crate::taehv::Config as Taehv;
use crate::unet::Config as Unet;
use crate::upscaler::{rrdb::Config as Rrdb, srvgg::Config as Srvgg};
use crate::uso::Config as Uso;
use crate::wan::Config as WanVae;
use crate::wan_transformer::Config as Wan;
use crate::wav2vec2::Config as Wav2Vec2;
use crate::z_image::Config as ZImage;
use crate::{Denoiser, Network, Taesd, Upscaler, Vae};
use nino_weights::names::Net;
use std::sync::OnceLock;

/// The role of a network in a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Diffusion,
    ControlNet,
    Vae,
    TextEncoder,
    ImageEncoder,
    AudioEncoder,
    Style,
    Upscaler,
}

/// A model's tensors under canonical names: several lists where its files differ, none where only a
/// name is known.
type Lists = Vec<Vec<TensorSpec>>;

macro_rules! kinds {
    ($($variant:ident, $net:ident, $label:literal, $lists:expr;)*) => {
        /// A model that can be detected.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind { $($variant,)* }

        impl Kind {
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)*];

            pub fn net(self) -> Net {
                match self { $(Kind::$variant => Net::$net,)* }
            }

            /// Its name for users.
            pub fn label(self) -> &'static str {
                match self { $(Kind::$variant => $label,)* }
            }

            /// Its lists. Recording a network takes a while, so each is computed once.
            pub(super) fn lists(self) -> &'static Lists {
                static CACHE: [OnceLock<Lists>; Kind::ALL.len()] =
                    [const { OnceLock::new() }; Kind::ALL.len()];
                let compute = || match self { $(Kind::$variant => $lists,)* };
                CACHE[self as usize].get_or_init(compute)
            }
        }
    };
}

kinds! {
    Sd1, Unet, "Stable Diffusion 1.x", unet(Unet::sd15());
    Sd1Inpaint, Unet, "Stable Diffusion 1.x inpainting", unet(Unet::sd15().with_in_channels(9));
    Sd1Edit, Unet, "Stable Diffusion 1.x InstructPix2Pix", unet(Unet::sd15().with_in_channels(8));
    Sd2, Unet, "Stable Diffusion 2.x", unet(Unet::sd21());
    Sd2Inpaint, Unet, "Stable Diffusion 2.x inpainting", unet(Unet::sd21().with_in_channels(9));
    LotusD, Unet, "Lotus-D (depth of pictures)", unet(Unet::lotus());
    Sd2Depth, Unet, "Stable Diffusion 2.x depth", unet(Unet::sd21().with_in_channels(5));
    BkSdmBase, Unet, "BK-SDM base (distilled SD 1.x)", unet(Unet::bk_sdm_base());
    BkSdmSmall, Unet, "BK-SDM small (distilled SD 1.x)", unet(Unet::bk_sdm_small());
    BkSdmTiny, Unet, "BK-SDM tiny (distilled SD 1.x)", unet(Unet::bk_sdm_tiny());
    BkSdmV2Base, Unet, "BK-SDM base (distilled SD 2.x)", unet(Unet::bk_sdm_base().like_sd2());
    BkSdmV2Small, Unet, "BK-SDM small (distilled SD 2.x)", unet(Unet::bk_sdm_small().like_sd2());
    BkSdmV2Tiny, Unet, "BK-SDM tiny (distilled SD 2.x)", unet(Unet::bk_sdm_tiny().like_sd2());
    Sdxl, Unet, "Stable Diffusion XL base", unet(Unet::sdxl());
    SdxlInpaint, Unet, "Stable Diffusion XL inpainting", unet(Unet::sdxl().with_in_channels(9));
    SdxlEdit, Unet, "Stable Diffusion XL InstructPix2Pix", unet(Unet::sdxl().with_in_channels(8));
    SdxlRefiner, Unet, "Stable Diffusion XL refiner", unet(Unet::sdxl_refiner());
    NinoEmoji, Unet, "nino-emoji", unet(Unet::nino_emoji());
    ControlNet, ControlNet, "ControlNet", Vec::new();
    ControlLora, ControlNet, "Control-LoRA", Vec::new();
    T2iAdapter, T2iAdapter, "T2I adapter", Vec::new();
    FluxDev, Flux, "Flux.1 dev", flux(Flux::dev());
    FluxSchnell, Flux, "Flux.1 schnell", flux(Flux::schnell());
    FluxFill, Flux, "Flux.1 Fill dev", flux(Flux::dev().with_in_channels(96));
    FluxControl, Flux, "Flux.1 Canny or Depth dev", flux(Flux::dev().with_in_channels(32));
    Chroma, Flux, "Chroma", flux(Flux::chroma());
    Klein4B, Flux, "Flux.2 klein 4B", flux2(Flux2::klein_4b());
    Klein9B, Flux, "Flux.2 klein 9B", flux2(Flux2::klein_9b());
    Flux2Dev, Flux, "Flux.2 dev", flux2(Flux2::dev());
    Wan21T2v1B, Wan, "Wan 2.1 text-to-video 1.3B", wan(Wan::t2v_1_3b());
    Wan21T2v14B, Wan, "Wan 2.1 text-to-video 14B", wan(Wan::t2v_14b());
    Wan22T2v14BHigh, Wan, "Wan 2.2 text-to-video 14B, high noise", wan(Wan::t2v_14b());
    Wan22T2v14BLow, Wan, "Wan 2.2 text-to-video 14B, low noise", wan(Wan::t2v_14b());
    Wan21I2v14B, Wan, "Wan 2.1 image-to-video 14B", wan(Wan::t2v_14b().with_in_channels(36).with_image(None));
    Wan21Flf2v14B, Wan, "Wan 2.1 first-and-last-frame-to-video 14B", wan(Wan::t2v_14b().with_in_channels(36).with_image(Some(514)));
    Wan22I2v14BHigh, Wan, "Wan 2.2 image-to-video 14B, high noise", wan(Wan::t2v_14b().with_in_channels(36));
    Wan22I2v14BLow, Wan, "Wan 2.2 image-to-video 14B, low noise", wan(Wan::t2v_14b().with_in_channels(36));
    Wan22Ti2v5B, Wan, "Wan 2.2 text/image-to-video 5B", wan(Wan::ti2v_5b());
    WanVace1B, Wan, "Wan 2.1 VACE 1.3B", wan(Wan::t2v_1_3b().with_vace(15));
    WanVace14B, Wan, "Wan 2.1 VACE 14B", wan(Wan::t2v_14b().with_vace(8));
    WanFunInpaint1B, Wan, "Wan 2.1 Fun inpainting 1.3B", wan(Wan::t2v_1_3b().with_in_channels(36).with_image(None));
    WanFunControl1B, Wan, "Wan 2.1 Fun control 1.3B", wan(Wan::t2v_1_3b().with_in_channels(48).with_image(None));
    WanFunControl14B, Wan, "Wan 2.1 Fun control 14B", wan(Wan::t2v_14b().with_in_channels(48).with_image(None));
    Wan22FunControl14BHigh, Wan, "Wan 2.2 Fun control 14B, high noise", wan(Wan::t2v_14b().with_in_channels(52).with_reference());
    Wan22FunControl14BLow, Wan, "Wan 2.2 Fun control 14B, low noise", wan(Wan::t2v_14b().with_in_channels(52).with_reference());
    Wan22S2v14B, Wan, "Wan 2.2 sound-to-video 14B", wan(Wan::t2v_14b().with_audio());
    ZImageTurbo, ZImage, "Z-Image Turbo", z_image(ZImage::published());
    ZImage, ZImage, "Z-Image", z_image(ZImage::published());
    QwenImage, QwenImage, "Qwen-Image", qwen_image(QwenImage::published());
    QwenImageEdit, QwenImage, "Qwen-Image-Edit", qwen_image(QwenImage::published());
    Krea2, Krea2, "Krea 2", krea2(Krea2::published());
    Anima, Anima, "Anima", anima(Anima::published());
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
    ClipVisionH, ClipVision, "CLIP-H vision encoder (open_clip)", clip_vision(ClipVision::clip_h());
    Siglip, ClipVision, "SigLIP so400m vision encoder", clip_vision(ClipVision::siglip());
    FluxRedux, Redux, "Flux.1 Redux dev", redux(Redux::dev());
    FluxUso, Redux, "USO's style of pictures for Flux.1 dev", recorded(&Network::Uso(Uso::dev()));
    T5Xxl, T5, "T5 v1.1 XXL encoder", t5(T5::xxl());
    T5Xl, T5, "T5 v1.1 XL encoder", t5(T5::xl());
    T5Large, T5, "T5 v1.1 large encoder", t5(T5::large());
    T5Base, T5, "T5 v1.1 base encoder", t5(T5::base());
    Umt5Xxl, T5, "UMT5 XXL encoder", t5(T5::xxl().multilingual());
    Umt5Base, T5, "UMT5 base encoder", t5(T5::base().multilingual());
    Qwen3Small, Llm, "Qwen3 0.6B text encoder", llm(Llm::qwen3_06b());
    Qwen3Medium, Llm, "Qwen3 4B text encoder", llm(Llm::qwen3_4b());
    Qwen3Large, Llm, "Qwen3 8B text encoder", llm(Llm::qwen3_8b());
    Qwen3Vl4B, Llm, "Qwen3-VL 4B text encoder", llm(Llm::qwen3_vl_4b());
    Qwen25Vl7B, Llm, "Qwen2.5-VL 7B text encoder", llm(Llm::qwen25_vl_7b());
    Mistral24B, Llm, "Mistral Small 3 24B text encoder", llm(Llm::mistral3_24b());
    MistralPruned, Llm, "Mistral Small 3 24B text encoder, 30 layers", llm(Llm { n_layers: 30, ..Llm::mistral3_24b() });
    Qwen25VlVision, QwenVision, "Qwen2.5-VL image encoder", qwen_vision(QwenVision::published());
    Qwen3VlVision, Qwen3Vision, "Qwen3-VL 4B image encoder", qwen3_vision(Qwen3Vision::published_4b());
    Qwen3VlVisionLarge, Qwen3Vision, "Qwen3-VL 8B image encoder", qwen3_vision(Qwen3Vision::published_8b());
    Wav2Vec2Large, Wav2Vec2, "wav2vec 2.0 large audio encoder", recorded(&Network::Wav2Vec2(Wav2Vec2::large()));
    Wav2Vec2Base, Wav2Vec2, "wav2vec 2.0 base audio encoder", recorded(&Network::Wav2Vec2(Wav2Vec2::base()));
    Esrgan, Rrdb, "ESRGAN", Vec::new();
    EsrganX4, Rrdb, "ESRGAN x4", rrdb(Rrdb::x4());
    EsrganX8, Rrdb, "ESRGAN x8", rrdb(Rrdb::x4().with_doublings(3));
    EsrganX2, Rrdb, "ESRGAN x2", rrdb(Rrdb::x4().with_doublings(1));
    EsrganX1, Rrdb, "ESRGAN x1", rrdb(Rrdb::x4().with_doublings(0));
    RealEsrganX2, Rrdb, "Real-ESRGAN x2", rrdb(Rrdb::x4().with_unshuffle(2));
    RealEsrganX1, Rrdb, "Real-ESRGAN x1", rrdb(Rrdb::x4().with_unshuffle(4));
    RealEsrganX4Small, Rrdb, "Real-ESRGAN x4, 6 blocks (anime)", rrdb(Rrdb::x4().with_blocks(6));
    Compact, Srvgg, "Real-ESRGAN compact", Vec::new();
    CompactX4, Srvgg, "Real-ESRGAN compact x4, 32 layers (general)", srvgg(Srvgg::x4());
    CompactX4Small, Srvgg, "Real-ESRGAN compact x4, 16 layers (anime video)", srvgg(Srvgg::x4().with_convs(16));
    CompactX2, Srvgg, "Real-ESRGAN compact x2, 32 layers", srvgg(Srvgg::x4().with_scale(2));
    CompactX2Small, Srvgg, "Real-ESRGAN compact x2, 16 layers", srvgg(Srvgg::x4().with_convs(16).with_scale(2));
    CompactX1Small, Srvgg, "Real-ESRGAN compact x1, 16 layers", srvgg(Srvgg::x4().with_convs(16).with_scale(1));
}

impl Kind {
    pub fn part(self) -> Part {
        match self.net() {
            Net::Unet
            | Net::Flux
            | Net::Wan
            | Net::ZImage
            | Net::QwenImage
            | Net::Krea2
            | Net::Anima => Part::Diffusion,
            Net::ControlNet | Net::T2iAdapter => Part::ControlNet,
            Net::KlVae | Net::WanVae | Net::Taesd | Net::Taehv => Part::Vae,
            Net::ClipText | Net::T5 | Net::Llm => Part::TextEncoder,
            Net::ClipVision | Net::QwenVision | Net::Qwen3Vision => Part::ImageEncoder,
            Net::Redux => Part::Style,
            Net::Rrdb | Net::Srvgg => Part::Upscaler,
            Net::Wav2Vec2 => Part::AudioEncoder,
        }
    }

    /// Every tensor it has under canonical names; empty where only a name is known.
    pub fn tensors(self) -> Vec<TensorSpec> {
        self.lists().first().cloned().unwrap_or_default()
    }

    pub(super) fn of_net(net: Net) -> impl Iterator<Item = Kind> {
        let all = Kind::ALL.iter().copied();
        all.filter(move |k| k.net() == net)
    }

    /// The kind for a network that is recognized but has no list.
    pub(super) fn unlisted(net: Net) -> Kind {
        match net {
            Net::T2iAdapter => Kind::T2iAdapter,
            Net::ClipVision => Kind::ClipVisionH,
            Net::Rrdb => Kind::Esrgan,
            Net::Srvgg => Kind::Compact,
            _ => Kind::ControlNet,
        }
    }
}

fn recorded(network: &Network) -> Lists {
    vec![describe::tensors(network).expect("a test records every model of the table")]
}

fn unet(config: Unet) -> Lists {
    recorded(&Network::Denoiser(Denoiser::Unet(config)))
}

fn flux(config: Flux) -> Lists {
    recorded(&Network::Denoiser(Denoiser::Flux(config)))
}

fn flux2(config: Flux2) -> Lists {
    recorded(&Network::Denoiser(Denoiser::Flux2(config)))
}

fn wan(config: Wan) -> Lists {
    recorded(&Network::Denoiser(Denoiser::Wan(config)))
}

fn z_image(config: ZImage) -> Lists {
    recorded(&Network::Denoiser(Denoiser::ZImage(config)))
}

fn anima(config: Anima) -> Lists {
    recorded(&Network::Denoiser(Denoiser::Anima(config)))
}

fn krea2(config: Krea2) -> Lists {
    recorded(&Network::Denoiser(Denoiser::Krea2(config)))
}

fn qwen_image(config: QwenImage) -> Lists {
    recorded(&Network::Denoiser(Denoiser::QwenImage(config)))
}

fn qwen3_vision(config: Qwen3Vision) -> Lists {
    recorded(&Network::Qwen3Vision(config))
}

fn qwen_vision(config: QwenVision) -> Lists {
    recorded(&Network::QwenVision(config))
}

fn llm(config: Llm) -> Lists {
    recorded(&Network::Llm(config))
}

fn clip_vision(config: ClipVision) -> Lists {
    recorded(&Network::ClipVision(config))
}

fn redux(config: Redux) -> Lists {
    recorded(&Network::Redux(config))
}

fn rrdb(config: Rrdb) -> Lists {
    recorded(&Network::Upscaler(Upscaler::Rrdb(config)))
}

fn srvgg(config: Srvgg) -> Lists {
    recorded(&Network::Upscaler(Upscaler::Srvgg(config)))
}

fn t5(config: T5) -> Lists {
    recorded(&Network::T5(config))
}

fn clip(config: Clip) -> Lists {
    recorded(&Network::ClipText(config))
}

fn kl_vae(config: Kl) -> Lists {
    recorded(&Network::Vae(Vae::Kl(config)))
}

/// Black Forest Labs stores `quant_conv` and `post_quant_conv` below `encoder` and `decoder`,
/// others store them at the top level.
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
    recorded(&Network::Vae(Vae::Wan(config)))
}

fn taesd(latent_channels: usize) -> Lists {
    recorded(&Network::Vae(Vae::Taesd(Taesd::whole(latent_channels))))
}

fn taehv(config: Taehv) -> Lists {
    recorded(&Network::Vae(Vae::Taehv(config)))
}
