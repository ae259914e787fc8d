// Checks every peer against plain loops on small sizes. Exit status 1 when a check fails.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "peers/idle.h"
#include "peers/peer_onednn.h"
#include "peers/peer_openblas.h"

namespace heddle::peers {
namespace {

using Floats = std::vector<float>;
int failures = 0;
int checks = 0;
int skipped = 0;  // what this version of oneDNN has no implementation of (winograd, on AVX2)

Floats noise(int64_t count, uint32_t seed) {
  Floats out(static_cast<size_t>(count));
  for (float& value : out) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return out;
}

void expect_near(const std::string& what, const Floats& got, const Floats& want) {
  ++checks;
  double worst = got.size() == want.size() ? 0.0 : INFINITY;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const double error = std::abs(got[i] - want[i]) / (1.0 + std::abs(want[i]));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  if (worst < 2e-5) return;
  ++failures;
  std::printf("FAILED %s: largest relative error %g\n", what.c_str(), worst);
}

// Runs an op whose output starts as NaN, so that a value that it does not write is found.
void expect_op(const std::string& what, const std::function<OnednnOp(float*)>& make,
               const Floats& want, bool may_lack = false) {
  Floats out(want.size(), NAN);
  const OnednnOp op = make(out.data());
  if (!op) {
    if (may_lack) {
      ++skipped;
      return;
    }
    ++failures;
    std::printf("FAILED %s: %s\n", what.c_str(), op.error().c_str());
    return;
  }
  op.run();
  op.read_back();
  expect_near(what + " [" + op.implementation() + "]", out, want);
}

Floats naive_gemm(const GemmShape& s, const Floats& a, const Floats& b) {
  Floats c(static_cast<size_t>(s.m * s.n));
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < s.k; ++p) {
        sum += double{a[static_cast<size_t>(s.trans_a ? p * s.m + i : i * s.k + p)]} *
               b[static_cast<size_t>(s.trans_b ? j * s.k + p : p * s.n + j)];
      }
      c[static_cast<size_t>(i * s.n + j)] = static_cast<float>(sum);
    }
  }
  return c;
}

void check_gemm() {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{33, 47, 29}, {1, 65, 40}, {50, 1, 31}}) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      const GemmShape s{m, n, k, (transposes & 1) != 0, (transposes & 2) != 0};
      const Floats a = noise(m * k, 1);
      const Floats b = noise(k * n, 2);
      const Floats bias = noise(n, 3);
      const Floats want = naive_gemm(s, a, b);
      const std::string name = std::to_string(m) + "x" + std::to_string(n) + "x" +
                               std::to_string(k) + " transposes " + std::to_string(transposes);
      if (openblas_available()) {
        Floats c(want.size(), NAN);
        openblas_sgemm(s, a.data(), b.data(), c.data());
        expect_near("OpenBLAS sgemm " + name, c, want);
        const std::vector<double> da(a.begin(), a.end());
        const std::vector<double> db(b.begin(), b.end());
        std::vector<double> dc(want.size(), NAN);
        openblas_dgemm(s, da.data(), db.data(), dc.data());
        expect_near("OpenBLAS dgemm " + name, Floats(dc.begin(), dc.end()), want);
        if (m == 1 || n == 1) {
          c.assign(c.size(), NAN);
          openblas_sgemv(s, a.data(), b.data(), c.data());
          expect_near("OpenBLAS sgemv " + name, c, want);
          OpenBlasSgemm(s, a.data(), b.data(), c.data()).run();
          expect_near("OpenBLAS best of both " + name, c, want);
        }
      }
      if (!onednn_available()) continue;
      Floats finished = want;
      for (size_t i = 0; i < finished.size(); ++i) {
        finished[i] = std::max(0.0f, finished[i] + bias[i % static_cast<size_t>(n)]);
      }
      for (bool packed : {false, true}) {
        OnednnMatmulSpec spec{s, 1, packed, OnednnEltwise::kNone};
        expect_op(
            "oneDNN matmul " + name,
            [&](float* c) { return onednn_matmul(spec, a.data(), b.data(), nullptr, c); }, want);
        spec.activation = OnednnEltwise::kRelu;
        expect_op(
            "oneDNN matmul bias relu " + name,
            [&](float* c) { return onednn_matmul(spec, a.data(), b.data(), bias.data(), c); },
            finished);
      }
    }
  }
}

