// Masks of attention that are computed from positions, as files write them: random ones in networks for GPUs, whose
// kernels the emulator runs, against the interpreter. Rows may be masked completely.
#include <cmath>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "environment.h"
#include "heddle/dag/generalize.h"
#include "heddle/support/rng.h"
#include "network/emulated_network.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

Target gpu() { return Target::parse("cuda -gpu=h200"); }

enum class Form { Added, Where, Filled, Product, Window, Prefix, Slopes, Table, Data, Count };

/// Attention of `rows` queries behind `keys - rows` others.
struct Drawn {
  Form form = Form::Added;
  int64_t batch = 1, group = 1, rows = 1, keys = 3, size = 16, window = 4;
  double low = -1e9;
  uint64_t seed = 1;

  std::string text() const {
    return "form " + std::to_string(static_cast<int>(form)) + ", batch " + std::to_string(batch) +
           ", group " + std::to_string(group) + ", rows " + std::to_string(rows) + ", keys " +
           std::to_string(keys) + ", size " + std::to_string(size) + ", window " +
           std::to_string(window) + ", low " + std::to_string(low) + ", seed " +
           std::to_string(seed);
  }
};

Drawn draw(uint64_t seed) {
  Rng rng(seed);
  Drawn d;
  d.form = static_cast<Form>(rng.uniform_int(0, static_cast<int64_t>(Form::Count) - 1));
  d.batch = rng.uniform_int(1, 2);
  d.group = rng.uniform_int(1, 3);
  d.rows = rng.uniform_int(1, 90);
  d.keys = d.rows + (rng.chance(0.3) ? 0 : rng.uniform_int(1, 100));
  d.keys = std::max<int64_t>(d.keys, 4);
  d.size = rng.chance(0.5) ? 16 : 40;
  d.window = rng.uniform_int(1, 40);
  const std::vector<double> lows{-1e9, -3.3e38, -std::numeric_limits<double>::infinity()};
  d.low = lows[static_cast<size_t>(rng.uniform_int(0, 2))];
  if (d.form == Form::Product && std::isinf(d.low)) d.low = -1e9;
  d.seed = seed;
  return d;
}

/// The positions first, first + 1, ..., as a stage of their own.
Tensor positions(int64_t count, int64_t first) {
  return compute(Shape{count}, [&](Axis i) -> Expr { return i + Expr(first); }, "positions");
}

/// What is true where the query attends to the key.
Tensor condition(const Drawn& d, const Tensor& there) {
  const int64_t past = d.keys - d.rows;
  const Tensor columns = positions(d.keys, 0), rows = positions(d.rows, past);
  return compute(
      {d.batch, 1, d.rows, d.keys},
      [&](const std::vector<Axis>& i) -> Expr {
        const Expr row = d.form == Form::Table ? rows(i[2]) : i[2] + Expr(past);
        const Expr key = d.form == Form::Table ? columns(i[3]) : Expr(i[3]);
        const Expr is_there = there(i[0], i[3]) != Expr(int64_t{0}), below = key <= row;
        if (d.form == Form::Window) return below && i[3] > row - Expr(d.window);
        if (d.form == Form::Prefix) return (below || i[3] < Expr(d.window)) && is_there;
        if (d.form == Form::Data)
          return i[3] <= there(i[0], i[2] + Expr(past)) * Expr(d.keys) && below;
        if (d.form == Form::Slopes) return below;
        return below && is_there;
      },
      "seen");
}

Tensor masked(const Drawn& d, const Tensor& scores, const Tensor& there) {
  const Tensor seen = condition(d, there);
  const DataType type = scores.dtype();
  const Expr low = make_const(type, d.low), zero = make_const(type, 0);
  const auto of = [&](const std::vector<Axis>& i) { return seen(i[0], 0, i[2], i[3]); };
  const auto map = [&](FunctionRef<Expr(const std::vector<Axis>&)> f) {
    return compute(scores.shape(), [&](const std::vector<Axis>& i) -> Expr { return f(i); });
  };
  if (d.form == Form::Where)
    return map([&](const auto& i) { return make_select(of(i), scores(i), low); });
  if (d.form == Form::Filled)
    return map([&](const auto& i) { return make_select(!of(i), low, scores(i)); });
  const Tensor mask =
      compute({d.batch, 1, d.rows, d.keys}, [&](const std::vector<Axis>& i) -> Expr {
        const Expr here = seen(i[0], i[1], i[2], i[3]);
        if (d.form == Form::Slopes)
          return make_select(here, cast(type, cast(f32, i[3] - i[2]) * Expr(0.125f)), low);
        if (d.form == Form::Product)
          return make_select(there(i[0], i[3]) == Expr(int64_t{0}), low,
                             low * cast(type, i[3] > i[2] + Expr(d.keys - d.rows)));
        return make_select(here, zero, low);
      });
  return map([&](const auto& i) { return scores(i) + mask(i[0], 0, i[2], i[3]); });
}

