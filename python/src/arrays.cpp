#include "arrays.h"

#include <dlpack/dlpack.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string_view>
#include <unordered_map>

namespace heddle::python {
namespace {

const std::unordered_map<std::string_view, Library> kLibraries = {
    {"numpy", Library::Numpy},  {"ml_dtypes", Library::Numpy}, {"torch", Library::Torch},
    {"jax", Library::Jax},      {"jaxlib", Library::Jax},      {"cupy", Library::Cupy},
    {"heddle", Library::Heddle}};

/// The names of types in numpy, torch and ml_dtypes that are not Heddle's.
const std::unordered_map<std::string_view, std::string_view> kTypes = {
    {"float64", "f64"}, {"float32", "f32"},       {"float16", "f16"}, {"bfloat16", "bf16"},
    {"double", "f64"},  {"float", "f32"},         {"half", "f16"},    {"float8_e4m3fn", "f8e4m3"},
    {"int8", "i8"},     {"int16", "i16"},         {"int32", "i32"},   {"int64", "i64"},
    {"uint8", "u8"},    {"uint16", "u16"},        {"uint32", "u32"},  {"uint64", "u64"},
    {"bool_", "bool"},  {"float8_e5m2", "f8e5m2"}};

/// A tensor that owns an array of another library.
template <class Array>
struct Borrowed {
  DLManagedTensor managed = {};
  Extents shape, strides;
  Array array;
};

template <class Array>
void give_back(DLManagedTensor* tensor) {
  if (!Py_IsInitialized()) return;  // the interpreter has ended, and its arrays with it
  const nb::gil_scoped_acquire lock;
  delete static_cast<Borrowed<Array>*>(tensor->manager_ctx);
}

/// Types that numpy does not hand over are handed over as the unsigned integers of their bits.
std::pair<nb::object, std::optional<DataType>> with_known_type(nb::handle array) {
  DataType type;
  if (!read_dtype(array.attr("dtype"), &type) || !(type.is_float8() || type == bf16))
    return {nb::borrow(array), {}};
  return {array.attr("view")(type.bits == 8 ? "uint8" : "uint16"), type};
}

DLDataType to_dl(nb::dlpack::dtype own, std::optional<DataType> type) {
  if (!type) return {own.code, own.bits, own.lanes};
  const int code = type->code == TypeCode::BFloat ? kDLBfloat
                   : type->code == TypeCode::E4M3 ? 10
                                                  : 12;
  return {static_cast<uint8_t>(code), type->bits, 1};  // 10 and 12 are of DLPack 1.1
}

template <class Array>
NDArray borrow(const Array& array, std::optional<DataType> type) {
  auto borrowed = std::make_unique<Borrowed<Array>>();
  for (size_t d = 0; d < array.ndim(); ++d) {
    borrowed->shape.push_back(static_cast<int64_t>(array.shape(d)));
    borrowed->strides.push_back(array.stride(d));
  }
  DLTensor& t = borrowed->managed.dl_tensor;
  t.data = const_cast<void*>(static_cast<const void*>(array.data()));
  t.device = {static_cast<DLDeviceType>(array.device_type()), array.device_id()};
  t.ndim = static_cast<int>(array.ndim());
  t.dtype = to_dl(array.dtype(), type);
  t.shape = borrowed->shape.data();
  t.strides = borrowed->strides.data();
  borrowed->array = array;
  borrowed->managed.manager_ctx = borrowed.get();
  borrowed->managed.deleter = give_back<Array>;
  const NDArray result = NDArray::from_dlpack(&borrowed->managed);  // throws before it takes over
  (void)borrowed.release();
  return result;
}

/// to_dlpack and from_dlpack of torch, which are faster than the methods of its tensors.
const std::pair<nb::object, nb::object>& torch_dlpack() {
  static const auto* const functions = [] {
    const nb::module_ m = nb::module_::import_("torch.utils.dlpack");
    return new std::pair<nb::object, nb::object>(m.attr("to_dlpack"), m.attr("from_dlpack"));
  }();
  return *functions;
}

/// What an array shares, as an NDArray: nb::ndarray<> for one that may be written, nb::ndarray<nb::ro>
/// for any. Empty for what is no array. `address` is that of the elements.
template <class Array>
std::optional<NDArray> shared_as(nb::handle array, const void** address) {
  const Library library = library_of(array);
  nb::object source = nb::borrow(array);
  if (library == Library::Torch) {
    if (nb::cast<bool>(array.attr("requires_grad"))) source = array.attr("detach")();
    source = torch_dlpack().first(source);
  }
  std::optional<DataType> type;
  Array shared;
  if (!nb::try_cast<Array>(source, shared, false)) {
    if (library != Library::Numpy || !nb::hasattr(array, "dtype")) return std::nullopt;
    std::tie(source, type) = with_known_type(array);
    if (!type || !nb::try_cast<Array>(source, shared, false)) return std::nullopt;
  }
  *address = shared.data();
  return borrow(shared, type);
}

[[noreturn]] void no_array(nb::handle value, const std::string& what) {
  throw_user_error(what + " is of type '" + nb::type_name(value.type()).c_str() +
                       "', which is no array that can be shared",
                   caller(),
                   "give an array of numpy, torch, jax or cupy, or one that has __dlpack__");
}

}  // namespace

Library library_of(nb::handle array) {
  // Types are kept alive, so that no other one takes their place.
  static auto* const known_types = new std::unordered_map<PyObject*, Library>;
  const nb::handle type = array.type();
  const auto known_type = known_types->find(type.ptr());
  if (known_type != known_types->end()) return known_type->second;
  Library library = Library::Other;
  const nb::tuple bases = nb::borrow<nb::tuple>(type.attr("__mro__"));
  for (const nb::handle base : bases) {
    const auto module = nb::cast<std::string>(base.attr("__module__"));
    const auto known = kLibraries.find(std::string_view(module).substr(0, module.find('.')));
    if (known == kLibraries.end()) continue;
    library = known->second;
    break;
  }
  type.inc_ref();
  known_types->emplace(type.ptr(), library);
  return library;
}

bool read_dtype(nb::handle source, DataType* out) noexcept {
  try {
    std::string name;
    if (nb::isinstance<nb::str>(source)) {
      name = nb::cast<std::string>(source);
    } else if (PyType_Check(source.ptr())) {
      name = nb::cast<std::string>(source.attr("__name__"));  // numpy.float32
    } else {
      name = nb::cast<std::string>(nb::str(source));  // "float32", "torch.float32"
    }
    name = name.substr(name.rfind('.') + 1);
    const auto known = kTypes.find(name);
    const std::optional<DataType> type =
        parse_dtype(known == kTypes.end() ? std::string_view(name) : known->second);
    if (type) *out = *type;
    return type.has_value();
  } catch (const std::exception&) {
    return false;
  }
}

NDArray read_array(nb::handle array, FunctionRef<std::string()> what) {
  NDArray own;
  if (nb::try_cast<NDArray>(array, own, false)) return own;
  const void* address = nullptr;
  const std::optional<NDArray> shared = shared_as<nb::ndarray<nb::ro>>(array, &address);
  if (!shared) no_array(array, what());
  return *shared;
}

NDArray writable_array(nb::handle array, FunctionRef<std::string()> what) {
  NDArray own;
  if (nb::try_cast<NDArray>(array, own, false)) return own;
  const void* address = nullptr;
  const std::optional<NDArray> shared = shared_as<nb::ndarray<>>(array, &address);
  if (!shared) {
    (void)read_array(array, what);  // throws for what is no array at all
    throw_user_error(what() + " is written, and cannot be", caller(),
                     "give an array that is not read-only");
  }
  if (shared->address() != address && shared->size() > 0)
    throw_user_error(what() + " is written, and is not row-major", caller(),
                     "give a contiguous array");
  return *shared;
}

namespace {

template <class... Framework>
nb::object exported(const NDArray& array) {
  const std::vector<size_t> shape(array.shape().begin(), array.shape().end());
  DLManagedTensor* described = array.to_dlpack();
  const DLTensor t = described->dl_tensor;
  const nb::capsule owner(described, [](void* p) noexcept {
    auto* tensor = static_cast<DLManagedTensor*>(p);
    tensor->deleter(tensor);
  });
  const nb::dlpack::dtype type = {t.dtype.code, t.dtype.bits, t.dtype.lanes};
  return nb::cast(nb::ndarray<Framework...>(t.data, shape.size(), shape.data(), owner, nullptr,
                                            type, static_cast<int>(t.device.device_type),
                                            t.device.device_id));
}

nb::object capsule_of(const NDArray& array) {
  return nb::steal(PyCapsule_New(array.to_dlpack(), "dltensor", [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // it was taken over
    auto* tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
    tensor->deleter(tensor);
  }));
}

nb::object in_numpy(const NDArray& array) {
  const DataType type = array.dtype();
  if (!type.is_float8() && type != bf16) return exported<nb::numpy>(array);
  const DataType bits = type.bits == 8 ? u8 : u16;
  const nb::object plain = exported<nb::numpy>(NDArray::wrap(array.data(), array.shape(), bits));
  const nb::object view = plain.attr("view")(nb::module_::import_("ml_dtypes")
                                                 .attr(type == bf16     ? "bfloat16"
                                                       : type == f8e4m3 ? "float8_e4m3fn"
                                                                        : "float8_e5m2"));
  // The view is over memory that only `array` keeps.
  return view.attr("copy")();
}

}  // namespace

nb::object in_library(const NDArray& array, Library library) {
  switch (library) {
    case Library::Numpy: return in_numpy(array);
    case Library::Torch: return torch_dlpack().second(capsule_of(array));
    case Library::Jax: return exported<nb::jax>(array);
    case Library::Cupy: return exported<nb::cupy>(array);
    case Library::Heddle:
    case Library::Other: return nb::cast(array);
  }
  return nb::cast(array);
}

void* stream_of(Library library, int device) {
  if (library == Library::Torch) {
    const nb::object stream =
        nb::module_::import_("torch").attr("cuda").attr("current_stream")(device);
    return reinterpret_cast<void*>(nb::cast<uintptr_t>(stream.attr("cuda_stream")));
  }
  if (library == Library::Cupy) {
    const nb::object stream =
        nb::module_::import_("cupy").attr("cuda").attr("get_current_stream")();
    return reinterpret_cast<void*>(nb::cast<uintptr_t>(stream.attr("ptr")));
  }
  return nullptr;
}

namespace {

/// "cpu", "cuda" or "cuda:0".
Device device_of(const std::string& text) {
  if (text == "cpu") return Device::cpu();
  if (text == "cuda") return Device::cuda();
  if (text.starts_with("cuda:") && text.size() == 6) return Device::cuda(text[5] - '0');
  throw_user_error("there is no device '" + text + "'", caller(), "it is cpu, cuda or cuda:0");
}

void bind_conversions(nb::class_<NDArray>& c) {
  c.def(
       "numpy", [](const NDArray& a) { return in_library(a.to_host(), Library::Numpy); },
       "The array in numpy, which shares the elements; a copy for an array on a GPU.")
      .def(
          "torch", [](const NDArray& a) { return in_library(a, Library::Torch); },
          "The array in torch, which shares the elements.")
      .def(
          "to",
          [](const NDArray& a, const std::string& device) {
            return a.to_device(device_of(device));
          },
          "device"_a, "This array if it is on the device already, else a copy there.")
      .def("cast", &NDArray::cast, "dtype"_a, "Converted to another type, rounding to nearest.")
      .def("reshape", &NDArray::reshape, "shape"_a,
           "The same elements under another shape; shares them.")
      .def("fill", &NDArray::fill, "value"_a, "Sets all elements.")
      .def_prop_ro(
          "shape", [](const NDArray& a) { return nb::tuple(nb::cast(a.shape())); }, "The extents.")
      .def_prop_ro("dtype", &NDArray::dtype, "The type of the elements: \"f32\".")
      .def_prop_ro(
          "device", [](const NDArray& a) { return to_string(a.device()); },
          "\"cpu\" or \"cuda:0\".")
      .def_prop_ro("size", &NDArray::size, "The number of elements.")
      .def_prop_ro("nbytes", &NDArray::bytes, "The number of bytes.")
      .def(
          "__array__",
          [](const NDArray& a, nb::handle dtype, nb::handle copy) {
            nb::object array = in_library(a.to_host(), Library::Numpy);
            if (!dtype.is_none()) array = array.attr("astype")(dtype);
            return !copy.is_none() && nb::cast<bool>(copy) ? array.attr("copy")() : array;
          },
          "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack__", [](const NDArray& a, const nb::kwargs&) { return capsule_of(a); })
      .def("__dlpack_device__",
           [](const NDArray& a) {
             return std::pair(static_cast<int>(a.device().is_cuda() ? kDLCUDA : kDLCPU),
                              a.device().index);
           })
      .def("__repr__", [](const NDArray& a) { return "NDArray(" + describe(a) + ")"; });
}

}  // namespace

void bind_arrays(nb::module_& m) {
  auto c =
      nb::class_<NDArray>(
          m, "NDArray",
          "A dense row-major array of Heddle. Every library takes it by DLPack without a copy.")
          .def(
              "__init__",
              [](NDArray* self, nb::handle array) {
                new (self) NDArray(read_array(array, [] { return std::string("the array"); }));
              },
              "array"_a, "Shares the elements of an array of another library.")
          .def_static(
              "empty",
              [](const Extents& shape, DataType dtype, const std::string& device) {
                return NDArray::empty(shape, dtype, device_of(device));
              },
              "shape"_a, "dtype"_a = f32, "device"_a = "cpu",
              "A new array with undefined contents.")
          .def_static(
              "zeros",
              [](const Extents& shape, DataType dtype, const std::string& device) {
                return NDArray::zeros(shape, dtype, device_of(device));
              },
              "shape"_a, "dtype"_a = f32, "device"_a = "cpu", "A new array of zeros.")
          .def_static(
              "random",
              [](const Extents& shape, DataType dtype, uint64_t seed) {
                return NDArray::random(shape, dtype, seed);
              },
              "shape"_a, "dtype"_a = f32, "seed"_a = 0,
              "A new array of random numbers, the same for the same seed on every machine; floats "
              "are "
              "in [-1, 1).")
          .def_static(
              "load", [](const std::string& path) { return NDArray::load(path); }, "path"_a,
              "Reads a file of numpy's format .npy.")
          .def("save", &NDArray::save, "path"_a, "Writes a file of numpy's format .npy.");
  bind_conversions(c);
}

}  // namespace heddle::python
