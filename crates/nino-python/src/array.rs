//! Arrays between Python and the engine by DLPack, which numpy and torch both speak.
//!
//! What comes in is read where it lies: [`Input`] keeps the owner alive. What goes out is an
//! [`Array`], which `numpy.from_dlpack` and `torch.from_dlpack` take without a copy. Both sides are
//! in host memory. Structures: <https://dmlc.github.io/dlpack/latest/c_api.html>, 1.0 and before.

use crate::error::value;
use nino_engine::DType;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::ffi::{CStr, c_void};
use std::sync::Arc;

const PLAIN: &CStr = c"dltensor";
const PLAIN_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";

/// `kDLCPU`.
const CPU: i32 = 1;

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// Who owns the bytes of an input.
enum Owner {
    Plain(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

/// An array of another library, read where it lies.
pub(crate) struct Input {
    owner: Owner,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    bytes: *const u8,
    len: usize,
}

// SAFETY: the bytes are only read, the owner keeps them until `drop`, and `drop` attaches to the
// interpreter before it calls the owner's deleter.
unsafe impl Send for Input {}
// SAFETY: as above.
unsafe impl Sync for Input {}

impl Input {
    /// The array of an object that speaks DLPack, with values in row-major order in host memory.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Input> {
        let capsule = exported(object)?;
        // SAFETY: the capsule's name says which structure it holds; renaming it takes ownership.
        unsafe {
            let pointer = capsule.as_ptr();
            if ffi::PyCapsule_IsValid(pointer, VERSIONED.as_ptr()) != 0 {
                let managed = ffi::PyCapsule_GetPointer(pointer, VERSIONED.as_ptr())
                    .cast::<ManagedVersioned>();
                ffi::PyCapsule_SetName(pointer, VERSIONED_USED.as_ptr());
                return Input::new(Owner::Versioned(managed), &(*managed).tensor);
            }
            if ffi::PyCapsule_IsValid(pointer, PLAIN.as_ptr()) != 0 {
                let managed = ffi::PyCapsule_GetPointer(pointer, PLAIN.as_ptr()).cast::<Managed>();
                ffi::PyCapsule_SetName(pointer, PLAIN_USED.as_ptr());
                return Input::new(Owner::Plain(managed), &(*managed).tensor);
            }
        }
        Err(PyBufferError::new_err("__dlpack__ gave no tensor"))
    }

    /// # Safety
    /// `tensor` is the owner's.
    unsafe fn new(owner: Owner, tensor: &DlTensor) -> PyResult<Input> {
        let ndim = tensor.ndim.max(0) as usize;
        // SAFETY: DLPack gives `ndim` numbers for the shape.
        let shape: Vec<usize> = (0..ndim)
            .map(|i| unsafe { *tensor.shape.add(i) }.max(0) as usize)
            .collect();
        // SAFETY: as many strides, where there are any.
        let strides: Option<Vec<i64>> = (!tensor.strides.is_null()).then(|| {
            (0..ndim)
                .map(|i| unsafe { *tensor.strides.add(i) })
                .collect()
        });
        // From here on, an error gives the tensor back.
        let mut input = Input {
            owner,
            dtype: DType::F32,
            bytes: std::ptr::null(),
            len: 0,
            shape,
        };
        if tensor.device_type != CPU {
            return Err(PyBufferError::new_err("the array is not in host memory"));
        }
        input.dtype = dtype_of(tensor)?;
        if strides.is_some_and(|strides| !is_row_major(&input.shape, &strides)) {
            return Err(PyBufferError::new_err("the array is not contiguous"));
        }
        let n = input.shape.iter().product();
        let len = input.dtype.bytes_for(n);
        input.len = len.ok_or_else(|| value("the array's size overflows"))?;
        // SAFETY: the offset is into the tensor's own memory.
        input.bytes = unsafe { tensor.data.cast::<u8>().add(tensor.byte_offset as usize) };
        Ok(input)
    }

    /// The values, which have to be f32.
    #[allow(clippy::cast_ptr_alignment)] // looked at before it is read
    pub(crate) fn floats(&self) -> PyResult<&[f32]> {
        if self.dtype != DType::F32 {
            let message = format!("expected float32, found {}", self.dtype);
            return Err(PyTypeError::new_err(message));
        }
        if self.len == 0 {
            return Ok(&[]);
        }
        if !self.bytes.cast::<f32>().is_aligned() {
            return Err(PyBufferError::new_err("the array's memory is not aligned"));
        }
        // SAFETY: f32 values, aligned, alive as long as `self`.
        Ok(unsafe { std::slice::from_raw_parts(self.bytes.cast(), self.len / 4) })
    }

    /// The values as bytes, for weights.
    pub(crate) fn into_bytes(self) -> Arc<dyn AsRef<[u8]> + Send + Sync> {
        Arc::new(self)
    }
}

impl AsRef<[u8]> for Input {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `new` computed the length from the tensor's type and shape.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // While the interpreter ends there is nobody to give the memory back to.
        Python::try_attach(|_| {
            // SAFETY: the owner was taken once, and its deleter is called once.
            unsafe {
                match self.owner {
                    Owner::Plain(m) => {
                        if let Some(deleter) = (*m).deleter {
                            deleter(m);
                        }
                    }
                    Owner::Versioned(m) => {
                        if let Some(deleter) = (*m).deleter {
                            deleter(m);
                        }
                    }
                }
            }
        });
    }
}

