// The CUDA meta-templates: every config computes the results of the declaration. Loops that are
// bound to blocks and threads run one after the other here (the sequential form).
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/cuda.h"
#include "meta_templates/check_configs.h"

namespace heddle::testing {
namespace {

TEST(CudaTemplates, EvenRows) { check(row_programs(24, 512), 4, 1); }
TEST(CudaTemplates, OddRows) { check(row_programs(37, 301), 4, 2); }
TEST(CudaTemplates, ShortRows) { check(row_programs(67, 12), 3, 3); }
TEST(CudaTemplates, LongRows) { check(row_programs(2, 9216), 1, 4); }
TEST(CudaTemplates, TallColumns) { check(row_programs(4099, 4), 1, 5); }
TEST(CudaTemplates, OneRow) { check(row_programs(1, 130), 2, 6); }
TEST(CudaTemplates, Images) { check(image_programs(2, 3, 10), 3, 7); }
TEST(CudaTemplates, WideImages) { check(image_programs(1, 5, 35), 2, 8); }
TEST(CudaTemplates, HalfRows) { check(row_programs(10, 256, f16), 2, 9); }
TEST(CudaTemplates, Contractions) {
  // A thread an element, of anything.
  AutoSchedulerOptionsScope naive({.force_template = "cuda_naive"});
  check(contraction_programs(), 3, 10);
}
TEST(CudaTemplates, Vectors) { check(vector_programs(), 6, 11); }

// Long rows and columns of few: cut into parts, a second kernel combines them.
TEST(CudaTemplates, CutReductions) {
  const Tensor row = placeholder({2, 70000}, f32, "row"), flat = placeholder({40001}, f32, "flat");
  const Tensor tall = placeholder({5000, 24}, f32, "tall"),
               all = placeholder({300, 130}, f32, "all");
  check({{"row", {ops::sum(row, {1})}},
         {"row_max", {ops::max(row, {1}, true)}},
         {"softmax", {ops::softmax(row)}},
         {"flat", {ops::max(flat, {})}},
         {"flat_argmax", {ops::argmax(flat, 0)}},
         {"tall", {ops::mean(tall, {0})}},
         {"all", {ops::mean(all, {})}}},
        2, 12);
}

// Statistics of the channels of images: several axes are summed, and taken as one.
TEST(CudaTemplates, SumsOverSeveralAxes) {
  std::vector<MemoryBound> programs;
  for (const int64_t side : {3, 7, 12}) {
    const Tensor planes = placeholder({5, 6, side, side}, f32, "planes"),
                 channels = placeholder({5, side, side, 36}, f16, "channels");
    programs.push_back({"planes", {ops::mean(planes, {0, 2, 3})}});
    programs.push_back({"planes_max", {ops::max(planes, {0, 3}, true)}});
    programs.push_back({"channels", {ops::mean(channels, {0, 1, 2})}});
  }
  check(programs, 3, 13);
}

// The gradient of the filters, which has few results and no product of matrices.
TEST(CudaTemplates, FiltersOfDepthwiseConvolutions) {
  std::vector<MemoryBound> programs;
  for (const ops::Layout layout : {ops::NCHW, ops::NHWC}) {
    const bool planes = layout == ops::NCHW;
    ops::Conv conv{.padding = {1, 1}};
    conv.layout = layout;
    const Tensor x = placeholder(planes ? Shape{3, 8, 12, 12} : Shape{3, 12, 12, 8}, f32, "x"),
                 w = placeholder(planes ? Shape{8, 1, 3, 3} : Shape{3, 3, 1, 8}, f32, "w");
    const Tensor y = ops::depthwise_conv2d(x, w, conv);
    programs.push_back({planes ? "planes" : "channels",
                        gradient({y}, {w}, {placeholder(y.shape(), f32, "head")})});
  }
  check(programs, 3, 14);
}

// The last block to finish combines the parts, or a kernel of its own.
TEST(CudaTemplates, ResultOfAllIsOneKernelOrTwo) {
  const Tensor x = placeholder({512, 512}, f32, "x");
  const ComputeDag dag({ops::mean(x, {})});
  const Template t = make_template(dag, h200());
  Config c = t.default_config();
  const auto knob = static_cast<size_t>(t.knob_index("one_launch"));
  ASSERT_LT(knob, c.values.size());
  for (const int64_t one : {1, 0}) {
    c.values[knob] = one;
    const Schedule s = t.instantiate(c);
    const GpuProgram g = lower_gpu(s, all_args(s.dag()));
    EXPECT_EQ(g.main.size(), one ? 1u : 2u);
    EXPECT_EQ(static_cast<bool>(g.main[0].tail), one == 1);
    EXPECT_EQ(wrong(s), "");
  }
}

// Rows that no block has registers for are kept by clusters of them, and read once.
TEST(CudaTemplates, LongRowsAreReadOnceByClusters) {
  for (const char* name : {"softmax", "log_softmax", "layer_norm", "rms_norm"}) {
    const MemoryBound p = row_program(name, 256, 65536);
    const Template t = make_template(ComputeDag(p.outputs), h200());
    const Schedule s = t.instantiate(t.default_config());  // (no record)
    const GpuProgram g = lower_gpu(s, all_args(s.dag()));
    ASSERT_EQ(g.main.size(), 1u) << name;
    EXPECT_GT(g.main[0].cluster, 1) << name;
    int reads = 0;
    visit(
        g.main[0].body, [](const Stmt&) {},
        [&](const Expr& e) {
          const Load* load = e.as<Load>();
          reads += load && load->buffer->name == "x";
        });
    EXPECT_EQ(reads, 1) << name;
    // A GPU without clusters reads it again.
    const Template a100 = make_template(ComputeDag(p.outputs), Target::parse("cuda -gpu=a100"));
    EXPECT_EQ(a100.knob_index("cluster"), -1) << name;
  }
}

// Every number of blocks and threads a row, of even and of odd rows.
TEST(CudaTemplates, ClustersOfEverySize) {
  for (const int64_t n : {8192, 5003}) {
    const Tensor x = placeholder({2, n}, f32, "x");
    for (const Tensor& y : {ops::softmax(x), ops::argmax(x, 1)}) {
      const Template t = make_template(ComputeDag({y}), h200());
      Config c = t.default_config();
      auto set = [&](const char* name, int64_t value) {
        const int k = t.knob_index(name);
        if (k >= 0) c.values[static_cast<size_t>(k)] = value;
      };
      set("resident", 1);
      set("rows_per_block", 1);
      set("split_reduction", 0);
      int legal = 0;
      for (const int64_t blocks : {2, 4, 8}) {
        for (const int64_t threads : {blocks * 32, blocks * 128, int64_t{2048}}) {
          set("cluster", blocks);
          set("threads", threads);
          if (!t.why_invalid(c).empty()) continue;  // too short, or too many registers
          ++legal;
          const Schedule s = t.instantiate(c);
          EXPECT_EQ(wrong(s), "") << t.config_to_json(c).dump();
          EXPECT_EQ(lower_gpu(s, all_args(s.dag())).main[0].cluster, blocks);
        }
      }
      EXPECT_GE(legal, 3);
    }
  }
}

// An update of filters whose gradient lies in another order, and one whose elements lie in threes.
TEST(CudaTemplates, TilesHaveTheTapsOfFilters) {
  std::vector<MemoryBound> programs;
  for (const auto& [k, c, side] :
       {std::array{40, 24, 3}, std::array{64, 32, 1}, std::array{33, 17, 2}}) {
    const Tensor m = placeholder({k, c, side, side}, f32, "m"),
                 g = placeholder({side, side, c, k}, bf16, "g");
    programs.push_back({"update", {compute({k, c, side, side}, [&](Axis i, Axis j, Axis y, Axis x) {
                          return m(i, j, y, x) * 0.9f + cast(f32, g(y, x, j, i));
                        })}});
  }
  for (const MemoryBound& p : programs) {
    const GpuProgram g =
        lower_gpu(create_schedule(p.outputs, h200()), all_args(ComputeDag(p.outputs)));
    EXPECT_GT(g.main[0].shared_bytes, 0);
  }
  check(programs, 4, 12);
}

// A row that fits the registers is read once.
TEST(CudaTemplates, RowsAreReadOnce) {
  for (const char* name : {"softmax", "log_softmax", "layer_norm", "rms_norm"}) {
    const MemoryBound p = row_program(name, 512, 4096);
    const Schedule s = create_schedule(p.outputs, h200());
    const GpuProgram g = lower_gpu(s, all_args(s.dag()));
    ASSERT_EQ(g.main.size(), 1u) << name;
    int reads = 0, arrays = 0;
    visit(
        g.main[0].body,
        [&](const Stmt& x) {
          const Allocate* a = x.as<Allocate>();
          arrays += a && a->buffer->scope == Scope::Shared && a->buffer.num_elements() > 32;
        },
        [&](const Expr& e) {
          const Load* load = e.as<Load>();
          reads += load && load->buffer->name == "x";
        });
    EXPECT_EQ(reads, 1) << name;
    EXPECT_EQ(arrays, 0) << name;
  }
}

// What the templates write compiles, and its registers hold what they should.
TEST(CudaTemplates, DefaultsDoNotSpill) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  for (const char* name : {"softmax", "transpose", "gelu", "column_sum", "full_sum"}) {
    for (const MemoryBound& p : {row_program(name, 4096, 4096), row_program(name, 256, 65536)}) {
      const Template t = make_template(ComputeDag(p.outputs), h200());
      const Schedule s = t.instantiate(t.default_config());
      const cuda::Cubin cubin =
          cuda::compile_cuda(emit_cuda(lower_gpu(s, all_args(s.dag()))), "sm_90a");
      EXPECT_FALSE(cubin.kernels.empty()) << name;
      for (const cuda::KernelResources& use : cubin.kernels) {
        EXPECT_EQ(use.spill_stores, 0) << name << " " << use.kernel;
        EXPECT_LE(use.registers, 64) << name << " " << use.kernel;
      }
    }
  }
}

// Tiles that divide no extent of a product have loops of constant length, so their accumulators are
// registers.
TEST(CudaTemplates, AccumulatorsOfUnevenTilesAreRegisters) {
  AutoSchedulerOptions options;
  options.use_records = options.use_alternatives = false;
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {97, 16, 8192}, {209, 78, 6079}, {97, 128, 1024}, {37, 21, 300}, {1286, 1300, 1276}}) {
    const Tensor y = ops::matmul(placeholder({m, k}, f32, "A"), placeholder({k, n}, f32, "B"));
    const Schedule s = create_schedule({y}, h200(), options);
    const std::string text = emit_cuda(lower_gpu(s, all_args(s.dag())));
    EXPECT_EQ(text.find("local = (float*)smem"), std::string::npos) << m << "x" << n << "x" << k;
    if (m * n * k < 1 << 20) {
      EXPECT_EQ(wrong(s), "") << m << "x" << n << "x" << k;
    }
  }
}

