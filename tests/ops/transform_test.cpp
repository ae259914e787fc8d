#include <functional>

#include "heddle/dag/compute_dag.h"
#include "heddle/family/schedule.h"
#include "heddle/ir/simplify.h"
#include "heddle/lower/lower.h"
#include "ops/ops_testing.h"

namespace heddle {
namespace {

/// Row-major position of `index` in `dims`.
int64_t flat(const Dims& index, const Dims& dims) {
  int64_t p = 0;
  for (size_t d = 0; d < dims.size(); ++d) p = p * dims[d] + index[d];
  return p;
}

TEST(Reshape, KeepsTheRowMajorOrder) {
  const Input x = input({4, 6, 5});
  const auto check = [&](const Tensor& y, const Dims& dims) {
    EXPECT_EQ(y.extents(), dims);
    expect_elements(y, {x}, [&](const Dims& i) { return x.array.get(flat(i, dims)); });
  };
  check(ops::reshape(x, {2, 2, 6, 5}), {2, 2, 6, 5});
  check(ops::reshape(x, {24, 5}), {24, 5});
  check(ops::reshape(x, {8, -1}), {8, 15});
  check(ops::reshape(x, {0, 3, 10}), {4, 3, 10});
  check(ops::reshape(x, {120}), {120});
  check(ops::reshape(x, {1, 4, 1, 30, 1}), {1, 4, 1, 30, 1});
  check(ops::flatten(x), {4, 30});
  check(ops::flatten(x, 0), {1, 120});
  check(ops::flatten(x, -1), {24, 5});
  check(ops::expand_dims(x, {0, -1}), {1, 4, 6, 5, 1});
}

TEST(Reshape, ThatSplitsReadsAtLinearIndices) {
  const Input x = input({4, 6});
  const Tensor y = ops::reshape(x, {2, 2, 1, 3, 2});
  const Load* load = y.op()->bodies()[0].as<Load>();
  ASSERT_NE(load, nullptr);
  for (const Expr& index : load->indices) EXPECT_TRUE(as_affine(index).has_value());
}

TEST(Reshape, OfOneElement) {
  const Input x = input({1, 1});
  expect_elements(ops::reshape(x, {}), {x}, [&](const Dims&) { return x(0, 0); });
  expect_elements(ops::squeeze(x), {x}, [&](const Dims&) { return x(0, 0); });
}

TEST(Squeeze, DropsExtentsOfOne) {
  const Input x = input({1, 3, 1, 2});
  EXPECT_EQ(ops::squeeze(x, {0}).extents(), (Dims{3, 1, 2}));
  expect_elements(ops::squeeze(x), {x}, [&](const Dims& i) { return x(0, i[0], 0, i[1]); });
}

TEST(BroadcastTo, RepeatsAndAddsDimensions) {
  const Input x = input({3, 1});
  expect_elements(ops::broadcast_to(x, {2, 3, 4}), {x}, [&](const Dims& i) { return x(i[1], 0); });
}

TEST(Transpose, Permutes) {
  const Input x = input({2, 3, 4, 5});
  expect_elements(ops::transpose(x), {x}, [&](const Dims& i) { return x(i[3], i[2], i[1], i[0]); });
  expect_elements(ops::transpose(x, {1, 0, -1, 2}), {x},
                  [&](const Dims& i) { return x(i[1], i[0], i[3], i[2]); });
  expect_elements(ops::nchw_to_nhwc(x), {x},
                  [&](const Dims& i) { return x(i[0], i[3], i[1], i[2]); });
  expect_elements(ops::nhwc_to_nchw(x), {x},
                  [&](const Dims& i) { return x(i[0], i[2], i[3], i[1]); });
}

TEST(FlipAndRoll, MoveElementsAlongAxes) {
  const Input x = input({3, 5});
  expect_elements(ops::flip(x, {-1}), {x}, [&](const Dims& i) { return x(i[0], 4 - i[1]); });
  expect_elements(ops::roll(x, 2, 1), {x}, [&](const Dims& i) { return x(i[0], (i[1] + 3) % 5); });
  expect_elements(ops::roll(x, -7, 1), {x}, [&](const Dims& i) { return x(i[0], (i[1] + 7) % 5); });
}

TEST(Concat, PutsTensorsSideBySide) {
  const Input a = input({2, 3}, f32, 1), b = input({2, 1}, f32, 2), c = input({2, 4}, f32, 3);
  expect_elements(ops::concat({a, b, c}, -1), {a, b, c}, [&](const Dims& i) {
    if (i[1] < 3) return a(i[0], i[1]);
    return i[1] < 4 ? b(i[0], 0) : c(i[0], i[1] - 4);
  });
  expect_elements(ops::concat({a}, 0), {a}, [&](const Dims& i) { return a.at(i); });
}

TEST(Stack, AddsADimension) {
  const Input a = input({2, 3}, f32, 1), b = input({2, 3}, f32, 2);
  for (int axis : {0, 1, 2})
    expect_elements(ops::stack({a, b, a}, axis), {a, b}, [&](const Dims& i) {
      Dims at = i;
      at.erase(at.begin() + axis);
      return i[static_cast<size_t>(axis)] == 1 ? b.at(at) : a.at(at);
    });
}

TEST(Split, CutsAlongAnAxis) {
  const Input x = input({3, 6});
  const std::vector<Tensor> parts = ops::split(x, {1, 3, 2}, 1);
  ASSERT_EQ(parts.size(), 3u);
  expect_elements(parts[1], {x}, [&](const Dims& i) { return x(i[0], i[1] + 1); });
  expect_elements(parts[2], {x}, [&](const Dims& i) { return x(i[0], i[1] + 4); });
  const std::vector<Tensor> halves = ops::split(x, 2, -1);
  expect_elements(halves[1], {x}, [&](const Dims& i) { return x(i[0], i[1] + 3); });
}

TEST(Slice, FollowsOnnx) {
  const Input x = input({10, 4});
  const auto rows = [&](int64_t start, int64_t end, int64_t step) {
    return ops::slice(x, {start}, {end}, {0}, {step});
  };
  const auto check = [&](const Tensor& y, const Dims& want) {
    EXPECT_EQ(y.extent(0), static_cast<int64_t>(want.size()));
    expect_elements(y, {x},
                    [&](const Dims& i) { return x(want[static_cast<size_t>(i[0])], i[1]); });
  };
  check(rows(2, 5, 1), {2, 3, 4});
  check(rows(-3, INT64_MAX, 1), {7, 8, 9});
  check(rows(1, -1, 3), {1, 4, 7});
  check(rows(8, 2, -3), {8, 5});
  check(rows(-1, INT64_MIN, -4), {9, 5, 1});
  check(rows(100, -100, -5), {9, 4});
  expect_elements(ops::slice(x, {1, 2}, {3, 4}), {x},
                  [&](const Dims& i) { return x(i[0] + 1, i[1] + 2); });
}

TEST(Pad, OfEveryMode) {
  const Input x = input({3, 4});
  const Dims before{1, 2}, after{2, 3};
  expect_elements(ops::pad(x, before, after, ops::PadMode::Constant, 7), {x},
                  [&](const Dims& i) { return x.or_else(7, {i[0] - 1, i[1] - 2}); });
  const auto clamp = [](int64_t v, int64_t n) { return std::min(std::max(v, int64_t{0}), n - 1); };
  expect_elements(ops::pad(x, before, after, ops::PadMode::Edge), {x},
                  [&](const Dims& i) { return x(clamp(i[0] - 1, 3), clamp(i[1] - 2, 4)); });
  const auto reflect = [](int64_t v, int64_t n) {
    v = std::abs(v);
    return v >= n ? 2 * (n - 1) - v : v;
  };
  expect_elements(ops::pad(x, before, after, ops::PadMode::Reflect), {x},
                  [&](const Dims& i) { return x(reflect(i[0] - 1, 3), reflect(i[1] - 2, 4)); });
  expect_elements(ops::pad(x, {-1, 1}, {0, -2}), {x},
                  [&](const Dims& i) { return x.or_else(0, {i[0] + 1, i[1] - 1}); });
}

TEST(TileAndRepeat, RepeatElements) {
  const Input x = input({2, 3});
  expect_elements(ops::tile(x, {2, 3}), {x}, [&](const Dims& i) { return x(i[0] % 2, i[1] % 3); });
  expect_elements(ops::repeat(x, 2, -1), {x}, [&](const Dims& i) { return x(i[0], i[1] / 2); });
}

int64_t safe(double index, int64_t n) {
  const int64_t i = static_cast<int64_t>(index);
  return std::min(std::max(i < 0 ? i + n : i, int64_t{0}), n - 1);
}

TEST(Gather, NormalisesAndClampsItsIndices) {
  const Input x = input({4, 5, 2});
  const Input index = input_of(NDArray::from<int32_t>({0, -1, 4, 99, -99, 2}, {3, 2}), "index");
  const Tensor y = ops::gather(x, index, 1);
  EXPECT_EQ(y.extents(), (Dims{4, 3, 2, 2}));
  expect_elements(y, {x, index},
                  [&](const Dims& i) { return x(i[0], safe(index(i[1], i[2]), 5), i[3]); });
  const Input bytes = input({7}, u8, 3);
  expect_elements(ops::gather(x, bytes), {x, bytes},
                  [&](const Dims& i) { return x(safe(bytes(i[0]), 4), i[1], i[2]); });
}

TEST(Take, ReadsTheFlattenedTensor) {
  const Input x = input({4, 5});
  const Input index = input_of(NDArray::from<int64_t>({0, 19, -1, 7, 500}), "index");
  expect_elements(ops::take(x, index), {x, index},
                  [&](const Dims& i) { return x.array.get(safe(index(i[0]), 20)); });
}

TEST(GatherElements, PicksAlongAnAxis) {
  const Input x = input({3, 5}), index = input({2, 5}, i32, 2, -3, 2);
  expect_elements(ops::gather_elements(x, index, 0), {x, index},
                  [&](const Dims& i) { return x(safe(index.at(i), 3), i[1]); });
}

TEST(OneHot, IsOnAtTheIndex) {
  const Input index = input_of(NDArray::from<int32_t>({0, 2, -1, 9}), "index");
  expect_elements(ops::one_hot(index, 3), {index}, [&](const Dims& i) {
    const double at = index(i[0]) < 0 ? index(i[0]) + 3 : index(i[0]);
    return at == static_cast<double>(i[1]) ? 1.0 : 0.0;
  });
  expect_elements(ops::one_hot(index, 3, 0, 5, -1, i8), {index}, [&](const Dims& i) {
    const double at = index(i[1]) < 0 ? index(i[1]) + 3 : index(i[1]);
    return at == static_cast<double>(i[0]) ? 5.0 : -1.0;
  });
}

TEST(Triangles, KeepOneSide) {
  const Input x = input({2, 4, 5});
  for (int64_t k : {-1, 0, 2}) {
    expect_elements(ops::tril(x, k), {x},
                    [&](const Dims& i) { return i[2] - i[1] <= k ? x.at(i) : 0.0; });
    expect_elements(ops::triu(x, k), {x},
                    [&](const Dims& i) { return i[2] - i[1] >= k ? x.at(i) : 0.0; });
  }
}

TEST(CumSum, OfEveryDirection) {
  for (DataType t : {f32, f16, i32}) {
    const Input x = input({3, 6}, t);
    for (bool exclusive : {false, true})
      for (bool reverse : {false, true})
        expect_elements(ops::cumsum(x, 1, exclusive, reverse), {x}, [&](const Dims& i) {
          double s = 0;
          for (int64_t k = 0; k < 6; ++k) {
            const bool before = reverse ? k > i[1] : k < i[1];
            if (before || (k == i[1] && !exclusive)) s += x(i[0], k);
          }
          return s;
        });
  }
}

TEST(CumSum, OfLongAxesIsRightAndLinear) {
  for (const int64_t n : {100, 1104}) {  // whole blocks or not, one level or two
    const Input x = input({n, 2}, i32);
    for (bool exclusive : {false, true}) {
      for (bool reverse : {false, true}) {
        std::vector<double> sums(static_cast<size_t>(2 * n));
        for (int64_t column = 0; column < 2; ++column) {
          double sum = 0;
          for (int64_t p = 0; p < n; ++p) {
            const int64_t i = reverse ? n - 1 - p : p;
            const double value = x(i, column);
            sums[static_cast<size_t>(2 * i + column)] = exclusive ? sum : sum + value;
            sum += value;
          }
        }
        expect_elements(ops::cumsum(x, 0, exclusive, reverse), {x},
                        [&](const Dims& i) { return sums[static_cast<size_t>(2 * i[0] + i[1])]; });
      }
    }
  }
  const auto work = [](int64_t n) {
    return ComputeDag({ops::cumsum(placeholder({n}, f32), 0)}).total_flops();
  };
  EXPECT_LT(work(1 << 20), 2.1 * work(1 << 19));
}

// What a plain loop makes of x along `axis`.
std::vector<double> running(const Input& x, size_t axis, bool exclusive, bool reverse, double first,
                            const std::function<double(double, double)>& combine) {
  const auto& shape = x.array.shape();
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d < shape.size(); ++d) (d < axis ? outer : inner) *= shape[d];
  const int64_t n = shape[axis];
  inner /= n;
  std::vector<double> out(static_cast<size_t>(outer * n * inner));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      double total = first;
      for (int64_t p = 0; p < n; ++p) {
        const int64_t at = (o * n + (reverse ? n - 1 - p : p)) * inner + j;
        const double next = combine(total, x.array.get(at));
        out[static_cast<size_t>(at)] = exclusive ? total : next;
        total = next;
      }
    }
  }
  return out;
}

