// The structs of options are written with designated initialisers, a member or two at a time. This
// file is compiled with -Wall -Wextra -Werror: a member without an initialiser of its own would be
// a warning (-Wmissing-field-initializers) wherever somebody leaves it out.
#include <gtest/gtest.h>

#include "heddle/codegen/llvm.h"
#include "heddle/cost_model/cost_model.h"
#include "heddle/driver/export.h"
#include "heddle/heddle.h"
#include "heddle/network/network.h"
#include "heddle/ops/ops.h"
#include "heddle/search/tune.h"

namespace heddle::testing {
namespace {

using namespace std::chrono_literals;

TEST(OptionStructs, AreWrittenWithDesignatedInitialisers) {
  EXPECT_EQ(TuneOptions{.budget = 60s}.max_trials, TuneOptions().max_trials);
  EXPECT_EQ((TuneOptions{.log = "a.jsonl", .target = Target::host()}.seed), TuneOptions().seed);
  EXPECT_EQ((TuneOptions{.budget = 1s, .scheduler = AutoSchedulerOptions{.threads = 2}}
                 .scheduler->threads),
            2);
  EXPECT_EQ(BuildOptions{.name = "dense"}.opt_level, BuildOptions().opt_level);
  EXPECT_TRUE(BuildOptions{.target = Target::host()}.target.has_value());
  EXPECT_EQ(LowerOptions{.keep_passes = true}.name, LowerOptions().name);
  EXPECT_EQ(CodegenOptions{.opt_level = 2}.opt_level, 2);
  EXPECT_EQ(AutoSchedulerOptions{.threads = 2}.vector_bytes, 0);
  EXPECT_EQ(AutoSchedulerOptions{.max_error_growth = 1}.record_log, "");
  EXPECT_EQ(MeasureProtocol{.max_repeats = 3}.min_repeats, MeasureProtocol().min_repeats);
  EXPECT_EQ(WorkerOptions{.workers = 1}.protocol.min_repeats, MeasureProtocol().min_repeats);
  EXPECT_EQ(EvolutionOptions{.population = 8}.generations, EvolutionOptions().generations);
  EXPECT_EQ(XgboostOptions{.seed = 1}.target_kind, XgboostOptions().target_kind);
  EXPECT_EQ((ops::Conv{.padding = {1, 1}}.stride), ops::Conv().stride);
}

// As the calls are written.
TEST(OptionStructs, CallsTakeThem) {
  const Tensor x = placeholder({64}, f32, "x");
  const Tensor y = compute({64}, [&](Axis i) { return x(i) + 1.f; }, "y");
  const Schedule s = create_schedule({y}, Target::host(), {.threads = 1, .use_records = false});
  EXPECT_EQ(build(s, {x, y}, {.name = "plus_one"}).name(), "plus_one");
  EXPECT_THROW(tune({y}, {.budget = 1s, .batch = 0}), Error);
}

}  // namespace
}  // namespace heddle::testing