// A grid has less than 65,536 blocks along y and z.
TEST(CudaTemplates, ManyBatchesFitAGrid) {
  AutoSchedulerOptions options;
  options.use_records = options.use_alternatives = false;
  for (const DataType type : {f32, f16}) {
    const Tensor y = ops::matmul(placeholder({70000, 9, 17}, type, "A"),
                                 placeholder({70000, 17, 10}, type, "B"));
    const Schedule s = create_schedule({y}, h200(), options);
    const GpuProgram p = lower_gpu(s, all_args(s.dag()));
    for (const GpuKernel& k : p.main) {
      EXPECT_LT(k.grid[1], 65536) << to_string(type);
      EXPECT_LT(k.grid[2], 65536) << to_string(type);
    }
  }
}

// Products of sizes that tiles do not divide, in every layout, with all knobs.
TEST(CudaTemplates, UnevenProducts) {
  const auto matmul = [](int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
    const std::vector<int64_t> a = ta ? std::vector{k, m} : std::vector{m, k},
                               b = tb ? std::vector{n, k} : std::vector{k, n};
    return ops::matmul(placeholder(a, f32, "A"), placeholder(b, f32, "B"), ta, tb);
  };
  check({{"nn", {matmul(33, 21, 70, false, false)}},
         {"tn", {matmul(5, 36, 131, true, false)}},
         {"nt", {matmul(65, 9, 130, false, true)}},
         {"tt", {matmul(18, 13, 97, true, true)}},
         {"few", {matmul(2, 5, 515, false, false)}},
         {"row", {matmul(1, 44, 131, false, false)}},
         {"epilogue", {ops::relu(matmul(19, 30, 150, false, false))}},
         {"batch",
          {ops::batch_matmul(placeholder({3, 17, 45}, f32, "A"),
                             placeholder({3, 45, 11}, f32, "B"))}}},
        4, 21);
}

