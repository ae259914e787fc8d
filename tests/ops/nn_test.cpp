#include "ops/ops_testing.h"

namespace heddle {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  const double n = static_cast<double>(values.size());
  for (double v : values) m.mean += v / n;
  for (double v : values) m.variance += (v - m.mean) * (v - m.mean) / n;
  return m;
}

TEST(Softmax, AlongAnyAxis) {
  for (DataType t : {f32, f64, f16, bf16}) {
    const Input x = input({3, 4, 5}, t, 1, -9, 9);
    const auto power_sum = [&](const Dims& i) {
      double s = 0;
      for (int k = 0; k < 4; ++k) s += std::exp(x(i[0], k, i[2]));
      return s;
    };
    expect_elements(ops::softmax(x, 1), {x},
                    [&](const Dims& i) { return std::exp(x.at(i)) / power_sum(i); });
    expect_elements(ops::log_softmax(x, -2), {x},
                    [&](const Dims& i) { return x.at(i) - std::log(power_sum(i)); });
  }
}

TEST(Softmax, OfLargeValuesDoesNotOverflow) {
  const Input x = input_of(NDArray::from<float>({1000, 1000, -1000}));
  const double want[] = {0.5, 0.5, 0};
  expect_elements(ops::softmax(x), {x}, [&](const Dims& i) { return want[i[0]]; });
}

TEST(BatchNorm, ScalesEachChannel) {
  for (int axis : {1, -1}) {
    const Input x = input({2, 3, 4, 3}, f32, 1), scale = input({3}, f32, 2),
                shift = input({3}, f32, 3), mean = input({3}, f32, 4),
                variance = input({3}, f32, 5, 0.5, 2);
    expect_elements(
        ops::batch_norm(x, scale, shift, mean, variance, 1e-3, axis),
        {x, scale, shift, mean, variance},
        [&](const Dims& i) {
          const int64_t c = axis == 1 ? i[1] : i[3];
          return (x.at(i) - mean(c)) / std::sqrt(variance(c) + 1e-3) * scale(c) + shift(c);
        },
        1e-5);
  }
}

TEST(LayerNorm, OverTrailingDimensions) {
  for (DataType t : {f32, f16}) {
    const Input x = input({3, 4, 5}, t, 1), scale = input({4, 5}, t, 2),
                shift = input({4, 5}, t, 3);
    expect_elements(
        ops::layer_norm(x, scale, shift, 1), {x, scale, shift},
        [&](const Dims& i) {
          std::vector<double> row;
          for (int j = 0; j < 4; ++j)
            for (int k = 0; k < 5; ++k) row.push_back(x(i[0], j, k));
          const Moments m = moments(row);
          return (x.at(i) - m.mean) / std::sqrt(m.variance + 1e-5) * scale(i[1], i[2]) +
                 shift(i[1], i[2]);
        },
        4 * tolerance_of(t));
    expect_elements(
        ops::layer_norm(x), {x},
        [&](const Dims& i) {
          std::vector<double> row;
          for (int k = 0; k < 5; ++k) row.push_back(x(i[0], i[1], k));
          const Moments m = moments(row);
          return (x.at(i) - m.mean) / std::sqrt(m.variance + 1e-5);
        },
        4 * tolerance_of(t));
  }
}

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const Input x = input({3, 7}, f32, 1), scale = input({7}, f32, 2);
  expect_elements(
      ops::rms_norm(x, scale), {x, scale},
      [&](const Dims& i) {
        double s = 0;
        for (int k = 0; k < 7; ++k) s += x(i[0], k) * x(i[0], k) / 7;
        return x.at(i) / std::sqrt(s + 1e-6) * scale(i[1]);
      },
      1e-5);
}

TEST(GroupNorm, OverRunsOfChannels) {
  for (int64_t groups : {1, 2, 4}) {
    const Input x = input({2, 4, 3, 2}, f32, 1), scale = input({4}, f32, 2);
    expect_elements(
        ops::group_norm(x, groups, scale), {x, scale},
        [&](const Dims& i) {
          const int64_t run = 4 / groups, first = i[1] / run * run;
          std::vector<double> values;
          for (int64_t c = first; c < first + run; ++c)
            for (int y = 0; y < 3; ++y)
              for (int z = 0; z < 2; ++z) values.push_back(x(i[0], c, y, z));
          const Moments m = moments(values);
          return (x.at(i) - m.mean) / std::sqrt(m.variance + 1e-5) * scale(i[1]);
        },
        1e-5);
  }
}

