#include "network/fusion/fuse_matrices.h"

#include <algorithm>
#include <map>

#include "heddle/dag/computed_matrix.h"
#include "schedule/groups/computed_rows.h"
#include "schedule/groups/machine_rates.h"

namespace heddle::network {
namespace {

// On a CPU storing a matrix usually takes less time than its products once more. Those that grow with
// the square of a long sequence are not stored all the same, nor are those that take more than this share
// of the memory that buffers may have: three are needed at once, of scores, weights and gradients.
constexpr double kMostBytesOfCpu = 256 << 20, kShareOfMemory = 0.25;

// The fewest rows and keys for which what only has rows or keys is stored.
constexpr int64_t kLeastLine = 32;

class Fuser {
 public:
  Fuser(const FusionPlan& plan, const Target& target, ChoiceList& choices)
      : plan_(plan),
        dag_(plan.dag()),
        target_(target),
        choices_(choices),
        may_be_inside_(static_cast<size_t>(dag_.size()), 1) {
    for (int s = 0; s < dag_.size(); ++s) {
      if (plan_.at(s) == Place::InTemplate || !plan_.may_run_inside(s)) may_be_inside_[s] = 0;
    }
  }

  FusedMatrices run() {
    find();
    while (!matrices_.empty() && !ask()) find();
    FusedMatrices out{covered_, {}};
    for (const ComputedMatrix& m : matrices_) out.sums.push_back(m.sum);
    return out;
  }

 private:
  /// Finds the matrices of which nothing is read but by their sums. What is read elsewhere is stored.
  void find() {
    do {
      matrices_.clear();
      covered_.assign(may_be_inside_.size(), 0);
      for (int s = 0; s < dag_.size(); ++s) {
        if (!dag_.stage(s).is_reduction() || plan_.at(s) == Place::InTemplate) continue;
        std::optional<ComputedMatrix> m =
            find_computed_matrix(dag_, s, [&](int x) { return may_be_inside_[x] != 0; });
        if (!m || !reduces_where_computed(*m, target_) || !is_in_memory(*m)) continue;
        for (const int x : m->fused) covered_[x] = 1;
        matrices_.push_back(std::move(*m));
      }
    } while (keep_out() || keep_lines_out());
  }

  /// Keeps what only has rows or keys of a matrix, such as the reciprocal of a sum, from being computed for
  /// each element of it. Returns whether there was any.
  bool keep_lines_out() {
    bool found = false;
    for (const ComputedMatrix& m : matrices_) {
      if (std::min(m.rows, m.keys) < kLeastLine) continue;
      for (const int s : m.fused) {
        if (dag_.info(s).points > std::max(m.rows, m.keys) * m.batches * m.summed) continue;
        may_be_inside_[s] = 0;
        found = true;
      }
    }
    return found;
  }

  /// Keeps stages that some reader needs in memory from being inside. Returns whether there were any.
  bool keep_out() {
    bool found = false;
    for (int s = 0; s < dag_.size(); ++s) {
      if (!covered_[s]) continue;
      const std::vector<int>& readers = dag_.info(s).consumers;
      if (std::all_of(readers.begin(), readers.end(), [&](int r) { return computes(r, s); }))
        continue;
      may_be_inside_[s] = 0;
      found = true;
    }
    return found;
  }
  /// Whether some of the stages are stored between nodes otherwise. On a CPU blocks of rows may go through
  /// all of them (row_chain.h).
  bool is_in_memory(const ComputedMatrix& m) const {
    return target_.is_cuda() ||
           std::any_of(m.fused.begin(), m.fused.end(), [&](int s) { return plan_.stored(s); });
  }
  static bool contains(const std::vector<int>& list, int s) {
    return std::binary_search(list.begin(), list.end(), s);
  }
  /// Whether all nodes that compute `reader` compute `s` too.
  bool computes(int reader, int s) const {
    bool any = false;
    for (const ComputedMatrix& m : matrices_) {
      if (m.sum != reader && !contains(m.fused, reader)) continue;
      any = true;
      if (!contains(m.fused, s)) return false;
    }
    return any;
  }

  /// Asks for each product whether it is inside. Returns false where one is not, after which the
  /// matrices are others.
  bool ask() {
    std::map<int, std::vector<const ComputedMatrix*>> by;  // the matrices of each product
    for (const ComputedMatrix& m : matrices_) {
      for (const ComputedMatrix::Product& p : m.products) by[p.stage].push_back(&m);
    }
    bool all = true;
    for (const auto& [p, matrices] : by) {
      if (answers_.contains(p)) continue;
      const std::string place = place_of(dag_.stage(p)),
                        text = "its tiles are computed where what is made of them is reduced";
      const bool on = too_large(matrices)
                          ? choices_.required(ChoiceKind::Fuse, place, text)
                          : choices_.on(ChoiceKind::Fuse, place, pays(p, matrices), text);
      answers_[p] = on;
      if (on) continue;
      may_be_inside_[p] = 0;
      all = false;
    }
    return all;
  }

  /// Whether a CPU does not store one of the matrices, whatever time that takes.
  bool too_large(const std::vector<const ComputedMatrix*>& matrices) const {
    const auto limit = static_cast<double>(choices_.memory());
    const double most =
        limit > 0 ? std::min(kMostBytesOfCpu, kShareOfMemory * limit) : kMostBytesOfCpu;
    return !target_.is_cuda() && std::any_of(matrices.begin(), matrices.end(),
                                             [&](const auto* m) { return m->bytes() > most; });
  }

  /// Whether computing product `p` for each of the matrices takes less time than storing it for them.
  bool pays(int p, const std::vector<const ComputedMatrix*>& matrices) const {
    if (!target_.is_cuda()) return false;
    const MachineRates rates = rates_of(target_);
    const auto n = static_cast<double>(matrices.size());
    if (n == 1 && matrices[0]->col >= 0) return false;
    const Tensor t = dag_.stage(p).output(0);
    const auto bytes = static_cast<double>(t.size() * t.dtype().bytes());
    return (n - 1) * dag_.info(p).flops / rates.flops_of(2) <
           rates.seconds_of((n + 1) * bytes, bytes);
  }

  const FusionPlan& plan_;
  const ComputeDag& dag_;
  const Target& target_;
  ChoiceList& choices_;
  std::vector<char> may_be_inside_, covered_;
  std::vector<ComputedMatrix> matrices_;
  std::map<int, bool> answers_;  ///< by product
};

}  // namespace

FusedMatrices fuse_matrices(const FusionPlan& plan, const Target& target, ChoiceList& choices) {
  return Fuser(plan, target, choices).run();
}

}  // namespace heddle::network
