#include "network/cut/slice_inputs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "dag/map_loads.h"
#include "heddle/ir/simplify.h"
#include "ir/linear.h"
#include "network/cut/step_plan.h"
#include "network/memory_plan.h"
#include "network/passes/map_graph.h"
#include "network/passes/mover.h"

namespace heddle::network {
namespace {

using Slice = std::vector<int64_t>;  ///< the first indices of a read

bool is_constant_shape(const Tensor& t) {
  return std::all_of(t.shape().begin(), t.shape().end(),
                     [](const Expr& e) { return as_int(e) != nullptr; });
}

/// The numbers that begin the indices of a read in `op`. One index at least is left. A number outside of the tensor,
/// where a condition keeps the read from happening, is none.
Slice slice_of(const Access& read, const Operation& op) {
  Slice slice;
  const Ranges ranges = ranges_of(op);
  for (size_t d = 0; d + 1 < read.indices.size(); ++d) {
    const Expr index = simplify(read.indices[d], ranges);
    const int64_t* number = as_int(index);
    if (number == nullptr || *number < 0 || *number >= read.tensor.extent(static_cast<int>(d)))
      break;
    slice.push_back(*number);
  }
  return slice;
}

/// The slice of `input` outside of which no stage of `dag` reads.
Slice slice_read(const ComputeDag& dag, const Tensor& input) {
  std::optional<Slice> common;
  for (int s = 0; s < dag.size(); ++s) {
    for (const Access& read : dag.info(s).reads) {
      if (!read.tensor.same_as(input)) continue;
      const Slice here = slice_of(read, dag.stage(s));
      if (!common) common = here;
      const auto end = std::mismatch(common->begin(), common->end(), here.begin(), here.end());
      common->erase(end.first, common->end());
    }
  }
  return common.value_or(Slice{});
}

class Slicer {
 public:
  explicit Slicer(CutNetwork& network) : network_(network) {
    for (const ExtractedNode& node : network.nodes) {
      for (const Tensor& t : node.outputs) {
        if (is_constant_shape(t) && position_of(network.dag.outputs(), t) < 0)
          own_.emplace(t.op(), t.index());
      }
    }
    for (const TensorPlace& p : network.places) own_.erase({p.tensor.op(), p.tensor.index()});
  }

  void run() {
    std::map<Key, std::set<Slice>> slices;
    std::vector<std::vector<Slice>> of_node;
    for (const ExtractedNode& node : network_.nodes) {
      std::vector<Slice>& list = of_node.emplace_back();
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Tensor& t = node.inputs[i];
        list.push_back(own_.contains({t.op(), t.index()})
                           ? aligned(slice_read(*node.dag, node.task_inputs[i]), t)
                           : Slice{});
        if (!list.back().empty()) slices[{t.op(), t.index()}].insert(list.back());
      }
    }
    for (size_t n = 0; n < network_.nodes.size(); ++n) {
      ExtractedNode& node = network_.nodes[n];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Tensor& t = node.inputs[i];
        if (of_node[n][i].empty() || slices[{t.op(), t.index()}].size() < 2) of_node[n][i].clear();
      }
      give_slices(node, of_node[n]);
    }
  }

 private:
  using Key = std::pair<const Operation*, int>;

  static int64_t offset(const Slice& slice, const Tensor& t) {
    int64_t elements = 0;
    for (int d = 0; d < t.rank(); ++d) {
      const auto at = static_cast<size_t>(d);
      elements = elements * t.extent(d) + (at < slice.size() ? slice[at] : 0);
    }
    return elements * t.dtype().bytes();
  }

  /// `slice` where a buffer may begin there, else none.
  static Slice aligned(Slice slice, const Tensor& t) {
    return offset(slice, t) % kArenaAlignment == 0 ? std::move(slice) : Slice{};
  }

  /// The tensor of a slice, the same for all nodes that read it.
  Tensor tensor_of_slice(const Tensor& t, const Slice& slice) {
    Tensor& known = made_[{{t.op(), t.index()}, slice}];
    if (!known) {
      const auto left = static_cast<std::ptrdiff_t>(slice.size());
      known = placeholder(std::vector<Expr>(t.shape().begin() + left, t.shape().end()), t.dtype(),
                          t.name(), t.op()->where());
      network_.places.push_back({known, t, offset(slice, t)});
      network_.again.emplace_back(known, t);
    }
    return known;
  }

  /// Declares `node` again with slices in place of those inputs that have one.
  void give_slices(ExtractedNode& node, const std::vector<Slice>& slices) {
    std::unordered_map<const Operation*, std::pair<Tensor, size_t>> now;  // by task input
    std::unordered_map<const Operation*, Tensor> outside;                 // by task input
    for (size_t i = 0; i < slices.size(); ++i) {
      const Operation* own = node.task_inputs[i].op();
      outside.emplace(own, node.inputs[i]);
      if (slices[i].empty()) continue;
      const Tensor part = tensor_of_slice(node.inputs[i], slices[i]);
      const Tensor in_task =
          placeholder(part.shape(), part.dtype(), part.name(), part.op()->where());
      now.emplace(own, std::pair{in_task, slices[i].size()});
      outside.emplace(in_task.op(), part);
    }
    if (now.empty()) return;
    const StageMap map = map_stages(*node.dag, [&](int, const std::vector<Expr>& bodies) {
      return dag::map_loads(bodies, [&](const Load& load) {
        const auto it = now.find(tensor_of(load.buffer).op());
        if (it == now.end()) return make_load(load.buffer, load.indices);
        const auto& [part, dropped] = it->second;
        const auto first = load.indices.begin() + static_cast<std::ptrdiff_t>(dropped);
        return make_load(part.buffer(), {first, load.indices.end()});
      });
    });
    for (const Operation*& op : node.operations) op = map.stages[node.dag->index_of(op)].get();
    node.task_outputs = map.outputs;
    node.dag.emplace(node.task_outputs);
    node.task_inputs = node.dag->placeholders();
    node.inputs.clear();
    for (const Tensor& t : node.task_inputs) node.inputs.push_back(outside.at(t.op()));
  }

  CutNetwork& network_;
  std::set<Key> own_;  ///< results of nodes that have memory of their own
  std::map<std::pair<Key, Slice>, Tensor> made_;
};

}  // namespace

void slice_inputs(CutNetwork& network) { Slicer(network).run(); }

}  // namespace heddle::network
