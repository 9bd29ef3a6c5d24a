//! Platforms without Vulkan: everything goes through wgpu's passes.

use std::path::Path;
use std::sync::Arc;

use crate::kernel::{Binding, Dispatch, Launch};
use crate::session::StepRun;
use crate::shader::KernelKey;
use crate::{Caps, Gpu, GpuError};
use nino_ptx::PtxKey;

/// Never made here.
#[derive(Debug)]
pub(crate) enum Vulkan {}

#[derive(Debug)]
pub(crate) enum Pipeline {}

#[derive(Debug)]
pub(crate) enum Bound {}

#[derive(Debug)]
pub(crate) enum Recorder {}

pub(crate) fn dot_products(_: &wgpu::Adapter) -> Option<bool> {
    None
}

impl Vulkan {
    #[allow(clippy::type_complexity, clippy::unnecessary_wraps)] // as where there is Vulkan
    pub(crate) fn open(
        _: &wgpu::Adapter,
        _: &wgpu::DeviceDescriptor<'_>,
        _: Option<&Path>,
        _: bool,
    ) -> Result<Option<(wgpu::Device, wgpu::Queue, Arc<Vulkan>)>, String> {
        Ok(None)
    }

    pub(crate) fn buffer(
        &self,
        _: &Gpu,
        _: &wgpu::BufferDescriptor<'_>,
    ) -> Result<wgpu::Buffer, GpuError> {
        match *self {}
    }

    pub(crate) fn compile(
        self: &Arc<Self>,
        _: &KernelKey,
        _: &Caps,
    ) -> Result<(Pipeline, u32), GpuError> {
        match **self {}
    }

    pub(crate) fn bind(
        self: &Arc<Self>,
        _: &Arc<Pipeline>,
        _: &Launch<'_>,
        _: &[Binding<'_>],
    ) -> Result<Bound, GpuError> {
        match **self {}
    }

    pub(crate) fn chooses_subgroups(&self) -> bool {
        match *self {}
    }

    pub(crate) fn takes_ptx(&self) -> bool {
        match *self {}
    }

    pub(crate) fn compile_ptx(&self, _: PtxKey) -> Result<(), GpuError> {
        match *self {}
    }

    pub(crate) fn bind_ptx(&self, _: PtxKey, _: &Launch<'_>) -> Result<Bound, GpuError> {
        match *self {}
    }

    pub(crate) fn save(&self) {
        match *self {}
    }

    pub(crate) fn timed<'a, I: Iterator<Item = &'a Dispatch>>(
        &self,
        _: &Gpu,
        _: impl ExactSizeIterator<Item = I>,
    ) -> Result<Vec<f64>, GpuError> {
        match *self {}
    }
}

impl Recorder {
    pub(crate) fn new(vulkan: &Arc<Vulkan>) -> Result<Recorder, GpuError> {
        match **vulkan {}
    }

    pub(crate) fn recorded(&self, _: usize) -> Option<usize> {
        match *self {}
    }

    pub(crate) fn submit(
        &mut self,
        _: &Gpu,
        _: &[StepRun],
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        match *self {}
    }
}
