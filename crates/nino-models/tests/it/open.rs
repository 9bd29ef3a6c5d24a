//! Networks out of files: real models open with the sizes of their built-in descriptions, and all
//! that does not fit is one error.

use crate::detect::open_clip;
use crate::golden::root;
use crate::lists::{self, List, component};
use nino_models::detect::Kind;
use nino_models::wan_transformer::Config as WanVideo;
use nino_models::{
    ControlNet, Denoiser, Misfits, Network, Opened, Taesd, Vae, anima, clip, flux, kl, llm, open,
    open_vae, qwen_image, qwen_vision, t5, unet, wan, wav2vec2, z_image,
};
use nino_weights::names;
use nino_weights::{Index, TensorReader};
use std::sync::Arc;

fn without_bytes(index: &Index) -> Arc<TensorReader> {
    Arc::new(TensorReader::without_files(index.clone()))
}

/// Opens the only network of a file.
fn opened(list: &List) -> Result<Option<Opened>, Box<Misfits>> {
    let component = component(list);
    open(&without_bytes(&component.index), component)
}

fn said(list: &List) -> String {
    opened(list).expect_err("an error").to_string()
}

/// Flux.2's `full_encoder_small_decoder`.
#[test]
fn halves_of_a_vae_may_have_other_widths() {
    let small = Network::Vae(Vae::Kl(kl::Config {
        decoder: vec![96, 192, 384, 384],
        ..kl::Config::flux2()
    }));
    let found = opened(&lists::network(&small, "")).map_err(|e| e.to_string());
    assert_eq!(found.unwrap().unwrap().network, small);
}

#[test]
fn real_models_open_with_the_sizes_of_their_descriptions() {
    let tiny = |z| Vae::Taesd(Taesd::whole(z));
    let unet = |config| Network::Denoiser(Denoiser::Unet(config));
    let flux = |config| Network::Denoiser(Denoiser::Flux(config));
    let wan_video = |config| Network::Denoiser(Denoiser::Wan(config));
    let i2v = || WanVideo::t2v_14b().with_in_channels(36);
    let clip = |c: clip::Config, projection: bool| {
        let projection = c.projection.filter(|_| projection);
        Network::ClipText(clip::Config { projection, ..c })
    };
    for (model, network) in [
        ("sd1", unet(unet::Config::sd15())),
        ("sd2", unet(unet::Config::sd21())),
        ("sdxl", unet(unet::Config::sdxl())),
        ("sdxl_refiner", unet(unet::Config::sdxl_refiner())),
        ("bk_sdm_base", unet(unet::Config::bk_sdm_base())),
        ("bk_sdm_small", unet(unet::Config::bk_sdm_small())),
        ("bk_sdm_tiny", unet(unet::Config::bk_sdm_tiny())),
        ("clip_l", clip(clip::Config::clip_l(), false)),
        ("clip_h23", clip(clip::Config::clip_h_penultimate(), false)),
        ("clip_g", clip(clip::Config::clip_g(), true)),
        ("flux_dev", flux(flux::Config::dev())),
        ("flux_schnell", flux(flux::Config::schnell())),
        ("chroma", flux(flux::Config::chroma())),
        (
            "z_image",
            Network::Denoiser(Denoiser::ZImage(z_image::Config::published())),
        ),
        (
            "qwen_image",
            Network::Denoiser(Denoiser::QwenImage(qwen_image::Config::published())),
        ),
        ("qwen3_4b", Network::Llm(llm::Config::qwen3_4b())),
        ("wan21_t2v_1b", wan_video(WanVideo::t2v_1_3b())),
        ("wan21_i2v_14b", wan_video(i2v().with_image(None))),
        ("wan22_i2v_14b", wan_video(i2v())),
        ("wan22_5b", wan_video(WanVideo::ti2v_5b())),
        ("t5_xxl", Network::T5(t5::Config::xxl())),
        ("umt5_xxl", Network::T5(t5::Config::xxl().multilingual())),
        (
            "wav2vec2_large",
            Network::Wav2Vec2(wav2vec2::Config::large()),
        ),
        ("wav2vec2_base", Network::Wav2Vec2(wav2vec2::Config::base())),
        ("sd_vae", Network::Vae(Vae::Kl(kl::Config::sd()))),
        ("flux_vae", Network::Vae(Vae::Kl(kl::Config::flux()))),
        ("wan21_vae", Network::Vae(Vae::Wan(wan::Config::wan21()))),
        ("wan22_vae", Network::Vae(Vae::Wan(wan::Config::wan22()))),
        ("taesd", Network::Vae(tiny(4))),
        ("taef1", Network::Vae(tiny(16))),
    ] {
        let found = opened(&lists::golden(model)).map_err(|e| e.to_string());
        assert_eq!(found.unwrap().expect(model).network, network, "{model}");
    }
}

