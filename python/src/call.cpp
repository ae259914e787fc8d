#include "call.h"

#include <algorithm>

#include "arrays.h"
#include "heddle/runtime/output_shapes.h"

namespace heddle::python {
namespace {

std::string text_of(const KernelArg& arg, std::span<const KernelSize> sizes) {
  std::string text = arg.name + ": " + to_string(arg.dtype) + "[";
  for (size_t d = 0; d < arg.shape.size(); ++d) {
    std::string extent = std::to_string(arg.shape[d]);
    for (const SymbolicExtent& e : arg.symbolic) {
      if (e.dim != static_cast<int>(d)) continue;
      extent.clear();
      for (const auto& [size, factor] : e.terms)
        extent += (extent.empty() ? "" : " + ") +
                  (factor == 1 ? "" : std::to_string(factor) + " * ") + sizes[size].name;
      if (e.constant != 0) extent += " + " + std::to_string(e.constant);
    }
    text += (d ? ", " : "") + extent;
  }
  return text + "]";
}

/// The arrays of a call, and those that it made.
struct Arrays {
  std::vector<NDArray> all;
  std::vector<size_t> made;  ///< positions in `all`
  Library library = Library::Numpy;
};

[[noreturn]] void wrong_count(const Callee& callee, size_t given, size_t inputs) {
  throw_runtime_error("'" + callee.name + "' is called with " + std::to_string(given) + " arrays",
                      caller(),
                      "it takes " + std::to_string(inputs) + " inputs, or all " +
                          std::to_string(callee.args.size()) +
                          " arguments: " + signature_of(callee.args, callee.sizes));
}

std::string name_of(const Callee& callee, size_t i) {
  return "argument " + std::to_string(i) + " ('" + callee.args[i].name + "') of '" + callee.name +
         "'";
}

void make_outputs(const Callee& callee, Arrays& arrays) {
  std::vector<NDArray> inputs;
  for (size_t i = 0; i < callee.args.size(); ++i)
    if (!callee.args[i].output) inputs.push_back(arrays.all[i]);
  const Device device = inputs.empty() ? Device::cpu() : inputs[0].device();
  const std::vector<Extents> shapes = output_shapes(callee.name, callee.args, callee.sizes, inputs);
  for (size_t i = 0, next = 0; i < callee.args.size(); ++i) {
    if (!callee.args[i].output) continue;
    arrays.made.push_back(i);
    arrays.all[i] = NDArray::empty(shapes[next++], callee.args[i].dtype, device);
  }
}

Arrays arrays_of(const Callee& callee, const nb::args& given, bool all_are_inputs) {
  const auto is_input = [](const KernelArg& a) { return !a.output; };
  const auto inputs =
      static_cast<size_t>(std::count_if(callee.args.begin(), callee.args.end(), is_input));
  const bool whole = given.size() == callee.args.size() && !all_are_inputs;
  if (!whole && given.size() != inputs) wrong_count(callee, given.size(), inputs);
  Arrays arrays;
  arrays.all.resize(callee.args.size());
  if (given.size() > 0) arrays.library = library_of(given[0]);
  for (size_t i = 0, next = 0; i < callee.args.size(); ++i) {
    if (callee.args[i].output && !whole) continue;
    const nb::handle array = given[next++];
    const auto name = [&] { return name_of(callee, i); };
    const bool written =
        callee.args[i].output ||
        std::find(callee.updated.begin(), callee.updated.end(), i) != callee.updated.end();
    arrays.all[i] = written ? writable_array(array, name) : read_array(array, name);
  }
  return arrays;
}

void run(const Callee& callee, const Arrays& arrays) {
  const auto on_gpu = std::find_if(arrays.all.begin(), arrays.all.end(), [](const NDArray& a) {
    return a.defined() && a.device().is_cuda();
  });
  std::optional<cuda::StreamScope> stream;
  if (on_gpu != arrays.all.end()) {
    const int device = on_gpu->device().index;
    if (void* handle = stream_of(arrays.library, device))
      stream.emplace(cuda::Stream::wrap(handle, device));
  }
  const WithoutGil unlocked;
  callee.run(arrays.all);
}

}  // namespace

std::string signature_of(std::span<const KernelArg> args, std::span<const KernelSize> sizes) {
  std::string in, out;
  for (const KernelArg& arg : args) {
    std::string& list = arg.output ? out : in;
    list += (list.empty() ? "" : ", ") + text_of(arg, sizes);
  }
  return "(" + in + ") -> " + out;
}

nb::object call(const Callee& callee, const nb::args& given) {
  Arrays arrays = arrays_of(callee, given, false);
  const bool whole = given.size() == callee.args.size();
  if (!whole) make_outputs(callee, arrays);
  run(callee, arrays);
  if (whole) return nb::none();
  if (arrays.made.size() == 1) return in_library(arrays.all[arrays.made[0]], arrays.library);
  nb::list results;
  for (const size_t i : arrays.made) results.append(in_library(arrays.all[i], arrays.library));
  return nb::tuple(results);
}

void with_arrays(const Callee& callee, const nb::args& given) {
  Arrays arrays = arrays_of(callee, given, true);
  make_outputs(callee, arrays);
  run(callee, arrays);
}

}  // namespace heddle::python