TEST(Scan, OfAnyReducerIsWhatALoopMakes) {
  const Input x = input({3, 7, 5}, i32);
  // Associative and not commutative: the last that is not 0.
  const Reducer last = reducer(
      "last", {i32}, {0},
      [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
        return std::vector<Expr>{select(b[0] != 0, b[0], a[0])};
      },
      false);
  for (int axis : {0, 1, 2}) {
    for (bool exclusive : {false, true}) {
      for (bool reverse : {false, true}) {
        const auto d = static_cast<size_t>(axis);
        const auto expect = [&](const Tensor& t, const std::vector<double>& want) {
          expect_elements(t, {x}, [&](const Dims& i) {
            return want[static_cast<size_t>((i[0] * 7 + i[1]) * 5 + i[2])];
          });
        };
        expect(ops::scan(x, axis, last, exclusive, reverse),
               running(x, d, exclusive, reverse, 0,
                       [](double a, double b) { return b != 0 ? b : a; }));
        expect(ops::cumprod(x, axis, exclusive, reverse),
               running(x, d, exclusive, reverse, 1, [](double a, double b) {
                 return static_cast<double>(
                     static_cast<int32_t>(static_cast<int64_t>(a) * static_cast<int64_t>(b)));
               }));
      }
    }
  }
}

