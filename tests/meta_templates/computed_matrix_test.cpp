// Matrices of products that one kernel computes and reduces: sums with a value behind it, transposed
// or not, and sums and maxima of rows, of any number of rows and keys. The emulator's results of the
// kernel equal the interpreter's results of the declaration.
#include "heddle/dag/computed_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/codegen/cuda.h"
#include "heddle/support/rng.h"
#include "meta_templates/attention_forms.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// An H200 of few multiprocessors, which few blocks fill.
Target small_gpu() { return Target::parse("cuda -gpu=h200 -sms=8 -bandwidth=290"); }

enum class Reduced { Rows, Columns, RowSums, RowMaxima };

struct Matrix {
  DataType type = f16;
  int64_t batch = 2, rows = 48, keys = 64, depth = 16, cols = 16;
  Reduced reduced = Reduced::Rows;
  int products = 2;
  bool interleaved = false;  ///< operands are (lines, batch, depth)
  bool turned = false;       ///< the keys of the first product are (batch, depth, keys)
  int64_t heads = 1;         ///< of a group that reads the same keys and values
  bool causal = false;       ///< the matrix is zero after its diagonal
  bool moved = false;        ///< keys and values are (lines, depth) of all of a batch side by side
  bool beside = false;       ///< so are rows, which products read where they lie
};

/// Reads `t` at (b, line, e) whatever its layout is.
Expr at(const Matrix& f, const Tensor& t, const Expr& b, const Expr& line, const Expr& e) {
  return cast(f32, f.interleaved ? t(line, b, e) : t(b, line, e));
}

/// sum(exp(p1 / 4 - l[i]) * (p2 - l[i]), ..), where p1 and p2 are products.
selftest::RandomProgram program(const Matrix& f) {
  selftest::RandomProgram p;
  const auto input = [&](const Shape& shape, DataType type, const char* name) {
    p.inputs.push_back(placeholder(shape, type, name));
    return p.inputs.back();
  };
  const auto operand = [&](int64_t lines, int64_t depth, const char* name, int64_t heads = 1) {
    const int64_t batch = f.batch / heads;
    return input(f.interleaved ? Shape{lines, batch, depth} : Shape{batch, lines, depth}, f.type,
                 name);
  };
  // The heads of (lines, heads * depth), as a projection makes them: a stage that only moves them.
  const auto keys_of = [&](int64_t lines, int64_t depth, const char* name) {
    if (!f.moved) return operand(lines, depth, name, f.heads);
    const Tensor all = input({lines, f.batch * depth}, f.type, name);
    return compute({Expr(f.batch), Expr(lines), Expr(depth)},
                   [&](const std::vector<Axis>& i) { return all(i[1], i[0] * depth + i[2]); });
  };
  const auto of_group = [&](const Axis& b) {
    return f.heads > 1 ? floordiv(b, Expr(f.heads)) : Expr(b);
  };
  const auto rows_at = [&](const Tensor& x, const Axis& b, const Axis& line,
                           const Axis& e) -> Expr {
    return f.beside ? Expr(cast(f32, x(line, b * f.depth + e))) : at(f, x, b, line, e);
  };
  const Tensor stats = input({f.batch, f.rows}, f32, "l");
  std::vector<Tensor> made;
  for (int n = 0; n < f.products; ++n) {
    const Tensor x =
        f.beside ? input({f.rows, f.batch * f.depth}, f.type, "x") : operand(f.rows, f.depth, "x");
    const bool turn = n == 0 && f.turned;
    const Tensor y = turn ? input({f.batch / f.heads, f.depth, f.keys}, f.type, "y")
                          : keys_of(f.keys, f.depth, "y");
    const Axis e = reduce_axis(f.depth, "e");
    made.push_back(compute({Expr(f.batch), Expr(f.rows), Expr(f.keys)},
                           [&](const std::vector<Axis>& i) -> Expr {
                             const Expr key = turn ? Expr(cast(f32, y(of_group(i[0]), e, i[2])))
                                                   : at(f, y, of_group(i[0]), i[2], e);
                             return sum(rows_at(x, i[0], i[1], e) * key, {e});
                           }));
  }
  const bool of_rows = f.reduced == Reduced::RowSums || f.reduced == Reduced::RowMaxima;
  const Tensor matrix =
      compute({Expr(f.batch), Expr(f.rows), Expr(f.keys)}, [&](const std::vector<Axis>& i) -> Expr {
        Expr score = made[0](i[0], i[1], i[2]) * Expr(0.25f);
        if (f.causal) score = select(i[2] <= i[1], score, lowest_value(f32));
        Expr e = exp(score - stats(i[0], i[1]));
        if (f.products > 1) e = e * (made[1](i[0], i[1], i[2]) - stats(i[0], i[1]));
        if (f.reduced == Reduced::RowMaxima)
          return Expr(-1.0f) - e * e;  // zero would be the highest
        return of_rows ? e : Expr(cast(f.type, e));
      });
  if (of_rows) {
    const Axis j = reduce_axis(f.keys, "j");
    p.outputs = {compute({Expr(f.batch), Expr(f.rows)}, [&](const std::vector<Axis>& i) -> Expr {
      const Expr e = matrix(i[0], i[1], j);
      return f.reduced == Reduced::RowSums ? sum(e, {j}) : max(e, {j});
    })};
  } else {
    const bool columns = f.reduced == Reduced::Columns;
    const int64_t lines = columns ? f.rows : f.keys;
    const int64_t heads = columns ? 1 : f.heads;
    const Tensor value = columns ? operand(lines, f.cols, "v") : keys_of(lines, f.cols, "v");
    const Axis j = reduce_axis(lines, "j");
    const Tensor sums = compute({Expr(f.batch), Expr(columns ? f.keys : f.rows), Expr(f.cols)},
                                [&](const std::vector<Axis>& i) -> Expr {
                                  const Expr w =
                                      columns ? matrix(i[0], j, i[1]) : matrix(i[0], i[1], j);
                                  const Expr b = heads > 1 ? of_group(i[0]) : Expr(i[0]);
                                  return sum(cast(f32, w) * at(f, value, b, j, i[2]), {j});
                                });
    p.outputs = {ops::cast(sums, f.type)};
  }
  p.reduce_length = 64;
  p.text = std::string("a matrix of ") + std::to_string(f.rows) + " x " + std::to_string(f.keys);
  return p;
}