TEST(InstanceNorm, IsAGroupAChannel) {
  const Input x = input({2, 3, 6}, f32, 1), scale = input({3}, f32, 2), shift = input({3}, f32, 3);
  expect_elements(
      ops::instance_norm(x, scale, shift), {x, scale, shift},
      [&](const Dims& i) {
        std::vector<double> values;
        for (int k = 0; k < 6; ++k) values.push_back(x(i[0], i[1], k));
        const Moments m = moments(values);
        return (x.at(i) - m.mean) / std::sqrt(m.variance + 1e-5) * scale(i[1]) + shift(i[1]);
      },
      1e-5);
}

TEST(Lrn, NormalisesOverNeighbouringChannels) {
  for (int64_t size : {int64_t{3}, int64_t{4}, int64_t{12}, int64_t{1} << 40}) {
    const Input x = input({2, 5, 2, 2}, f32, 1);
    expect_elements(ops::lrn(x, size, 0.3, 0.75, 2), {x}, [&](const Dims& i) {
      double s = 0;
      for (int64_t c = 0; c < 5; ++c) {
        const double v = x(i[0], c, i[2], i[3]);
        if (c >= i[1] - (size - 1) / 2 && c <= i[1] + size / 2) s += v * v;
      }
      return x.at(i) / std::pow(2 + 0.3 / static_cast<double>(size) * s, 0.75);
    });
  }
}

TEST(Attention, AgreesWithTheReference) {
  const Input q = input({2, 3, 4}, f32, 1), k = input({2, 5, 4}, f32, 2);
  const Input v = input({2, 5, 6}, f32, 3), add = input({3, 5}, f32, 4);
  const Input allow = input_of(
      NDArray::from<uint8_t>({1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1}, {3, 5}).cast(boolean),
      "allow");
  const auto reference = [&](const Dims& i, const Input* mask) {
    double total = 0, result = 0;
    for (int s = 0; s < 5; ++s) {
      double score = 0;
      for (int e = 0; e < 4; ++e) score += q(i[0], i[1], e) * k(i[0], s, e) / 2;
      if (mask == &add) score += add(i[1], s);
      if (mask == &allow && allow(i[1], s) == 0) continue;
      total += std::exp(score);
      result += std::exp(score) * v(i[0], s, i[2]);
    }
    return result / total;
  };
  expect_elements(
      ops::scaled_dot_product_attention(q, k, v), {q, k, v},
      [&](const Dims& i) { return reference(i, nullptr); }, 1e-5);
  expect_elements(
      ops::scaled_dot_product_attention(q, k, v, add), {q, k, v, add},
      [&](const Dims& i) { return reference(i, &add); }, 1e-5);
  expect_elements(
      ops::scaled_dot_product_attention(q, k, v, allow), {q, k, v, allow},
      [&](const Dims& i) { return reference(i, &allow); }, 1e-5);
}

