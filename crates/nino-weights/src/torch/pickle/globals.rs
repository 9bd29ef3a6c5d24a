//! What a name in a pickle may stand for.

/// How a `module.name` is treated when it is called or instantiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An empty dictionary.
    Dict,
    /// An empty list (also stands for sets).
    List,
    /// Kept as a [`super::Node::Call`] for the tensor reader.
    Rebuild,
    /// The first argument itself.
    Through,
    /// An inert value.
    Opaque,
    /// Refused.
    Forbidden,
}

const KNOWN: &[(&str, &str, Verdict)] = &[
    ("collections", "OrderedDict", Verdict::Dict),
    ("collections", "defaultdict", Verdict::Dict),
    ("builtins", "dict", Verdict::Dict),
    ("__builtin__", "dict", Verdict::Dict),
    ("builtins", "set", Verdict::List),
    ("__builtin__", "set", Verdict::List),
    ("builtins", "list", Verdict::List),
    ("__builtin__", "list", Verdict::List),
    ("torch", "Size", Verdict::Through),
    ("torch", "device", Verdict::Opaque),
    ("torch._utils", "_rebuild_tensor", Verdict::Rebuild),
    ("torch._utils", "_rebuild_tensor_v2", Verdict::Rebuild),
    ("torch._utils", "_rebuild_tensor_v3", Verdict::Rebuild),
    ("torch._utils", "_rebuild_parameter", Verdict::Through),
    (
        "torch._utils",
        "_rebuild_parameter_with_state",
        Verdict::Through,
    ),
    ("torch._tensor", "_rebuild_from_type_v2", Verdict::Rebuild),
    ("torch.nn.parameter", "Parameter", Verdict::Through),
    ("numpy.core.multiarray", "scalar", Verdict::Rebuild),
    ("numpy._core.multiarray", "scalar", Verdict::Rebuild),
    ("numpy", "dtype", Verdict::Rebuild),
    ("_codecs", "encode", Verdict::Rebuild),
    // Plain values that configurations hold.
    ("builtins", "int", Verdict::Opaque),
    ("builtins", "float", Verdict::Opaque),
    ("builtins", "complex", Verdict::Opaque),
    ("builtins", "bytearray", Verdict::Opaque),
    ("builtins", "slice", Verdict::Opaque),
    ("builtins", "range", Verdict::Opaque),
    ("builtins", "object", Verdict::Opaque),
    ("__builtin__", "long", Verdict::Opaque),
    ("__builtin__", "object", Verdict::Opaque),
];

/// Modules whose functions run code, touch files or reach the network: never data.
const FORBIDDEN: &[&str] = &[
    "__builtin__",
    "_io",
    "_operator",
    "_pickle",
    "_posixsubprocess",
    "_socket",
    "_thread",
    "aiohttp",
    "asyncio",
    "bdb",
    "builtins",
    "cProfile",
    "code",
    "codecs",
    "codeop",
    "commands",
    "ctypes",
    "distutils",
    "doctest",
    "ensurepip",
    "fileinput",
    "ftplib",
    "functools",
    "gc",
    "glob",
    "http",
    "httplib",
    "idlelib",
    "imp",
    "importlib",
    "inspect",
    "io",
    "linecache",
    "marshal",
    "mmap",
    "multiprocessing",
    "nt",
    "ntpath",
    "operator",
    "os",
    "pathlib.Path",
    "pdb",
    "pickle",
    "pip",
    "pkg_resources",
    "pkgutil",
    "platform",
    "popen2",
    "posix",
    "posixpath",
    "profile",
    "pty",
    "pydoc",
    "requests",
    "runpy",
    "setuptools",
    "shelve",
    "shutil",
    "signal",
    "site",
    "smtplib",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "sys",
    "tempfile",
    "test",
    "threading",
    "timeit",
    "trace",
    "types",
    "urllib",
    "urllib2",
    "venv",
    "webbrowser",
    "winreg",
    "zipimport",
];

/// Functions inside otherwise harmless packages that load or run things.
const FORBIDDEN_NAMES: &[&str] = &[
    "torch.load",
    "torch.serialization.load",
    "torch.hub.load",
    "torch.jit.load",
    "torch.storage._load_from_bytes",
    "numpy.load",
    "numpy.fromfile",
    "numpy.memmap",
];

/// Called for every name of a pickle, and a hostile one has millions: nothing is allocated.
pub(super) fn verdict(module: &str, name: &str) -> Verdict {
    if let Some(&(_, _, verdict)) = KNOWN.iter().find(|(m, n, _)| *m == module && *n == name) {
        return verdict;
    }
    let inside = |package: &str| {
        module
            .strip_prefix(package)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    // `module.name`, wherever the dot between the two lies.
    let is = |full: &str| {
        let rest = full.strip_prefix(module).and_then(|r| r.strip_prefix('.'));
        rest == Some(name)
    };
    let calls = FORBIDDEN_NAMES.iter().any(|full| is(full))
        || FORBIDDEN.iter().any(|m| inside(m) || is(m))
        // `module` or `name` with dots or dunders walk attributes: that is code, not data.
        || name.contains("__")
        || matches!(name, "eval" | "exec" | "system" | "popen" | "getattr" | "__import__");
    if calls {
        Verdict::Forbidden
    } else {
        Verdict::Opaque
    }
}