/// The file of Qwen2.5-VL has a language model and a vision tower.
#[test]
fn language_model_and_vision_tower_of_one_file_open() {
    let list = lists::golden("qwen25_vl_7b");
    let index = lists::index("qwen_2.5_vl_7b.safetensors", &list);
    let (components, _) = names::canonical(&index).unwrap();
    let networks = components.into_iter().map(|component| {
        let opened = open(&without_bytes(&component.index), component);
        opened.map_err(|e| e.to_string()).unwrap().unwrap().network
    });
    let networks: Vec<Network> = networks.collect();
    let wanted = [
        Network::QwenVision(qwen_vision::Config::published()),
        Network::Llm(llm::Config::qwen25_vl_7b()),
    ];
    assert_eq!(networks.len(), 2);
    assert!(wanted.iter().all(|n| networks.contains(n)), "{networks:?}");
}

/// What training left in the files of Cosmos' kind is no fault.
#[test]
fn anima_opens_with_what_is_left_of_training() {
    let anima = Network::Denoiser(Denoiser::Anima(anima::Config::published()));
    let mut list = lists::network(&anima, "net.");
    for (name, shape) in [
        ("net.pos_embedder.dim_spatial_range", vec![21]),
        ("net.pos_embedder.seq", vec![240]),
        ("net.accum_iteration", vec![1]),
    ] {
        list.push((name.to_owned(), shape));
    }
    let found = opened(&list).map_err(|e| e.to_string());
    assert_eq!(found.unwrap().unwrap().network, anima);
}

#[test]
fn the_controlnet_of_z_image_opens() {
    for (n_layers, refines) in [(6, false), (3, true), (15, true)] {
        let mut config = z_image::ControlConfig::published();
        config.blocks.n_layers = n_layers;
        config.blocks.time = [0, 256];
        (config.refiner_control, config.inpaint) = (refines, refines);
        let network = Network::ControlNet(ControlNet::ZImage(config));
        let found = opened(&lists::network(&network, "")).map_err(|e| e.to_string());
        assert_eq!(found.unwrap().unwrap().network, network);
    }
}

#[test]
fn the_controlnets_of_qwen_image_open() {
    for hint in [16, 17] {
        let config = qwen_image::ControlConfig {
            blocks: qwen_image::Config {
                n_layers: 5,
                ..qwen_image::Config::published()
            },
            hint,
        };
        let network = Network::ControlNet(ControlNet::QwenImage(config));
        let found = opened(&lists::network(&network, "")).map_err(|e| e.to_string());
        assert_eq!(found.unwrap().unwrap().network, network);
        let config = qwen_image::BlockwiseConfig {
            hint,
            dim: 3072,
            n_layers: 60,
        };
        let network = Network::ControlNet(ControlNet::QwenBlocks(config));
        let found = opened(&lists::network(&network, "")).map_err(|e| e.to_string());
        assert_eq!(found.unwrap().unwrap().network, network);
    }
}

#[test]
fn the_controlnets_of_anima_open() {
    let config = anima::ControlConfig {
        channels: 4,
        width: 64,
        tokens: 32,
        n_res_blocks: 4,
        dilations: vec![1, 2, 4, 8],
        covers: false,
        dim: 2048,
        blocks: vec![[Some(64); 5], [Some(64), None, None, None, Some(32)]],
    };
    let network = Network::ControlNet(ControlNet::Anima(config));
    let found = opened(&lists::network(&network, "")).map_err(|e| e.to_string());
    assert_eq!(found.unwrap().unwrap().network, network);
}

/// ComfyUI's files of UMT5 hold its vocabulary as a tensor.
#[test]
fn a_vocabulary_beside_the_weights_is_no_fault() {
    let mut list = lists::golden("umt5_xxl");
    list.push(("spiece_model".to_owned(), vec![4_548_313]));
    let (mut components, rest) =
        names::canonical(&lists::index("umt5.safetensors", &list)).unwrap();
    assert!(rest.is_empty(), "{rest:?}");
    let component = components.remove(0);
    let opened = open(&without_bytes(&component.index), component);
    assert!(opened.map_err(|e| e.to_string()).unwrap().is_some());
}

