// Convolutions on the tensor cores: images and filters of either layout, strided, dilated, padded,
// grouped, of channels that vectors divide and do not. What the emulator makes of the kernels is
// what the interpreter makes of the declaration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "dag/rewrites/legal_rewrites.h"
#include "heddle/ops/ops.h"
#include "meta_templates/emulated_schedule.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Form {
  DataType type = f16;
  int64_t n = 2, c = 16, h = 9, w = 7, k = 24, r = 3;
  int64_t stride = 1, pad = 1, dilation = 1, groups = 1;
  bool nhwc = true, epilogue = false;
  bool fixed = false;  ///< the filters are a constant
};

selftest::RandomProgram convolution(const Form& f) {
  selftest::RandomProgram p;
  const int64_t group = f.c / f.groups;
  const Tensor x =
      placeholder(f.nhwc ? Shape{f.n, f.h, f.w, f.c} : Shape{f.n, f.c, f.h, f.w}, f.type, "X");
  const Extents filters = f.nhwc ? Extents{f.r, f.r, group, f.k} : Extents{f.k, group, f.r, f.r};
  const Tensor w = f.fixed ? constant(NDArray::random(filters, f.type, 5), "W")
                           : placeholder(Shape(filters.begin(), filters.end()), f.type, "W");
  p.inputs = {x, w};
  ops::Conv at;
  at.stride = {f.stride};
  at.padding = {f.pad};
  at.dilation = {f.dilation};
  at.groups = f.groups;
  at.layout = f.nhwc ? ops::NHWC : ops::NCHW;
  Tensor y = ops::conv2d(x, w, at);
  if (f.epilogue) {
    p.inputs.push_back(placeholder(y.shape(), y.dtype(), "residual"));
    y = ops::relu(ops::add(y, p.inputs.back()));
  }
  p.outputs = {y};
  p.reduce_length = f.r * f.r * group;
  p.allow_tf32 = f.type == f32;
  p.text = to_string(f.type) + (f.nhwc ? " nhwc" : " nchw") + " c" + std::to_string(f.c) + " k" +
           std::to_string(f.k) + " r" + std::to_string(f.r) + " stride " +
           std::to_string(f.stride) + " pad " + std::to_string(f.pad) + " dilation " +
           std::to_string(f.dilation) + " groups " + std::to_string(f.groups);
  return p;
}

std::string check(const Form& f) {
  const selftest::RandomProgram p = convolution(f);
  return check_emulated(p, create_schedule(p.outputs, h200()));
}

// The static choice, but for warp groups, which load tiles by TMA.
Schedule by_mma_sync(const selftest::RandomProgram& p) {
  const Template t = make_template(ComputeDag(p.outputs), h200());
  Config c = t.default_config();
  const int unit = t.knob_index("unit");
  if (unit >= 0) c.values[static_cast<size_t>(unit)] = 0;
  return t.instantiate(c);
}

TEST(TensorCoreConvolution, EveryTypeInBothLayouts) {
  const AutoSchedulerOptionsScope scope(options());
  for (const DataType t : {f16, bf16, i8, u8, f32}) {
    for (const bool nhwc : {true, false}) {
      EXPECT_THAT(check({.type = t, .nhwc = nhwc}), HasSubstr("mma."));
      EXPECT_THAT(check({.type = t, .r = 1, .pad = 0, .nhwc = nhwc}), HasSubstr("mma."));
    }
  }
}

TEST(TensorCoreConvolution, StridesDilationsGroupsAndChannelsOfAnyNumber) {
  const AutoSchedulerOptionsScope scope(options());
  for (const bool nhwc : {true, false}) {
    EXPECT_THAT(check({.stride = 2, .nhwc = nhwc}), HasSubstr("mma."));
    EXPECT_THAT(check({.pad = 2, .dilation = 2, .nhwc = nhwc}), HasSubstr("mma."));
    EXPECT_THAT(check({.c = 32, .k = 32, .groups = 2, .nhwc = nhwc}), HasSubstr("mma."));
    EXPECT_THAT(check({.c = 12, .k = 18, .groups = 3, .nhwc = nhwc}), HasSubstr("mma."));
    EXPECT_THAT(check({.c = 32, .k = 16, .groups = 4, .nhwc = nhwc}), HasSubstr("mma."));
    EXPECT_THAT(check({.c = 3, .k = 8, .r = 5, .stride = 2, .nhwc = nhwc}), HasSubstr("mma."));
    EXPECT_THAT(check({.c = 6, .k = 5, .nhwc = nhwc}), HasSubstr("mma."));
    EXPECT_THAT(check({.r = 1, .stride = 2, .pad = 0, .nhwc = nhwc}), HasSubstr("mma."));
    EXPECT_THAT(check({.nhwc = nhwc, .epilogue = true}), HasSubstr("mma."));
  }
}