TEST(Scan, IsRecognised) {
  const Tensor x = placeholder({6, 40}, f32, "X");
  const Axis k = reduce_axis(40, "k");
  const auto info = [](const Tensor& t) {
    const ComputeDag dag({t});
    return dag.info(dag.size() - 1);
  };
  const Tensor written =
      compute({6, 40}, [&](Axis i, Axis j) { return sum(select(k <= j, x(i, k), 0.f), k); });
  for (const Tensor& t :
       {written, ops::cumsum(x, 1), ops::cumprod(x, 0), ops::cumsum(x, 1, true)}) {
    ASSERT_TRUE(info(t).scan) << t.name();
    // One addition a point.
    EXPECT_LE(info(t).flops, 2.0 * 240);
  }
  // What every point takes must be the same for all behind it.
  EXPECT_FALSE(info(compute({6, 40}, [&](Axis i, Axis j) {
                 return sum(select(k <= j, x(i, k) * cast(f32, Expr(j)), 0.f), k);
               })).scan);
  EXPECT_FALSE(info(compute({6, 40}, [&](Axis i, Axis j) {
                 return sum(select(k <= j, x(i, k), 1.f), k);
               })).scan);
}

// Whole blocks or not, one level of totals or two, from both ends. A thread for each row would wait for memory.
TEST(Scan, OfFewRowsIsCutIntoBlocksOnAGpu) {
  const Target gpu = Target::parse("cuda -gpu=h200");
  for (const int64_t n : {1024, 1000, 4352}) {
    const Input x = input({3, n}, i32);
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        const Tensor sums = ops::cumsum(x, 1, exclusive, reverse);
        const Schedule s = create_schedule({sums}, gpu);
        const bool cut = s.dag().alternative().starts_with("scan_blocks");
        EXPECT_EQ(cut, !reverse || n % 16 == 0) << n;
        if (cut) {
          EXPECT_EQ(lower_gpu(s, {x, sums}).main.size(), 1u) << n;
        }
        const std::vector<double> want = running(x, 1, exclusive, reverse, 0, std::plus<>());
        expect_elements(sums, {x},
                        [&](const Dims& i) { return want[static_cast<size_t>(i[0] * n + i[1])]; });
      }
    }
  }
  // Lanes have columns beside each other, and there are enough of them.
  const Tensor many = ops::cumsum(placeholder({64, 512, 1024}), 1);
  EXPECT_EQ(create_schedule({many}, gpu).dag().alternative(), "");
}