// Tiles at the end of an operand are as wide as all others, with zeros: 16 bytes are copied at a
// time, and no index is divided by a width that depends on the block.
TEST(CudaTemplates, UnevenTilesAreCopiedWhole) {
  AutoSchedulerOptions options;
  options.use_records = options.use_alternatives = false;
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {2, 400, 26679}, {33, 100, 999}, {5, 36, 333}, {3, 5, 515}, {1, 44, 515}}) {
    const Tensor y = ops::matmul(placeholder({m, k}, f32, "A"), placeholder({k, n}, f32, "B"));
    const Schedule s = create_schedule({y}, h200(), options);
    const std::string text = emit_cuda(lower_gpu(s, all_args(s.dag())));
    if (n % 4 == 0 && m > 1) {
      EXPECT_NE(text.find("cp_async_16"), std::string::npos) << text;
    }
    EXPECT_EQ(text.find("/ i"), std::string::npos) << m << "x" << n << "x" << k;
    if (k < 1000) {
      EXPECT_EQ(wrong(s), "") << m << "x" << n << "x" << k;
    }
  }
}

TEST(CudaTemplates, CreateScheduleBindsEveryKernel) {
  for (const MemoryBound& p : row_programs(64, 128)) {
    for (const Schedule& s :
         {create_schedule(p.outputs, h200()), naive_schedule(p.outputs, h200())}) {
      EXPECT_EQ(wrong(s), "") << p.name;
      for (const GpuKernel& k : lower_gpu(s, all_args(s.dag())).main) {
        if (p.name.rfind("full_", 0) == 0) continue;  // one value
        EXPECT_GT(k.grid[0] * k.block[0], 1) << p.name << " " << k.name;
      }
    }
  }
}

}  // namespace
}  // namespace heddle::testing
