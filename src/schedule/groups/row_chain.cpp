#include "schedule/groups/row_chain.h"

#include <algorithm>

namespace heddle {

namespace {

// Whether index `d` of the read is axis `d` of its reader, where axes of one value (the taps of a
// pointwise convolution) do not count.
bool is_axis(const Operation& reader, const Access& a, size_t d) {
  const Axis& own = reader.axes()[d];
  if (a.indices[d].same_as(own)) return true;
  if (d >= a.affine.size() || !a.affine[d]) return false;
  const Affine& index = *a.affine[d];
  const auto& reduce = reader.reduce_axes();
  return index.constant == 0 && index.coefficient(own.var()) == 1 &&
         std::all_of(index.terms.begin(), index.terms.end(), [&](const Affine::Term& t) {
           return t.var.same_as(own.var()) ||
                  std::any_of(reduce.begin(), reduce.end(), [&](const Axis& k) {
                    return k.extent() == 1 && k.var().same_as(t.var);
                  });
         });
}

}  // namespace

bool reads_own_rows(const ComputeDag& dag, int s, int reader, size_t rows) {
  const auto& axes = dag.stage(reader).axes();
  for (const Access& a : dag.info(reader).reads) {
    if (a.producer != s) continue;
    for (size_t d = 0; d < std::min(rows, a.indices.size()); ++d) {
      if (d >= axes.size() || !is_axis(dag.stage(reader), a, d)) return false;
    }
  }
  return true;
}

namespace {

// Shorter axes give no register tile, and one operand is read only once.
constexpr int64_t kLeastExtent = 8;

// Tiles of rows for each thread, so that threads end at about the same time.
constexpr int64_t kLeastTiles = 4;

// Sizes of L2 that the shared operands of products alone may have. A chain of products with weights
// of 2.3 times L2 took as long as the products apart, and of nine times L2 1.09 as long.
constexpr int64_t kMostShared = 4;

// Stages before the output stage that a chain may reach back to. Long chains of products share more
// than any cache holds, and each of thousands of products asks.
constexpr int kMostStages = 1024;

}  // namespace

RowChain::RowChain(const ComputeDag& dag, const Target& target, int anchor, int output_stage,
                   Chains which, const std::vector<char>& stored)
    : dag_(dag),
      main_(anchor),
      output_stage_(output_stage),
      first_(std::max(0, std::min(anchor, output_stage) - kMostStages)),
      rows_(dag.stage(anchor).axes().size()),
      has_rows_(static_cast<size_t>(output_stage - first_) + 1) {
  const auto& axes = dag.stage(anchor).axes();
  if (rows_ < 2 || dag.stage(output_stage).axes().size() != rows_) return;
  --rows_;
  if (axes[rows_ - 1].extent() < kLeastExtent || axes[rows_].extent() < kLeastExtent) return;
  has_rows_[static_cast<size_t>(output_stage - first_)] = 1;
  for (int s = output_stage - 1; s >= first_; --s)
    has_rows_[static_cast<size_t>(s - first_)] =
        (stored.empty() || stored[static_cast<size_t>(s)] == 0) && has_rows(s) ? 1 : 0;
  int64_t lead = 1, row_bytes = 0, shared = shared_bytes(anchor);
  for (size_t d = 0; d < rows_; ++d) lead *= axes[d].extent();
  bool product = false, row_reduction = false;
  for (int s = first_; s < anchor; ++s) {
    if (dag.info(s).stage_class == StageClass::Placeholder || !rows_known(s)) continue;
    row_bytes =
        std::max(row_bytes, dag.info(s).points / lead * dag.stage(s).output(0).dtype().bytes());
    row_reduction |= dag.info(s).stage_class == StageClass::SimpleReduction;
    if (dag.info(s).stage_class != StageClass::ComplexReduction) continue;
    product = true;
    shared += shared_bytes(s);
  }
  // Every block of R rows reads again what the blocks share. In return it saves two or more passes
  // over R rows of each stage. With R chosen so that the rows of two stages fill half of L2, the
  // saved passes are larger as long as the shared data is smaller than L2.
  // Where all rows together stay in the cache, the first product with its epilogue and the second
  // one are as good apart. With reductions of rows between them (a softmax) a chain has one
  // parallel loop in place of four: attention of 12x48x48x64 takes 0.92 of the time on one thread
  // and 0.66 on two (AVX-512, 2 MiB of L2). But only rows are shared out among threads
  // then.
  const bool in_cache = lead * row_bytes <= target.l2_bytes;
  const bool enough_rows = lead >= kLeastTiles * kLeastExtent * target.cores;
  const bool gains = shared <= target.l2_bytes && (!in_cache || (row_reduction && enough_rows));
  // Products alone are as fast in a chain and apart, or faster, unless each block reads weights far
  // beyond L2. Attention whose keys and values exceed L2 is slower in a chain (1x8192x64 takes 1.15
  // of the time).
  const bool may_gain =
      gains || (enough_rows && !row_reduction && shared <= kMostShared * target.l2_bytes);
  taken_ = product && kLeastExtent * 2 * row_bytes <= target.l2_bytes / 2 &&
           (which == Chains::Expected ? gains : may_gain);
  if (taken_) find_products();
}

// Where two products meet (a gate and what it multiplies), the later one computes the stages after
// both.
void RowChain::find_products() {
  for (int s = main_ - 1; s >= first_; --s) {
    if (!takes(s) || dag_.info(s).stage_class != StageClass::ComplexReduction) continue;
    products_.push_back(product_part(
        dag_, s, [&](int other) { return takes(other) && part_of(other) == nullptr; }));
  }
}

const StageGroup::Part* RowChain::part_of(int s) const {
  for (const ProductPart& p : products_) {
    if (std::find(p.stages.begin(), p.stages.end(), s) != p.stages.end()) return &p.ends;
  }
  return nullptr;
}

bool RowChain::has_rows(int s) const {
  const auto &own = dag_.stage(s).axes(), &axes = dag_.stage(main_).axes();
  const StageInfo& info = dag_.info(s);
  // Images have their own rows, which one loop over blocks of results does not serve.
  if (own.size() < rows_ || own.size() > rows_ + 1 || info.is_output || info.precomputable ||
      !info.case_periods.empty() || info.consumers.empty() || dag_.stage(s).num_outputs() != 1)
    return false;
  for (size_t d = 0; d < rows_; ++d) {
    if (own[d].extent() != axes[d].extent()) return false;
  }
  return std::all_of(info.consumers.begin(), info.consumers.end(),
                     [&](int c) { return rows_known(c) && reads_own_rows(dag_, s, c, rows_); });
}

int64_t RowChain::shared_bytes(int s) const {
  const auto& axes = dag_.stage(s).axes();
  int64_t bytes = 0;
  for (const Access& a : dag_.info(s).reads) {
    if (a.depends_on(axes[rows_ - 1])) continue;
    int64_t all = a.tensor.dtype().bytes();
    for (int64_t e : a.tensor.extents()) all *= e;
    for (size_t d = 0; d < rows_; ++d) {
      if (a.depends_on(axes[d])) all /= axes[d].extent();
    }
    bytes += all;
  }
  return bytes;
}

}  // namespace heddle