Floats naive_conv(const OnednnConvSpec& v, const Floats& src, const Floats& weights,
                  const Floats& bias) {
  Floats out;
  const int64_t in_group = v.c / v.groups;
  for (int64_t n = 0; n < v.n; ++n) {
    for (int64_t k = 0; k < v.k; ++k) {
      const int64_t first_c = k / (v.k / v.groups) * in_group;
      for (int64_t i = 0; i < v.out_h() * v.out_w(); ++i) {
        double sum = bias[static_cast<size_t>(k)];
        for (int64_t t = 0; t < in_group * v.r * v.s; ++t) {
          const int64_t c = t / (v.r * v.s);
          const int64_t y = i / v.out_w() * v.stride - v.pad + t / v.s % v.r * v.dilation;
          const int64_t x = i % v.out_w() * v.stride - v.pad + t % v.s * v.dilation;
          if (y < 0 || y >= v.h || x < 0 || x >= v.w) continue;
          sum += double{src[static_cast<size_t>(((n * v.c + first_c + c) * v.h + y) * v.w + x)]} *
                 weights[static_cast<size_t>(k * in_group * v.r * v.s + t)];
        }
        out.push_back(std::max(0.0f, static_cast<float>(sum)));
      }
    }
  }
  return out;
}

void check_conv() {
  // n, c, h, w, k, r, s, stride, pad, dilation, groups
  const OnednnConvSpec cases[] = {
      {2, 16, 9, 11, 24, 3, 3, 1, 1, 1, 1},   {1, 3, 14, 14, 8, 7, 7, 2, 3, 1, 1},
      {1, 16, 8, 8, 16, 1, 1, 2, 0, 1, 1},    {1, 8, 12, 12, 8, 3, 3, 1, 2, 2, 1},
      {2, 16, 10, 10, 16, 3, 3, 2, 1, 1, 16}, {1, 16, 7, 7, 32, 3, 3, 1, 1, 1, 4}};
  int number = 0;
  for (OnednnConvSpec spec : cases) {
    ++number;
    spec.activation = OnednnEltwise::kRelu;
    const Floats src = noise(spec.n * spec.c * spec.h * spec.w, 4);
    const Floats weights = noise(spec.k * spec.c / spec.groups * spec.r * spec.s, 5);
    const Floats bias = noise(spec.k, 6);
    const Floats want = naive_conv(spec, src, weights, bias);
    for (auto algorithm : {OnednnConvAlgorithm::kDirect, OnednnConvAlgorithm::kWinograd}) {
      for (auto layout : {OnednnLayout::kAny, OnednnLayout::kNchw, OnednnLayout::kNhwc}) {
        spec.algorithm = algorithm;
        spec.layout = layout;
        const bool winograd = algorithm == OnednnConvAlgorithm::kWinograd;
        if (winograd && layout != OnednnLayout::kAny) continue;
        expect_op(
            "oneDNN convolution " + std::to_string(number),
            [&](float* dst) {
              return onednn_conv(spec, src.data(), weights.data(), bias.data(), dst);
            },
            want, winograd);
      }
    }
  }
}

