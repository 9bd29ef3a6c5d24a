//! Weights in memory: laid out in panels of [`PANEL`] output channels, in their stored encoding.
//!
//! Plain types are stored `[panel][channel block][tap][channel][PANEL]`, so that a panel is read in
//! order; f32 panels are used where they lie, the others are widened into a cache-sized pack. What
//! is only multiplied in pairs of bf16 is stored so, and used where it lies. Block types stay as
//! they came and are decoded and transposed into the pack.

use std::ops::Range;

use nino_dtype::DType;
use nino_graph::{ExecError, ParamSource, ParamSpec, StoredRows};

use super::micro::PANEL;
use super::panels::PanelRows;
use super::{pairs, q8, q8_panels};
use crate::memory::{Buffer, View, widen_bf16, widen_f16};
use crate::simd::{Level, Simd, dispatch};

/// The values decoded at a time from a row of a block type, which is the longest block.
const ROW: usize = 256;

/// What weights are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeightUse {
    /// `[n, taps, cin]`
    pub shape: [usize; 3],
    /// Whether all that is multiplied with them is stored in bf16.
    pub brain: bool,
}

pub(crate) struct Packed {
    pub dtype: DType,
    /// Output channels.
    pub n: usize,
    /// Filter positions; 1 for a linear layer.
    pub taps: usize,
    /// Input channels.
    pub cin: usize,
    pub layout: PackedLayout,
    data: Data,
}

enum Data {
    Own(Buffer),
    /// The weights lie in the arena.
    Lent(View),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedLayout {
    Panels,
    /// f16 or bf16 in panels whose rows are pairs of bf16; see `pairs`.
    Pairs,
    /// The weights lie as in the file: `[n][taps][cin]` in blocks.
    Rows,
    /// Q8_0 for int8 dot products; see `q8`.
    Int8,
    /// Q8_0 for kernels in f32; see `q8_panels`.
    Q8Panels,
}

impl Packed {
    /// Takes weights `[n, taps, cin]` as stored in a file.
    pub(crate) fn new(
        level: Level,
        dtype: DType,
        wanted: WeightUse,
        stored: Buffer,
        what: &str,
    ) -> Result<Packed, ExecError> {
        let [n, taps, cin] = wanted.shape;
        let outline = Packed::outline(level, dtype, wanted, what)?;
        let data = match outline.layout {
            PackedLayout::Rows => stored,
            PackedLayout::Int8 => {
                let mut data = Buffer::new(q8::packed_bytes(n, cin), what)?;
                q8::pack(stored.as_slice(), n, cin, data.as_mut_slice());
                data
            }
            PackedLayout::Q8Panels => {
                let mut data = Buffer::new(q8_panels::packed_bytes([n, taps, cin]), what)?;
                q8_panels::pack(stored.as_slice(), [n, taps, cin], data.as_mut_slice());
                data
            }
            PackedLayout::Panels | PackedLayout::Pairs => {
                let row = taps * cin * dtype.block_bytes();
                let from = stored.as_slice();
                return outline.in_panels(what, StoredRows::Same, |rows, pack| {
                    pack(&from[rows.start * row..rows.end * row]);
                    Ok(())
                });
            }
        };
        Ok(Packed {
            data: Data::Own(data),
            ..outline
        })
    }

    /// Takes plain weights from a source a panel at a time, without having them whole; `None` where
    /// they have to be.
    pub(crate) fn read(
        level: Level,
        spec: &ParamSpec,
        wanted: WeightUse,
        source: &dyn ParamSource,
    ) -> Result<Option<Packed>, ExecError> {
        let [n, taps, cin] = wanted.shape;
        let outline = Packed::outline(level, spec.dtype, wanted, &spec.name)?;
        let order = source.stored_rows(spec);
        let (PackedLayout::Panels | PackedLayout::Pairs, Some(order)) = (outline.layout, order)
        else {
            return Ok(None);
        };
        let row = taps * cin * spec.dtype.block_bytes();
        let mut bytes = Buffer::new(PANEL.min(n) * row, &spec.name)?;
        let packed = outline.in_panels(&spec.name, order, |rows, pack| {
            let bytes = &mut bytes.as_mut_slice()[..rows.len() * row];
            source.read_rows(spec, rows, bytes)?;
            pack(bytes);
            Ok(())
        });
        packed.map(Some)
    }

