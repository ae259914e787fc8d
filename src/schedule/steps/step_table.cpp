#include <algorithm>
#include <iterator>

#include "heddle/schedule/step.h"
#include "heddle/support/error.h"
#include "schedule/steps/schedule_state.h"

namespace heddle {
namespace {

struct StepRow {
  StepKind kind;
  const char* name;  ///< used in JSON and texts; a renamed step keeps its old name as an alias
  StepArity arity;
};

constexpr StepRow kSteps[] = {
    {StepKind::Split, "split", {1, -1, 2}},
    {StepKind::Fuse, "fuse", {2, 0, 1}},
    {StepKind::Reorder, "reorder", {-1, 0, 0}},
    {StepKind::ComputeAt, "compute_at", {1, 0, 0}},
    {StepKind::Inline, "compute_inline", {0, 0, 0}},
    {StepKind::CacheWrite, "cache_write", {0, 0, -1}},
    {StepKind::CacheRead, "cache_read", {-1, -1, -1}},
    {StepKind::Rfactor, "rfactor", {-1, 2, -1}},
    {StepKind::Layout, "layout", {0, -1, 0}},
    {StepKind::Vectorize, "vectorize", {1, 0, 0}},
    {StepKind::Unroll, "unroll", {1, 0, 0}},
    {StepKind::Parallel, "parallel", {1, 0, 0}},
    {StepKind::NonTemporal, "store_nontemporal", {0, 0, 0}},
    {StepKind::Prefetch, "prefetch", {0, 3, 0}},
    {StepKind::Bind, "bind", {1, 1, 0}},
    {StepKind::SetScope, "set_scope", {0, 1, 0}},
    {StepKind::StoragePad, "storage_pad", {0, 1, 0}},
    {StepKind::MultiBuffer, "multi_buffer", {0, 1, 0}},
    {StepKind::Tensorize, "tensorize", {1, 0, 0}},
    {StepKind::LastBlock, "last_block", {0, 0, 0}},
    {StepKind::Pad, "pad", {-1, -1, -1}},
    {StepKind::Widen, "widen", {0, 2, 0}},
    {StepKind::StoreAt, "store_at", {1, 0, 0}},
    {StepKind::SoftwarePipeline, "software_pipeline", {1, 0, 0}},
    {StepKind::AsProduct, "as_product", {-1, -1, -1}},
    {StepKind::Expect, "expect", {0, 1, 0}},
    {StepKind::OnlineSoftmax, "online_softmax", {0, -1, -1}},
    {StepKind::ScatterRows, "scatter_rows", {0, 2, 0}},
};

// Names of steps in older schedules.
struct OldName {
  const char* name;
  StepKind kind;
};
constexpr const char* kSplitWhole = "split_whole";
constexpr OldName kOldNames[] = {{"overlap", StepKind::SoftwarePipeline},
                                 {kSplitWhole, StepKind::Split}};
constexpr uint64_t kSplitWholeNumber = 20;

const StepRow& row_of(StepKind kind) {
  const auto* row = std::find_if(std::begin(kSteps), std::end(kSteps),
                                 [&](const StepRow& r) { return r.kind == kind; });
  HEDDLE_ICHECK(row != std::end(kSteps),
                "there is no step of number " + std::to_string(static_cast<int>(kind)));
  return *row;
}

}  // namespace

const char* to_string(StepKind kind) { return row_of(kind).name; }

const char* to_string(Instruction instruction) {
  return instruction == Instruction::DotProduct ? "dot_product" : "transposed_square";
}

const char* to_string(TailStrategy tail) {
  return tail == TailStrategy::Shorten ? "shorten" : "predicate_stores";
}

std::optional<StepKind> parse_step_kind(const std::string& text) {
  for (const StepRow& row : kSteps) {
    if (text == row.name) return row.kind;
  }
  for (const OldName& old : kOldNames) {
    if (text == old.name) return old.kind;
  }
  return std::nullopt;
}

TailStrategy tail_of(const Step& step) {
  return step.params.size() > 1 ? static_cast<TailStrategy>(step.params[1].value)
                                : TailStrategy::Shorten;
}

void upgrade_step(const std::string& name, Step* step) {
  if (name == kSplitWhole && step->params.size() == 1)
    step->params.push_back(Param(static_cast<int>(TailStrategy::PredicateStores)));
}

FirstForm first_form(const Step& step) {
  if (step.kind == StepKind::Split && tail_of(step) == TailStrategy::PredicateStores)
    return {kSplitWholeNumber, 1};
  return {static_cast<uint64_t>(step.kind), step.params.size()};
}

StepArity arity_of(StepKind kind) { return row_of(kind).arity; }

bool makes_up_dimension(const std::vector<StageState::LayoutDim>& dims, int dim, int64_t limit) {
  std::vector<StageState::LayoutDim> parts;
  for (const auto& x : dims) {
    if (x.dim == dim) parts.push_back(x);
  }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    // For a tile of one element, the part (divisor 1, modulus 1) precedes the others of its
    // divisor.
    return a.divisor != b.divisor
               ? a.divisor < b.divisor
               : static_cast<uint64_t>(a.modulus - 1) < static_cast<uint64_t>(b.modulus - 1);
  });
  int64_t next = 1;
  bool ok = !parts.empty();
  for (size_t i = 0; ok && i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    ok = parts[i].divisor == next && (last ? parts[i].modulus == 0 : parts[i].modulus > 0);
    next *= std::max<int64_t>(parts[i].modulus, 1);
    ok &= next <= limit;
  }
  return ok;
}

}  // namespace heddle
