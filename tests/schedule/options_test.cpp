// AutoSchedulerOptions: scopes nest and end, and each option changes what it is named for.
#include <thread>

#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

ComputeDag big_matmul() {
  return ComputeDag({ops::matmul(placeholder({512, 512}), placeholder({512, 512}))});
}

TEST(Options, ScopesNestAndEnd) {
  EXPECT_EQ(current_auto_scheduler_options().threads, 0);
  {
    AutoSchedulerOptions outer;
    outer.threads = 3;
    outer.vector_bytes = 16;
    AutoSchedulerOptionsScope a(outer);
    EXPECT_EQ(current_auto_scheduler_options().threads, 3);
    {
      AutoSchedulerOptions inner;
      inner.threads = 5;
      AutoSchedulerOptionsScope b(inner);
      EXPECT_EQ(current_auto_scheduler_options().threads, 5);
      EXPECT_EQ(current_auto_scheduler_options().vector_bytes, 0);
    }
    EXPECT_EQ(current_auto_scheduler_options().threads, 3);
    EXPECT_EQ(current_auto_scheduler_options().vector_bytes, 16);
    std::thread([] { EXPECT_EQ(current_auto_scheduler_options().threads, 0); }).join();
  }
  EXPECT_EQ(current_auto_scheduler_options().threads, 0);
}

TEST(Options, TheyAreAppliedToTheTarget) {
  Target base = Target::host();
  AutoSchedulerOptions o;
  EXPECT_EQ(apply_options(base, o), base);
  o.vector_bytes = 16;
  o.threads = 7;
  o.l1_bytes = 1000;
  o.l2_bytes = 2000;
  o.l3_bytes = 3000;
  Target t = apply_options(base, o);
  EXPECT_EQ(t.vector_bytes, 16);
  EXPECT_EQ(t.cores, 7);
  EXPECT_EQ(t.l1d_bytes, 1000);
  EXPECT_EQ(t.l2_bytes, 2000);
  EXPECT_EQ(t.l3_bytes, 3000);
  AutoSchedulerOptionsScope scope(o);
  EXPECT_EQ(make_template(big_matmul(), base).target(), t);
}

TEST(Options, ThoseForGpusLimitTheirs) {
  const Target gpu = Target::parse("cuda -gpu=h200");
  const AutoSchedulerOptions o{
      .l2_bytes = 1 << 20, .block_threads = 256, .block_shared_bytes = 32 << 10};
  const Target t = apply_options(gpu, o);
  EXPECT_EQ(t.gpu.l2_bytes, 1 << 20);
  EXPECT_EQ(t.gpu.threads_per_block, 256);
  EXPECT_EQ(t.gpu.smem_per_block, 32 << 10);
  EXPECT_EQ(apply_options(t, o), t);
  EXPECT_EQ(make_template(big_matmul(), gpu, o).target(), t);
}

// What would be without effect, and what no GPU or no schedule can do with, is said.
TEST(Options, ThoseThatSayNothingAboutATargetAreRefused) {
  const Target gpu = Target::parse("cuda -gpu=h200"), cpu = Target::host();
  auto message = [](const Target& target, const AutoSchedulerOptions& o) -> std::string {
    try {
      apply_options(target, o);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      return e.message;
    }
    return "no error";
  };
  EXPECT_EQ(message(gpu, {.vector_bytes = 16}),
            "AutoSchedulerOptions: vector_bytes says nothing about a GPU");
  EXPECT_EQ(message(gpu, {.threads = 2}), "AutoSchedulerOptions: threads says nothing about a GPU");
  EXPECT_EQ(message(gpu, {.l1_bytes = 1 << 15}),
            "AutoSchedulerOptions: l1_bytes says nothing about a GPU");
  EXPECT_EQ(message(gpu, {.l3_bytes = 1 << 20}),
            "AutoSchedulerOptions: l3_bytes says nothing about a GPU");
  EXPECT_EQ(message(gpu, {.max_unroll = 4}),
            "AutoSchedulerOptions: max_unroll says nothing about a GPU");
  EXPECT_EQ(message(cpu, {.block_threads = 128}),
            "AutoSchedulerOptions: block_threads says nothing about a CPU");
  EXPECT_EQ(message(cpu, {.block_shared_bytes = 1 << 15}),
            "AutoSchedulerOptions: block_shared_bytes says nothing about a CPU");
  EXPECT_EQ(message(gpu, {.block_threads = 64}), "AutoSchedulerOptions: block_threads is 64");
  EXPECT_EQ(message(gpu, {.block_threads = 2048}), "AutoSchedulerOptions: block_threads is 2048");
  EXPECT_EQ(message(gpu, {.block_shared_bytes = 1 << 20}),
            "AutoSchedulerOptions: block_shared_bytes is 1048576");
  EXPECT_EQ(message(gpu, {.allow_tf32 = true}), "no error");
  EXPECT_EQ(message(cpu, {.allow_tf32 = true}), "no error");
  EXPECT_THROW(make_template(big_matmul(), gpu, {.threads = 2}), Error);
}