struct Masked {
  Tensor q, k, v, there, result;
  explicit Masked(const Drawn& d)
      : q(placeholder({d.batch, d.group, d.rows, d.size}, bf16, "q")),
        k(placeholder({d.batch, 1, d.keys, d.size}, bf16, "k")),
        v(placeholder({d.batch, 1, d.keys, d.size}, bf16, "v")),
        there(placeholder({d.batch, d.keys}, i64, "there")) {
    const Tensor scores = ops::matmul(q, k, false, true);
    result = ops::matmul(ops::softmax(masked(d, scores, there), -1), v);
  }
};

/// Which keys are there: all, none, those behind a padding, or some.
void fill_there(const Drawn& d, const NDArray& there) {
  Rng rng(d.seed + 1000);
  for (int64_t b = 0; b < d.batch; ++b) {
    const int64_t how = rng.uniform_int(0, 4), pad = rng.uniform_int(0, d.keys);
    for (int64_t j = 0; j < d.keys; ++j) {
      const bool is_there = how == 0 || (how == 1 && j >= pad) || (how == 2 && j < pad) ||
                            (how == 3 && rng.chance(0.6));
      there.set(b * d.keys + j, is_there ? 1 : 0);
    }
  }
}

bool finds_bound(const Network& network) {
  return std::ranges::any_of(network.passes(), [](const PassApplication& p) {
    return p.text.find("a bound for each row") != std::string::npos;
  });
}

/// What the emulated network computes otherwise than the interpreter, with the keys of `d` there.
std::string wrong(const std::vector<Tensor>& outputs, const Drawn& d, const Tensor& there) {
  const Network network(outputs, gpu());
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  emulate_network(driver, network, gpu());
  const std::vector<Tensor> args = args_of(outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].same_as(there)) fill_there(d, arrays[i]);
  }
  network.build(args).call(arrays);
  // A few units in the last place of the weights, which online sums round otherwise.
  return differs_from_interpreter(outputs, args, arrays, 3e-2);
}

std::string wrong(const Drawn& d) {
  const Masked m(d);
  return wrong({m.result}, d, m.there);
}

TEST(MasksOfPositions, RandomMasksLikeTheInterpreter) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 40),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t seed = first; seed < first + count; ++seed) {
    const Drawn d = draw(static_cast<uint64_t>(seed));
    ASSERT_EQ(wrong(d), "") << d.text() << "\nHEDDLE_PROPERTY_SEED=" << seed
                            << " HEDDLE_PROPERTY_COUNT=1";
  }
}

TEST(MasksOfPositions, BoundsAreFoundAsFilesWriteThem) {
  for (const Form f : {Form::Added, Form::Where, Form::Filled, Form::Product, Form::Slopes,
                       Form::Table, Form::Window, Form::Prefix, Form::Data}) {
    Drawn d;
    d.form = f;
    d.rows = 40;
    d.keys = 64;
    d.window = 50;
    // The slope of the first key is not known to be no mask.
    d.low = f == Form::Slopes ? -std::numeric_limits<double>::infinity() : -3.3e38;
    SCOPED_TRACE(d.text());
    // Rows of a window may be masked completely as far as its data says; a prefix is beyond the bound.
    const bool found = f != Form::Window && f != Form::Prefix && f != Form::Data;
    const Masked m(d);
    EXPECT_EQ(finds_bound(Network({m.result}, gpu())), found);
    EXPECT_FALSE(finds_bound(Network({m.result}, Target::host())));
    d.low = -1e4;  // not below every score
    const Masked near(d);
    EXPECT_FALSE(finds_bound(Network({near.result}, gpu())));
  }
}

/// Scores with a mask of a finite number beyond the row, which is found below exp alone.
struct Scores {
  Drawn d{.group = 2, .rows = 24, .keys = 24};
  Tensor q = placeholder({d.batch, d.group, d.rows, d.size}, bf16, "q"),
         k = placeholder({d.batch, 1, d.keys, d.size}, bf16, "k"),
         v = placeholder({d.batch, 1, d.keys, d.size}, bf16, "v"),
         there = placeholder({d.batch, d.keys}, i64, "there"),
         products = ops::matmul(q, k, false, true);

  Tensor map(FunctionRef<Expr(const std::vector<Axis>&)> f) const {
    return compute(products.shape(), [&](const std::vector<Axis>& i) -> Expr { return f(i); });
  }
  Expr number(double x) const { return make_const(products.dtype(), x); }
  Tensor causal(const Tensor& x, double low = -1e9) const {
    return map(
        [&](const auto& i) { return x(i) + make_select(i[3] <= i[2], number(0), number(low)); });
  }
  Tensor attention(const Tensor& scores) const { return ops::matmul(ops::softmax(scores, -1), v); }
  /// The scores without the highest of their row.
  Tensor difference(const Tensor& x) const {
    const Axis key = reduce_axis(d.keys);
    const Tensor highest = compute(
        {d.batch, d.group, d.rows},
        [&](const std::vector<Axis>& i) -> Expr { return max(x(i[0], i[1], i[2], key), {key}); });
    return map([&](const auto& i) { return x(i) - highest(i[0], i[1], i[2]); });
  }
  /// The sum of p log p of each row, without a sign.
  Tensor entropy(const Tensor& x) const {
    const Tensor logs = ops::log_softmax(x, -1), shares = ops::exp(logs);
    const Axis key = reduce_axis(d.keys);
    return compute({d.batch, d.group, d.rows}, [&](const std::vector<Axis>& i) -> Expr {
      const std::vector<Expr> at{i[0], i[1], i[2], key};
      return sum(cast(f32, shares.at(at)) * cast(f32, logs.at(at)), {key});
    });
  }
  bool found(const Tensor& result) const { return finds_bound(Network({result}, gpu())); }
};

