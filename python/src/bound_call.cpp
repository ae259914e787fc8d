// Calls of a network on addresses: what torch.compile's backend does at each call, which has checked shapes and types already.
#include <cstdint>

#include "arrays.h"
#include "bind.h"
#include "heddle/network/network.h"

namespace heddle::python {
namespace {

/// A network with the arrays of its arguments, of which those at `moving` change from call to call.
class BoundCall {
 public:
  BoundCall(NetworkKernel kernel, std::vector<NDArray> arrays, std::vector<size_t> moving)
      : kernel_(std::move(kernel)), arrays_(std::move(arrays)), moving_(std::move(moving)) {
    for (const size_t i : moving_) {
      if (i >= arrays_.size()) throw_user_error("there is no argument " + std::to_string(i));
      NDArray& array =
          arrays_[i];  // its shape and type are of use from here on, its elements are not
      array = NDArray::wrap(array.data(), array.shape(), array.dtype(), array.device());
    }
  }

  /// Runs on `addresses`, one for each of `moving`. `shapes`: theirs, or empty where they stay the same. `stream`: of CUDA.
  void operator()(const std::vector<uintptr_t>& addresses, const std::vector<Extents>& shapes,
                  uintptr_t stream) const {
    if (addresses.size() != moving_.size() || (!shapes.empty() && shapes.size() != moving_.size()))
      throw_user_error("a bound call takes " + std::to_string(moving_.size()) + " addresses");
    std::vector<NDArray> arrays = arrays_;
    for (size_t n = 0; n < moving_.size(); ++n) {
      NDArray& array = arrays[moving_[n]];
      array =
          NDArray::wrap(reinterpret_cast<void*>(addresses[n]),
                        shapes.empty() ? array.shape() : shapes[n], array.dtype(), array.device());
    }
    const WithoutGil unlocked;
    std::optional<cuda::StreamScope> scope;
    if (stream != 0)
      scope.emplace(cuda::Stream::wrap(reinterpret_cast<void*>(stream), device_of(arrays)));
    kernel_.call(arrays);
  }

 private:
  static int device_of(const std::vector<NDArray>& arrays) {
    for (const NDArray& a : arrays)
      if (a.device().is_cuda()) return a.device().index;
    return 0;
  }

  NetworkKernel kernel_;
  std::vector<NDArray> arrays_;
  std::vector<size_t> moving_;
};

}  // namespace

void bind_bound_calls(nb::module_& m) {
  nb::class_<BoundCall>(m, "_BoundCall", "A network on addresses that the caller has checked.")
      .def(nb::init<NetworkKernel, std::vector<NDArray>, std::vector<size_t>>(), "kernel"_a,
           "arrays"_a, "moving"_a)
      .def("__call__", &BoundCall::operator(), "addresses"_a, "shapes"_a, "stream"_a);
}

}  // namespace heddle::python
