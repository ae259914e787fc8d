// Convolutions by warp groups (wgmma) from windows that TMA loads (im2col): padding, strides,
// dilation, filters of either layout, images of one and of three dimensions. What the emulator
// makes of the kernels is what the interpreter makes of the declaration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/emulator.h"
#include "heddle/ops/ops.h"
#include "meta_templates/emulated_schedule.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Form {
  DataType type = f16;
  int64_t n = 2, c = 64, h = 9, w = 7, k = 72, r = 3;
  int64_t stride = 1, pad = 1, dilation = 1;
  bool filters_first = false;  ///< filters are k x r x r x c, and not r x r x c x k
  bool epilogue = false;
};

// A convolution of an image that is padded with zeros, as a sum over taps and channels.
selftest::RandomProgram convolution(const Form& f) {
  selftest::RandomProgram p;
  const Tensor x = placeholder({f.n, f.h, f.w, f.c}, f.type, "X");
  const Tensor filters = f.filters_first ? placeholder({f.k, f.r, f.r, f.c}, f.type, "W")
                                         : placeholder({f.r, f.r, f.c, f.k}, f.type, "W");
  p.inputs = {x, filters};
  ops::Conv at;
  at.stride = {f.stride};
  at.padding = {f.pad};
  at.dilation = {f.dilation};
  at.layout = ops::NHWC;
  Tensor y;
  if (f.filters_first) {
    const Tensor padded = f.pad == 0 ? x : ops::pad(x, {0, f.pad, f.pad, 0}, {0, f.pad, f.pad, 0});
    const DataType sum_type = f.type.is_float() ? f32 : i32;
    const auto points = [&](int64_t extent) {
      return (extent + 2 * f.pad - f.dilation * (f.r - 1) - 1) / f.stride + 1;
    };
    const Axis rh = reduce_axis(f.r, "rh"), rw = reduce_axis(f.r, "rw"),
               rc = reduce_axis(f.c, "rc");
    y = compute(
        {f.n, points(f.h), points(f.w), f.k},
        [&](const std::vector<Axis>& i) {
          return sum(cast(sum_type, padded(i[0], i[1] * f.stride + rh * f.dilation,
                                           i[2] * f.stride + rw * f.dilation, rc)) *
                         cast(sum_type, filters(i[3], rh, rw, rc)),
                     {rh, rw, rc});
        },
        "conv");
  } else {
    y = ops::conv2d(x, filters, at);
  }
  if (f.epilogue) {
    p.inputs.push_back(placeholder(y.shape(), y.dtype(), "residual"));
    y = ops::relu(ops::add(y, p.inputs.back()));
  }
  p.outputs = {y};
  p.reduce_length = f.r * f.r * f.c;
  p.allow_tf32 = f.type == f32;
  p.text = to_string(f.type) + " n" + std::to_string(f.n) + " c" + std::to_string(f.c) + " h" +
           std::to_string(f.h) + " w" + std::to_string(f.w) + " k" + std::to_string(f.k) + " r" +
           std::to_string(f.r) + " stride " + std::to_string(f.stride) + " pad " +
           std::to_string(f.pad) + " dilation " + std::to_string(f.dilation) +
           (f.filters_first ? " filters first" : "");
  return p;
}

std::string check(const Form& f, const Knobs& knobs = {}) {
  const selftest::RandomProgram p = convolution(f);
  std::string text = check_emulated(p, schedule(p, knobs));
  EXPECT_THAT(text, HasSubstr(".windows")) << p.text;
  return text;
}

TEST(Windows, BothLayoutsOfFilters) {
  for (const bool first : {false, true}) {
    check({.filters_first = first});
    check({.type = bf16, .n = 1, .c = 128, .filters_first = first});
    check({.c = 128, .r = 1, .stride = 2, .pad = 0, .filters_first = first});
    check({.c = 104, .r = 1, .stride = 2, .pad = 0, .filters_first = first});  // steps and a part
  }
}

TEST(Windows, StridesPaddingAndDilation) {
  check({.stride = 2});
  check({.h = 8, .w = 8, .stride = 2});
  check({.pad = 0});
  check({.pad = 2, .dilation = 2});
  check({.n = 3, .h = 5, .w = 11, .r = 5, .stride = 3, .pad = 2});
  check({.n = 1, .h = 16, .w = 16});  // rows of windows end with rows of the image
  check({.n = 2, .h = 64, .w = 3, .k = 32});
}