TEST(TensorCoreConvolution, DeepOnesAreCutInParts) {
  const AutoSchedulerOptionsScope scope(options());
  const Form f{.n = 1, .c = 128, .h = 4, .w = 4, .k = 16};
  const selftest::RandomProgram p = convolution(f);
  const Template t = make_template(ComputeDag(p.outputs), h200());
  Config c = t.default_config();
  c.values[static_cast<size_t>(t.knob_index("reduction"))] = 1;
  const selftest::Case want(p, 3, t.options().allow_tf32);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(t.instantiate(c), p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
}

/// The last legal rewrite whose name begins with `rule`; "" where there is none.
std::string last_legal(const ComputeDag& dag, const std::string& rule) {
  std::string name;
  for (const std::string& legal : legal_rewrites(dag, h200())) {
    if (legal.starts_with(rule)) name = legal;
  }
  return name;
}

// Three channels are padded to four, so that each tap is a vector of eight bytes, or of bytes one of four.
TEST(TensorCoreConvolution, FewChannelsAreOneVector) {
  const AutoSchedulerOptionsScope scope(options());
  const std::string pads = "pad_product(to=4)@";
  const auto chosen = [](const Form& f) {
    return choose_alternative(ComputeDag(convolution(f).outputs), h200(), {});
  };
  const Form large{.n = 32, .c = 3, .h = 224, .w = 224, .k = 64, .r = 7, .stride = 2, .pad = 3};
  EXPECT_THAT(chosen(large), HasSubstr(pads));
  EXPECT_EQ(chosen({.n = 1, .c = 3, .h = 32, .w = 32, .k = 16}), "")
      << "it is too small for a copy";
  Form small = large;  // windows
  small.r = 3;
  small.pad = 1;
  EXPECT_EQ(chosen(small), "") << "a tile holds the sum, and its elements wait once";
  const ComputeDag whole(convolution(large).outputs);
  const Template two =
      make_template(apply_alternative(whole, choose_alternative(whole, h200(), {})), h200());
  EXPECT_EQ(two.default_config().values.at(static_cast<size_t>(two.knob_index("stages"))), 2)
      << "two blocks share an SM";
  for (const Form& f : {Form{.c = 3, .h = 12, .w = 10, .k = 24, .r = 7, .stride = 2, .pad = 3},
                        Form{.type = i8, .c = 3, .h = 12, .w = 10, .k = 24, .r = 7, .stride = 2},
                        Form{.type = bf16, .c = 3, .pad = 0, .epilogue = true}}) {
    const selftest::RandomProgram p = convolution(f);
    const ComputeDag dag(p.outputs);
    const std::string name = last_legal(dag, pads);
    ASSERT_NE(name, "") << p.text;
    const Template t = make_template(apply_alternative(dag, name), h200());
    EXPECT_THAT(
        check_emulated(p, t.instantiate(t.default_config())),
        ::testing::ContainsRegex("async conv2d_padded.rows.ramp.*conv2d_padded_left.ramp.*1, 4"));
  }
}

TEST(TensorCoreConvolution, DepthwiseOnesAreLeftToOthers) {
  const AutoSchedulerOptionsScope scope(options());
  EXPECT_THAT(check({.c = 16, .k = 16, .groups = 16}), Not(HasSubstr("mma.")));
}

// Of few filters or pixels, too, the accumulators are registers of the threads that they belong to.
TEST(ViewedConvolution, AccumulatorsStayInRegisters) {
  const AutoSchedulerOptionsScope scope(options());
  Rng rng(1);
  for (const int64_t k : {1, 2, 4, 5, 8}) {
    for (const int64_t side : {1, 2, 7}) {
      const selftest::RandomProgram p = convolution(
          {.type = f64, .n = 1, .c = 8, .h = side, .w = side, .k = k, .nhwc = side != 7});
      SCOPED_TRACE(p.text);
      const Template t = make_template(ComputeDag(p.outputs), h200());
      for (int i = 0; i < 10; ++i) {
        const Config c = selftest::random_config(t, rng);
        for (const GpuKernel& kernel : lower_gpu(t.instantiate(c), p.args()).main) {
          for (const GpuKernel::SharedSlot& slot : kernel.shared)
            EXPECT_EQ(slot.buffer->name.find(".product"), std::string::npos)
                << slot.buffer->name << " " << t.config_to_json(c).dump();
        }
      }
    }
  }
}

/// The schedule of `dag` by warp groups, of tiles of 64 x 64; nullopt where it takes none.
std::optional<Schedule> by_warp_groups(const ComputeDag& dag) {
  const Template t = make_template(dag, h200());
  Config c = t.default_config();
  // Of several groups the knobs have the group's name before theirs.
  const auto set = [&](const std::string& knob, int64_t value) {
    bool found = false;
    for (size_t i = 0; i < t.knobs().size(); ++i) {
      const std::string& name = t.knobs()[i].name;
      if (name != knob && !name.ends_with("." + knob)) continue;
      c.values[i] = value;
      found = true;
    }
    return found;
  };
  if (!set("unit", 1)) return std::nullopt;
  set("group_tiles", 1);
  set("groups", 1);
  set("group_cols", 64);
  set("group_stages", 3);
  set("group_store", 0);
  set("raster", 1);
  return t.instantiate(c);
}

// With a stride the rows of an image do not follow each other. Images alone would fill half of a tile: all windows
// are rows together.
TEST(TensorCoreConvolution, StridedOnesOfFewImagesAreWindows) {
  const AutoSchedulerOptionsScope scope(options());
  for (const Form& f : {Form{.n = 32, .c = 96, .h = 5, .w = 6, .k = 64},
                        Form{.type = bf16, .n = 5, .c = 80, .h = 9, .w = 7, .k = 72},
                        Form{.type = i8, .n = 32, .c = 160, .h = 5, .w = 6, .k = 64}}) {
    selftest::RandomProgram p;
    const Tensor x = placeholder({f.n, f.h, f.w, f.c}, f.type, "X"),
                 w = placeholder({f.k, f.c, 1, 1}, f.type, "W");
    const Axis c = reduce_axis(f.c, "c"), r = reduce_axis(1, "r"), q = reduce_axis(1, "q");
    const DataType sums = f.type == i8 ? i32 : f32;
    p.inputs = {x, w};
    p.outputs = {compute(
        {f.n, (f.h + 1) / 2, (f.w + 1) / 2, f.k},
        [&](Axis n, Axis i, Axis j, Axis k) {
          return sum(cast(sums, x(n, i * 2 + r, j * 2 + q, c)) * cast(sums, w(k, c, r, q)),
                     {c, r, q});
        },
        "y")};
    p.reduce_length = f.c;
    const ComputeDag dag(p.outputs);
    const std::string name = last_legal(dag, "matrix_product");
    ASSERT_NE(name, "");
    const std::optional<Schedule> s = by_warp_groups(apply_alternative(dag, name));
    ASSERT_TRUE(s);
    EXPECT_THAT(emit_cuda(lower_gpu(*s, p.args())), HasSubstr("window_load_"));
    check_emulated(p, *s);
  }
}

// Channels become a row of a box, and TMA writes the zeros behind them: no image is copied.
TEST(TensorCoreConvolution, ChannelsGrowToRowsOfBoxes) {
  const AutoSchedulerOptionsScope scope(options());
  const std::string pads = "pad_product(to=64)@";
  const auto chosen = [](const Form& f) {
    return choose_alternative(ComputeDag(convolution(f).outputs), h200(), {});
  };
  Form large{.n = 32, .c = 32, .h = 56, .w = 56, .k = 128, .fixed = true};
  for (const int64_t c : {32, 48, 96, 160}) {
    large.c = c;
    EXPECT_THAT(chosen(large), HasSubstr(pads)) << c;
  }
  large.c = 16;
  EXPECT_EQ(chosen(large), "") << "most would be zeros";
  EXPECT_EQ(chosen({.n = 32, .c = 96, .h = 56, .w = 56, .k = 128}), "")
      << "filters are no constant";
  EXPECT_EQ(chosen({.n = 1, .c = 96, .h = 14, .w = 14, .k = 96, .fixed = true}), "") << "few tiles";
  for (Form f : {Form{.n = 3, .c = 40, .h = 11, .w = 9, .k = 64},
                 Form{.type = bf16, .n = 3, .c = 96, .h = 9, .w = 12, .k = 72, .pad = 0},
                 Form{.n = 3, .c = 32, .h = 17, .w = 15, .k = 64, .stride = 2}}) {
    f.fixed = true;
    const selftest::RandomProgram p = convolution(f);
    const ComputeDag dag(p.outputs);
    const std::string name = last_legal(dag, pads);
    ASSERT_NE(name, "") << p.text;
    const std::optional<Schedule> s = by_warp_groups(apply_alternative(dag, name));
    ASSERT_TRUE(s) << p.text;
    const GpuProgram program = lower_gpu(*s, p.args());
    EXPECT_THAT(emit_cuda(program), HasSubstr("window_load_")) << p.text;
    int64_t written = 0;
    for (const Buffer& b : program.workspace) {
      int64_t size = 1;
      for (const Expr& extent : b->shape) size *= *as_int(extent);
      written = std::max(written, size);
    }
    EXPECT_LT(written, f.n * f.h * f.w * f.c) << p.text << ": the image is copied";
    EXPECT_THAT(check_emulated(p, *s), HasSubstr("wgmma"));
  }
}

// TMA knows of the ends of an image, and of no other zeros.
TEST(TensorCoreConvolution, MaskedImagesAreNoPaddedOnes) {
  const AutoSchedulerOptionsScope scope(options());
  selftest::RandomProgram p = convolution({.n = 3, .c = 64, .h = 10, .w = 9, .k = 64});
  const Tensor x = placeholder({3, 10, 9, 64}, f16, "X"), w = p.inputs[1];
  const Tensor masked = compute(x.shape(), [&](const std::vector<Axis>& i) -> Expr {
    return select(i[1] > Expr(2), x(i), make_const(f16, 0));
  });
  p.inputs = {x, w};
  for (const int64_t pad : {0, 1}) {
    p.outputs = {ops::conv2d(masked, w, {.padding = {pad}, .layout = ops::NHWC})};
    const std::optional<Schedule> s = by_warp_groups(ComputeDag(p.outputs));
    (void)check_emulated(p, s ? *s : create_schedule(p.outputs, h200()));
  }
}

// Steps of another declaration can mark the loops that read such an image: TMA would load what the mask
// leaves out.
TEST(TensorCoreConvolution, MarkedLoadsOfMaskedImagesAreRefused) {
  const AutoSchedulerOptionsScope scope(options());
  const Tensor x = placeholder({3, 10, 9, 64}, f16, "X"), w = placeholder({3, 3, 64, 64}, f16, "W");
  const auto convolution_from = [&](int64_t first) {
    const Tensor padded = compute(
        {3, 12, 11, 64},
        [&](const std::vector<Axis>& i) -> Expr {
          const Expr inside =
              i[1] >= Expr(first) && i[1] < Expr(11) && i[2] >= Expr(1) && i[2] < Expr(10);
          return select(inside, x(i[0], i[1] - 1, i[2] - 1, i[3]), make_const(f16, 0));
        },
        "padded");
    return ops::conv2d(padded, w, {.layout = ops::NHWC});
  };
  const Tensor plain = convolution_from(1), masked = convolution_from(4);
  const std::optional<Schedule> s = by_warp_groups(ComputeDag({plain}));
  ASSERT_TRUE(s);
  EXPECT_THAT(emit_cuda(lower_gpu(*s, {x, w, plain})), HasSubstr("window_load_"));
  const Schedule same = Schedule::from_json(s->to_json(), ComputeDag({masked}));
  try {
    lower_gpu(same, {x, w, masked});
    FAIL() << "a mask is left out";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("may leave out elements of 'X'"));
  }
}

