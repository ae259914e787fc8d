// One kernel for all sizes of an outermost dimension.
#include <limits>
#include <optional>

#include "dag/declaration/declaration.h"
#include "family/family_testing.h"

namespace heddle::testing {
namespace {

std::vector<Family> families() {
  return {elementwise_family(), rows_family(),     matmul_family(), chain_family(),
          softmax_family(),     row_sums_family(), conv_family(),   scaled_family()};
}

Kernel kernel_of(const Schedule& s) { return build(s, all_args(s.dag())); }

constexpr int64_t kMost = 257;

/// What the interpreter gives at the largest size. Where rows do not depend on each other, it
/// begins with what it gives at every other size.
class Rows {
 public:
  explicit Rows(const Family& f)
      : dag_(at_sizes({f.result}, {{f.n, kMost}}).outputs),
        arrays_(call_arrays(dag_)),
        want_(wanted(dag_, arrays_)[0]) {}

  /// "" when `kernel` gives the first `n` rows for the first `n` rows of the inputs.
  std::string wrong(const Kernel& kernel, int64_t n) const {
    std::vector<NDArray> first;
    for (const NDArray& a : arrays_) first.push_back(a.extent(0) == kMost ? rows(a, n) : a);
    const GuardedArrays guarded(first, n % 2 == 0);
    kernel.call(guarded.list);
    const NDArray want = rows(want_, n);
    const Difference d = compare(guarded.list.back(), want, 1e-4, 1e-4);
    return d.ok() ? "" : "n = " + std::to_string(n) + ": " + describe(d, want);
  }