#[test]
fn our_goldens_open_and_what_is_compared_with_is_no_fault() {
    for model in [
        "kl_sd", "kl_flux", "kl_flux2", "taesd", "taef2", "taehv", "taew2_2", "wan21", "wan22",
    ] {
        let path = root().join(format!("goldens/models/{model}.safetensors"));
        let reader = Arc::new(nino_weights::open(path).unwrap());
        let (components, _) = names::canonical(reader.index()).unwrap();
        let vae = open_vae(&reader, components).map_err(|e| e.to_string());
        let halves = vae.unwrap().unwrap().halves;
        assert_eq!(halves, ["encoder", "decoder"], "{model}");
    }
}

/// Takes one tensor out, gives another a different shape, and adds a third.
fn damaged(mut list: List, out: &str, changed: &str, added: &str) -> List {
    let before = list.len();
    list.retain(|(name, _)| !name.ends_with(out));
    assert_eq!(list.len(), before - 1, "{out}");
    let (_, shape) = list.iter_mut().find(|(n, _)| n.ends_with(changed)).unwrap();
    shape[0] += 1;
    list.push((added.to_owned(), vec![3]));
    list
}

#[test]
fn all_that_does_not_fit_is_one_error() {
    // Of a size no known model has: compared with itself.
    let tiny = unet::Config {
        model_channels: 32,
        context_dim: 64,
        ..unet::Config::nino_emoji()
    };
    let tiny = lists::network(&Network::Denoiser(Denoiser::Unet(tiny)), "");
    let own = damaged(
        tiny,
        "time_embed.2.bias",
        "time_embed.0.bias",
        "adapter.weight",
    );
    // Of a known size.
    let sd1 = || lists::kind(Kind::Sd1, "");
    let known = damaged(
        sd1(),
        "time_embed.2.bias",
        "time_embed.0.bias",
        "adapter.weight",
    );
    // What says the sizes is itself damaged.
    let sizes = damaged(
        sd1(),
        "out.2.weight",
        "input_blocks.1.0.in_layers.2.weight",
        "adapter.weight",
    );
    let text = damaged(
        lists::kind(Kind::ClipL, ""),
        "layers.3.mlp.fc2.weight",
        "layers.4.self_attn.k_proj.bias",
        "adapter.weight",
    );
    let wide = clip::Config {
        width: 64,
        vocab: 99,
        ..clip::Config::nino_emoji()
    };
    let own_text = damaged(
        lists::network(&Network::ClipText(wide), ""),
        "final_layer_norm.bias",
        "layers.0.layer_norm1.weight",
        "adapter.weight",
    );
    let video = damaged(
        lists::kind(Kind::TaeWan21, ""),
        "decoder.22.bias",
        "encoder.17.bias",
        "adapter.weight",
    );
    for (list, parts) in [
        (
            own,
            &[
                "model.safetensors: the tensors of its UNet do not fit together",
                "1 missing (time_embed.2.bias)",
                "1 mis-shaped (time_embed.0.bias is [129] instead of [128])",
                "1 unknown (adapter.weight)",
            ][..],
        ),
        (
            known,
            &[
                "1 missing (time_embed.2.bias)",
                "1 mis-shaped (time_embed.0.bias is [1281] instead of [1280])",
                "1 unknown (adapter.weight)",
            ],
        ),
        (
            sizes,
            &[
                "its UNet are not those of Stable Diffusion 1.x",
                "1 missing (out.2.weight)",
                "in_layers.2.weight is [321, 320, 3, 3] instead of [320, 320, 3, 3])",
                "1 unknown (adapter.weight)",
            ],
        ),
        (
            text,
            &[
                "of its text encoder",
                "1 missing (text_model.encoder.layers.3.mlp.fc2.weight)",
                "k_proj.bias is [769] instead of [768])",
                "1 unknown (adapter.weight)",
            ],
        ),
        (
            own_text,
            &[
                "text encoder do not fit together",
                "1 missing (text_model.final_layer_norm.bias)",
                "layer_norm1.weight is [65] instead of [64])",
                "1 unknown (adapter.weight)",
            ],
        ),
        (
            video,
            &[
                "of its VAE",
                "1 missing (decoder.22.bias)",
                "encoder.17.bias is [17] instead of [16]",
                "1 unknown (adapter.weight)",
            ],
        ),
    ] {
        let said = said(&list);
        for part in parts {
            assert!(said.contains(part), "{part:?} is missing from {said}");
        }
    }
}