// What attention() adds to scaled_dot_product_attention, all of it at once.
TEST(Nn, AttentionByPositionsOfGroupedHeads) {
  const Input q = input({2, 4, 3, 4}, f32, 1), k = input({2, 2, 6, 4}, f32, 2);
  const Input v = input({2, 2, 6, 5}, f32, 3), add = input({4, 3, 6}, f32, 4);
  const Input offsets = input_of(NDArray::from<int64_t>({1, -2}, {2}), "offsets");
  const Input lengths = input_of(NDArray::from<int32_t>({6, 3}, {2}), "lengths");
  const ops::AttentionResult r = ops::attention(q, k, v,
                                                {.mask = add,
                                                 .scale = 0.7,
                                                 .softcap = 1.5,
                                                 .causal = true,
                                                 .left = 2,
                                                 .offsets = offsets,
                                                 .lengths = lengths,
                                                 .empty_rows = true});
  expect_elements(
      r.result, {q, k, v, add, offsets, lengths},
      [&](const Dims& i) {
        double total = 0, result = 0;
        for (int s = 0; s < 6; ++s) {
          const double position = static_cast<double>(i[2]) + offsets(i[0]);
          if (s > position || s < position - 2 || s >= lengths(i[0])) continue;
          double score = 0;
          for (int e = 0; e < 4; ++e) score += q(i[0], i[1], i[2], e) * k(i[0], i[1] / 2, s, e);
          score = 1.5 * std::tanh(score * 0.7 / 1.5) + add(i[1], i[2], s);
          total += std::exp(score);
          result += std::exp(score) * v(i[0], i[1] / 2, s, i[3]);
        }
        return total == 0 ? 0 : result / total;  // the first two queries of the second batch
      },
      1e-5);
}

TEST(Nn, RotaryEmbeddingTurnsPairs) {
  const Input x = input({2, 2, 3, 7}, f32, 1);
  const Input c = input({3, 3}, f32, 2), s = input({2, 3, 3}, f32, 3),
              each = input({2, 3, 3}, f32, 4);
  const auto reference = [&](const Dims& i, int64_t pair, int64_t angle, bool first) {
    const double other = x(i[0], i[1], i[2], pair);
    return x(i[0], i[1], i[2], i[3]) * each(i[0], i[2], angle) +
           (first ? -other : other) * s(i[0], i[2], angle);
  };
  expect_elements(
      ops::rotary_embedding(x, each, s), {x, each, s},
      [&](const Dims& i) {
        if (i[3] == 6) return x(i[0], i[1], i[2], 6);
        return i[3] < 3 ? reference(i, i[3] + 3, i[3], true)
                        : reference(i, i[3] - 3, i[3] - 3, false);
      },
      1e-5);
  expect_elements(
      ops::rotary_embedding(x, each, s, true), {x, each, s},
      [&](const Dims& i) {
        if (i[3] == 6) return x(i[0], i[1], i[2], 6);
        const bool even = i[3] % 2 == 0;
        return reference(i, even ? i[3] + 1 : i[3] - 1, i[3] / 2, even);
      },
      1e-5);
  EXPECT_EQ(error_of([&] { ops::rotary_embedding(x, c, s); }),
            "rotary_embedding: 'cosines' (3, 3) and 'sines' (2, 3, 3) do not fit x (2, 2, 3, 7) | "
            "they are (L, R / 2) or (N, L, R / 2) for x (N, H, L, E) with R <= E");
}

TEST(NnErrors, NameOperatorArgumentAndShapes) {
  const Input x = input({2, 6, 4}), c = input({5}), n = input({3}, i32);
  EXPECT_EQ(error_of([&] { ops::softmax(x, 3); }),
            "softmax: axis 3 of a tensor with 3 dimensions | an axis is in [-3, 2]");
  EXPECT_EQ(error_of([&] { ops::softmax(n); }),
            "softmax: argument 'x' is i32 (3), and needs a float type | convert it with "
            "ops::cast(x, f32)");
  EXPECT_EQ(error_of([&] { ops::layer_norm(x, c); }),
            "layer_norm: argument 'scale' has shape (5), and needs (4) | ");
  EXPECT_EQ(error_of([&] { ops::group_norm(x, 4); }),
            "group_norm: 6 channels cannot be split into 4 groups | ");
  EXPECT_EQ(error_of([&] { ops::batch_norm(x, c, c, c, c); }),
            "batch_norm: argument 'scale' has shape (5), and needs (6) | ");
  EXPECT_EQ(error_of([&] { ops::lrn(x, 0); }), "lrn: the size is 0 | at least 1");
  EXPECT_EQ(error_of([&] { ops::scaled_dot_product_attention(x, x, input({2, 5, 4})); }),
            "scaled_dot_product_attention: q (2, 6, 4), k (2, 6, 4) and v (2, 5, 4) do not go "
            "together | q is (..., L, E), k is (..., S, E), v is (..., S, F)");
}

}  // namespace
}  // namespace heddle