bool any_loop(const Schedule& s, LoopKind kind) {
  for (const AxisState& a : s.state().axes) {
    if (a.defined && a.is_leaf() && a.loop == kind) return true;
  }
  return false;
}

TEST(Options, OneThreadMeansNoParallelLoop) {
  for (int threads : {1, 2}) {
    AutoSchedulerOptions o;
    o.threads = threads;
    AutoSchedulerOptionsScope scope(o);
    Template t = make_template(big_matmul(), Target::host());
    EXPECT_EQ(any_loop(t.instantiate(t.default_config()), LoopKind::Parallel), threads == 2);
  }
}

TEST(Options, VectorBytesSetTheLanes) {
  for (int bytes : {16, 32}) {
    AutoSchedulerOptions o;
    o.vector_bytes = bytes;
    AutoSchedulerOptionsScope scope(o);
    Template t = make_template(big_matmul(), Target::host());
    Schedule s = t.instantiate(t.default_config());
    int64_t least = 1 << 20;
    for (const AxisState& a : s.state().axes) {
      if (!a.defined) continue;
      // A packed tile of the broadcast operand has as many rows as the register tile.
      const bool packed_rows = s.state().stages[a.stage].name.ends_with(".copy");
      if (a.is_leaf() && a.loop == LoopKind::Vectorized && !packed_rows) {
        EXPECT_EQ(a.static_extent % (bytes / 4), 0);
        least = std::min(least, a.static_extent);
      }
    }
    EXPECT_EQ(least, bytes / 4);
  }
}

TEST(Options, KnobValuesAreLimitedAroundTheDefault) {
  Template whole = make_template(big_matmul(), Target::host());
  for (int most : {1, 3}) {
    AutoSchedulerOptions o;
    o.max_knob_values = most;
    AutoSchedulerOptionsScope scope(o);
    Template t = make_template(big_matmul(), Target::host());
    ASSERT_EQ(t.knobs().size(), whole.knobs().size());
    for (size_t k = 0; k < t.knobs().size(); ++k) {
      const auto& values = t.knobs()[k].values;
      EXPECT_LE(static_cast<int>(values.size()), most);
      EXPECT_EQ(t.knobs()[k].default_value, whole.knobs()[k].default_value);
      EXPECT_TRUE(std::find(values.begin(), values.end(), t.knobs()[k].default_value) !=
                  values.end());
    }
    EXPECT_EQ(t.why_invalid(t.default_config()), "");
  }
}

TEST(Options, ATemplateCanBeForcedWhereItMatches) {
  register_meta_template({"forced", -1,
                          [](const ComputeDag&, const StageGroup&, const Target&) { return true; },
                          [](TemplateBuilder&, const StageGroup&) {}});
  AutoSchedulerOptions o;
  o.force_template = "forced";
  {
    AutoSchedulerOptionsScope scope(o);
    EXPECT_EQ(make_template(big_matmul(), Target::host()).name(), "forced");
  }
  EXPECT_EQ(make_template(big_matmul(), Target::host()).name(), "complex_reduction");
  unregister_meta_template("forced");
}

}  // namespace
}  // namespace heddle::testing