// What imports write of an axis of one element: its only index. A tile of pixels is still a tile, where
// lines and columns are one axis as well.
TEST(TensorCoreConvolution, TheOnlyImageIsReadAtZero) {
  const AutoSchedulerOptionsScope scope(options());
  const Tensor x = placeholder({1, 56, 56, 64}, i8, "X"), w = placeholder({1, 1, 64, 64}, i8, "W");
  const Tensor product = ops::conv2d(x, w, {.layout = ops::NHWC});
  const Tensor bias = placeholder({64}, i32, "bias");
  const Tensor sum = compute(
      product.shape(), [&](const std::vector<Axis>& i) { return product(i) + bias(i[3]); }, "sum");
  const Tensor y = compute(
      product.shape(),
      [&](Axis, Axis i, Axis j, Axis c) { return max(sum(0, i, j, c), make_const(i32, 0)); }, "y");
  const ComputeDag dag({y});
  for (const std::string& name : legal_rewrites(dag, h200())) {
    SCOPED_TRACE(name);
    const Template t = make_template(apply_alternative(dag, name), h200());
    EXPECT_NO_THROW(lower_gpu(t.instantiate(t.default_config()), {x, w, bias, y}));
  }
}

// Tiles of pixels that end within lines and images: lanes still read what is their own, for all knobs.
TEST(TensorCoreConvolution, ImagesOfAnyHeightAndWidth) {
  const AutoSchedulerOptionsScope scope(options());
  Rng rng(3);
  const auto one_of = [&](const std::vector<int64_t>& all) { return rng.choose(all); };
  std::vector<Form> forms;
  for (const auto& [h, w] :
       {std::pair<int64_t, int64_t>{20, 12}, {6, 3}, {10, 12}, {14, 3}, {5, 3}})
    forms.push_back({.n = 3, .c = 64, .h = h, .w = w, .k = 128});
  for (int i = 0; i < 40; ++i) {
    const int64_t r = one_of({1, 3});
    forms.push_back({.n = one_of({1, 2, 3, 5}),
                     .c = one_of({3, 8, 64}),
                     .h = one_of({2, 5, 7, 12, 20, 30}),
                     .w = one_of({3, 4, 6, 7, 10, 14, 24}),
                     .k = one_of({5, 24, 64, 128}),
                     .r = r,
                     .stride = one_of({1, 2}),
                     .pad = r / 2,
                     .nhwc = rng.chance(0.5)});
  }
  for (const Form& f : forms) {
    const selftest::RandomProgram p = convolution(f);
    SCOPED_TRACE(p.text + " n" + std::to_string(f.n) + " " + std::to_string(f.h) + "x" +
                 std::to_string(f.w));
    const Template t = make_template(ComputeDag(p.outputs), h200());
    for (int i = 0; i < 12; ++i) {
      const Config c = i == 0 ? t.default_config() : selftest::random_config(t, rng);
      EXPECT_NO_THROW(lower_gpu(t.instantiate(c), p.args())) << t.config_to_json(c).dump();
    }
  }
  EXPECT_THAT(check({.n = 3, .c = 16, .h = 20, .w = 12, .k = 32}), HasSubstr("mma."));
}