void check_images() {
  const Floats src = noise(2 * 8 * 7 * 9, 7);
  auto at = [&](int64_t image, int64_t y, int64_t x) {
    return src[static_cast<size_t>((image * 7 + y) * 9 + x)];
  };
  for (auto layout : {OnednnLayout::kAny, OnednnLayout::kNchw, OnednnLayout::kNhwc}) {
    for (auto kind :
         {OnednnPoolKind::kMax, OnednnPoolKind::kAvgIncludePad, OnednnPoolKind::kAvgExcludePad}) {
      const OnednnPoolSpec spec{2, 8, 7, 9, 3, 2, 1, kind, layout};
      Floats want;
      for (int64_t i = 0; i < 16 * spec.out_h() * spec.out_w(); ++i) {
        const int64_t image = i / (spec.out_h() * spec.out_w());
        const int64_t oy = i / spec.out_w() % spec.out_h();
        const int64_t ox = i % spec.out_w();
        float largest = -INFINITY;
        float sum = 0;
        int inside = 0;
        for (int64_t y = std::max<int64_t>(0, 2 * oy - 1); y < std::min<int64_t>(7, 2 * oy + 2);
             ++y) {
          for (int64_t x = std::max<int64_t>(0, 2 * ox - 1); x < std::min<int64_t>(9, 2 * ox + 2);
               ++x) {
            largest = std::max(largest, at(image, y, x));
            sum += at(image, y, x);
            ++inside;
          }
        }
        const float count =
            kind == OnednnPoolKind::kAvgIncludePad ? 9.0f : static_cast<float>(inside);
        want.push_back(kind == OnednnPoolKind::kMax ? largest : sum / count);
      }
      expect_op(
          "oneDNN pooling", [&](float* dst) { return onednn_pool(spec, src.data(), dst); }, want);
    }
    for (bool linear : {false, true}) {
      const OnednnResizeSpec spec{2, 8, 7, 9, 14, 18, linear, layout};
      // At twice the size, pixel i lies at i / 2 - 1 / 4 of the source.
      auto sample = [&](int64_t image, int64_t oy, int64_t ox) {
        const auto low = [](int64_t o) { return (o + 1) / 2 - 1; };
        const auto clamp = [](int64_t v, int64_t n) { return std::clamp<int64_t>(v, 0, n - 1); };
        const float fy = oy % 2 == 0 ? 0.75f : 0.25f;
        const float fx = ox % 2 == 0 ? 0.75f : 0.25f;
        const int64_t y0 = clamp(low(oy), 7), y1 = clamp(low(oy) + 1, 7);
        const int64_t x0 = clamp(low(ox), 9), x1 = clamp(low(ox) + 1, 9);
        return (1 - fy) * ((1 - fx) * at(image, y0, x0) + fx * at(image, y0, x1)) +
               fy * ((1 - fx) * at(image, y1, x0) + fx * at(image, y1, x1));
      };
      Floats want;
      for (int64_t i = 0; i < 16 * 14 * 18; ++i) {
        const int64_t image = i / (14 * 18);
        const int64_t oy = i / 18 % 14;
        const int64_t ox = i % 18;
        want.push_back(linear ? sample(image, oy, ox) : at(image, oy / 2, ox / 2));
      }
      expect_op(
          "oneDNN resize", [&](float* dst) { return onednn_resize(spec, src.data(), dst); }, want);
    }
  }
}

float gelu(float x) { return 0.5f * x * (1 + std::erf(x / std::sqrt(2.0f))); }

constexpr int64_t kRows = 13;
constexpr int64_t kCols = 37;

// The results of plain loops for a matrix and two vectors of a row's length.
struct RowResults {
  Floats soft, log_soft, norm, bias_gelu, added, flipped, row_sum, row_max;
  Floats col_sum = Floats(kCols, 0), col_max = Floats(kCols, -INFINITY);
  float total = 0;
};

RowResults naive_rows(const Floats& x, const Floats& scale, const Floats& shift) {
  RowResults want;
  for (int64_t i = 0; i < kRows; ++i) {
    const float* row = x.data() + i * kCols;
    double sum = 0, squares = 0, exps = 0;
    for (int64_t j = 0; j < kCols; ++j) {
      sum += row[j];
      squares += double{row[j]} * row[j];
      exps += std::exp(double{row[j]});
    }
    const double mean = sum / kCols;
    const double deviation = std::sqrt(squares / kCols - mean * mean + 1e-5);
    for (int64_t j = 0; j < kCols; ++j) {
      const auto c = static_cast<size_t>(j);
      want.soft.push_back(static_cast<float>(std::exp(double{row[j]}) / exps));
      want.log_soft.push_back(static_cast<float>(row[j] - std::log(exps)));
      want.norm.push_back(static_cast<float>((row[j] - mean) / deviation) * scale[c] + shift[c]);
      want.bias_gelu.push_back(gelu(row[j] + shift[c]));
      want.added.push_back(row[j] + shift[c]);
      want.col_sum[c] += row[j];
      want.col_max[c] = std::max(want.col_max[c], row[j]);
    }
    want.row_sum.push_back(static_cast<float>(sum));
    want.row_max.push_back(*std::max_element(row, row + kCols));
    want.total += static_cast<float>(sum);
  }
  for (int64_t j = 0; j < kCols; ++j) {
    for (int64_t i = 0; i < kRows; ++i) {
      want.flipped.push_back(x[static_cast<size_t>(i * kCols + j)]);
    }
  }
  return want;
}

void check_normalisations(const float* in, const Floats& scale, const Floats& shift,
                          const RowResults& want) {
  expect_op(
      "oneDNN softmax", [&](float* out) { return onednn_softmax(kRows, kCols, in, out); },
      want.soft);
  expect_op(
      "oneDNN logsoftmax", [&](float* out) { return onednn_logsoftmax(kRows, kCols, in, out); },
      want.log_soft);
  expect_op(
      "oneDNN layer normalization",
      [&](float* out) {
        return onednn_layer_norm(kRows, kCols, 1e-5f, scale.data(), shift.data(), in, out);
      },
      want.norm);
}

