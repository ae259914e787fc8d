// Random differentiable declarations. A failure names its seed; HEDDLE_GRADIENT_SEED runs it alone, and
// HEDDLE_GRADIENT_ROUNDS says how many there are. Of every tenth the gradient of the gradient is tested.
#include <cstdlib>

#include "autodiff/gradient_testing.h"
#include "heddle/ir/print.h"
#include "heddle/support/rng.h"

namespace heddle {
namespace {

using Tensors = std::vector<Tensor>;

/// Draws the body of a stage over given axes.
class BodyDrawer {
 public:
  BodyDrawer(Rng& rng, const Tensors& inputs, const std::vector<Axis>& axes)
      : rng_(rng), inputs_(inputs), axes_(axes) {}

  Expr draw(int depth) {
    if (depth == 0 || pick(0, 5) == 0) return read();
    const Expr a = draw(depth - 1);
    switch (pick(0, 9)) {
      case 0: return a + draw(depth - 1);
      case 1: return a - draw(depth - 1);
      case 2:
      case 3: return a * draw(depth - 1);
      case 4: return a / (draw(depth - 1) * 0.1 + 3.0);
      case 5: return tanh(a);
      case 6: return exp(a * 0.2);
      case 7: return max(a, draw(depth - 1));
      case 8: return select(condition(), a, draw(depth - 1));
      // Of a large argument a sine turns faster than the steps of a finite difference.
      default: return sin(tanh(a) * 3.0) * 0.7;
    }
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  const Axis& axis() { return rng_.choose(axes_); }

  /// A sum of axes, shifted to begin at 0; `most` is set to its largest value.
  Expr sum(int64_t* most) {
    Expr e = 0;
    int64_t lo = 0, hi = 0;
    for (int64_t terms = pick(0, 2); terms >= 0; --terms) {
      const Axis a = axis();
      const int64_t c = pick(0, 3) == 0 ? -pick(1, 2) : pick(1, 3);
      e = e + Expr(a) * c;
      (c < 0 ? lo : hi) += c * (a.extent() - 1);
    }
    *most = hi - lo;
    return e - lo;
  }

  /// An index within [0, extent), in one of the forms of operators.
  Expr index(int64_t extent) {
    int64_t most = 0;
    const Expr e = sum(&most);
    if (most < extent && pick(0, 2) > 0) return e + pick(0, extent - 1 - most);
    switch (pick(0, 3)) {
      case 0: return floormod(e, extent);
      case 1: return floordiv(e, most / extent + 1);
      case 2: return max(min(e - pick(0, 2), Expr(extent - 1)), Expr(0));
      default: return most < extent ? e : floormod(floordiv(e, 2), extent);
    }
  }

  Expr read() {
    const Tensor& t = rng_.choose(inputs_);
    std::vector<Expr> at;
    for (int64_t extent : t.extents()) at.push_back(index(extent));
    return t.at(std::move(at));
  }

  Expr condition() {
    int64_t most = 0;
    const Expr e = sum(&most);
    if (pick(0, 2) == 0) return read() < 0.3;
    return e <= pick(0, most);
  }

  Rng& rng_;
  const Tensors& inputs_;
  const std::vector<Axis>& axes_;
};

/// A stage over `inputs`: element-wise or one of the reductions.
Tensor stage(Rng& rng, const Tensors& inputs, const std::string& name, int depth) {
  Shape shape;
  for (int64_t d = rng.uniform_int(1, 3); d > 0; --d) shape.emplace_back(rng.uniform_int(1, 5));
  std::vector<Axis> over;
  for (int64_t r = rng.uniform_int(0, 2); r > 0; --r)
    over.push_back(reduce_axis(rng.uniform_int(1, 4), "r" + std::to_string(r)));
  return compute(
      shape,
      [&](const std::vector<Axis>& i) -> Expr {
        std::vector<Axis> all = i;
        all.insert(all.end(), over.begin(), over.end());
        const Expr body = BodyDrawer(rng, inputs, all).draw(depth);
        if (over.empty()) return body;
        switch (rng.uniform_int(0, 5)) {
          case 0: return reduce_max(body, over);
          case 1: return prod(body * 0.3 + 1.0, over);
          default: return sum(body, over);
        }
      },
      name);
}

std::vector<Input> inputs_of(Rng& rng, uint64_t seed) {
  std::vector<Input> inputs;
  for (int64_t n = rng.uniform_int(1, 3); n > 0; --n) {
    Dims dims;
    for (int64_t d = rng.uniform_int(1, 2); d > 0; --d) dims.push_back(rng.uniform_int(1, 6));
    inputs.push_back(real(dims, 10 * seed + static_cast<uint64_t>(n)));
  }
  return inputs;
}

void run_seed(uint64_t seed) {
  Rng rng(seed);
  const bool twice = seed % 10 == 0;
  const int depth = twice ? 1 : 3;
  const std::vector<Input> inputs = inputs_of(rng, seed);
  Tensor drawn;
  const Declare declare = [&](const Tensors& t) {
    if (drawn) return drawn;
    const Tensor first = stage(rng, t, "first", depth);
    Tensors all = t;
    all.push_back(first);
    all.push_back(first);
    return drawn = stage(rng, all, "second", depth);
  };
  Tensors tensors;
  for (const Input& in : inputs) tensors.push_back(in.tensor);
  const Tensor y = declare(tensors);
  Differences options{.step = 1e-6, .tolerance = 1e-6, .wrt = {}};
  const ComputeDag dag({y});
  for (size_t i = 0; i < inputs.size(); ++i)
    if (dag.index_of(inputs[i].tensor.op()) >= 0) options.wrt.push_back(i);
  std::string text;
  for (int s = 0; s < dag.size(); ++s)
    for (const Expr& body : dag.stage(s).bodies()) text += to_string(body) + "\n";
  SCOPED_TRACE("HEDDLE_GRADIENT_SEED=" + std::to_string(seed) + "\n" + text + dag.to_text());
  try {
    expect_gradient(declare, inputs, options);
    if (twice) expect_second_gradient(declare, inputs, options);
  } catch (const Error& e) {
    // A read may be in a condition alone.
    if (e.message.find("depends on") == std::string::npos) ADD_FAILURE() << e.what();
  }
}

TEST(RandomGradient, IsTheDifferenceOfItsDeclaration) {
  if (const char* one = std::getenv("HEDDLE_GRADIENT_SEED"))
    return run_seed(std::strtoull(one, nullptr, 10));
  const char* rounds = std::getenv("HEDDLE_GRADIENT_ROUNDS");
  const uint64_t most = rounds ? std::strtoull(rounds, nullptr, 10) : 200;
  for (uint64_t seed = 1; seed <= most && !testing::Test::HasFailure(); ++seed) run_seed(seed);
}

/// A stage over the rows (or the elements) of a square, of stages like those of a softmax: whether
/// what is subtracted cancels depends on all of them.
class RowDrawer {
 public:
  RowDrawer(Rng& rng, const Tensor& x) : rng_(rng), n_(x.extent(0)), elements_{x} {}

