#include "quantize/precision/turn_values.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "heddle/ops/elementwise.h"
#include "heddle/support/error.h"
#include "network/cut/step_plan.h"
#include "network/run/output_difference.h"

namespace heddle::quantize {
namespace {

// The turns of a call whose values are taken: from the first to the last one, at equal distances.
constexpr int64_t kTurns = 8;

int64_t elements_of(const Tensor& row) {
  int64_t count = 1;
  for (const int64_t e : row.extents()) count *= e;
  return count;
}

/// The first elements of row `t` of `all`, in the shape of `row`.
NDArray row_of(const NDArray& all, int64_t t, const Tensor& row) {
  NDArray made = NDArray::zeros(row.extents(), row.dtype());
  const int64_t stride = all.bytes() / all.shape()[0];
  std::memcpy(made.data(), static_cast<const char*>(all.data()) + t * stride,
              static_cast<size_t>(made.bytes()));
  return made;
}

/// A tensor that loops say the place of, and where its values are.
struct Watched {
  Tensor bound;
  size_t values = 0;              ///< an output of the network that computes all values
  std::optional<size_t> first{};  ///< of a state: likewise, in the first turn
  std::optional<Tensor> row{};    ///< `values` are rows of this shape, padded
  int64_t turns = 0;              ///< above 0: `bound` has a row of `values` in each turn
  bool reverse = false;
};

/// A network that computes what its loops hand on in all turns.
class Watch {
 public:
  explicit Watch(const Network& network) {
    Updates updates({}, network.updates().repeats);
    for (Repeat& r : updates.repeats) watch(r);
    network_.emplace(outputs_, Target::host(), AutoSchedulerOptions{}, PassOptions{}, updates);
    args_ = network::call_args(*network_);
    kernel_.emplace(network_->build(args_));
  }

  const std::vector<Watched>& list() const { return list_; }
  /// The value in `turn` of kTurns turns, after a call.
  NDArray value(const Watched& w, int64_t turn) const {
    const NDArray& all = results_[w.values];
    if (w.turns == 0) return w.row ? without_padding(all, *w.row) : all.copy();
    const int64_t t = turn * (w.turns - 1) / (kTurns - 1);
    if (!w.first) return row_of(all, w.reverse ? w.turns - 1 - t : t, w.bound);
    return t == 0 ? results_[*w.first].copy() : row_of(all, t - 1, w.bound);
  }
  void call(const std::vector<GivenInput>& inputs, size_t number) {
    std::vector<NDArray> arrays;
    results_.clear();
    for (const Tensor& t : args_) {
      if (t.op()->is_placeholder()) {
        const auto given = std::find_if(inputs.begin(), inputs.end(),
                                        [&](const GivenInput& i) { return i.tensor.same_as(t); });
        HEDDLE_ICHECK(given != inputs.end(), "calls give all inputs");
        arrays.push_back(given->values[number]);
      } else {
        arrays.push_back(NDArray::zeros(t.extents(), t.dtype()));
        results_.push_back(arrays.back());
      }
    }
    kernel_->call(arrays);
  }

 private:
  size_t output(const Tensor& t) {
    outputs_.push_back(ops::identity(t));
    return outputs_.size() - 1;
  }
  void watch(Repeat& r) {
    const int64_t turns = *as_int(r.turns);
    for (const Repeat::Slice& s : r.slices)
      list_.push_back({s.row, output(s.whole), {}, {}, turns, s.reverse});
    for (const Repeat::Rows& rows : r.rows)
      list_.push_back({rows.all, output(rows.all), {}, rows.row});
    for (const Repeat::State& s : r.states) {
      if (s.last) list_.push_back({s.last, output(s.last)});
      Shape shape{r.turns};
      shape.insert(shape.end(), s.next.shape().begin(), s.next.shape().end());
      const Tensor all = placeholder(shape, s.next.dtype(), s.next.name() + ".all");
      r.rows.push_back({ops::identity(s.next), all});
      list_.push_back({s.before, output(all), output(s.first), {}, turns});
    }
  }
  static NDArray without_padding(const NDArray& all, const Tensor& row) {
    NDArray made = all.copy();
    const int64_t rows = all.shape()[0], stride = all.bytes() / rows,
                  own = elements_of(row) * row.dtype().bytes();
    for (int64_t t = 0; t < rows; ++t)
      std::memset(static_cast<char*>(made.data()) + t * stride + own, 0,
                  static_cast<size_t>(stride - own));
    return made;
  }

  std::vector<Tensor> outputs_, args_;
  std::vector<Watched> list_;
  std::optional<Network> network_;
  std::optional<NetworkKernel> kernel_;
  std::vector<NDArray> results_;
};

}  // namespace

std::vector<GivenInput> with_turns(const Network& network, std::vector<GivenInput> inputs) {
  if (network.updates().repeats.empty() || inputs.empty()) return inputs;
  Watch watch(network);
  std::vector<GivenInput> all;
  for (const GivenInput& input : inputs) {
    all.push_back({input.tensor, {}});
    for (const NDArray& value : input.values)
      all.back().values.insert(all.back().values.end(), kTurns, value);
  }
  const size_t given = all.size();
  for (const Watched& w : watch.list()) all.push_back({w.bound, {}});
  for (size_t call = 0; call < inputs[0].values.size(); ++call) {
    watch.call(inputs, call);
    for (size_t w = 0; w < watch.list().size(); ++w) {
      for (int64_t turn = 0; turn < kTurns; ++turn)
        all[given + w].values.push_back(watch.value(watch.list()[w], turn));
    }
  }
  return all;
}

}  // namespace heddle::quantize