    /// Fills the panels one after the other: `give` calls its second argument with the stored rows
    /// it is asked for.
    fn in_panels(
        self,
        what: &str,
        order: StoredRows,
        mut give: impl FnMut(Range<usize>, &mut dyn FnMut(&[u8])) -> Result<(), ExecError>,
    ) -> Result<Packed, ExecError> {
        let (taps, cin, size) = (self.taps, self.cin, self.dtype.block_bytes());
        let panel = PANEL * taps * cin * size;
        let mut data = Buffer::new(self.panels() * panel, what)?;
        for p in 0..self.panels() {
            let rows = PanelRows {
                n: self.cols(p),
                taps,
                cin,
                order,
            };
            let to = &mut data.as_mut_slice()[p * panel..(p + 1) * panel];
            let first = p * PANEL;
            let range = first..first + rows.n;
            give(range, &mut |bytes: &[u8]| rows.pack(size, bytes, to))?;
            if self.layout == PackedLayout::Pairs {
                // SAFETY: the panel has an even number of rows of 16-bit values, and this layout
                // is chosen where the CPU has the instructions.
                unsafe { pairs::pair_up(self.dtype, to.as_mut_ptr().cast(), taps * cin) };
            }
        }
        Ok(Packed {
            data: Data::Own(data),
            ..self
        })
    }

    /// Takes weights `[n, taps, cin]` of a plain type that an op of the plan has made.
    ///
    /// # Safety
    /// The view's bytes must be valid and unchanged as long as the result is used.
    pub(crate) unsafe fn lent(view: View, [n, taps, cin]: [usize; 3]) -> Packed {
        Packed {
            dtype: view.dtype,
            n,
            taps,
            cin,
            layout: PackedLayout::Rows,
            data: Data::Lent(view),
        }
    }

    /// Gives the layout of such weights without their values, which is enough to know the scratch
    /// they need.
    pub(crate) fn outline(
        level: Level,
        dtype: DType,
        wanted: WeightUse,
        what: &str,
    ) -> Result<Packed, ExecError> {
        let [n, taps, cin] = wanted.shape;
        // By vectors, 3x3 convolutions are computed in f32 (`Geometry::method`).
        let by_pairs = wanted.brain && pairs::supported(level) && (taps == 1 || pairs::by_tiles());
        let narrow = matches!(dtype, DType::F16 | DType::BF16);
        let layout = if dtype == DType::Q8_0 && taps == 1 && q8::supported(level) {
            PackedLayout::Int8
        } else if dtype == DType::Q8_0 {
            PackedLayout::Q8Panels
        } else if dtype.is_block() {
            PackedLayout::Rows
        } else if by_pairs && narrow && cin.is_multiple_of(2) {
            PackedLayout::Pairs
        } else {
            PackedLayout::Panels
        };
        Ok(Packed {
            dtype,
            n,
            taps,
            cin,
            layout,
            data: Data::Own(Buffer::new(0, what)?),
        })
    }

    pub(crate) fn panels(&self) -> usize {
        self.n.div_ceil(PANEL)
    }

    /// Gives the number of columns of panel `p` that exist.
    pub(crate) fn cols(&self, p: usize) -> usize {
        (self.n - p * PANEL).min(PANEL)
    }

