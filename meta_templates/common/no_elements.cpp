// Results without elements, such as those of an empty batch. Nothing is scheduled, and lowering
// makes no code for them.
#include "heddle/schedule/template.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target&) {
  return dag.info(g.output_stage).points == 0;
}

void build(TemplateBuilder&, const StageGroup&) {}

HEDDLE_REGISTER_META_TEMPLATE({"no_elements", 1000, matches, build});

}  // namespace
}  // namespace heddle::meta