void expect_right(const selftest::RandomProgram& p, const Schedule& s) {
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
}

// Runs the static choice, and checks that it is one kernel that stores no matrix.
void check(const Matrix& f) {
  const AutoSchedulerOptionsScope scope(as_declared());
  const selftest::RandomProgram p = program(f);
  SCOPED_TRACE(p.text);
  const Template t = make_template(ComputeDag(p.outputs), small_gpu());
  for (const TemplateRecording::Refusal& refused : t.refusals()) ADD_FAILURE() << refused.why;
  const Schedule s = t.static_schedule();
  expect_right(p, s);
  const GpuProgram lowered = lower_gpu(s, p.args());
  EXPECT_EQ(lowered.main.size(), 1);
  EXPECT_TRUE(lowered.workspace.empty());
  EXPECT_THAT(to_string(lowered), HasSubstr("mma."));
}

TEST(ComputedMatrix, RowsOrColumnsTimesAValue) {
  for (const Reduced r : {Reduced::Rows, Reduced::Columns}) {
    check({.rows = 64, .reduced = r});
    check({.type = bf16, .reduced = r, .products = 1});
    check({.batch = 1, .rows = 69, .keys = 131, .depth = 24, .cols = 24, .reduced = r});
  }
}

TEST(ComputedMatrix, RowsAreReduced) {
  for (const Reduced r : {Reduced::RowSums, Reduced::RowMaxima}) {
    check({.rows = 64, .reduced = r});
    check({.type = bf16, .reduced = r, .products = 1});
    check({.batch = 1, .rows = 69, .keys = 131, .depth = 24, .reduced = r});
  }
}

