#include "peers_figures.h"

#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "peers/ceilings.h"
#include "peers/interleave.h"
#include "peers/peer_onednn.h"
#include "peers/peer_openblas.h"

namespace heddle::peers {
namespace {

using Floats = std::vector<float>;

Floats filled(int64_t count) {
  Floats out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = 0.01f * static_cast<float>(i % 97) - 0.4f;
  return out;
}

CaseTimes time_one(const std::function<void()>& run) {
  InterleaveOptions options;
  options.time_cap_seconds = 1.0;
  return time_interleaved({{"", run}}, options).front();
}

// `amount` is the work of a call in billions: operations, or bytes for memory-bound ops.
void print_time(const std::string& what, const CaseTimes& times, double amount, const char* unit,
                double ceiling, const std::string& note) {
  std::printf("  %-34s %9.1f us median %9.1f us best %7.1f %s", what.c_str(),
              times.median_seconds * 1e6, times.min_seconds * 1e6, amount / times.min_seconds,
              unit);
  if (ceiling > 0) std::printf(" = %3.0f %%", 100 * amount / times.min_seconds / ceiling);
  std::printf("  %s\n", note.c_str());
}

void print_op(const std::string& what, const OnednnOp& op, double amount, const char* unit,
              double ceiling) {
  if (!op) {
    std::printf("  %-34s %s\n", what.c_str(), op.error().c_str());
    return;
  }
  print_time(what, time_one([&op] { op.run(); }), amount, unit, ceiling, op.implementation());
}

void print_sgemm(double peak) {
  std::printf(" sgemm (best as a share of the multiply-add peak)\n");
  for (int64_t n : {512, 1024, 2048}) {
    const GemmShape shape{n, n, n};
    const Floats a = filled(n * n);
    const Floats b = filled(n * n);
    Floats c(static_cast<size_t>(n * n));
    const std::string size = std::to_string(n);
    if (openblas_available()) {
      const OpenBlasSgemm gemm(shape, a.data(), b.data(), c.data());
      print_time("OpenBLAS " + size, time_one([&] { gemm.run(); }), shape.flops() * 1e-9, "GF/s",
                 peak, openblas_info().core_name);
    }
    OnednnMatmulSpec spec;
    spec.shape = shape;
    print_op("oneDNN matmul " + size, onednn_matmul(spec, a.data(), b.data(), nullptr, c.data()),
             shape.flops() * 1e-9, "GF/s", peak);
  }
}

void print_convolutions(double peak) {
  std::printf(" convolution, n = 1 (best as a share of the multiply-add peak)\n");
  struct Layer {
    int64_t c, size, k, taps;
  };
  for (const Layer& layer : {Layer{64, 56, 64, 3}, Layer{256, 56, 64, 1}, Layer{128, 28, 128, 3},
                             Layer{256, 14, 256, 3}, Layer{512, 7, 512, 3}}) {
    OnednnConvSpec spec;
    spec.c = layer.c;
    spec.h = spec.w = layer.size;
    spec.k = layer.k;
    spec.r = spec.s = layer.taps;
    spec.pad = layer.taps / 2;
    const Floats src = filled(spec.c * spec.h * spec.w);
    const Floats weights = filled(spec.k * spec.c * spec.r * spec.s);
    Floats dst(static_cast<size_t>(spec.k * spec.out_h() * spec.out_w()));
    const std::string name = std::to_string(layer.c) + "x" + std::to_string(layer.size) + "->" +
                             std::to_string(layer.k) + " " + std::to_string(layer.taps) + "x" +
                             std::to_string(layer.taps);
    for (const auto& [layout, text] :
         {std::pair{OnednnLayout::kAny, " any"}, std::pair{OnednnLayout::kNhwc, " nhwc"},
          std::pair{OnednnLayout::kNchw, " nchw"}}) {
      spec.layout = layout;
      print_op(name + text, onednn_conv(spec, src.data(), weights.data(), nullptr, dst.data()),
               spec.flops() * 1e-9, "GF/s", peak);
    }
    spec.layout = OnednnLayout::kAny;
    spec.algorithm = OnednnConvAlgorithm::kWinograd;
    const OnednnOp winograd = onednn_conv(spec, src.data(), weights.data(), nullptr, dst.data());
    if (winograd) print_op(name + " winograd", winograd, spec.flops() * 1e-9, "GF/s", peak);
  }
}

void print_rows() {
  constexpr int64_t kSize = 4096;
  constexpr double kBytes = 4e-9 * kSize * kSize;
  std::printf(" 4096x4096 f32 (GB/s: input read once and output written once)\n");
  const Floats src = filled(kSize * kSize);
  const Floats row = filled(kSize);
  Floats dst(static_cast<size_t>(kSize * kSize));
  print_op("softmax", onednn_softmax(kSize, kSize, src.data(), dst.data()), 2 * kBytes, "GB/s", 0);
  print_op("layer norm",
           onednn_layer_norm(kSize, kSize, 1e-5f, row.data(), row.data(), src.data(), dst.data()),
           2 * kBytes, "GB/s", 0);
  print_op("bias+gelu (erf)",
           onednn_bias_eltwise(kSize, kSize, OnednnEltwise::kGeluErf, src.data(), row.data(),
                               dst.data()),
           2 * kBytes, "GB/s", 0);
  print_op("bias+gelu (tanh)",
           onednn_bias_eltwise(kSize, kSize, OnednnEltwise::kGeluTanh, src.data(), row.data(),
                               dst.data()),
           2 * kBytes, "GB/s", 0);
  print_op("add", onednn_add({kSize, kSize}, {kSize, kSize}, src.data(), src.data(), dst.data()),
           2 * kBytes, "GB/s", 0);
  print_op("relu", onednn_eltwise(OnednnEltwise::kRelu, kSize * kSize, src.data(), dst.data()),
           2 * kBytes, "GB/s", 0);
  constexpr auto kSum = OnednnReduceKind::kSum;
  print_op("row sum",
           onednn_reduce(kSum, OnednnReduceOver::kRows, kSize, kSize, src.data(), dst.data()),
           kBytes, "GB/s", 0);
  print_op("column sum",
           onednn_reduce(kSum, OnednnReduceOver::kCols, kSize, kSize, src.data(), dst.data()),
           kBytes, "GB/s", 0);
  print_op("full sum",
           onednn_reduce(kSum, OnednnReduceOver::kAll, kSize, kSize, src.data(), dst.data()),
           kBytes, "GB/s", 0);
  print_op("transpose", onednn_transpose(kSize, kSize, src.data(), dst.data()), 2 * kBytes, "GB/s",
           0);
}

}  // namespace

void print_figures(int threads) {
  std::printf("threads: %d\n", threads);
  const FmaPeak peak = fma_peak_f32(threads);
  std::printf(" multiply-add peak, f32: %.1f GF/s (%s)\n", peak.gflops, peak.instruction.c_str());
  const std::pair<Traffic, const char*> traffics[] = {
      {Traffic::kRead, "read"},
      {Traffic::kWrite, "write"},
      {Traffic::kWriteNonTemporal, "write, non-temporal"},
      {Traffic::kCopy, "copy"},
      {Traffic::kCopyNonTemporal, "copy, non-temporal"}};
  for (const auto& [kind, name] : traffics) {
    std::printf("  %-22s %6.1f GB/s at 64 MiB %6.1f GB/s at 256 MiB %6.1f GB/s at 256 KiB\n", name,
                memory_bandwidth(kind, threads).gb_per_second,
                memory_bandwidth(kind, threads, size_t{256} << 20, 12).gb_per_second,
                memory_bandwidth(kind, threads, size_t{256} << 10).gb_per_second);
  }
  if (openblas_available()) openblas_set_threads(threads);
  onednn_set_threads(threads);
  print_sgemm(peak.gflops);
  print_convolutions(peak.gflops);
  print_rows();
}

}  // namespace heddle::peers
