// The fallback for stages that no other meta-template takes on a GPU: one thread for each element
// of the result. It is correct, and slow where operands are reused.
#include "cuda/common.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag&, const StageGroup& g, const Target& target) {
  return target.is_cuda() && !g.attached;
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const bool reduction = t.dag().stage(g.anchor).is_reduction();
  point_per_thread(t, t.stage(g.output_stage), reduction ? g.anchor : -1, "");
}

HEDDLE_REGISTER_META_TEMPLATE({"cuda_naive", -10, matches, build});

}  // namespace
}  // namespace heddle::meta
