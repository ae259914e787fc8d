#include <array>

#include "heddle/schedule/step.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {
// In the order of StepKind; also the names in JSON, so never rename.
constexpr std::array<const char*, 19> kNames = {
    "split",       "fuse",        "reorder",           "compute_at", "compute_inline",
    "cache_write", "cache_read",  "rfactor",           "layout",     "vectorize",
    "unroll",      "parallel",    "store_nontemporal", "prefetch",   "bind",
    "set_scope",   "storage_pad", "multi_buffer",      "tensorize"};
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

}  // namespace heddle
