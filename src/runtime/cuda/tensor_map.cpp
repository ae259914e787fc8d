#include "runtime/cuda/tensor_map.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "runtime/cuda/size_expr.h"

namespace heddle::cuda {
namespace {

constexpr std::size_t kMostDims = 5;
constexpr std::int64_t kMostRows = 256, kRowBytes = 128, kPitchBytes = 16, kMostStride = 8;

// Where the last window begins, counted from the last element of the dimension.
std::int64_t end_corner(const TensorMap::Window& w, std::int64_t extent) {
  return w.first + (w.points - 1) * w.stride - (extent - 1);
}

// Corners are numbers of 16 bits for one dimension of windows, of 8 bits for two, of 5 for three.
bool fits_corner(std::int64_t corner, std::size_t rank) {
  const std::int64_t most = rank == 3 ? 1 << 15 : rank == 4 ? 1 << 7 : 1 << 4;
  return corner >= -most && corner < most;
}

[[noreturn]] void no_tma() {
  throw_runtime_error(
      "this kernel loads its tiles by TMA, and the NVIDIA driver is older than "
      "CUDA 12.0",
      {}, "install a newer driver");
}

}  // namespace

void check_map(const TensorMap& map, const std::string& kernel) {
  const std::size_t rank = map.shape.size();
  const auto row_dim = static_cast<std::size_t>(map.row_dim);
  HEDDLE_ICHECK(rank >= 2 && rank <= kMostDims && map.row_dim >= 0 && row_dim + 1 < rank,
                "a tensor map of kernel '" + kernel + "' has " + std::to_string(rank) +
                    " dimensions, and rows along dimension " + std::to_string(map.row_dim));
  HEDDLE_ICHECK(map.rows >= 1 && map.rows <= kMostRows &&
                    (map.element_bytes == 1 || map.element_bytes == 2 || map.element_bytes == 4) &&
                    map.shape.back() * map.element_bytes % kPitchBytes == 0,
                "TMA does not take the boxes of kernel '" + kernel + "'");
  HEDDLE_ICHECK(map.shape_of.empty() || map.shape_of.size() == rank,
                "a tensor map of kernel '" + kernel + "' lacks extents of its sizes");
  if (map.windows.empty()) return;
  bool good = rank >= 3 && map.windows.size() + 2 == rank;
  for (std::size_t d = 0; good && d < map.windows.size(); ++d) {
    const TensorMap::Window& w = map.windows[d];
    good = w.points >= 1 && w.stride >= 1 && w.stride <= kMostStride &&
           fits_corner(w.first, rank) && fits_corner(end_corner(w, map.shape[d + 1]), rank);
  }
  HEDDLE_ICHECK(good, "TMA does not take the windows of kernel '" + kernel + "'");
}

api::TensorMapBytes encode(DeviceState& device, const TensorMap& map, void* address,
                           std::span<const std::int64_t> sizes) {
  if (device.api->tensor_map_encode == nullptr || device.api->tensor_map_encode_windows == nullptr)
    no_tma();
  // The driver takes the innermost dimension first.
  const std::size_t rank = map.shape.size();
  const auto extent_of = [&](std::size_t d) {
    return map.shape_of.empty() ? map.shape[d] : evaluate(map.shape_of[d], sizes);
  };
  unsigned long long extents[kMostDims] = {}, strides[kMostDims] = {};
  unsigned box[kMostDims], element_strides[kMostDims];
  std::fill(box, box + kMostDims, 1U);
  std::fill(element_strides, element_strides + kMostDims, 1U);
  auto bytes = static_cast<unsigned long long>(map.element_bytes);
  for (std::size_t d = 0; d < rank; ++d) {
    extents[d] = static_cast<unsigned long long>(extent_of(rank - 1 - d));
    bytes *= extents[d];
    strides[d] = bytes;  // the stride of the next dimension
  }
  box[0] = static_cast<unsigned>(kRowBytes / map.element_bytes);
  box[rank - 1 - static_cast<std::size_t>(map.row_dim)] = static_cast<unsigned>(map.rows);
  api::TensorMapBytes out;
  const int type = map.element_bytes == 1   ? api::kTensorMapUint8
                   : map.element_bytes == 2 ? api::kTensorMapUint16
                                            : api::kTensorMapTf32;
  if (!map.windows.empty()) {
    int lower[kMostDims] = {}, upper[kMostDims] = {};
    const std::size_t dims = map.windows.size();
    for (std::size_t d = 0; d < dims; ++d) {
      const TensorMap::Window& w = map.windows[dims - 1 - d];
      lower[d] = static_cast<int>(w.first);
      upper[d] = static_cast<int>(end_corner(w, extent_of(dims - d)));
      element_strides[d + 1] = static_cast<unsigned>(w.stride);
    }
    device.check(device.api->tensor_map_encode_windows(
                     &out, type, static_cast<unsigned>(rank), address, extents, strides, lower,
                     upper, box[0], static_cast<unsigned>(map.rows), element_strides,
                     api::kInterleaveNone, api::kSwizzle128, api::kPromoteL2To128, api::kFillZeros),
                 "cuTensorMapEncodeIm2col");
    return out;
  }
  device.check(
      device.api->tensor_map_encode(&out, type, static_cast<unsigned>(rank), address, extents,
                                    strides, box, element_strides, api::kInterleaveNone,
                                    api::kSwizzle128, api::kPromoteL2To128, api::kFillZeros),
      "cuTensorMapEncodeTiled");
  return out;
}

}  // namespace heddle::cuda