#[test]
fn a_long_list_is_cut_and_counted() {
    let mut list = lists::kind(Kind::ClipL, "");
    list.retain(|(name, _)| !name.ends_with("fc2.bias"));
    let said = said(&list);
    let first = "text_model.encoder.layers.0.mlp.fc2.bias, ";
    assert!(said.contains(&format!("12 missing ({first}")), "{said}");
    assert!(said.contains("layers.7.mlp.fc2.bias and 4 more)"), "{said}");
}

#[test]
fn what_files_carry_beside_a_network_is_no_fault() {
    let mut text = lists::kind(Kind::ClipG, "");
    text.push(("logit_scale".to_owned(), vec![]));
    text.push(("text_model.embeddings.position_ids".to_owned(), vec![1, 77]));
    assert!(opened(&text).unwrap().is_some());
    let mut text = open_clip(24, 1024, "cond_stage_model.model.");
    text.push(("cond_stage_model.model.attn_mask".to_owned(), vec![77, 77]));
    assert!(opened(&text).unwrap().is_some());
    let mut vae = lists::kind(Kind::SdVae, "first_stage_model.");
    vae.push(("first_stage_model.model_ema.decay".to_owned(), vec![]));
    vae.push(("first_stage_model.loss.logvar".to_owned(), vec![]));
    assert!(opened(&vae).unwrap().is_some());
    // The temperature of a text encoder in a UNet is a fault.
    let mut unet = lists::kind(Kind::Sd1, "");
    unet.push(("logit_scale".to_owned(), vec![]));
    assert!(said(&unet).contains("1 unknown (logit_scale)"));
}

#[test]
fn one_half_of_an_autoencoder_is_whole_and_the_other_is_known_to_be_absent() {
    for kind in [Kind::SdVae, Kind::Wan21Vae, Kind::TaeSd1, Kind::TaeHunyuan] {
        let mut list = lists::kind(kind, "");
        list.retain(|(name, _)| !name.starts_with("encoder."));
        let component = component(&list);
        let reader = without_bytes(&component.index);
        let vae = open_vae(&reader, vec![component]).map_err(|e| e.to_string());
        assert_eq!(vae.unwrap().unwrap().halves, ["decoder"], "{kind:?}");
    }
}

#[test]
fn sizes_of_a_damaged_file_are_an_error_and_no_panic() {
    let shapes: [&[usize]; 5] = [&[], &[0], &[0, 0, 3, 3, 3], &[7], &[1; 7]];
    for kind in [
        Kind::Sd1,
        Kind::ClipL,
        Kind::SdVae,
        Kind::Wan22Vae,
        Kind::TaeWan22,
        Kind::TaeFlux2,
    ] {
        let whole = lists::kind(kind, "");
        let n = whole.len();
        for (i, shape) in (0..n).step_by(n / 24).zip(shapes.iter().cycle()) {
            let mut list = whole.clone();
            list[i].1 = shape.to_vec();
            let Ok((components, _)) = names::canonical(&lists::index("x", &list)) else {
                continue;
            };
            for component in components {
                let reader = without_bytes(&component.index);
                let name = &whole[i].0;
                let error = open(&reader, component).err();
                assert!(error.is_some(), "{kind:?}: {name} of {shape:?} was taken");
            }
        }
    }
    // More levels than any network has: the sizes would not fit a number.
    let mut list = lists::kind(Kind::SdVae, "");
    for level in 4..80 {
        for layer in ["conv1", "conv2"] {
            let name = format!("decoder.up.{level}.block.0.{layer}.weight");
            list.push((name, vec![512, 512, 3, 3]));
        }
    }
    assert!(opened(&list).is_err());
    let mut list = lists::kind(Kind::TaeHunyuan, "");
    let grow = list.iter_mut().find(|(n, _)| n == "decoder.7.conv.weight");
    grow.unwrap().1 = vec![1, 256, 1, 1];
    assert!(opened(&list).is_err());
}
