//! The classes of nodes, a file for each family of them. Names, inputs, defaults and ranges are
//! ComfyUI's.

mod batch;
mod composite;
mod conditioning;
mod control;
mod custom;
pub(crate) mod dynamic;
mod filters;
mod flux;
mod flux2;
mod image;
mod inpaint;
mod lanczos;
mod latent;
mod latent_math;
mod loaders;
mod mask;
mod mask_image;
mod math;
mod model;
mod output;
mod pass;
mod qwen;
mod resize;
mod rocm;
mod sampler;
mod samplers;
mod shown;
mod sigmas;
mod skip;
mod text;
mod upscale;
mod vae;
mod values;
mod video;
mod vision;
mod wan;

use crate::node::NodeDef;

static FAMILIES: [&[NodeDef]; 35] = [
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
    vae::NODES,
    sampler::NODES,
    custom::NODES,
    samplers::NODES,
    sigmas::NODES,
    image::NODES,
    batch::NODES,
    filters::NODES,
    mask::NODES,
    mask_image::NODES,
    composite::NODES,
    output::NODES,
    video::NODES,
    vision::NODES,
    upscale::NODES,
    wan::NODES,
    wan::camera::NODES,
    skip::NODES,
    values::NODES,
    math::NODES,
    resize::NODES,
    shown::NODES,
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