// No length of 128 to 256 divides these rows. From the end, only blocks that divide a row are taken: longer
// ones (521, 4093), and none where only 8209 would divide it.
TEST(CumSum, FromTheEndTakesLongerBlocksThatDivideTheRow) {
  for (const auto& [n, blocks] :
       std::vector<std::pair<int64_t, int64_t>>{{32 * 521, 32}, {5 * 4093, 5}, {2 * 8209, 0}}) {
    const Input x = input({n}, i32);
    const Tensor sums = ops::cumsum(x, 0, false, true);
    int64_t found = 0;
    const ComputeDag dag({sums});
    for (int stage = 0; stage < dag.size(); ++stage) {
      const Operation& op = dag.stage(stage);
      if (op.name() == "cumsum_blocks") found = *as_int(op.output_buffer(0)->shape[0]);
    }
    EXPECT_EQ(found, blocks) << n;
    if (blocks == 0) continue;  // a scan of one block takes n * n steps here
    const std::vector<double> want = running(x, 0, false, true, 0, std::plus<>());
    expect_elements(sums, {x}, [&](const Dims& i) { return want[static_cast<size_t>(i[0])]; });
  }
}

TEST(Scan, WrongArgumentsAreErrors) {
  const Tensor x = placeholder({4}, f32, "X");
  EXPECT_THROW(ops::scan(x, 0, Reducer()), Error);
  const auto add = [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
    std::vector<Expr> out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(a[i] + b[i]);
    return out;
  };
  EXPECT_THROW(ops::scan(x, 0, reducer("two", {f32, f32}, {0, 0}, add)), Error);
  EXPECT_THROW(ops::scan(x, 0, reducer("of i32", {i32}, {0}, add)), Error);
}

