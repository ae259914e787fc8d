// Updates of rows at places that are data: in place, without a copy of the state.
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "environment.h"
#include "heddle/dsl/update.h"
#include "heddle/ops/scatter.h"
#include "heddle/support/rng.h"
#include "network/emulated_network.h"
#include "network/updates_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Case {
  Drawn drawn;
  std::vector<TensorValue> given;  ///< of the places
};

/// One or two states whose leading dimensions places count, which a step reads before or after it
/// stores rows, and places, at times none, of which some are none of the state's and some name one row
/// twice.
class Drawer {
 public:
  Drawer(uint64_t seed, int64_t row) : rng_(seed), row_(row) {}

  Case run() {
    Shape sources, counted;
    const int64_t fewest = rng_.chance(0.1) ? 0 : 1;
    for (int64_t n = pick(1, 2); n > 0; --n) sources.push_back(pick(fewest, 4));
    for (int64_t n = pick(1, 3); n > 0; --n) counted.push_back(pick(counted.empty() ? 2 : 1, 5));
    Shape of_row{row_};
    if (rng_.chance(0.5)) of_row.insert(of_row.begin(), pick(1, 3));
    const int64_t positions = product(counted);
    const Tensor places = placeholder(sources, one_of({i8, u8, i32, i64, u64}), "places");
    const DataType type = one_of({f32, f32, f16, i8});
    Case made;
    made.given.push_back({places, values(places, positions)});
    const Tensor x = placeholder(joined(sources, of_row), type, "x");
    for (int64_t n = pick(1, 2); n > 0; --n) {
      const Tensor state = placeholder(joined(counted, of_row), type, "state");
      const bool copied = rng_.chance(0.3) || type != f32;
      const Tensor rows = copied ? x : ops::mul(ops::tanh(x), ops::sigmoid(x));
      Tensor next = update(state, rows, places);
      if (rng_.chance(0.3) && counted.size() == 1 && !places.dtype().is_uint())
        next = by_scatter(state, rows, places, made);
      made.drawn.updates.push_back({state, next});
      if (rng_.chance(0.6)) made.drawn.outputs.push_back(weighed(next));
      if (rng_.chance(0.3)) made.drawn.outputs.push_back(weighed(state));
    }
    return made;
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  DataType one_of(const std::vector<DataType>& types) {
    return types[static_cast<size_t>(pick(0, std::ssize(types) - 1))];
  }
  static int64_t product(const Shape& shape) {
    int64_t all = 1;
    for (const Expr& e : shape) all *= *as_int(e);
    return all;
  }
  static Shape joined(Shape a, const Shape& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  NDArray values(const Tensor& places, int64_t positions) {
    NDArray all = NDArray::zeros(places.extents(), places.dtype());
    const int64_t least = places.dtype().is_uint() ? 0 : -2;
    for (int64_t p = 0; p < all.size(); ++p)
      all.set(p, static_cast<double>(pick(least, positions + 1)));
    return all;
  }
  /// The same by the operator, whose places count from the end where they are negative.
  Tensor by_scatter(const Tensor& state, const Tensor& rows, const Tensor& places, Case& made) {
    Shape shape = places.shape();
    shape.push_back(Expr(1));
    const Tensor indices = placeholder(shape, places.dtype(), "indices");
    NDArray all = NDArray::zeros(indices.extents(), indices.dtype());
    for (int64_t p = 0; p < all.size(); ++p)
      all.set(p, static_cast<double>(pick(-state.extent(0) - 1, state.extent(0))));
    made.given.push_back({indices, all});
    return ops::scatter_nd(state, indices, rows);
  }
  static Tensor weighed(const Tensor& t) {
    Shape columns{t.shape().back()};
    return compute(
        columns,
        [&](Axis c) {
          std::vector<Axis> k;
          std::vector<Expr> at;
          Expr weight = Expr(1.f);
          for (int d = 0; d + 1 < t.rank(); ++d) {
            k.push_back(reduce_axis(t.extent(d), "k"));
            at.emplace_back(k.back());
            weight = weight * Expr(static_cast<float>(d + 3)) + cast(f32, k.back());
          }
          at.emplace_back(c);
          return sum(cast(f32, t.at(at)) * weight, k);
        },
        "weighed");
  }

  Rng rng_;
  const int64_t row_;
};

/// What the network says of updates that copy a state.
std::string words_of_updates(const Network& network) {
  std::string text;
  for (const PassApplication& p : network.passes()) {
    if (p.pass == "updates") text += p.text + "\n";
  }
  return text;
}

TEST(ScatteredUpdates, RowsGoToTheirPlacesWithoutACopy) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 40),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t n = first; n < first + count; ++n) {
    const auto seed = static_cast<uint64_t>(n);
    const Case made = Drawer(seed, 1 + n % 17).run();
    const Network network(made.drawn.outputs, Target::host(), {}, {}, made.drawn.updates);
    EXPECT_EQ(words_of_updates(network), "") << "seed " << seed;
    EXPECT_EQ(wrong_after_calls(made.drawn, network, 1e-3, made.given), "") << "seed " << seed;
  }
}

