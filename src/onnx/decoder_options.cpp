// Finds out which dimensions of a decoder's file are its past, its tokens and its batch.
#include <algorithm>
#include <optional>

#include "heddle/support/error.h"
#include "onnx/file/graph.h"

namespace heddle::onnx {
namespace {

const ValueInfo* find(const std::vector<ValueInfo>& list, const std::string& name) {
  const auto it =
      std::find_if(list.begin(), list.end(), [&](const ValueInfo& v) { return v.name == name; });
  return it == list.end() ? nullptr : &*it;
}

/// An input, and the output that has rows behind its own along `axis`.
struct Pair {
  const ValueInfo *past = nullptr, *present = nullptr;
  size_t axis = 0;
};

/// Operators that put rows behind their past, (batch, heads, past, depth).
struct CacheOperator {
  const char *op, *domain;
  size_t past, present;  ///< the numbers of an input and an output
};
constexpr CacheOperator kCacheOperators[] = {{"GroupQueryAttention", "com.microsoft", 3, 1},
                                             {"MultiHeadAttention", "com.microsoft", 6, 1},
                                             {"Attention", "", 4, 1}};
constexpr size_t kCacheRank = 4, kCacheRows = 2;

std::optional<Pair> pair_of_cache(const Graph& graph, const Node& node) {
  for (const CacheOperator& c : kCacheOperators) {
    if (node.op != c.op || node.domain != c.domain || node.inputs.size() <= c.past ||
        node.outputs.size() <= c.present)
      continue;
    const ValueInfo* past = find(graph.inputs, node.inputs[c.past]);
    const ValueInfo* present = find(graph.outputs, node.outputs[c.present]);
    if (past && present && past->shape.size() == kCacheRank) return Pair{past, present, kCacheRows};
  }
  return std::nullopt;
}

std::optional<Pair> pair_of_concat(const Graph& graph, const Node& node) {
  if (node.op != "Concat" || node.inputs.size() != 2 || node.outputs.size() != 1)
    return std::nullopt;
  const ValueInfo* past = find(graph.inputs, node.inputs[0]);
  const ValueInfo* present = find(graph.outputs, node.outputs[0]);
  const auto axis = node.attributes.find("axis");
  if (!past || !present || axis == node.attributes.end()) return std::nullopt;
  const int64_t* at = std::get_if<int64_t>(&axis->second.value);
  const auto rank = std::ssize(past->shape);
  if (!at || *at < -rank || *at >= rank) return std::nullopt;
  return Pair{past, present, static_cast<size_t>(*at < 0 ? *at + rank : *at)};
}

std::optional<Pair> first_pair(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (const std::optional<Pair> pair = pair_of_concat(graph, node)) return pair;
    if (const std::optional<Pair> pair = pair_of_cache(graph, node)) return pair;
  }
  return std::nullopt;
}

class DecoderDims {
 public:
  DecoderDims(const Graph& graph, const DecoderSizes& sizes) : graph_(graph), sizes_(sizes) {}

  OnnxOptions run() {
    const std::optional<Pair> pair = first_pair(graph_);
    if (!pair)
      throw_user_error("no output is an input with rows behind it, so it is no decoder with a past",
                       {}, "export the model with past and present keys and values");
    if (sizes_.rows < 1 || sizes_.batch < 1 || sizes_.capacity < sizes_.rows + 2)
      throw_user_error("a decoder for " + std::to_string(sizes_.capacity) + " tokens, " +
                           std::to_string(sizes_.rows) + " at a time, batch " +
                           std::to_string(sizes_.batch),
                       {}, "all are at least 1, and the capacity is at least 2 more than a call");
    past_ = pair->past->shape[pair->axis].name;
    if (past_.empty())
      throw_user_error("the rows of input '" + pair->past->name + "' have no name", {},
                       "export the model with a name for the dimension of the past");
    if (pair->axis < pair->present->shape.size()) total_ = pair->present->shape[pair->axis].name;
    OnnxOptions options;
    options.states = true;
    options.each_sequence = with_own_lengths(sizes_);
    options.blocks = sizes_.blocks;
    options.ranges.emplace(past_, dim(past_, 1, sizes_.capacity - sizes_.rows));
    for (const Dimension& d : pair->past->shape) {
      if (!d.name.empty() && d.name != past_) options.dims[d.name] = sizes_.batch;
    }
    add_tokens(options);
    return options;
  }

 private:
  /// The open dimensions of the other inputs: tokens of the call, and of past and call.
  void add_tokens(OnnxOptions& options) const {
    std::string rows, total;
    for (const ValueInfo& input : graph_.inputs) {
      for (const Dimension& d : input.shape) {
        if (d.name.empty() || d.name == past_ || options.dims.count(d.name) > 0) continue;
        if (!total_.empty() && d.name == total_) {
          total = d.name;
        } else if (rows.empty() || rows == d.name) {
          rows = d.name;
        } else {
          throw_user_error("its inputs have the dimensions '" + rows + "' and '" + d.name +
                               "', and which is the tokens of a call is not known",
                           {}, "give the dimensions: --dims, and --states");
        }
      }
    }
    if (rows.empty())
      throw_user_error("no input has an open dimension for the tokens of a call", {},
                       "export the model with one");
    if (sizes_.rows == 1) {
      options.dims[rows] = 1;
    } else {
      options.ranges.emplace(rows, dim(rows, 1, sizes_.rows));
    }
    if (!total.empty()) options.sums[total] = {past_, rows};
  }

  const Graph& graph_;
  const DecoderSizes& sizes_;
  std::string past_, total_;
};

}  // namespace
}  // namespace heddle::onnx

namespace heddle {

OnnxOptions decoder_options(const std::string& path, const DecoderSizes& sizes, Where where) {
  try {
    const onnx::Model model = onnx::read_model(path);
    return onnx::DecoderDims(model.graph, sizes).run();
  } catch (const Error& e) {
    throw Error(e.kind, "'" + path + "': " + e.message, where, e.help);
  }
}

}  // namespace heddle