TEST(Windows, TilesPairsAndEpilogues) {
  check({.n = 4, .k = 136, .epilogue = true}, {2, 2, 128, 2});
  check({.n = 4, .h = 8, .w = 8}, {1, 2, 64, 3, 2, 1});
  check({.n = 4, .h = 8, .w = 8}, {1, 1, 64, 3, 4, 0});
}

TEST(Windows, FewRows) {
  for (const int64_t w : {3, 9}) check({.n = 1, .c = 128, .h = 2, .w = w});  // 6 and 18 rows
  check({.n = 1, .h = 11, .w = 3, .k = 136});
}

// The padded image in memory, and padding by TMA.
TEST(Windows, APaddedCopyIsReadToo) {
  check({}, {.location = 0});
  check({.stride = 2}, {.location = 0});
}

TEST(Windows, OtherTypes) {
  check({.type = f32, .c = 32, .filters_first = true});
  check({.type = i8, .c = 128, .k = 80, .filters_first = true});
  check({.type = f8e4m3, .c = 128, .filters_first = true});
}

TEST(Windows, OthersStayWithMmaSync) {
  const AutoSchedulerOptionsScope scope(options());
  const auto unit = [](const Form& f) {
    return make_template(ComputeDag(convolution(f).outputs), h200()).knob_index("unit");
  };
  EXPECT_GE(unit({}), 0);
  EXPECT_EQ(unit({.r = 1, .pad = 0}), -1) << "a single step of the depth";
  EXPECT_EQ(unit({.c = 48}), -1) << "channels of several taps are no whole rows of boxes";
  EXPECT_EQ(unit({.h = 40, .w = 40, .stride = 9}), -1) << "a stride that tensor maps do not have";
  EXPECT_EQ(unit({.type = i8, .c = 128}), -1) << "bytes across the depth";
  EXPECT_EQ(unit({.k = 20}), -1) << "filters whose rows are no multiple of 16 bytes";
}

TEST(Windows, AreChosenForLargeConvolutions) {
  const AutoSchedulerOptionsScope scope(options());
  const selftest::RandomProgram p = convolution({.n = 32, .c = 256, .h = 14, .w = 14, .k = 256});
  EXPECT_THAT(to_string(lower_gpu(create_schedule(p.outputs, h200()), p.args())),
              HasSubstr(".windows"));
}

TEST(Windows, CompileWithoutWarnings) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const selftest::RandomProgram p =
      convolution({.n = 32, .c = 256, .h = 16, .w = 16, .k = 256, .epilogue = true});
  for (const Knobs& knobs : {Knobs{1, 2, 128, 4}, Knobs{1, 2, 256, 3, 2, 1}}) {
    const cuda::Cubin cubin =
        cuda::compile_cuda(emit_cuda(lower_gpu(schedule(p, knobs), p.args())), "sm_90a");
    EXPECT_THAT(cubin.warnings, IsEmpty()) << cubin.log;
    for (const cuda::KernelResources& use : cubin.kernels) EXPECT_EQ(use.spill_stores, 0);
  }
}

Stmt changed(const Stmt& s, const std::function<Stmt(const Stmt&)>& change) {
  if (!s) return s;
  if (s.as<TileOp>()) return change(s);
  return map_children(
      s, [&](const Stmt& c) { return changed(c, change); }, [](const Expr& e) { return e; });
}

TEST(Windows, TheEmulatorFindsRowsThatBeginAtNoWindow) {
  const selftest::RandomProgram p = convolution({.stride = 2});
  GpuProgram lowered = lower_gpu(schedule(p, {}), p.args());
  lowered.main[0].body = changed(lowered.main[0].body, [](const Stmt& s) {
    const auto* load = tile_operation<tile::BulkLoad>(s);
    if (!load || load->windows.empty()) return s;
    std::vector<TileOperand> operands = s.as<TileOp>()->operands;
    operands[2].index = operands[2].index + Expr(1);
    return make_tile_op(*load, operands);
  });
  const selftest::Case want(p, 3);
  try {
    emulate(lowered, want.fresh_arrays(), {.seed = 1});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.message, HasSubstr("begin at none"));
  }
}

}  // namespace
}  // namespace heddle::testing
