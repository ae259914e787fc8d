#include "onnx/operators/graph_loop.h"

#include <algorithm>

#include "onnx/narrow.h"

namespace heddle::onnx {

Tensor in_precision(const NodeScope& s, const Value& value) {
  const Tensor tensor = value.tensor();
  return tensor.dtype() == f32 && s.real() != f32 ? narrowed(tensor, s.real()) : tensor;
}

bool is_plain(const Value& v) { return v.is_array() && v.rows() == nullptr; }

std::optional<std::vector<Value>> GraphLoop::results(std::span<const Value> made,
                                                     const std::vector<int64_t>& flip) {
  if (!std::all_of(made.begin(), made.end(), is_plain)) return std::nullopt;
  for (size_t i = 0; i < states_.size(); ++i) {
    const Tensor next = in_precision(s_, made[i]);
    if (next.dtype() != states_[i].dtype() || next.extents() != states_[i].extents())
      return std::nullopt;
    loop_->next(states_[i], next);
  }
  std::vector<Value> rows, results;
  for (size_t i = states_.size(); i < made.size(); ++i) {
    const size_t r = i - states_.size();
    rows.emplace_back(loop_->all(in_precision(s_, made[i]), r < flip.size() && flip[r] != 0));
  }
  for (const Tensor& state : states_) results.emplace_back(loop_->last(state));
  results.insert(results.end(), rows.begin(), rows.end());
  if (!s_.end_loop(*loop_)) return std::nullopt;
  return results;
}

std::string handed_on(const Graph& graph, std::string name) {
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n) {
    if (n->op == "Identity" && !n->outputs.empty() && n->outputs[0] == name) name = n->inputs.at(0);
  }
  return name;
}

}  // namespace heddle::onnx
