#include <algorithm>
#include <array>

#include "heddle/schedule/step.h"
#include "heddle/support/error.h"
#include "schedule/schedule_state.h"

namespace heddle {
namespace {
// In the order of StepKind; also the names in JSON, so never rename.
constexpr std::array<const char*, 26> kNames = {"split",
                                                "fuse",
                                                "reorder",
                                                "compute_at",
                                                "compute_inline",
                                                "cache_write",
                                                "cache_read",
                                                "rfactor",
                                                "layout",
                                                "vectorize",
                                                "unroll",
                                                "parallel",
                                                "store_nontemporal",
                                                "prefetch",
                                                "bind",
                                                "set_scope",
                                                "storage_pad",
                                                "multi_buffer",
                                                "tensorize",
                                                "last_block",
                                                "split_whole",
                                                "pad",
                                                "widen",
                                                "store_at",
                                                "overlap",
                                                "as_product"};
}  // namespace

const char* to_string(StepKind kind) { return kNames[static_cast<size_t>(kind)]; }

bool parse_step_kind(const std::string& text, StepKind* kind) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i]) {
      *kind = static_cast<StepKind>(i);
      return true;
    }
  }
  return false;
}

StepArity arity_of(StepKind kind) {
  switch (kind) {
    case StepKind::Split:
    case StepKind::SplitWhole: return {1, 1, 2};
    case StepKind::Fuse: return {2, 0, 1};
    case StepKind::Reorder: return {-1, 0, 0};
    case StepKind::CacheWrite: return {0, 0, -1};
    case StepKind::CacheRead: return {0, -1, -1};
    case StepKind::Rfactor: return {-1, 2, -1};
    case StepKind::AsProduct:
    case StepKind::Pad: return {-1, -1, -1};
    case StepKind::Layout: return {0, -1, 0};
    case StepKind::Inline:
    case StepKind::LastBlock:
    case StepKind::NonTemporal: return {0, 0, 0};
    case StepKind::Bind: return {1, 1, 0};
    case StepKind::SetScope:
    case StepKind::StoragePad:
    case StepKind::MultiBuffer: return {0, 1, 0};
    case StepKind::Widen: return {0, 2, 0};
    case StepKind::Prefetch: return {0, 3, 0};
    case StepKind::ComputeAt:
    case StepKind::StoreAt:
    case StepKind::Tensorize:
    case StepKind::Vectorize:
    case StepKind::Unroll:
    case StepKind::Parallel:
    case StepKind::Overlap: return {1, 0, 0};
  }
  return {};
}

bool makes_up_dimension(const std::vector<StageState::LayoutDim>& dims, int dim, int64_t limit) {
  std::vector<StageState::LayoutDim> parts;
  for (const auto& x : dims) {
    if (x.dim == dim) parts.push_back(x);
  }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    // A tile of one element: its (divisor 1, modulus 1) part comes before the others of its
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