TEST(Blocks, MoveBetweenDepthAndSpace) {
  const Input x = input({2, 3, 4, 6}), z = input({2, 8, 2, 3});
  expect_elements(ops::space_to_depth(x, 2), {x}, [&](const Dims& i) {
    const int64_t place = i[1] / 3;
    return x(i[0], i[1] % 3, i[2] * 2 + place / 2, i[3] * 2 + place % 2);
  });
  expect_elements(ops::depth_to_space(z, 2), {z}, [&](const Dims& i) {
    return z(i[0], (i[2] % 2 * 2 + i[3] % 2) * 2 + i[1], i[2] / 2, i[3] / 2);
  });
  expect_elements(ops::pixel_shuffle(z, 2), {z}, [&](const Dims& i) {
    return z(i[0], i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2);
  });
}

TEST(TransformErrors, NameOperatorArgumentAndShapes) {
  const Input x = input({2, 3}), y = input({2, 4}), f = input({2});
  EXPECT_EQ(error_of([&] { ops::reshape(x, {4, 2}); }),
            "reshape: cannot reshape (2, 3), 6 elements, to (4, 2) | ");
  EXPECT_EQ(error_of([&] { ops::reshape(x, {-1, 4}); }),
            "reshape: cannot reshape (2, 3), 6 elements, to (-1, 4) | ");
  EXPECT_EQ(error_of([&] { ops::reshape(x, {-1, -1}); }),
            "reshape: the shape (-1, -1) has two extents of -1 | ");
  EXPECT_EQ(error_of([&] { ops::squeeze(x, {1}); }),
            "squeeze: dimension 1 of (2, 3) does not have extent 1 | ");
  EXPECT_EQ(error_of([&] { ops::broadcast_to(x, {3, 3}); }),
            "broadcast_to: (2, 3) does not broadcast to (3, 3) | from the back, extents of x must "
            "be 1 or equal");
  EXPECT_EQ(error_of([&] { ops::transpose(x, {0, 0}); }), "transpose: axis 0 is given twice | ");
  EXPECT_EQ(error_of([&] { ops::transpose(x, {0}); }),
            "transpose: perm has 1 entries for shape (2, 3) | ");
  EXPECT_EQ(error_of([&] { ops::concat({x, y}, 0); }),
            "concat: the shapes (2, 3) and (2, 4) differ elsewhere than in dimension 0 | ");
  EXPECT_EQ(error_of([&] { ops::concat({}, 0); }), "concat: no tensors are given | ");
  EXPECT_EQ(error_of([&] { ops::stack({x, y}); }), "stack: the shapes (2, 3) and (2, 4) differ | ");
  EXPECT_EQ(error_of([&] { ops::split(x, {1, 1}, 1); }),
            "split: the parts (1, 1) sum up to 2, but dimension 1 of (2, 3) has extent 3 | ");
  EXPECT_EQ(error_of([&] { ops::split(x, 2, 1); }),
            "split: extent 3 cannot be split into 2 equal parts | give the extents of the parts "
            "instead");
  EXPECT_EQ(error_of([&] { ops::slice(x, {2}, {1}); }),
            "slice: dimension 0 of (2, 3) from 2 to 1 by 1 is empty | ");
  EXPECT_EQ(error_of([&] { ops::slice(x, {0}, {1}, {0}, {0}); }),
            "slice: the step of dimension 0 is 0 | ");
  EXPECT_EQ(error_of([&] { ops::pad(x, {1}, {1}); }),
            "pad: 'before' (1) and 'after' (1) do not go with shape (2, 3) | give one count a "
            "dimension");
  EXPECT_EQ(error_of([&] { ops::pad(x, {0, 3}, {0, 0}, ops::PadMode::Reflect); }),
            "pad: dimension 1 of (2, 3) cannot be reflected by 3 | reflection needs less padding "
            "than the extent");
  EXPECT_EQ(error_of([&] { ops::pad(x, {-1, 0}, {-1, 0}); }),
            "pad: nothing is left of dimension 0 of (2, 3) padded by -1 and -1 | ");
  EXPECT_EQ(error_of([&] { ops::tile(x, {2}); }), "tile: 'repeats' has 1 value, and needs 2 | ");
  EXPECT_EQ(error_of([&] { ops::gather(x, f); }),
            "gather: argument 'indices' is f32 (2), and needs integers | ");
  EXPECT_EQ(error_of([&] { ops::pixel_shuffle(input({1, 3, 2, 2}), 2); }),
            "depth_to_space: 3 channels are no multiple of the block area 4 | ");
  EXPECT_EQ(error_of([&] { ops::space_to_depth(input({1, 3, 3, 2}), 2); }),
            "space_to_depth: height 3 and width 2 are not multiples of the block size 2 | ");
}

}  // namespace
}  // namespace heddle