TEST(ComputedMatrix, OperandsOfOtherLayouts) {
  for (const Reduced r : {Reduced::Rows, Reduced::Columns, Reduced::RowSums}) {
    check({.reduced = r, .interleaved = true});
    check({.keys = 72, .reduced = r, .turned = true});
    check({.rows = 50, .keys = 57, .depth = 9, .cols = 7, .reduced = r, .products = 1});
  }
}

TEST(ComputedMatrix, HeadsOfAGroupReadTheSameKeys) {
  for (const Reduced r : {Reduced::Rows, Reduced::Columns, Reduced::RowSums, Reduced::RowMaxima}) {
    check({.batch = 4, .rows = 64, .reduced = r, .heads = 2});
    check({.batch = 6, .rows = 50, .keys = 57, .reduced = r, .interleaved = true, .heads = 3});
  }
}

TEST(ComputedMatrix, OperandsAreReadThroughWhatMovesThem) {
  for (const Reduced r : {Reduced::Rows, Reduced::Columns, Reduced::RowSums}) {
    check({.rows = 64, .reduced = r, .moved = true});
    check({.batch = 3, .rows = 50, .keys = 57, .reduced = r, .products = 1, .moved = true});
    check({.rows = 64, .depth = 32, .reduced = r, .moved = true, .beside = true});
    check({.batch = 3, .rows = 50, .keys = 57, .reduced = r, .beside = true});
  }
}

TEST(ComputedMatrix, TilesOfZerosAreLeftOut) {
  for (const Reduced r : {Reduced::Rows, Reduced::Columns}) {
    check({.batch = 1, .rows = 200, .keys = 200, .reduced = r, .causal = true});
    check({.batch = 2, .rows = 69, .keys = 131, .depth = 24, .reduced = r, .causal = true});
    check({.batch = 4, .rows = 131, .keys = 69, .reduced = r, .heads = 2, .causal = true});
  }
}

// Rows and keys that warp groups divide, and operands that TMA loads.
TEST(ComputedMatrix, WarpGroupsMultiply) {
  const AutoSchedulerOptionsScope scope(as_declared());
  const Target gpu = small_gpu();
  for (const Reduced r : {Reduced::Rows, Reduced::Columns, Reduced::RowSums, Reduced::RowMaxima}) {
    for (const Matrix& f :
         {Matrix{.batch = 1, .rows = 256, .keys = 256, .depth = 64, .cols = 64, .reduced = r},
          Matrix{.type = bf16,
                 .rows = 128,
                 .keys = 192,
                 .depth = 64,
                 .cols = 128,
                 .reduced = r,
                 .products = 1},
          Matrix{
              .rows = 192, .keys = 256, .depth = 64, .cols = 64, .reduced = r, .interleaved = true},
          Matrix{.rows = 256, .keys = 256, .depth = 64, .cols = 64, .reduced = r, .heads = 2},
          Matrix{.type = bf16,
                 .rows = 128,
                 .keys = 256,
                 .depth = 64,
                 .cols = 64,
                 .reduced = r,
                 .moved = true,
                 .beside = true},
          Matrix{
              .rows = 256, .keys = 256, .depth = 64, .cols = 64, .reduced = r, .causal = true}}) {
      const selftest::RandomProgram p = program(f);
      SCOPED_TRACE(p.text);
      const Template t = make_template(ComputeDag(p.outputs), gpu);
      const Config c = t.default_config();
      expect_right(p, t.instantiate(c));
      EXPECT_THAT(to_string(lower_gpu(t.instantiate(c), p.args())), HasSubstr("wgmma."));
    }
  }
}

TEST(ComputedMatrix, EveryConfigIsRight) {
  const AutoSchedulerOptionsScope scope(as_declared());
  Rng rng(7);
  for (const Matrix& f : {Matrix{.batch = 1, .rows = 70, .keys = 150, .depth = 24},
                          Matrix{.type = bf16, .reduced = Reduced::Columns},
                          Matrix{.rows = 90, .keys = 150, .causal = true},
                          Matrix{.rows = 150, .reduced = Reduced::Columns, .causal = true},
                          Matrix{.keys = 90, .reduced = Reduced::RowMaxima}}) {
    const selftest::RandomProgram p = program(f);
    const Template t = make_template(ComputeDag(p.outputs), small_gpu());
    for (int i = 0; i < 5; ++i) {
      const Config c = selftest::random_config(t, rng);
      SCOPED_TRACE(p.text + " " + t.config_to_json(c).dump());
      expect_right(p, t.instantiate(c));
    }
  }
}