// Channels side by side are copied by sixteen bytes, with zeros for the padding; no thread loads an
// element by itself, and the padded image is never written.
// The rows of a tile are pixels of several axes: sums wait in shared memory, and lanes store eight channels each.
TEST(TensorCoreConvolution, LanesStorePiecesOfPixels) {
  const auto stored = [](Knobs k, int64_t turns = 0) {
    k.store = 3;
    k.turns = turns;
    return k;
  };
  const auto pieces = [](const Form& f, const Knobs& knobs, int sms) {
    const selftest::RandomProgram p = convolution(f);
    return check_emulated(p, schedule(p, knobs, with_sms(sms)));
  };
  EXPECT_THAT(pieces({.c = 64, .k = 72, .epilogue = true}, stored({1, 2, 64, 2}), 132),
              AllOf(HasSubstr("wgmma"), HasSubstr("product.copy")));
  pieces({.type = bf16, .c = 64, .h = 17, .k = 136, .stride = 2, .epilogue = true},
         stored({2, 1, 128, 2}), 2);
  pieces({.n = 3, .c = 64, .h = 13, .w = 11, .k = 88, .pad = 0}, stored({1, 1, 64, 3}, 1), 2);
  pieces({.n = 3, .c = 64, .h = 13, .w = 11, .k = 64}, stored({2, 1, 64, 3}, 1), 2);
}

