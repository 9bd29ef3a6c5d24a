//! Aligned buffers, and views of activations that read and write f32 whatever they are stored as.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use nino_dtype::DType;
use nino_graph::ExecError;

use crate::simd::{Level, Simd, dispatch};
use crate::threads::Threads;

/// The least that the system gives at a time.
const PAGE: usize = 4 << 10;

/// Buffers of so many bytes and more have pages of their own.
#[cfg(target_os = "linux")]
const MAPPED: usize = 1 << 20;

/// Bytes at a cache line's start. Making one fails with the size wanted instead of aborting.
pub(crate) struct Buffer {
    ptr: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a buffer owns its memory; writers hold it uniquely or write to disjoint ranges.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) const ALIGN: usize = 64;

    /// Makes a buffer of zeros.
    pub(crate) fn new(bytes: usize, what: &str) -> Result<Buffer, ExecError> {
        let fail = || ExecError::OutOfMemory {
            what: what.to_owned(),
            wanted: bytes as u64,
            free: None,
        };
        #[cfg(target_os = "linux")]
        if bytes >= MAPPED {
            let ptr = map(bytes).ok_or_else(fail)?;
            return Ok(Buffer { ptr, bytes });
        }
        let layout = Self::layout(bytes).ok_or_else(fail)?;
        // SAFETY: the layout's size is not zero.
        let ptr = nino_files::refusable(|| unsafe { alloc_zeroed(layout) });
        let ptr = NonNull::new(ptr).ok_or_else(fail)?;
        Ok(Buffer { ptr, bytes })
    }

    /// Makes a buffer of zeros whose pages all threads ask for. The first write to a page waits for
    /// the system to find one, so that an arena of gigabytes would take one thread seconds.
    pub(crate) fn zeroed_by(
        threads: &Threads,
        bytes: usize,
        what: &str,
    ) -> Result<Buffer, ExecError> {
        let buffer = Buffer::new(bytes, what)?;
        let share = bytes
            .div_ceil(threads.count())
            .next_multiple_of(PAGE)
            .max(1);
        threads.broadcast(&|thread| {
            let start = (thread * share).min(bytes);
            for at in (start..(start + share).min(bytes)).step_by(PAGE) {
                // SAFETY: shares are within the buffer and do not overlap. Volatile, because the
                // compiler may know that the byte is zero already.
                unsafe { buffer.as_ptr().add(at).write_volatile(0) };
            }
        });
        Ok(buffer)
    }

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.max(1), Self::ALIGN).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the pointer is valid for `bytes` initialized bytes.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.bytes) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if self.bytes >= MAPPED {
            // SAFETY: mapped in `new` with this size, and nobody uses it any more.
            unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.bytes) };
            return;
        }
        if let Some(layout) = Self::layout(self.bytes) {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.ptr.as_ptr(), layout) }
        }
    }
}

/// Maps pages of zeros, nothing if the system refuses. The allocator would write zeros over pages
/// that are zero already, because it takes no alignment with its zeros.
///
/// Huge pages would be faster still (a third of the time), but asking for them in a memory full of
/// cached files makes the system move pages about: seconds for a model were seen.
#[cfg(target_os = "linux")]
fn map(bytes: usize) -> Option<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which takes the place of none.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    (start != libc::MAP_FAILED).then_some(NonNull::new(start.cast())?)
}

/// Asks the C library to give freed memory of a MiB and more back at once. glibc raises its own
/// limit to 32 MiB with the first such block freed and keeps what is smaller: after loading weights
/// that is a fifth more than was planned. Costs nothing in a run, which allocates nothing of size.
pub(crate) fn give_back_what_is_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets a number under the C library's own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

/// Gives freed memory back to the system when it is dropped. Blocks of less than a MiB lie among
/// others and would stay with the C library: of a network's weights that is several MiB, which the
/// next network's do not fill.
pub(crate) struct Trim;

