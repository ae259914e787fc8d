#include "quantize/precision/operand_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "heddle/network/network.h"
#include "quantize/ranges.h"

namespace heddle::quantize {
namespace {

bool contains(const std::vector<Tensor>& list, const Tensor& t) {
  return std::ranges::any_of(list, [&](const Tensor& s) { return s.same_as(t); });
}

/// What was seen of tensors.
class Seen {
 public:
  void add(const Tensor& t, const NDArray& values) {
    if (unbounded_.contains(t.op())) return;
    const auto* v = values.data<float>();
    if (std::all_of(v, v + values.size(), [](float x) { return std::isfinite(x); })) {
      seen_[t.op()].widen(values, t.name());
    } else {
      unbounded_.insert(t.op());
    }
  }
  std::pair<double, double> range(const Tensor& t) {
    auto [low, high] = seen_[t.op()].range({});
    if (unbounded_.contains(t.op())) high = std::numeric_limits<double>::infinity();
    return {low, high};
  }

 private:
  std::map<const Operation*, SeenValues> seen_;
  std::set<const Operation*> unbounded_;
};

/// Tensors inside a graph, which a network of its own computes.
class Sources {
 public:
  Sources(const std::vector<Candidate>& candidates, const std::vector<GivenInput>& inputs)
      : inputs_(inputs) {
    for (const Candidate& c : candidates) {
      if (c.source && !c.source.op()->is_placeholder() && !contains(sources_, c.source))
        sources_.push_back(c.source);
    }
    if (sources_.empty()) return;
    const std::vector<Tensor> read = ComputeDag(sources_).placeholders();
    std::vector<Tensor> args;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!contains(read, inputs[i].tensor)) continue;
      read_.push_back(i);
      args.push_back(inputs[i].tensor);
    }
    args.insert(args.end(), sources_.begin(), sources_.end());
    for (const Tensor& t : args) arrays_.push_back(NDArray::zeros(t.extents(), t.dtype()));
    kernel_ = Network(sources_).build(args);
  }

  void see(size_t call, Seen& seen) const {
    if (!kernel_) return;
    for (size_t i = 0; i < read_.size(); ++i)
      NDArray(arrays_[i]).copy_from(inputs_[read_[i]].values[call]);
    kernel_->call(arrays_);
    for (size_t s = 0; s < sources_.size(); ++s) seen.add(sources_[s], arrays_[read_.size() + s]);
  }

 private:
  const std::vector<GivenInput>& inputs_;
  std::vector<Tensor> sources_;
  std::vector<size_t> read_;  ///< the inputs that they read
  std::vector<NDArray> arrays_;
  std::optional<NetworkKernel> kernel_;
};

}  // namespace

void find_ranges(std::vector<Candidate>& candidates, const std::vector<GivenInput>& inputs) {
  const Sources sources(candidates, inputs);
  Seen seen;
  const size_t calls = inputs.empty() ? 1 : inputs[0].values.size();
  for (size_t call = 0; call < calls; ++call) {
    sources.see(call, seen);
    for (const GivenInput& input : inputs) {
      if (input.tensor.dtype() == f32) seen.add(input.tensor, input.values[call]);
    }
  }
  for (Candidate& c : candidates) {
    if (c.source) std::tie(c.low, c.high) = seen.range(c.source);
  }
}

}  // namespace heddle::quantize
