//! The classes of nodes, a file for each family of them. Names, inputs, defaults and ranges are
//! ComfyUI's.

mod alpha;
mod attention;
mod audio;
mod batch;
mod color_transfer;
mod composite;
mod conditioning;
mod control;
mod custom;
pub(crate) mod dynamic;
mod filters;
mod fit;
mod flux;
mod flux2;
mod guiders;
mod image;
mod inpaint;
mod lanczos;
mod latent;
mod latent_cut;
mod latent_math;
pub(crate) mod latent_operation;
mod loaders;
mod mask;
mod mask_image;
mod math;
mod merge;
mod model;
mod output;
mod painter;
mod pass;
mod qwen;
mod rebatch;
mod resize;
mod rocm;
mod sampler;
mod samplers;
mod shown;
mod sigmas;
mod skip;
mod step_cache;
mod strings;
mod text;
mod trim;
mod unet;
mod upscale;
mod vae;
mod values;
mod video;
mod vision;
mod wan;

use crate::node::NodeDef;
pub(crate) use rebatch::is_of_lists;

static FAMILIES: [&[NodeDef]; 52] = [
    loaders::NODES,
    model::NODES,
    text::NODES,
    conditioning::NODES,
    control::NODES,
    flux::NODES,
    flux2::NODES,
    qwen::NODES,
    inpaint::NODES,
    latent::NODES,
    latent_math::NODES,
    latent_cut::NODES,
    latent_operation::NODES,
    vae::NODES,
    sampler::NODES,
    custom::NODES,
    unet::NODES,
    step_cache::NODES,
    guiders::NODES,
    samplers::NODES,
    sigmas::NODES,
    image::NODES,
    batch::NODES,
    rebatch::NODES,
    filters::NODES,
    color_transfer::NODES,
    mask::NODES,
    mask_image::NODES,
    composite::NODES,
    alpha::NODES,
    output::NODES,
    video::NODES,
    trim::NODES,
    vision::NODES,
    upscale::NODES,
    wan::NODES,
    wan::camera::NODES,
    wan::tracks::NODES,
    wan::sound::NODES,
    audio::NODES,
    skip::NODES,
    attention::NODES,
    merge::NODES,
    values::NODES,
    strings::NODES,
    math::NODES,
    resize::NODES,
    fit::NODES,
    shown::NODES,
    painter::NODES,
    pass::NODES,
    rocm::NODES,
];

/// All classes of nodes.
pub fn all() -> impl Iterator<Item = &'static NodeDef> {
    FAMILIES.iter().copied().flatten()
}

/// The class of that name.
pub fn find(class: &str) -> Option<&'static NodeDef> {
    all().find(|def| def.class == class)
}

#[cfg(test)]
mod tests;