 private:
  static NDArray rows(const NDArray& a, int64_t n) {
    std::vector<int64_t> shape = a.extents();
    shape[0] = n;
    return NDArray::wrap(a.data(), shape, a.dtype());
  }
  ComputeDag dag_;
  std::vector<NDArray> arrays_;
  NDArray want_;
};

/// "" or the first size of 1..257 at which the kernel is wrong.
std::string first_wrong(const Family& f, const Schedule& s, int64_t step = 1) {
  const Kernel kernel = kernel_of(s);
  const bool apart = f.name != "scaled";
  const std::optional<Rows> rows = apart ? std::optional<Rows>(f) : std::nullopt;
  for (int64_t n = 1; n <= kMost; n += n < 20 ? 1 : step) {
    const std::string d = rows ? rows->wrong(kernel, n) : wrong_at(kernel, f.result, {{f.n, n}});
    if (!d.empty()) return d;
  }
  return "";
}

TEST(Family, StaticChoicesAreRightAtEverySize) {
  for (const Family& f : families()) {
    EXPECT_EQ(first_wrong(f, create_schedule({f.result})), "") << f.name;
  }
}

TEST(Family, ChoicesForOneSizeAreRightAtOthers) {
  for (const Family& f : families()) {
    for (const int64_t at : {1, 7, 32, 300}) {
      EXPECT_EQ(first_wrong(f, family_schedule({f.result}, {{f.n, at}}), 47), "")
          << f.name << " chosen at " << at;
    }
  }
}

TEST(Family, DefaultAndNaiveSchedulesAreRight) {
  for (const Family& f : families()) {
    EXPECT_EQ(first_wrong(f, Schedule({f.result}), 61), "") << f.name;
    EXPECT_EQ(first_wrong(f, naive_schedule({f.result}), 61), "") << f.name;
  }
}

// The interpreter takes the sizes from the shapes of its arguments, as a kernel does.
TEST(Family, EveryPassIsRightInTheInterpreter) {
  for (const Family& f : families()) {
    const Schedule s = create_schedule({f.result});
    LowerOptions options;
    options.keep_passes = true;
    const LoweredProgram program = lower(s, all_args(s.dag()), options);
    ASSERT_EQ(program.main.sizes.size(), 1u);
    for (const int64_t n : {1, 5, 16, 33}) {
      const ComputeDag dag(at_sizes({f.result}, {{f.n, n}}).outputs);
      for (const PassRecord& pass : program.passes) {
        std::vector<NDArray> arrays = call_arrays(dag), persistent, constants;
        for (const Buffer& b : program.persistent) persistent.push_back(array_of(b));
        if (pass.prepare.body) {
          for (const int c : program.constant_args)
            constants.push_back(arrays[static_cast<size_t>(c)]);
          constants.insert(constants.end(), persistent.begin(), persistent.end());
          interpret(pass.prepare, constants);
        }
        std::vector<NDArray> all = arrays;
        all.insert(all.end(), persistent.begin(), persistent.end());
        interpret(pass.main, all);
        EXPECT_EQ(differs(dag, arrays, 1e-4), "")
            << f.name << " of " << n << " after " << pass.name;
      }
    }
  }
}

TEST(Family, SizesThatAMultipleDividesNeedNoTail) {
  const Dim n = dim("n", 1, 256).multiple_of(16), any = dim("n", 1, 256);
  const auto loops = [](const Dim& d) {
    return text_after(create_schedule({matmul_family(d, 32, 64).result}));
  };
  EXPECT_LT(loops(n).size() * 3, loops(any).size() * 2);
  const Family f = matmul_family(n, 32, 64);
  const Kernel kernel = kernel_of(create_schedule({f.result}));
  for (int64_t at = 16; at <= 256; at += 16) EXPECT_EQ(wrong_at(kernel, f.result, {{n, at}}), "");
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// Blocks of eight tiles of four rows, for each of which the other operand is packed in panels.
Schedule packing_blocks(const Dim& n, Tensor* result) {
  const Tensor b = placeholder({24, 64}, f32, "b");
  *result = product(placeholder({n, 24}, f32, "a"), b, 24);
  Schedule s({*result});
  StageRef c = s[*result], tile = c.cache_write();
  const auto [i, j] = c.axes<2>();
  const auto [it, row] = c.split(i, 4);
  const auto [block, of_block] = c.split(it, 8);
  const auto [panel, lane] = c.split(j, 16);
  c.reorder({block, panel, of_block, row, lane}).unroll(row).vectorize(lane);
  const auto [ti, tj] = tile.axes<2>();
  tile.reorder({tile.reduce_axis(0), ti, tj}).unroll(ti).vectorize(tj).compute_at(c, of_block);
  s[b].cache_read({tile}).compute_at(c, panel);
  return s;
}

TEST(Family, AnOperandThatTilesShareIsPackedOnceForFullTilesAndTail) {
  const Dim n = usual_dim();
  Tensor result;
  const Schedule s = packing_blocks(n, &result);
  const std::string text = text_after(s, "loop_partition");
  // Full blocks, and the last one with its tail.
  EXPECT_EQ(count(text, "b.copy: f32"), 2u) << text;
  // Tiles of each length, which is a constant in all of them.
  EXPECT_EQ(count(text, "local: f32[4, 16]"), 2u) << text;
  for (int rows = 1; rows <= 3; ++rows)
    EXPECT_EQ(count(text, "local: f32[" + std::to_string(rows) + ", 16]"), 1u) << text;
  EXPECT_EQ(count(text, "unrolled for i in 0..min"), 0u) << text;
  EXPECT_EQ(count(text, "unrolled for i.i in 0..min"), 0u) << text;
  const Kernel kernel = kernel_of(s);
  for (int64_t rows = 1; rows <= kMost; rows += rows < 70 ? 1 : 17)
    EXPECT_EQ(wrong_at(kernel, result, {{n, rows}}, rows % 2 == 0), "");
}

// Conditions on the size are only asked in the last iteration.
TEST(Family, LoopsAreCutBeforeTheLastPart) {
  const Dim n = dim("n", 1, 300);
  const Tensor x = placeholder({5, n}, f32, "x");
  const Axis k = reduce_axis(n, "k");
  const Tensor sums = compute({5}, [&](Axis i) { return sum(x(i, k), k); }, "sums");
  Schedule s({sums});
  StageRef partial = s[sums].rfactor(s[sums].reduce_axis(0), 8, true);
  partial.reorder({partial.axis(1), partial.reduce_axis(0), partial.axis(0)});
  partial.vectorize(partial.axis(0));
  const std::string text = text_after(s, "loop_partition");
  EXPECT_NE(text.find("0..floordiv(n, 8)"), std::string::npos) << text;
  EXPECT_EQ(count(text, "select("), 1u) << text;
  const Kernel kernel = kernel_of(s);
  for (int64_t size = 1; size <= 40; ++size)
    EXPECT_EQ(wrong_at(kernel, sums, {{n, size}}, size % 2 == 0), "");
}

TEST(Family, AKernelNamesItsSizes) {
  const Kernel kernel = kernel_of(create_schedule({matmul_family().result}));
  ASSERT_EQ(kernel.sizes().size(), 1u);
  EXPECT_EQ(kernel.sizes()[0].name, "n");
  EXPECT_EQ(kernel.sizes()[0].hi, 300);
  EXPECT_EQ(kernel.args()[0].shape, (std::vector<int64_t>{-1, 24}));
}

TEST(Family, ADeclarationOverDimensionsIsOneDeclaration) {
  const auto hash = [](const Dim& d) {
    return ComputeDag({matmul_family(d).result}).structural_hash();
  };
  EXPECT_EQ(hash(dim("n", 1, 300)), hash(dim("rows", 1, 300)));
  EXPECT_NE(hash(dim("n", 1, 300)), hash(dim("n", 1, 301)));
  EXPECT_NE(hash(dim("n", 1, 300)), hash(dim("n", 2, 300)));
  EXPECT_NE(hash(dim("n", 8, 296)), hash(dim("n", 8, 296).multiple_of(8)));
  EXPECT_NE(hash(dim("n", 1, 300)),
            ComputeDag({ops::matmul(placeholder({300, 24}), constant_placeholder({24, 40}))})
                .structural_hash());
}

TEST(Family, DeclarationsOverDimensionsAreWrittenAsJson) {
  const Dim n = dim("n", 8, 64).multiple_of(8);
  const Tensor x = placeholder({Expr(n) * 2 + 1, 9}, f32, "x");
  const Tensor y = compute({n, 9}, [&](Axis i, Axis j) { return x(i * 2 + 1, j); }, "y");
  const ComputeDag dag({y});
  const Declaration read = declaration_from_json(declaration_to_json(dag, {x, y}));
  EXPECT_EQ(read.dag.structural_hash(), dag.structural_hash());
  EXPECT_EQ(to_string(read.args[0].shape()[0]), to_string(x.shape()[0]));
}

TEST(Family, AnInstanceIsTheDeclarationAtThatSize) {
  const Family f = matmul_family();
  const Instance at = at_sizes({f.result}, {{f.n, 17}});
  const Tensor same = product(placeholder({17, 24}), constant_placeholder({24, 40}), 24);
  EXPECT_EQ(ComputeDag(at.outputs).structural_hash(), ComputeDag({same}).structural_hash());
  EXPECT_EQ(at.of(f.result).extents(), (std::vector<int64_t>{17, 40}));
}

TEST(Family, ChecksForNanLookAtEveryElementOfTheCall) {
  const Family f = rows_family();
  const Schedule s = create_schedule({f.result});
  const Kernel kernel = build(s, all_args(s.dag()), {.check_finite = true});
  for (const int64_t n : {1, 13, 300}) {
    const ComputeDag dag(at_sizes({f.result}, {{f.n, n}}).outputs);
    const std::vector<NDArray> arrays = call_arrays(dag);
    kernel.call(arrays);
    EXPECT_EQ(differs(dag, arrays, 1e-4), "");
    arrays[0].set(n * 37 - 1, std::numeric_limits<double>::quiet_NaN());
    EXPECT_NE(error_of([&] { kernel.call(arrays); }).find("NaN at [" + std::to_string(n - 1)),
              std::string::npos);
  }
}

}  // namespace
}  // namespace heddle::testing
