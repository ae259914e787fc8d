"""Libraries that `heddle export` wrote: calls by ctypes, without the compiler."""

import ctypes
import os
import pathlib

from ._errors import Error

_NUMPY = {"f64": "float64", "f32": "float32", "f16": "float16", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
          "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "bool": "bool"}


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_int64)]


class _Size(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("lo", ctypes.c_int64), ("hi", ctypes.c_int64), ("multiple", ctypes.c_int64)]


class _Argument:
    """An input or an output: its name, type (of numpy) and shape; -1 is an extent that depends on the sizes of a call."""

    def __init__(self, described):
        import numpy

        self.name, self.shape = described.name.decode(), tuple(described.shape[: described.rank])
        dtype = described.dtype.decode()
        if dtype in _NUMPY:
            self.dtype = numpy.dtype(_NUMPY[dtype])
        else:
            import ml_dtypes

            names = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
            self.dtype = numpy.dtype(getattr(ml_dtypes, names[dtype]))

    def __repr__(self):
        return f"{self.name}: {self.dtype}{list(self.shape)}"

    def check(self, array):
        fits = len(array.shape) == len(self.shape) and all(w in (-1, n) for w, n in zip(self.shape, array.shape))
        if array.dtype != self.dtype or not fits:
            raise Error(f"'{self.name}' is {array.dtype}{list(array.shape)}, and {self!r} is expected", kind="runtime")


class ExportedLibrary:
    """A network of a library for CPUs. Call it with numpy arrays of its inputs; it returns new arrays.

    A library over ranges takes the sizes as keywords, and arrays for its outputs: net(x, batch=3, out=y).
    """

    _handle = None

    def __init__(self, path, name=None, weights=None):
        path = pathlib.Path(path).resolve()
        self.name = name or path.stem.removeprefix("lib")
        try:
            self._library = ctypes.CDLL(os.fspath(path))
        except OSError as error:
            raise Error(str(error), kind="runtime") from None
        if not hasattr(self._library, self.name + "_open"):
            raise Error(f"'{path}' is no library of a network '{self.name}'", help="give the name that it was exported with: name=")
        if hasattr(self._library, self.name + "_run_on_gpu"):
            raise Error(f"'{path}' is for a GPU", help="call it from C, or load the model with heddle.load")
        self._function("error", ctypes.c_char_p)
        self.version = self._function("version", ctypes.c_char_p)().decode()
        self.inputs, self.outputs = self._described("input"), self._described("output")
        self.sizes = self._described_sizes()
        weights = None if weights is None else os.fsencode(weights)
        self._handle = self._function("open", ctypes.c_void_p)(weights)
        if not self._handle:
            self._fail()

    def _function(self, name, result):
        function = getattr(self._library, f"{self.name}_{name}")
        function.restype = result
        return function

    def _fail(self):
        raise Error(self._function("error", ctypes.c_char_p)().decode(), kind="runtime")

    def _described(self, word):
        get = self._function(word, ctypes.POINTER(_Tensor))
        return [_Argument(get(i).contents) for i in range(self._function(f"num_{word}s", ctypes.c_int)())]

    def _described_sizes(self):
        if not hasattr(self._library, self.name + "_num_sizes"):
            return {}
        get = self._function("size", ctypes.POINTER(_Size))
        sizes = [get(i).contents for i in range(self._function("num_sizes", ctypes.c_int)())]
        return {s.name.decode(): (s.lo, s.hi, s.multiple) for s in sizes}

    def _outputs_of(self, out):
        import numpy

        if out is None and self.sizes:
            raise Error("a library over ranges needs arrays for its outputs", help="pass them: out=array, or out=[...]")
        if out is None:
            return [numpy.empty(a.shape, a.dtype) for a in self.outputs]
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def __call__(self, *arrays, out=None, **sizes):
        import numpy

        if self._handle is None:
            raise Error("the library is closed")
        if len(arrays) != len(self.inputs) or set(sizes) != set(self.sizes):
            raise Error(f"{len(arrays)} arrays are given", help=f"inputs are {self.inputs}, sizes are {self.sizes}")
        inputs, outputs = [numpy.ascontiguousarray(a) for a in arrays], self._outputs_of(out)
        for argument, array in zip(self.inputs + self.outputs, inputs + outputs):
            argument.check(array)
        if not all(a.flags.c_contiguous and a.flags.writeable for a in outputs):
            raise Error("an output is not contiguous, or read-only")
        pointers = lambda list_: (ctypes.c_void_p * len(list_))(*(a.ctypes.data for a in list_))
        values = [ctypes.c_int64(sizes[name]) for name in self.sizes]
        run = self._function("run", ctypes.c_int)
        if run(ctypes.c_void_p(self._handle), *values, pointers(inputs), pointers(outputs)) != 0:
            self._fail()
        if out is not None:
            return None
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def close(self):
        """Gives back what the network took. No call may be running."""
        if self._handle is not None:
            self._function("close", None)(ctypes.c_void_p(self._handle))
            self._handle = None

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"ExportedLibrary('{self.name}': {self.inputs} -> {self.outputs})"


def open(path, name=None, weights=None):
    """Opens lib<name>.so, which `heddle export` or Network.export wrote. `weights`: a file other than the one beside it."""
    return ExportedLibrary(path, name, weights)
