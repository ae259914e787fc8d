#include "schedule/groups/fused_chains.h"

#include <algorithm>

#include "heddle/dag/attention.h"
#include "schedule/groups/computed_rows.h"
#include "schedule/groups/row_chain.h"
#include "schedule/groups/row_program.h"
#include "target/grid_limits.h"

namespace heddle {
namespace {

// The head size that registers hold.
constexpr int64_t kMostHeadSize = 256;

class Finder {
 public:
  Finder(const ComputeDag& dag, FusedChains& found) : dag_(dag), found_(found) {}

  void attentions() {
    for (int s = 0; s < dag_.size(); ++s) {
      const std::optional<Attention> a = is_free(s) ? find_attention(dag_, s) : std::nullopt;
      if (!a || a->depth > kMostHeadSize || a->cols > kMostHeadSize || a->batches > kMostBlocks[2])
        continue;
      std::vector<int> all = a->fused;
      all.insert(all.end(), a->outer.begin(), a->outer.end());
      if (a->reader >= 0) all.push_back(a->reader);
      if (!add({s, a->reader >= 0 ? a->reader : s, a->outer}, std::move(all))) continue;
      for (const Expr& operand : {a->query, a->key, a->value})
        found_.operands.insert(dag_.index_of(tensor_of(operand.as<Load>()->buffer).op()));
    }
  }

  void matrices(const Target& target) {
    for (int s = 0; s < dag_.size(); ++s) {
      const std::optional<ComputedMatrix> m = is_free(s) ? find_own_matrix(dag_, s) : std::nullopt;
      if (!m || !reduces_where_computed(*m, target) || goes_by_rows(*m, target) ||
          !add({s, s, {}, m->col >= 0 || target.is_cuda()}, m->fused))
        continue;
      found_.operands.insert(m->value.stage);
      for (const ComputedMatrix::Product& p : m->products)
        found_.operands.insert({p.rows.stage, p.keys.stage});
    }
  }

  void row_programs(const Gpu& gpu) {
    for (int s = dag_.size() - 1; s >= 0; --s) {
      if (!is_free(s)) continue;
      std::vector<int> stages = row_program(dag_, gpu, s, [&](int x) { return is_free(x); });
      if (!stages.empty()) add({s, s, {}, false, true}, std::move(stages));
    }
  }

 private:
  // Whether blocks of rows go through a product and this one on a CPU.
  bool goes_by_rows(const ComputedMatrix& m, const Target& target) const {
    return !target.is_cuda() && m.col >= 0 && m.products.size() == 1 &&
           RowChain(dag_, target, m.sum, m.sum, Chains::Expected).takes(m.products[0].stage);
  }

  bool is_free(int s) const { return found_.of[static_cast<size_t>(s)] < 0; }

  // Adds a chain of its sum and `others`, where none of them is in another one.
  bool add(FusedChains::Chain chain, std::vector<int> others) {
    others.push_back(chain.sum);
    if (!std::all_of(others.begin(), others.end(), [&](int x) { return is_free(x); })) return false;
    for (const int x : others) found_.of[static_cast<size_t>(x)] = chain.sum;
    found_.chains.emplace(chain.sum, std::move(chain));
    return true;
  }

  const ComputeDag& dag_;
  FusedChains& found_;
};

}  // namespace

FusedChains find_fused_chains(const ComputeDag& dag, const Target* target) {
  FusedChains found{std::vector<int>(static_cast<size_t>(dag.size()), -1), {}, {}};
  const bool cpu = target != nullptr && target->kind == "llvm";
  const bool gpu = target != nullptr && target->is_cuda();
  if (!cpu && !gpu) return found;
  Finder finder(dag, found);
  const bool units = gpu && target->gpu.sm() >= 80;
  if (units) finder.attentions();
  if (cpu || units) finder.matrices(*target);
  if (gpu) finder.row_programs(target->gpu);
  return found;
}

}  // namespace heddle