TEST(ScatteredUpdates, AGpuStoresThemLikewise) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const Target gpu = Target::parse("cuda -gpu=h200");
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 10),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t n = first; n < first + count; ++n) {
    const auto seed = static_cast<uint64_t>(n);
    const Case made = Drawer(seed, 16 * (1 + n % 3)).run();
    const Network network(made.drawn.outputs, gpu, {}, {}, made.drawn.updates);
    EXPECT_EQ(words_of_updates(network), "") << "seed " << seed;
    emulate_network(driver, network, gpu);
    EXPECT_EQ(wrong_after_calls(made.drawn, network, 1e-3, made.given), "") << "seed " << seed;
  }
}

/// Sequences of different lengths, whose rows of a call go behind what each has: state (capacity,
/// batch, 8), rows (batch, n, 8), lengths (batch).
struct Ragged {
  Dim n = dim("n", 1, 4);
  Tensor state = placeholder({12, 3, 8}, f32, "state"), rows = placeholder({3, n, 8}, f32, "rows");
  Tensor lengths = placeholder({3}, i32, "lengths");
  Tensor places = compute(
      {3, n}, [&](Axis b, Axis j) { return (cast(i64, lengths(b)) + j) * 3 + b; }, "places");
  Tensor squares = compute(
      {3, n, 8}, [&](Axis b, Axis j, Axis d) { return rows(b, j, d) * rows(b, j, d); }, "squares");
  Tensor next = update(state, squares, places);
  Network network{{}, Target::host(), {}, {}, {{state, next}}};
  NetworkKernel run = network.build({state, rows, lengths});
};

TEST(ScatteredUpdates, SequencesGrowEachForItself) {
  const Ragged r;
  EXPECT_THAT(r.network.passes(), IsEmpty());
  const NDArray state = NDArray::full({12, 3, 8}, f32, 100), want = state.copy();
  const NDArray lengths = NDArray::from<int32_t>({0, 5, 10});
  for (const int64_t n : {2, 1, 4}) {
    const NDArray rows = NDArray::random({3, n, 8}, f32, static_cast<uint64_t>(n));
    r.run(state, rows, lengths);
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t j = 0; j < n; ++j) {
        const auto at = static_cast<int64_t>(lengths.get(b)) + j;
        for (int64_t d = 0; d < 8 && at < 12; ++d)
          want.at<float>({at, b, d}) = rows.at<float>({b, j, d}) * rows.at<float>({b, j, d});
      }
      lengths.set(b, lengths.get(b) + static_cast<double>(n));
    }
    EXPECT_TRUE(allclose(state, want)) << n;
  }
}

TEST(ScatteredUpdates, MistakesAreErrors) {
  const Tensor state = placeholder({4, 3, 8}, f32, "state"), p = placeholder({2}, i32, "places");
  const auto made = [&](const Tensor& rows, const Tensor& places) {
    return message_of([&] { (void)update(state, rows, places); });
  };
  EXPECT_THAT(made(placeholder({2, 7}, f32), p), HasSubstr("then the last ones of the state"));
  EXPECT_THAT(made(placeholder({3, 8}, f32), p), HasSubstr("then the last ones of the state"));
  EXPECT_THAT(made(placeholder({2, 4, 3, 8}, f32), p), HasSubstr("the last ones of the state"));
  EXPECT_THAT(made(placeholder({2, 8}, f16), p), HasSubstr("convert the rows"));
  EXPECT_THAT(made(placeholder({2, 8}, f32), placeholder({2}, f32)), HasSubstr("give integers"));
}

}  // namespace
}  // namespace heddle::testing