TEST(TensorCoreConvolution, TilesComeByAsynchronousCopies) {
  const AutoSchedulerOptionsScope scope(options());
  auto text = [](const Form& f) {
    const selftest::RandomProgram p = convolution(f);
    const GpuProgram program = lower_gpu(by_mma_sync(p), p.args());
    EXPECT_TRUE(program.workspace.empty());
    return emit_cuda(program);
  };
  const std::string image = text({.n = 16, .c = 64, .h = 14, .w = 14, .k = 64});
  EXPECT_THAT(image, HasSubstr("cp_async_16_or_zero("));
  EXPECT_THAT(image, HasSubstr("cp_async_16("));
  EXPECT_THAT(image, Not(HasSubstr("void put16")));
}

TEST(TensorCoreConvolution, CompilesForEveryArchitecture) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const AutoSchedulerOptionsScope scope(options());
  for (const std::string arch : {"sm_80", "sm_89", "sm_90a"}) {
    for (const bool nhwc : {true, false}) {
      const selftest::RandomProgram p =
          convolution({.n = 32, .c = 64, .h = 14, .k = 64, .nhwc = nhwc});
      const std::string text = emit_cuda(lower_gpu(by_mma_sync(p), p.args()));
      const cuda::Cubin cubin = cuda::compile_cuda(text, arch);
      EXPECT_FALSE(cubin.kernels.empty()) << p.text << " " << arch;
      for (const cuda::KernelResources& use : cubin.kernels)
        EXPECT_EQ(use.spill_stores, 0) << p.text << " " << arch;
    }
  }
}

}  // namespace
}  // namespace heddle::testing