void check_additions(const float* in, const Floats& shift, const RowResults& want) {
  expect_op(
      "oneDNN bias and gelu",
      [&](float* out) {
        return onednn_bias_eltwise(kRows, kCols, OnednnEltwise::kGeluErf, in, shift.data(), out);
      },
      want.bias_gelu);
  Floats rectified(want.added.size());
  for (size_t i = 0; i < rectified.size(); ++i) rectified[i] = std::max(0.0f, 2 * in[i]);
  expect_op(
      "oneDNN add and relu",
      [&](float* out) { return onednn_add_relu({kRows, kCols}, in, in, out); }, rectified);
}

void check_movement(const float* in, const RowResults& want) {
  Floats twice;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int part = 0; part < 2; ++part) {
      twice.insert(twice.end(), in + row * kCols, in + (row + 1) * kCols);
    }
  }
  expect_op(
      "oneDNN concat", [&](float* out) { return onednn_concat(kRows, kCols, 1, {in, in}, out); },
      twice);
  expect_op(
      "oneDNN transpose", [&](float* out) { return onednn_transpose(kRows, kCols, in, out); },
      want.flipped);
}

void check_reductions(const float* in, const RowResults& want) {
  auto reduce = [&](const char* what, OnednnReduceKind kind, OnednnReduceOver over,
                    const Floats& result) {
    expect_op(
        what, [&](float* out) { return onednn_reduce(kind, over, kRows, kCols, in, out); }, result);
  };
  reduce("oneDNN row sum", OnednnReduceKind::kSum, OnednnReduceOver::kRows, want.row_sum);
  reduce("oneDNN row max", OnednnReduceKind::kMax, OnednnReduceOver::kRows, want.row_max);
  reduce("oneDNN column sum", OnednnReduceKind::kSum, OnednnReduceOver::kCols, want.col_sum);
  reduce("oneDNN column max", OnednnReduceKind::kMax, OnednnReduceOver::kCols, want.col_max);
  reduce("oneDNN full sum", OnednnReduceKind::kSum, OnednnReduceOver::kAll, {want.total});
}

void check_functions(const Floats& x) {
  const Floats none(kCols, 0);
  auto eltwise = [&](const char* what, OnednnEltwise kind, float (*f)(float)) {
    Floats want;
    for (float value : x) want.push_back(f(value));
    expect_op(
        what,
        [&](float* out) {
          return onednn_bias_eltwise(kRows, kCols, kind, x.data(), none.data(), out);
        },
        want);
  };
  eltwise("oneDNN relu", OnednnEltwise::kRelu, [](float v) { return std::max(v, 0.0f); });
  eltwise("oneDNN gelu", OnednnEltwise::kGeluErf, gelu);
  eltwise("oneDNN gelu (tanh)", OnednnEltwise::kGeluTanh, [](float v) {
    return 0.5f * v * (1 + std::tanh(0.7978845608f * (v + 0.044715f * v * v * v)));
  });
  eltwise("oneDNN swish", OnednnEltwise::kSwish, [](float v) { return v / (1 + std::exp(-v)); });
  eltwise("oneDNN tanh", OnednnEltwise::kTanh, [](float v) { return std::tanh(v); });
}

void check_rows() {
  const Floats x = noise(kRows * kCols, 8);
  const Floats scale = noise(kCols, 9);
  const Floats shift = noise(kCols, 10);
  const RowResults want = naive_rows(x, scale, shift);
  check_normalisations(x.data(), scale, shift, want);
  check_additions(x.data(), shift, want);
  check_movement(x.data(), want);
  check_reductions(x.data(), want);
  check_functions(x);
}

// Checks that a running thread is noticed and waited for.
void check_idle() {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
    }
  });
  ++checks;
  const bool seen = !wait_until_idle(5e-3);
  stop = true;
  busy.join();
  if (!seen) {
    ++failures;
    std::printf("FAILED wait_until_idle: does not see a thread that runs\n");
  }
  ++checks;
  if (!wait_until_idle(1.0)) {
    ++failures;
    std::printf("FAILED wait_until_idle: %d threads still run\n", other_running_threads());
  }
}

int check() {
  check_idle();
  check_gemm();
  if (onednn_available()) {
    check_conv();
    check_images();
    check_rows();
  }
  std::printf("%d checks, %d failed, %d unsupported\n", checks, failures, skipped);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace heddle::peers

int main() { return heddle::peers::check(); }
