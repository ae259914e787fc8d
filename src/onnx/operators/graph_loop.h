// Loops of the network whose turns are iterations of a graph of a file.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "onnx/node_scope.h"

namespace heddle::onnx {

/// The tensor of a value, in the type that replaces the file's f32.
Tensor in_precision(const NodeScope& s, const Value& value);

/// Whether a value is a tensor whose number of rows is known.
bool is_plain(const Value& v);

/// A loop of the network whose turns are iterations of a graph.
class GraphLoop {
 public:
  GraphLoop(const NodeScope& s, int64_t turns) : s_(s), loop_(s.begin_loop(turns)) {}

  /// False where the iterations are unrolled.
  bool begun() const { return loop_.has_value(); }
  Value state(const Value& first) {
    states_.push_back(loop_->state(in_precision(s_, first)));
    return states_.back();
  }
  Value row(const Tensor& whole, bool reverse) { return loop_->row(whole, reverse); }
  /// Ends the loop: what the graph has made are the next values of the states, then rows, of which some begin
  /// with that of the last turn. Appends all rows to last values; nullopt where turns are not alike.
  std::optional<std::vector<Value>> results(std::span<const Value> made,
                                            const std::vector<int64_t>& flip);

 private:
  const NodeScope& s_;
  std::optional<Recurrence> loop_;
  std::vector<Tensor> states_;
};

/// What an output of a graph hands on unchanged: the name of an input, or a name that nodes make.
std::string handed_on(const Graph& graph, std::string name);

}  // namespace heddle::onnx