/// A CPU whose second cache holds no matrix.
Target small_cpu() { return Target::parse("llvm -mcpu=native -l2=1K"); }

void expect_right_on_cpu(const selftest::RandomProgram& p, const Schedule& s) {
  const selftest::Case want(p, 3);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::compiled(small_cpu())(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
}

// Runs the static choice, and checks that it is one group.
void check_on_cpu(Matrix f) {
  const AutoSchedulerOptionsScope scope(as_declared());
  f.type = f32;
  const selftest::RandomProgram p = program(f);
  SCOPED_TRACE(p.text);
  const ComputeDag dag(p.outputs);
  const Target cpu = small_cpu();
  const std::vector<StageGroup> groups = plan_groups(dag, &cpu);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_FALSE(groups[0].fused.empty());
  const Template t = make_template(dag, cpu);
  for (const TemplateRecording::Refusal& refused : t.refusals()) ADD_FAILURE() << refused.why;
  const Schedule s = t.static_schedule();
  expect_right_on_cpu(p, s);
}

TEST(ComputedMatrix, OnACpuToo) {
  for (const Reduced r : {Reduced::Rows, Reduced::Columns, Reduced::RowSums, Reduced::RowMaxima}) {
    check_on_cpu({.rows = 64, .reduced = r});
    check_on_cpu({.batch = 1, .rows = 69, .keys = 131, .depth = 24, .cols = 24, .reduced = r});
    check_on_cpu({.rows = 69, .keys = 131, .reduced = r, .interleaved = true});
    check_on_cpu({.keys = 72, .reduced = r, .products = 1, .turned = true});
    check_on_cpu({.batch = 4, .rows = 64, .reduced = r, .heads = 2});
    check_on_cpu({.rows = 64, .reduced = r, .causal = true});
  }
}

TEST(ComputedMatrix, EveryConfigIsRightOnACpu) {
  const AutoSchedulerOptionsScope scope(as_declared());
  Rng rng(11);
  for (const Matrix& f : {Matrix{.type = f32, .batch = 1, .rows = 70, .keys = 150, .depth = 24},
                          Matrix{.type = f32, .reduced = Reduced::Columns},
                          Matrix{.type = f32, .rows = 90, .keys = 150, .causal = true},
                          Matrix{.type = f32, .keys = 90, .reduced = Reduced::RowMaxima}}) {
    const selftest::RandomProgram p = program(f);
    const Template t = make_template(ComputeDag(p.outputs), small_cpu());
    for (int i = 0; i < 4; ++i) {
      const Config c = selftest::random_config(t, rng);
      SCOPED_TRACE(p.text + " " + t.config_to_json(c).dump());
      expect_right_on_cpu(p, t.instantiate(c));
    }
  }
}

TEST(ComputedMatrix, IsTheProductItself) {
  const AutoSchedulerOptionsScope scope(as_declared());
  selftest::RandomProgram p;
  p.inputs = {placeholder({2, 70, 16}, f16, "x"), placeholder({2, 90, 16}, f16, "y")};
  p.outputs = {ops::max(
      ops::matmul(p.inputs[0], p.inputs[1], false, true, {.accumulate = f32, .output = f32}),
      {-1})};
  p.reduce_length = 16;
  const Schedule s = create_schedule(p.outputs, small_gpu());
  expect_right(p, s);
  EXPECT_EQ(lower_gpu(s, p.args()).main.size(), 1);
}

/// Whether some matrix is computed where it is reduced.
bool is_fused(const std::vector<Tensor>& outputs) {
  const Target gpu = small_gpu();
  for (const StageGroup& g : plan_groups(ComputeDag(outputs), &gpu)) {
    if (!g.fused.empty()) return true;
  }
  return false;
}

TEST(ComputedMatrix, OthersAreNone) {
  EXPECT_TRUE(is_fused(program({}).outputs));
  EXPECT_FALSE(is_fused(program({.type = f32}).outputs)) << "no matrix unit takes it";
  EXPECT_FALSE(is_fused(program({.batch = 1, .keys = 640}).outputs)) << "too few blocks";
  EXPECT_FALSE(is_fused(program({.depth = 100, .cols = 100}).outputs))
      << "it is smaller than its operands";
  EXPECT_FALSE(is_fused(program({.rows = 256, .keys = 2048, .depth = 200}).outputs))
      << "long lines";
  // What others read, too, is stored.
  const selftest::RandomProgram p = program({});
  const ComputeDag dag(p.outputs);
  for (int s = 0; s < dag.size(); ++s) {
    const std::optional<ComputedMatrix> m = find_own_matrix(dag, s);
    if (!m) continue;
    for (const int inside : m->fused) {
      std::vector<Tensor> outputs = p.outputs;
      outputs.push_back(dag.stage(inside).output(0));
      const ComputeDag both(outputs);
      const std::optional<ComputedMatrix> left =
          find_own_matrix(both, both.index_of(dag.stage(s).output(0).op()));
      EXPECT_TRUE(!left || left->fused.size() < m->fused.size());
    }
  }
}

/// max(p) or sum(p * v, ..) of a matrix that reads its product, masks and numbers of rows and keys in ways that
/// `rng` draws: at other batches, along one axis, by casts.
selftest::RandomProgram drawn_program(Rng& rng) {
  selftest::RandomProgram p;
  const auto input = [&](const Shape& shape, DataType type) {
    p.inputs.push_back(placeholder(shape, type, "in" + std::to_string(p.inputs.size())));
    return p.inputs.back();
  };
  const int64_t outer = 1 + static_cast<int64_t>(rng() % 2), inner = 2,
                rows = 33 + static_cast<int64_t>(rng() % 48),
                keys = 40 + static_cast<int64_t>(rng() % 64),
                depth = 8 + static_cast<int64_t>(rng() % 17), cols = 16;
  const DataType type = rng() % 2 ? f16 : bf16;
  const Shape shape{Expr(outer), Expr(inner), Expr(rows), Expr(keys)};
  p.text = "batch " + std::to_string(outer) + " x 2, " + std::to_string(rows) + " x " +
           std::to_string(keys) + ", depth " + std::to_string(depth) + " " + to_string(type);
  const auto product = [&] {
    const Tensor x = input({outer, inner, rows, depth}, type),
                 y = input({outer, inner, keys, depth}, type);
    const bool twice = rng() % 8 == 0;
    if (twice) p.text += ", cast twice";
    const Axis e = reduce_axis(depth, "e");
    return compute(shape, [&](const std::vector<Axis>& i) -> Expr {
      Expr a = x(i[0], i[1], i[2], e);
      if (twice) a = cast(type == f16 ? bf16 : f16, a);
      return sum(cast(f32, a) * cast(f32, y(i[0], i[1], i[3], e)), {e});
    });
  };
  std::vector<Tensor> made{product()};
  if (rng() % 2) made.push_back(product());
  const Tensor mask = input({rows, keys}, type), of_keys = input({inner, keys}, f32),
               of_rows = input({outer, inner, rows}, f32);
  const uint64_t forms = rng();
  const auto has = [&](int bit) { return (forms >> bit & 1) != 0; };
  p.text += ", forms " + std::to_string(forms % 512);
  const Tensor matrix = compute(shape, [&](const std::vector<Axis>& i) -> Expr {
    Expr v = made[0](i[0], i[1], i[2], i[3]) * Expr(0.25f);
    if (made.size() > 1) v = v + made[1](i[0], i[1], i[2], i[3]) * Expr(0.125f);
    if (has(0)) v = v + cast(f32, mask(i[2], i[3]));
    if (has(1)) v = v - of_keys(i[1], i[3]);
    if (has(2)) v = v * (of_rows(i[0], i[1], i[2]) + Expr(1.5f));
    if (has(3) && has(4)) v = v - made[0](i[0], Expr(0), i[2], i[3]) * Expr(0.5f);
    if (has(5) && has(4)) v = v + made[0](i[0], Expr(1) - i[1], i[2], i[3]) * Expr(0.5f);
    if (has(6)) v = select(i[3] <= i[2] + Expr(7), v, Expr(-1.0f));
    if (has(7)) v = exp(min(v, Expr(2.0f)));
    return has(8) ? v : Expr(cast(type, v));
  });
  const Axis j = reduce_axis(keys, "j");
  if (has(8)) {
    p.outputs = {
        compute(Shape{Expr(outer), Expr(inner), Expr(rows)}, [&](const std::vector<Axis>& i) {
          const Expr v = matrix(i[0], i[1], i[2], j);
          return has(9) ? Expr(sum(v, {j})) : has(10) ? Expr(max(v, {j})) : Expr(min(v, {j}));
        })};
  } else {
    const Tensor value = input({outer, inner, keys, cols}, type), bias = input({cols}, f32);
    const Tensor sums = compute(
        Shape{Expr(outer), Expr(inner), Expr(rows), Expr(cols)},
        [&](const std::vector<Axis>& i) -> Expr {
          return sum(cast(f32, matrix(i[0], i[1], i[2], j)) * cast(f32, value(i[0], i[1], j, i[3])),
                     {j});
        });
    const Tensor turned =
        has(9) ? sums
               : compute(Shape{Expr(outer), Expr(rows), Expr(inner), Expr(cols)},
                         [&](const std::vector<Axis>& i) { return sums(i[0], i[2], i[1], i[3]); });
    p.outputs = {has(10) ? ops::cast(turned, type) : ops::add(turned, bias)};
  }
  p.inputs = ComputeDag(p.outputs).placeholders();  // those that are read
  p.reduce_length = 104;
  return p;
}

// Of one kernel are few stages, and what walks over more keeps no stack of calls.
TEST(ComputedMatrix, LongChainsAreNone) {
  Tensor x = placeholder({8, 16}, f32);
  for (int i = 0; i < 100000; ++i)
    x = compute(x.shape(), [&](const std::vector<Axis>& at) { return x(at) + Expr(1.0f); });
  const ComputeDag dag({ops::max(x, {-1})});
  EXPECT_FALSE(find_own_matrix(dag, dag.size() - 1));
}

TEST(ComputedMatrix, DrawnMatricesAreRight) {
  const AutoSchedulerOptionsScope scope(as_declared());
  constexpr int kPrograms = 24;
  for (int seed = 0; seed < kPrograms; ++seed) {
    Rng rng(static_cast<uint64_t>(seed) + 1);
    const selftest::RandomProgram p = drawn_program(rng);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + p.text);
    expect_right(p, create_schedule(p.outputs, small_gpu()));
  }
}

TEST(ComputedMatrix, CompilesForEveryArchitecture) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const AutoSchedulerOptionsScope scope(as_declared());
  for (const std::string arch : {"sm_80", "sm_90a"}) {
    const Target gpu =
        arch == "sm_80" ? Target::parse("cuda -gpu=a100 -sms=8 -bandwidth=290") : small_gpu();
    for (const Reduced r : {Reduced::Rows, Reduced::Columns, Reduced::RowSums}) {
      for (const int64_t size : {64, 128}) {
        const selftest::RandomProgram p = program(
            {.batch = 32, .rows = 1024, .keys = 1024, .depth = size, .cols = size, .reduced = r});
        const cuda::Cubin cubin = cuda::compile_cuda(
            emit_cuda(lower_gpu(create_schedule(p.outputs, gpu), p.args())), arch);
        ASSERT_EQ(cubin.kernels.size(), 1);
        // Wide warps spill a little of long lines, and were faster than narrow ones nevertheless.
        EXPECT_LE(cubin.kernels[0].spill_stores, size > 64 ? 320 : 32)
            << arch << " " << p.text << " " << size;
      }
    }
  }
}

}  // namespace
}  // namespace heddle::testing