impl Drop for Trim {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: works under the C library's own locks.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}

/// A contiguous tensor in memory, stored as f32, f16 or bf16.
///
/// A view knows neither its length nor who else uses it; the crate's `# Safety` section says what
/// is promised. Of a tensor outside the arena only the rows of the step are in memory: the view
/// then begins where the first element would be, which may be before the arena.
#[derive(Clone, Copy)]
pub(crate) struct View {
    pub(crate) ptr: *mut u8,
    pub(crate) dtype: DType,
}

// SAFETY: a view is an address and no access. Kernels write disjoint rows and read what nobody
// writes; the crate's contract says so.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// # Safety
/// The elements that the arguments name must be valid to read, or to write for `target`, `commit`
/// and `store`, by the crate's contract. `buf`, `dst` and `src` must be valid for `n` values.
#[allow(unsafe_op_in_unsafe_fn)] // address arithmetic under the one contract above
impl View {
    #[cfg(test)]
    pub(crate) fn of(values: &mut [f32]) -> View {
        View {
            ptr: values.as_mut_ptr().cast(),
            dtype: DType::F32,
        }
    }

    pub(crate) fn is_f32(self) -> bool {
        self.dtype == DType::F32
    }

    /// Gives the address of element `at`.
    pub(crate) unsafe fn at(self, at: usize) -> *mut u8 {
        self.ptr.add(at * self.dtype.block_bytes())
    }

    /// Gives the address of element `at` of a view that is stored as f32.
    #[allow(clippy::cast_ptr_alignment)] // every view starts at its dtype's alignment
    pub(crate) unsafe fn f32_at(self, at: usize) -> *mut f32 {
        self.ptr.cast::<f32>().add(at)
    }

    /// Gives elements `at..at + n` as f32: in place when they are stored so, else converted into
    /// `buf`.
    pub(crate) unsafe fn row(self, level: Level, at: usize, n: usize, buf: *mut f32) -> *const f32 {
        if self.is_f32() {
            return self.f32_at(at);
        }
        self.load(level, at, n, buf);
        buf
    }

    /// Converts elements `at..at + n` to f32 in `dst`.
    pub(crate) unsafe fn load(self, level: Level, at: usize, n: usize, dst: *mut f32) {
        match self.dtype {
            DType::F16 => widen_f16(level, self.at(at).cast(), dst, n),
            DType::BF16 => widen_bf16(level, self.at(at).cast(), dst, n),
            _ => std::ptr::copy_nonoverlapping(self.f32_at(at), dst, n),
        }
    }

    /// Loads the `n` elements from `at` on, at most a vector's; other lanes may hold anything.
    #[inline(always)]
    pub(crate) unsafe fn load_vector<S: Simd>(self, at: usize, n: usize) -> S::V {
        let mut part = [0u32; 16];
        let mut p = self.at(at).cast_const();
        if n < S::LANES {
            let whole = part.as_mut_ptr().cast::<u8>();
            whole.copy_from_nonoverlapping(p, n * self.dtype.block_bytes());
            p = whole;
        }
        match self.dtype {
            DType::F16 => S::load_f16(p.cast()),
            DType::BF16 => S::load_bf16(p.cast()),
            _ => S::load(p.cast()),
        }
    }

    /// Stores the first `n` lanes of a vector as the elements from `at` on.
    #[inline(always)]
    pub(crate) unsafe fn store_vector<S: Simd>(self, at: usize, n: usize, v: S::V) {
        let mut part = [0u32; 16];
        let whole = n >= S::LANES;
        let p = if whole {
            self.at(at)
        } else {
            part.as_mut_ptr().cast()
        };
        match self.dtype {
            DType::F16 => S::store_f16(p.cast(), v),
            DType::BF16 => S::store_bf16(p.cast(), v),
            _ => S::store(p.cast(), v),
        }
        if !whole {
            let bytes = n * self.dtype.block_bytes();
            self.at(at)
                .copy_from_nonoverlapping(part.as_ptr().cast(), bytes);
        }
    }

