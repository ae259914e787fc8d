#include "cuda/reductions/row_inputs.h"

namespace heddle::meta {
namespace {

class RowInputs {
 public:
  RowInputs(const ComputeDag& dag, const StageGroup& g, size_t rank)
      : dag_(dag), g_(g), op_(dag.stage(g.output_stage)), rank_(rank), members_(row_members(g)) {}

  std::vector<int> find() const {
    std::vector<int> out;
    for (int p = 0; p < dag_.size(); ++p) {
      if (member(p)) continue;
      if (own_place(p) && times_read(p) >= 2) out.push_back(p);
    }
    return out;
  }

 private:
  bool member(int s) const {
    return std::find(members_.begin(), members_.end(), s) != members_.end();
  }
  bool inlined(int s) const {
    return std::find(g_.inlined.begin(), g_.inlined.end(), s) != g_.inlined.end();
  }

  int times_read(int p) const {
    int n = 0;
    for (int m : members_) {
      for (const Access& a : dag_.info(m).reads) {
        if (a.producer == p) n += inlined(m) ? times_read(m) : 1;
      }
    }
    return n;
  }

  // Whether all members that read `p` do so element by element, rows to rows.
  bool own_place(int p) const {
    const auto& output_stage = op_.axes();
    if (dag_.stage(p).num_outputs() != 1) return false;
    const std::vector<int64_t> shape = dag_.stage(p).output(0).extents();
    if (shape.size() != output_stage.size()) return false;
    for (size_t d = 0; d < output_stage.size(); ++d) {
      if (shape[d] != output_stage[d].extent()) return false;
    }
    for (int m : members_) {
      for (const Access& a : dag_.info(m).reads) {
        if (a.producer != p) continue;
        if (!at_own_place(a, m)) return false;
        if (inlined(m) && !own_place(m)) return false;
      }
    }
    return true;
  }

  bool at_own_place(const Access& a, int reader) const {
    const auto &axes = dag_.stage(reader).axes(), &over = dag_.stage(reader).reduce_axes();
    size_t next = 0;  // reduce axes come in order
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (over.empty() || d < rank_) {
        if (d >= axes.size() || !a.indices[d].same_as(axes[d])) return false;
      } else if (next >= over.size() || !a.indices[d].same_as(over[next++])) {
        return false;
      }
    }
    return true;
  }

  const ComputeDag& dag_;
  const StageGroup& g_;
  const Operation& op_;
  const size_t rank_;
  const std::vector<int> members_;
};

}  // namespace

std::vector<int> row_members(const StageGroup& g) {
  std::vector<int> out = g.tunable;
  out.insert(out.end(), g.inlined.begin(), g.inlined.end());
  out.push_back(g.output_stage);
  return out;
}

std::vector<int> inputs_read_again(const ComputeDag& dag, const StageGroup& g, size_t rank) {
  return RowInputs(dag, g, rank).find();
}

}  // namespace heddle::meta
