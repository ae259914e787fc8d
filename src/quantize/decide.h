// Which nodes of a model are quantised, and which tensors are bytes between them.
//
// Products with constant weights are quantised, and read bytes. Bytes are also kept across nodes
// that pass values on (pools, reshapes, sums of two branches): where the result of such a node is
// stored as bytes, so is what it reads. All other values stay in f32. A node reads the bytes of a
// tensor where it is quantised itself or where its result is; others read the values in f32, so
// that residual streams keep their precision.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "heddle/quantize/quantize.h"
#include "onnx/file/graph.h"

namespace heddle::quantize {

/// How an operator takes part.
enum class Role : uint8_t {
  Product,  ///< multiplies its input 0 by constant weights, its input 1
  Passes,   ///< its result has the values of input 0, of which it takes some or the largest
  Joins,    ///< its result has the values of several inputs
  Mixes,    ///< its result is of a range of its own: sums and averages
  Other,
};
Role role_of(const onnx::Node& node);

/// The dimension of the weights of a product that counts its output channels; none where all
/// weights have one scale.
std::optional<int> channel_axis(const onnx::Node& node, int rank);

struct Decision {
  std::vector<std::string> tensors;           ///< those that become bytes, in the order of the file
  std::set<size_t> products;                  ///< nodes whose weights are quantised
  std::set<std::pair<size_t, size_t>> reads;  ///< node and input that read the bytes of a tensor
  /// A tensor that takes the range of another, because nodes pass the values on.
  std::map<std::string, std::string> range_of;
  std::vector<QuantizedNode> nodes;
  std::map<std::string, int> other_nodes;
};

Decision decide(const onnx::Model& model, const QuantizeOptions& options);

}  // namespace heddle::quantize
