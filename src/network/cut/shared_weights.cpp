#include "network/cut/shared_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "heddle/ir/print.h"
#include "network/cut/network_bytes.h"
#include "schedule/steps/schedule_state.h"

namespace heddle::network {
namespace {

/// The weights that calls of a schedule read, with their layout: as declared, or packed.
class WeightLayout {
 public:
  explicit WeightLayout(const ScheduleState& state) : state_(state) { read(); }

  std::string text;
  double bytes = 0;  ///< that a call reads, once

 private:
  void read() {
    for (int s = 0; s < static_cast<int>(state_.stages.size()); ++s) {
      const StageState& st = state_.stages[static_cast<size_t>(s)];
      if (!st.defined() || st.placement != Placement::Root || !is_weight(s)) continue;
      const std::vector<int> readers = state_.readers(s);
      if (std::all_of(readers.begin(), readers.end(), [&](int r) { return is_weight(r); }))
        continue;
      for (const Buffer& b : st.buffers) {
        text += to_string(b->dtype);
        double of_buffer = b->dtype.bytes();
        for (const Expr& extent : b->shape) {
          text += "," + to_string(extent);
          if (const int64_t* n = as_int(extent)) of_buffer *= static_cast<double>(*n);
        }
        bytes += of_buffer;
      }
      text += " ";
      for (const StageState::LayoutDim& d : st.layout)
        text += std::to_string(d.dim) + ":" + std::to_string(d.divisor) + ":" +
                std::to_string(d.modulus) + " ";
      text += std::to_string(st.pad) + "; ";
    }
  }

  /// Whether the stage depends on constants alone.
  bool is_weight(int s) const {
    if (s < 0) return false;
    const StageState& st = state_.stages[static_cast<size_t>(s)];
    if (st.placeholder) return st.constant;
    bool weight = true;
    for (const Expr& body : st.bodies) {
      visit(body, [&](const Expr& e) {
        const Load* load = e.as<Load>();
        if (weight && load) weight = is_weight(state_.stage_of(load->buffer));
      });
    }
    return weight;
  }

  const ScheduleState& state_;
};

}  // namespace

bool streams_weights_once(const Schedule& one, const Schedule& more) {
  constexpr double kOnce = 3;  // operations for each weight: a multiply-add, and less than another
  constexpr double kFewer = 1.5;  // weights of few bits that are unpacked in registers
  const Target& target = one.target();
  if (target.is_cuda() || weight_bytes(one) <= target.l2_bytes) return false;
  double weights = 0;
  for (const Tensor& t : weights_of(one)) weights += static_cast<double>(t.size());
  if (one.dag().total_flops() > kOnce * weights) return false;
  const WeightLayout read(one.state()), others(more.state());
  return read.text != others.text && others.bytes < kFewer * read.bytes;
}

}  // namespace heddle::network