/// Asks for the versioned structure first, since numpy exports arrays that are read-only only so.
fn exported<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if !object.hasattr("__dlpack__")? {
        let kind = object.get_type().name()?;
        let message = format!("expected an array of numpy or torch, found {kind}");
        return Err(PyTypeError::new_err(message));
    }
    let kwargs = PyDict::new(py);
    kwargs.set_item("max_version", (1, 0))?;
    match object.call_method("__dlpack__", (), Some(&kwargs)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => object.call_method0("__dlpack__"),
        exported => exported,
    }
}

fn dtype_of(tensor: &DlTensor) -> PyResult<DType> {
    let dtype = match (tensor.code, tensor.bits, tensor.lanes) {
        (0, 8, 1) => DType::I8,
        (0, 32, 1) => DType::I32,
        (0, 64, 1) => DType::I64,
        (1, 8, 1) => DType::U8,
        (2, 16, 1) => DType::F16,
        (2, 32, 1) => DType::F32,
        (2, 64, 1) => DType::F64,
        (4, 16, 1) => DType::BF16,
        (10, 8, 1) => DType::F8E4M3,
        (12, 8, 1) => DType::F8E5M2,
        (code, bits, lanes) => {
            let message =
                format!("arrays of DLPack type {code}, {bits} bits × {lanes}, are unknown");
            return Err(PyTypeError::new_err(message));
        }
    };
    Ok(dtype)
}

fn is_row_major(shape: &[usize], strides: &[i64]) -> bool {
    let mut expected = 1;
    let axes = shape.iter().zip(strides).rev();
    axes.fold(true, |fits, (&n, &stride)| {
        let here = n <= 1 || stride == expected;
        expected *= n.max(1) as i64;
        fits && here
    })
}

/// Values of the engine for `numpy.from_dlpack` and `torch.from_dlpack`.
#[pyclass(frozen, module = "ninodes._native")]
pub(crate) struct Array {
    values: Arc<Vec<f32>>,
    shape: Vec<i64>,
}

impl Array {
    pub(crate) fn new(values: Vec<f32>, shape: &[usize]) -> Array {
        Array {
            values: Arc::new(values),
            shape: shape.iter().map(|&n| n as i64).collect(),
        }
    }
}

/// What keeps an exported array alive.
struct Exported {
    _values: Arc<Vec<f32>>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

#[pymethods]
impl Array {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream;
        if dl_device.is_some_and(|(kind, _)| kind != CPU) || copy == Some(true) {
            return Err(PyBufferError::new_err(
                "only a view in host memory is given",
            ));
        }
        let mut strides = vec![1; self.shape.len()];
        for i in (1..self.shape.len()).rev() {
            strides[i - 1] = strides[i] * self.shape[i];
        }
        let mut owner = Box::new(Exported {
            _values: Arc::clone(&self.values),
            shape: self.shape.clone(),
            strides,
        });
        let tensor = DlTensor {
            data: self.values.as_ptr().cast_mut().cast(),
            device_type: CPU,
            device_id: 0,
            ndim: self.shape.len() as i32,
            code: 2,
            bits: 32,
            lanes: 1,
            shape: owner.shape.as_mut_ptr(),
            strides: owner.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let context = Box::into_raw(owner).cast();
        // SAFETY: the structure belongs to the capsule; either whoever takes it calls the deleter
        // and renames the capsule, or the capsule's destructor frees it.
        unsafe {
            let capsule = if max_version.is_some_and(|(major, _)| major >= 1) {
                let managed = Box::into_raw(Box::new(ManagedVersioned {
                    major: 1,
                    minor: 0,
                    context,
                    deleter: Some(free_versioned),
                    flags: 0,
                    tensor,
                }));
                ffi::PyCapsule_New(managed.cast(), VERSIONED.as_ptr(), Some(drop_versioned))
            } else {
                let managed = Box::into_raw(Box::new(Managed {
                    tensor,
                    context,
                    deleter: Some(free_plain),
                }));
                ffi::PyCapsule_New(managed.cast(), PLAIN.as_ptr(), Some(drop_plain))
            };
            let capsule = Bound::from_owned_ptr_or_err(py, capsule)?;
            Ok(capsule.cast_into::<PyCapsule>()?.into_any())
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (CPU, 0)
    }

    #[getter]
    fn shape(&self) -> Vec<i64> {
        self.shape.clone()
    }
}

unsafe extern "C" fn free_plain(managed: *mut Managed) {
    // SAFETY: made by `__dlpack__`, freed once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported>()));
    }
}

unsafe extern "C" fn free_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: made by `__dlpack__`, freed once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported>()));
    }
}

/// Frees what nobody took.
unsafe extern "C" fn drop_plain(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that was taken has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) != 0 {
            free_plain(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        }
    }
}

/// Frees what nobody took.
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule that was taken has another name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            free_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