    /// Asks the CPU to bring elements `at..at + n` into its first-level cache.
    pub(crate) fn prefetch(self, at: usize, n: usize) {
        let size = self.dtype.block_bytes();
        prefetch::<true>(self.ptr.wrapping_add(at * size), n * size);
    }

    /// Gives the address at which to compute elements from `at` on: their own when they are stored
    /// as f32, else `buf`. Call [`View::commit`] afterwards.
    pub(crate) unsafe fn target(self, at: usize, buf: *mut f32) -> *mut f32 {
        if self.is_f32() { self.f32_at(at) } else { buf }
    }

    /// Stores what was computed at the address that [`View::target`] gave.
    pub(crate) unsafe fn commit(self, level: Level, at: usize, n: usize, buf: *const f32) {
        if !self.is_f32() {
            self.store(level, at, n, buf);
        }
    }

    /// Converts `n` values to the view's dtype and stores them at element `at`.
    pub(crate) unsafe fn store(self, level: Level, at: usize, n: usize, src: *const f32) {
        match self.dtype {
            DType::F16 => narrow_f16(level, src, self.at(at).cast(), n),
            DType::BF16 => narrow_bf16(level, src, self.at(at).cast(), n),
            _ => std::ptr::copy(src, self.f32_at(at), n),
        }
    }
}

/// Asks the CPU to bring `bytes` bytes into its first-level cache, or only into the second-level
/// one. This is a hint and never faults.
pub(crate) fn prefetch<const FIRST: bool>(from: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        for line in (0..bytes).step_by(64) {
            let p = from.wrapping_add(line).cast();
            // SAFETY: a prefetch does not access memory the program can see.
            unsafe {
                if FIRST {
                    _mm_prefetch::<_MM_HINT_T0>(p);
                } else {
                    _mm_prefetch::<_MM_HINT_T1>(p);
                }
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, bytes);
}

dispatch! { pub(crate) fn widen_f16(src: *const u16, dst: *mut f32, n: usize) = widen_f16_impl }
dispatch! { pub(crate) fn widen_bf16(src: *const u16, dst: *mut f32, n: usize) = widen_bf16_impl }
dispatch! { pub(crate) fn narrow_f16(src: *const f32, dst: *mut u16, n: usize) = narrow_f16_impl }
dispatch! { pub(crate) fn narrow_bf16(src: *const f32, dst: *mut u16, n: usize) = narrow_bf16_impl }

// The step is a macro's expression, not a closure: a closure keeps its own target features unless
// it is inlined.
macro_rules! convert {
    ($name:ident, $from:ty, $to:ty, |$s:ident, $src:ident, $dst:ident| $step:expr) => {
        #[inline(always)]
        #[allow(unsafe_op_in_unsafe_fn)] // both pointers are valid for `n` values
        unsafe fn $name<$s: Simd>(src: *const $from, dst: *mut $to, n: usize) {
            let whole = n - n % $s::LANES;
            let mut i = 0;
            while i < whole {
                let ($src, $dst) = (src.add(i), dst.add(i));
                $step;
                i += $s::LANES;
            }
            if i < n {
                let (mut from, mut to) = ([Default::default(); 16], [Default::default(); 16]);
                std::ptr::copy_nonoverlapping(src.add(i), from.as_mut_ptr(), n - i);
                let ($src, $dst) = (from.as_ptr(), to.as_mut_ptr());
                $step;
                std::ptr::copy_nonoverlapping(to.as_ptr(), dst.add(i), n - i);
            }
        }
    };
}

convert!(widen_f16_impl, u16, f32, |S, src, dst| S::store(
    dst,
    S::load_f16(src)
));
convert!(widen_bf16_impl, u16, f32, |S, src, dst| S::store(
    dst,
    S::load_bf16(src)
));
convert!(narrow_f16_impl, f32, u16, |S, src, dst| S::store_f16(
    dst,
    S::load(src)
));
convert!(narrow_bf16_impl, f32, u16, |S, src, dst| S::store_bf16(
    dst,
    S::load(src)
));
