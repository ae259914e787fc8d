"""Networks that `heddle export` wrote, called from Python by ctypes."""
import ctypes
import pathlib
import subprocess
import tempfile

import numpy as np

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64,
          "i32": np.int32, "i8": np.int8, "u8": np.uint8, "bool": np.bool_}


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("rank", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("bytes", ctypes.c_int64)]


class Network:
    """run({"name": array}) gives a list of arrays, in the order of the file's outputs."""

    def __init__(self, library):
        library = pathlib.Path(library).resolve()
        self._name = library.stem[len("lib"):]
        self._library = ctypes.CDLL(str(library))
        function = self._function
        function("open").restype = ctypes.c_void_p
        function("error").restype = ctypes.c_char_p
        for list_of in ("input", "output"):
            function(list_of).restype = ctypes.POINTER(_Tensor)
        self._handle = function("open")(None)
        if not self._handle:
            raise RuntimeError(function("error")().decode())
        self.inputs = self._tensors("input")
        self._outputs = [np.empty(shape, dtype) for _, shape, dtype in self._tensors("output")]

    def _function(self, what):
        return getattr(self._library, f"{self._name}_{what}")

    def _tensors(self, list_of):
        found = []
        for i in range(self._function(f"num_{list_of}s")()):
            t = self._function(list_of)(i).contents
            found.append((t.name.decode(), tuple(t.shape[d] for d in range(t.rank)),
                          DTYPES[t.dtype.decode()]))
        return found

    def set_threads(self, count):
        self._function("set_threads")(count)

    def types(self, list_of):
        """(shape, type as Heddle calls it) of each "input" or "output"."""
        found = []
        for i in range(self._function(f"num_{list_of}s")()):
            t = self._function(list_of)(i).contents
            found.append((tuple(t.shape[d] for d in range(t.rank)), t.dtype.decode()))
        return found

    def run_on_gpu(self, inputs, outputs, stream):
        """Starts a call on addresses of arrays that are on the GPU, and does not wait for it."""
        addresses = [(ctypes.c_void_p * len(a))(*a) for a in (inputs, outputs)]
        if self._function("run_on_gpu")(ctypes.c_void_p(self._handle), *addresses, stream) != 0:
            raise RuntimeError(self._function("error")().decode())

    def run_on_cpu(self, inputs, outputs):
        """A call on addresses of arrays, of which the inputs that the network updates are written."""
        addresses = [(ctypes.c_void_p * len(a))(*a) for a in (inputs, outputs)]
        if self._function("run")(ctypes.c_void_p(self._handle), *addresses) != 0:
            raise RuntimeError(self._function("error")().decode())

    def run(self, feed):
        arrays = [np.ascontiguousarray(feed[name], dtype) for name, _, dtype in self.inputs]
        for array, (name, shape, _) in zip(arrays, self.inputs):
            if array.shape != shape:
                raise ValueError(f"{name} has the shape {array.shape}, and {shape} is expected")
        if self._function("run")(ctypes.c_void_p(self._handle), _pointers(arrays),
                                 _pointers(self._outputs)) != 0:
            raise RuntimeError(self._function("error")().decode())
        return self._outputs


def _pointers(arrays):
    return (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])


def export(heddle, model, threads, extra=()):
    """Exports an ONNX file into a new folder, and opens it there."""
    folder = tempfile.mkdtemp(prefix="heddle-exported-")
    subprocess.run([heddle, "export", str(model), "-o", folder, "--threads", str(threads), *extra],
                   check=True, stdout=subprocess.DEVNULL)
    (library,) = pathlib.Path(folder).glob("lib*.so")
    return Network(library)
