// Changes of shape: the same elements, or a copy of them in another order.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

std::string order_text(const std::vector<int>& order) {
  std::string text = "{";
  for (std::size_t i = 0; i < order.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(order[i]);
  }
  return text + "}";
}

std::vector<int> checked_order(const NDArray& array, std::vector<int> order) {
  const int rank = array.rank();
  std::vector<bool> named(static_cast<std::size_t>(rank));
  bool good = static_cast<int>(order.size()) == rank;
  const std::string text = order_text(order);
  for (int& d : order) {
    if (!good) break;
    if (d < 0) d += rank;
    good = d >= 0 && d < rank && !named[static_cast<std::size_t>(d)];
    if (good) named[static_cast<std::size_t>(d)] = true;
  }
  if (!good) {
    throw_user_error("cannot permute " + describe(array) + " by " + text, {},
                     "name each of its " + std::to_string(rank) + " dimensions once");
  }
  return order;
}

/// Copies elements of T from `from` to `to` in row-major order. Dimension d of the result has
/// extent extents[d] and stride strides[d] in elements of `from`.
template <typename T>
void gather(const T* from, T* to, const Extents& extents, const Extents& strides) {
  const std::size_t rank = extents.size();
  const std::int64_t inner = extents.back(), stride = strides.back();
  Extents index(rank, 0);
  for (;;) {
    if (stride == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(inner) * sizeof(T));
    } else {
      for (std::int64_t i = 0; i < inner; ++i) to[i] = from[i * stride];
    }
    to += inner;
    std::size_t d = rank - 1;
    for (;;) {
      if (d == 0) return;
      --d;
      from += strides[d];
      if (++index[d] < extents[d]) break;
      from -= strides[d] * extents[d];
      index[d] = 0;
    }
  }
}

}  // namespace

NDArray NDArray::reshape(Extents shape) const {
  require_defined("reshape");
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open == shape.end()) return view(std::move(shape));
  *open = 1;
  std::int64_t known = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(known, extent, &known)) known = 0;
  }
  *open = -1;
  if (known == 0 || size_ % known != 0) {
    throw_user_error("cannot reshape " + describe(*this) + ": nothing fits in place of -1", {},
                     "one extent may be -1, and the others must divide the number of elements");
  }
  *open = size_ / known;
  return view(std::move(shape));
}

NDArray NDArray::permute(const std::vector<int>& order) const {
  require_host("permute");
  const std::vector<int> from = checked_order(*this, order);
  const Extents steps = strides();
  Extents extents, taken;
  for (const int d : from) {
    extents.push_back(shape_[static_cast<std::size_t>(d)]);
    taken.push_back(steps[static_cast<std::size_t>(d)]);
  }
  NDArray result = empty(extents, dtype_);
  if (extents.empty()) {
    result.copy_from(*this);
    return result;
  }
  if (size_ == 0) return result;
  switch (dtype_.bytes()) {
    case 1:
      gather(static_cast<const std::uint8_t*>(data()), static_cast<std::uint8_t*>(result.data_),
             extents, taken);
      break;
    case 2:
      gather(static_cast<const std::uint16_t*>(data()), static_cast<std::uint16_t*>(result.data_),
             extents, taken);
      break;
    case 4:
      gather(static_cast<const std::uint32_t*>(data()), static_cast<std::uint32_t*>(result.data_),
             extents, taken);
      break;
    default:
      gather(static_cast<const std::uint64_t*>(data()), static_cast<std::uint64_t*>(result.data_),
             extents, taken);
      break;
  }
  return result;
}

}  // namespace heddle