TEST(MasksOfPositions, ReadersOtherThanExpKeepFiniteMasks) {
  const Scores s;
  const Tensor scores = s.causal(s.products), difference = s.difference(scores);
  EXPECT_TRUE(s.found(s.attention(scores)));
  EXPECT_TRUE(s.found(ops::exp(difference))) << "by a stage between";
  EXPECT_FALSE(s.found(difference));
  EXPECT_FALSE(s.found(ops::softmax(s.q, -1))) << "of an argument";
  EXPECT_FALSE(s.found(s.entropy(scores)));
  EXPECT_FALSE(finds_bound(Network({ops::exp(difference), difference}, gpu())));
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  EXPECT_EQ(wrong({s.entropy(scores)}, s.d, s.there), "") << "0 * -inf";
  EXPECT_EQ(wrong({difference}, s.d, s.there), "");
}

TEST(MasksOfPositions, OtherFiniteMasksMayMaskTheRest) {
  const Scores s;
  const Tensor data = placeholder({s.d.batch, s.d.keys}, f32, "data"),
               scale = placeholder({s.d.group}, f32, "scale");
  const auto padded = [&](double low) {
    return s.map([&](const auto& i) {
      return s.products(i) + make_select(i[3] >= Expr(8), s.number(0), s.number(low));
    });
  };
  const Tensor scaled = s.map([&](const auto& i) {
    return s.products(i) * cast(s.products.dtype(), scale(i[1])) + s.number(0.5);
  });
  const Tensor there = s.map([&](const auto& i) {
    return make_select(s.there(i[0], i[3]) != Expr(int64_t{0}), s.products(i), s.number(-1e9));
  });
  const Tensor added = s.map(
      [&](const auto& i) { return s.products(i) + cast(s.products.dtype(), data(i[0], i[3])); });
  EXPECT_TRUE(s.found(s.attention(s.causal(scaled)))) << "numbers that mask nothing";
  EXPECT_FALSE(s.found(s.attention(s.causal(padded(-1e9)))));
  EXPECT_FALSE(s.found(s.attention(s.causal(there))));
  EXPECT_FALSE(s.found(s.attention(s.causal(added))));
  const double none = -std::numeric_limits<double>::infinity();
  EXPECT_TRUE(s.found(s.attention(s.causal(added, none)))) << "no weight beyond the row either way";
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  EXPECT_EQ(wrong({s.attention(s.causal(padded(-1e9)))}, s.d, s.there), "");
}

/// Over the tokens of a step behind `past` others, which may be one.
struct OverSizes {
  Dim rows = dim("rows", 1, 200);
  Generalized all = generalize(rows, [](int64_t n) {
    return std::vector<Tensor>{Masked({.group = 4, .rows = n, .keys = n + 70}).result};
  });
};

TEST(MasksOfPositions, KernelsHoldOverSizes) {
  const OverSizes f;
  const Network network(f.all.outputs, gpu());
  EXPECT_TRUE(finds_bound(network));
  const auto variants = network::task_variants(network, network.static_schedules());
  int found = 0;
  for (const network::TaskVariants& v : variants) {
    for (const Schedule& s : v.schedules) {
      found += s.provenance.find("cuda_attention") != std::string::npos ? 1 : 0;
      EXPECT_EQ(s.provenance.find("another was given"), std::string::npos) << s.provenance;
    }
  }
  EXPECT_GE(found, 2) << "for one row, whose rows are the heads of a group, and for many";
}

TEST(MasksOfPositions, OverSizesLikeTheInterpreter) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const OverSizes f;
  const Network network(f.all.outputs, gpu());
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  emulate_network(driver, network, gpu());
  const std::vector<Tensor> args = args_of(f.all.outputs);
  const NetworkKernel run = network.build(args);
  for (const int64_t n : {1, 2, 40, 130, 200}) {
    const Instance here = at_sizes(f.all.outputs, {{f.rows, n}});
    const std::vector<Tensor> own = here.of(args);
    const std::vector<NDArray> arrays = arrays_for(own);
    for (size_t i = 0; i < own.size(); ++i) {
      for (int64_t j = 0; own[i].name() == "there" && j < own[i].size(); ++j)
        arrays[i].set(j, j % 3 != 1 || n == 40 ? 1 : 0);
    }
    run.call(arrays);
    EXPECT_EQ(differs_from_interpreter(here.outputs, own, arrays, 3e-2), "") << n;
  }
}

}  // namespace
}  // namespace heddle::testing
