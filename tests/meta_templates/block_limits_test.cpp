// Limits of a block of a GPU (AutoSchedulerOptions::block_threads and block_shared_bytes): the
// static choice respects them, configs that exceed them are refused, and the results are correct.
#include <gtest/gtest.h>

#include <array>

#include "heddle/ops/ops.h"
#include "meta_templates/cuda_programs.h"
#include "selftest/pair.h"

namespace heddle::testing {
namespace {

Target h200() { return Target::parse("cuda -gpu=h200"); }

struct Limits {
  int threads = 0;
  int64_t shared = 0;
};

std::vector<MemoryBound> programs(int64_t m, int64_t n) {
  std::vector<MemoryBound> out = row_programs(m, n);
  for (MemoryBound& p : image_programs(2, 8, 12)) out.push_back(std::move(p));
  for (const DataType type : {f32, f64, bf16}) {
    // The second has tiles that do not divide it.
    for (const auto& [rows, depth, cols] : {std::array{256, 192, 256}, {250, 77, 203}}) {
      const Tensor a = placeholder({rows, depth}, type), b = placeholder({depth, cols}, type);
      out.push_back(
          {"matmul_" + to_string(type) + "_" + std::to_string(rows), {ops::matmul(a, b)}});
    }
  }
  out.push_back({"transpose_f64", {ops::transpose(placeholder({m, n}, f64))}});
  return out;
}

void expect_within(const Schedule& s, const Limits& limits, const std::string& what) {
  std::vector<Tensor> args = s.dag().direct().placeholders();
  for (const Tensor& t : s.dag().direct().outputs()) args.push_back(t);
  const GpuProgram p = lower_gpu(s, args);
  for (const auto* kernels : {&p.prepare, &p.main}) {
    for (const GpuKernel& k : *kernels) {
      if (limits.threads > 0) {
        EXPECT_LE(k.block[0] * k.block[1] * k.block[2], limits.threads) << what;
      }
      if (limits.shared > 0) {
        EXPECT_LE(k.shared_bytes, limits.shared) << what;
      }
    }
  }
}

TEST(BlockLimits, TheStaticChoiceAndRandomConfigsKeepToThem) {
  for (const Limits& limits : {Limits{128, 0}, Limits{256, 32 << 10}, Limits{0, 16 << 10}}) {
    const AutoSchedulerOptions options{.block_threads = limits.threads,
                                       .block_shared_bytes = limits.shared};
    for (const auto& [m, n] : {std::pair{96, 260}, {3, 5000}, {700, 2048}}) {
      for (const MemoryBound& p : programs(m, n)) {
        const std::string what = p.name + " " + std::to_string(m) + "x" + std::to_string(n) + ", " +
                                 std::to_string(limits.threads) + " threads, " +
                                 std::to_string(limits.shared) + " bytes";
        const Template t = make_template(ComputeDag(p.outputs), h200(), options);
        expect_within(t.static_schedule(), limits, what);
        Rng rng(7);
        for (int i = 0; i < 3; ++i) {
          const Config c = selftest::random_config(t, rng);
          expect_within(t.instantiate(c), limits, what + " " + t.config_to_json(c).dump());
        }
      }
    }
  }
}

using Knobs = std::vector<std::pair<std::string, int64_t>>;

// The bytes of shared memory of the first kernel that computes `y` from `args`, of which `y` is the
// last, with these knobs.
int64_t shared_bytes_of(const std::vector<Tensor>& args, const Knobs& knobs) {
  const AutoSchedulerOptions options{.use_records = false, .use_alternatives = false};
  const Template t = make_template(ComputeDag({args.back()}), h200(), options);
  Config c = t.default_config();
  for (const auto& [knob, value] : knobs)
    c.values.at(static_cast<size_t>(t.knob_index(knob))) = value;
  return lower_gpu(t.instantiate(c), args).main.at(0).shared_bytes;
}

// The loop over tiles of the depth, of 36 steps in tiles of 32, is cut into both. Its tiles in
// shared memory have one place.
TEST(BlockLimits, TheTilesOfACutLoopShareTheirMemory) {
  const Tensor x = placeholder({1, 12, 6, 18}, f64), w = placeholder({18, 6, 2, 3}, f64);
  const Tensor y = ops::conv2d(x, w, {.stride = {1, 2}, .padding = {0, 1}, .groups = 2});
  // Elements after each row keep columns of a transposed tile in different banks.
  EXPECT_EQ(shared_bytes_of({x, w, y}, {{"group_rows", 1},
                                        {"row_groups", 2},
                                        {"row_threads", 8},
                                        {"col_threads", 32},
                                        {"col_groups", 4},
                                        {"tile_k", 32},
                                        {"stages", 1}}),
            32 * (16 + 4 + 512 + 4) * 8);
}

// Parts of 160 steps: the last part has 64, so that the loop over its tiles is cut where the
// reduction ends. Both parts of the loop have tiles in flight, in one ring.
TEST(BlockLimits, TheRingsOfACutLoopShareTheirMemory) {
  const Tensor a = placeholder({5, 1184}), b = placeholder({1184, 17}), y = ops::matmul(a, b);
  EXPECT_EQ(shared_bytes_of({a, b, y}, {{"group_rows", 4},
                                        {"row_groups", 2},
                                        {"row_threads", 16},
                                        {"col_threads", 16},
                                        {"col_groups", 2},
                                        {"tile_k", 32},
                                        {"stages", 4},
                                        {"reduction", 1},
                                        {"k_part", 160}}),
            4 * 32 * (128 + 4 + 128 + 4) * 4);
}

TEST(BlockLimits, ResultsAreRight) {
  for (const MemoryBound& p : programs(40, 260)) {
    selftest::RandomProgram program;
    const ComputeDag dag(p.outputs);
    program.inputs = dag.placeholders();
    program.outputs = p.outputs;
    program.text = p.name;
    const Schedule s = create_schedule(
        p.outputs, h200(),
        {.block_threads = 128, .block_shared_bytes = 16 << 10, .use_records = false});
    const selftest::Case want(program, 3);
    const std::vector<NDArray> arrays = want.fresh_arrays();
    selftest::emulated(5)(s, program.args(), arrays);
    EXPECT_EQ(want.difference(arrays), "") << p.name;
  }
}

TEST(BlockLimits, WithoutThemNothingChanges) {
  for (const MemoryBound& p : programs(96, 260)) {
    const ComputeDag dag(p.outputs);
    const Template all = make_template(dag, h200());
    const Gpu gpu = h200().gpu;
    const Template same = make_template(
        dag, h200(),
        {.block_threads = gpu.threads_per_block, .block_shared_bytes = gpu.smem_per_block});
    EXPECT_EQ(same.static_schedule().to_text(), all.static_schedule().to_text()) << p.name;
  }
}

}  // namespace
}  // namespace heddle::testing