    /// Gives the packed bytes, for the int8 kernel.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Own(data) => data.as_slice(),
            Data::Lent(_) => &[],
        }
    }

    pub(crate) fn stored_bytes(&self) -> usize {
        self.bytes().len()
    }

    fn as_ptr(&self) -> *const u8 {
        match &self.data {
            Data::Own(data) => data.as_ptr(),
            Data::Lent(view) => view.ptr,
        }
    }

    /// Gives the floats of scratch that [`Packed::panel`] needs for `k` values of k.
    pub(crate) fn pack_floats(&self, k: usize) -> usize {
        match self.layout {
            PackedLayout::Panels if self.dtype == DType::F32 => 0,
            PackedLayout::Panels
            | PackedLayout::Pairs
            | PackedLayout::Int8
            | PackedLayout::Q8Panels => k * PANEL,
            // Beside the panel: decoded rows before they are transposed, and one row's blocks.
            PackedLayout::Rows => k * PANEL + ROW * PANEL + 2 * ROW,
        }
    }

    /// Gives panel `p` as f32 `[tap][c][PANEL]` for channels `c0..c0 + n`: all taps of one block of
    /// at most `SEG` channels, or several blocks of a linear layer. `c0` must be a multiple of
    /// `SEG`.
    pub(crate) unsafe fn panel(
        &self,
        level: Level,
        p: usize,
        c0: usize,
        n: usize,
        pack: *mut f32,
    ) -> *const f32 {
        let count = n * self.taps * PANEL;
        match self.layout {
            PackedLayout::Rows => return self.decode_rows(level, p, c0, n, pack),
            PackedLayout::Int8 => {
                q8::unpack(level, self.bytes(), self.cin, p, c0, n, pack);
                return pack;
            }
            PackedLayout::Q8Panels => {
                let at = q8_panels::offset(p, c0, self.taps, self.cin);
                let blocks = n * self.taps / q8::BLOCK;
                q8_panels::unpack(level, self.as_ptr().add(at), blocks, pack);
                return pack;
            }
            PackedLayout::Pairs => {
                pairs::unpair(self.panel_at(p, c0).cast(), n * self.taps, pack);
                return pack;
            }
            PackedLayout::Panels => {}
        }
        let src = self.panel_at(p, c0);
        match self.dtype {
            DType::F32 => return src.cast(),
            DType::F16 => widen_f16(level, src.cast(), pack, count),
            DType::BF16 => widen_bf16(level, src.cast(), pack, count),
            _ => {
                let bytes = std::slice::from_raw_parts(src, count * self.dtype.block_bytes());
                let out = std::slice::from_raw_parts_mut(pack, count);
                nino_dtype::decode(self.dtype, bytes, out).expect("sizes match by construction");
            }
        }
        pack
    }

    /// Gives where panel `p` begins from channel `c0` on, for weights of a plain type in panels,
    /// also where those are of pairs.
    pub(super) unsafe fn panel_at(&self, p: usize, c0: usize) -> *const u8 {
        let first = (p * self.cin + c0) * self.taps * PANEL;
        self.as_ptr().add(first * self.dtype.block_bytes())
    }

    /// Gives the stored bytes of values `k0..k0 + n`, whole blocks, of one row of a linear layer
    /// that lies in rows.
    pub(super) unsafe fn row(&self, row: usize, k0: usize, n: usize) -> &[u8] {
        let (len, bytes) = (self.dtype.block_len(), self.dtype.block_bytes());
        let first = (row * self.cin + k0) / len;
        std::slice::from_raw_parts(self.as_ptr().add(first * bytes), n / len * bytes)
    }

    unsafe fn decode_rows(
        &self,
        level: Level,
        p: usize,
        c0: usize,
        n: usize,
        pack: *mut f32,
    ) -> *const f32 {
        let (len, bytes) = (self.dtype.block_len(), self.dtype.block_bytes());
        let rows = pack.add(n * self.taps * PANEL);
        let blocks = rows.add(ROW * PANEL);
        let cols = self.cols(p);
        if cols < PANEL {
            std::slice::from_raw_parts_mut(rows, ROW * PANEL).fill(0.0);
        }
        for tap in 0..self.taps {
            let mut c = c0;
            while c < c0 + n {
                let step = (c0 + n - c).min(ROW - c % ROW);
                for j in 0..cols {
                    let row = (p * PANEL + j) * self.taps + tap;
                    let (first, last) = (c / len, (c + step).div_ceil(len));
                    let src = self.as_ptr().add((row * (self.cin / len) + first) * bytes);
                    let src = std::slice::from_raw_parts(src, (last - first) * bytes);
                    let out = std::slice::from_raw_parts_mut(blocks, (last - first) * len);
                    nino_dtype::decode(self.dtype, src, out).expect("whole blocks");
                    std::ptr::copy_nonoverlapping(blocks.add(c % len), rows.add(j * ROW), step);
                }
                let dst = pack.add((tap * n + (c - c0)) * PANEL);
                transpose_panel(level, rows, ROW, step, dst);
                c += step;
            }
        }
        pack
    }
}

dispatch! {
    /// Transposes [`PANEL`] rows of `n` values, `ld` apart, to `[n][PANEL]`.
    pub(crate) fn transpose_panel(src: *const f32, ld: usize, n: usize, dst: *mut f32) = transpose_panel_impl
}

#[inline(always)]
unsafe fn transpose_panel_impl<S: Simd>(src: *const f32, ld: usize, n: usize, dst: *mut f32) {
    let mut c = 0;
    while c + S::LANES <= n {
        let mut j = 0;
        while j < PANEL {
            S::transpose(src.add(j * ld + c), ld, dst.add(c * PANEL + j), PANEL);
            j += S::LANES;
        }
        c += S::LANES;
    }
    while c < n {
        for j in 0..PANEL {
            *dst.add(c * PANEL + j) = *src.add(j * ld + c);
        }
        c += 1;
    }
}
