// Attention over a range of lengths on GPUs, in half precision as exported models have it.
#include <gmock/gmock.h>

#include "family/family_testing.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/dag/generalize.h"
#include "heddle/lower/lower.h"
#include "meta_templates/attention_forms.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// Attention of `heads` heads of 64 elements over n tokens.
Family attention_family(const Dim& n, int64_t heads, Mask mask) {
  const Generalized all = generalize(n, [&](int64_t tokens) {
    return attention({.batch = heads,
                      .rows = tokens,
                      .keys = tokens,
                      .depth = 64,
                      .cols = 64,
                      .mask = mask})
        .outputs;
  });
  return {"attention", n, all.outputs.at(0)};
}

/// Checks the choice for 511 tokens at other lengths, and that it has this instruction.
void check(const std::string& gpu, Mask mask, const std::string& instruction) {
  SCOPED_TRACE(gpu);
  const Family f = attention_family(dim("n", 1, 512), 2, mask);
  const Schedule s = family_schedule({f.result}, {{f.n, 511}}, Target::parse(gpu));
  EXPECT_THAT(s.provenance, HasSubstr("cuda_attention"));
  const GpuProgram program = lower_gpu(s, all_args(s.dag()));
  EXPECT_EQ(program.main.size(), 1U);
  EXPECT_THAT(emit_cuda(program), HasSubstr(instruction));
  for (const int64_t n : {3, 65, 130}) {
    const ComputeDag dag(at_sizes({f.result}, {{f.n, n}}).outputs);
    const std::vector<NDArray> arrays = call_arrays(dag);
    emulate(program, arrays, {.seed = 1});
    EXPECT_EQ(differs(dag, arrays, 1e-2), "") << n;
  }
}

TEST(AttentionFamily, ByWarpGroups) {
  check("cuda -gpu=h200", Mask::None, "wgmma");
  check("cuda -gpu=h200", Mask::Causal, "wgmma");
}

TEST(AttentionFamily, ByWarps) {
  check("cuda -gpu=a100", Mask::None, "mma.sync");
  check("cuda -gpu=a100", Mask::Causal, "mma.sync");
  check("cuda -gpu=a100", Mask::Added, "mma.sync");
}

}  // namespace
}  // namespace heddle::testing