  Tensor draw() {
    add_row(true);
    for (int64_t more = pick(2, 5); more > 0; --more)
      pick(0, 2) == 0 ? add_row(false) : add_element();
    return elements_.size() > 1 && pick(0, 1) == 0 ? elements_.back() : rows_.back();
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  const Tensor& recent(const std::vector<Tensor>& of) {
    return pick(0, 2) == 0 ? rng_.choose(of) : of.back();
  }
  Expr element(const Expr& i, const Expr& j) {
    const Tensor& t = recent(elements_);
    return pick(0, 7) == 0 ? t.at({j, i}) : t.at({i, j});
  }
  Expr row(const Expr& i, const Expr& j) { return recent(rows_).at({pick(0, 7) == 0 ? j : i}); }

  /// row(i): the maximum or the sum of elements, or an expression of rows.
  void add_row(bool maximum) {
    const Axis over = reduce_axis(n_, "r");
    const bool sums = !maximum && pick(0, 2) > 0, maxes = maximum || pick(0, 2) == 0;
    rows_.push_back(compute(
        {n_},
        [&](const std::vector<Axis>& i) -> Expr {
          if (sums) return sum(element(i[0], over), {over});
          if (maxes) return reduce_max(element(i[0], over), {over});
          const Expr a = row(i[0], i[0]), b = row(i[0], i[0]);
          switch (pick(0, 5)) {
            case 0: return a + log(abs(b) + (pick(0, 1) == 0 ? 0.0 : 1.0));
            case 1: return select(a < 0.0, Expr(0.0), a);
            case 2: return a - b * 0.5;
            case 3: return max(a, b);
            case 4: return select(Expr(i[0]) < 1, a, b);
            default: return a * 0.5;
          }
        },
        "row"));
  }

  void add_element() {
    elements_.push_back(compute(
        {n_, n_},
        [&](const std::vector<Axis>& at) -> Expr {
          const Expr i = at[0], j = at[1], a = element(i, j), r = row(i, j);
          switch (pick(0, 9)) {
            case 0:
            case 1:
            case 2: return exp(a - r);
            case 3: return a - r;
            case 4:
            case 5: return a / r;
            case 6: return select(j < 2, exp(a - r), Expr(0.0));
            case 7: return a * 0.25 + r;
            case 8: return a * rsqrt(r * r + (pick(0, 1) == 0 ? 0.0 : 0.5));
            default: return a * element(i, j);
          }
        },
        "element"));
  }

  Rng& rng_;
  int64_t n_;
  std::vector<Tensor> elements_, rows_;
};

TEST(RandomGradient, OfRowsWithMaxima) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 300 && !testing::Test::HasFailure(); ++seed) {
    Rng rng(seed);
    const Input x = real({3, 3}, seed);
    Tensor drawn;
    const Declare declare = [&](const Tensors& t) {
      return drawn ? drawn : drawn = RowDrawer(rng, t[0]).draw();
    };
    std::string text;
    const NDArray value = run_interpreted(declare({x.tensor}), {x}).result;
    bool tame = true;  // differences of large values are no derivatives
    for (int64_t p = 0; p < value.size(); ++p) tame &= std::abs(value.get(p)) < 1e3;
    if (!tame) continue;
    ++compared;
    const ComputeDag dag({drawn});
    for (int s = 0; s < dag.size(); ++s)
      for (const Expr& body : dag.stage(s).bodies()) text += to_string(body) + "\n";
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    expect_gradient(declare, {x}, {.step = 1e-6, .tolerance = 1e-5, .wrt = {}});
  }
  EXPECT_GT(compared, 200);
}

}  // namespace
}  // namespace heddle
