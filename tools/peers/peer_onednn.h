// oneDNN (2.6 API) as a peer to time against, behind plain types: nothing of oneDNN shows here.
//
// A factory builds one primitive, with all packing and reordering of weights and activations done
// there; run() is the primitive alone. All buffers are the caller's and stay in use by the op:
// plain row-major f32, images in NCHW and filters in OIHW order whatever layout the primitive
// itself works in. After run(), read_back() puts the result into the caller's output in that plain
// order (it does nothing when the primitive writes there by itself).
//
// What oneDNN does not support gives an op that is false, with the reason in error(): factories do
// not throw. Without oneDNN in the build every op is such an op.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "peers/gemm_shape.h"

namespace heddle::peers {

bool onednn_available();
std::string onednn_version();  // "2.6.3 (...)", empty without oneDNN

// OpenMP threads of the calling thread's later ops. A primitive splits its work for the count that
// is set when it is built: set it before the factory and leave it so for run().
void onednn_set_threads(int threads);

class OnednnOp {
 public:
  struct State;  // oneDNN's objects

  OnednnOp() = default;
  explicit OnednnOp(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  static OnednnOp unsupported(std::string why) {
    OnednnOp op;
    op.error_ = std::move(why);
    return op;
  }

  explicit operator bool() const { return state_ != nullptr; }
  const std::string& error() const { return error_; }
  // Which of its implementations oneDNN chose, e.g. "jit:avx2"; "ref" ones are slow on purpose.
  std::string implementation() const;
  void run() const;
  void read_back() const;

 private:
  std::shared_ptr<const State> state_;
  std::string error_;
};

enum class OnednnEltwise {
  kNone,
  kRelu,
  kGeluErf,
  kGeluTanh,
};

// Activation layout a primitive works in; kAny lets oneDNN choose (blocked layouts, as a rule).
enum class OnednnLayout { kAny, kNchw, kNhwc };

// --- products ----------------------------------------------------------------------------------

struct OnednnMatmulSpec {
  GemmShape shape;
  int64_t batch = 1;            // > 1: A, B and C are stacks of that many matrices
  bool packed_weights = false;  // B in the layout oneDNN prefers, reordered at the build
  OnednnEltwise activation = OnednnEltwise::kNone;
};
// bias: n values added to each row of C, or null.
OnednnOp onednn_matmul(const OnednnMatmulSpec& spec, const float* a, const float* b,
                       const float* bias, float* c);

// --- images ------------------------------------------------------------------------------------

enum class OnednnConvAlgorithm { kDirect, kWinograd };

struct OnednnConvSpec {
  int64_t n = 1, c = 1, h = 1, w = 1;  // input
  int64_t k = 1, r = 1, s = 1;         // filters: count, height, width
  int64_t stride = 1, pad = 0;
  int64_t dilation = 1;  // 1 is a dense filter, as in PyTorch
  int64_t groups = 1;    // c: a depthwise convolution
  OnednnConvAlgorithm algorithm = OnednnConvAlgorithm::kDirect;
  OnednnLayout layout = OnednnLayout::kAny;
  bool plain_weights = false;  // filters in OIHW order rather than the layout oneDNN prefers
  OnednnEltwise activation = OnednnEltwise::kNone;

  int64_t out_h() const { return (h + 2 * pad - dilation * (r - 1) - 1) / stride + 1; }
  int64_t out_w() const { return (w + 2 * pad - dilation * (s - 1) - 1) / stride + 1; }
  double flops() const {  // of the direct algorithm, whichever one runs
    return 2.0 * static_cast<double>(n * k * out_h() * out_w()) *
           static_cast<double>(c / groups * r * s);
  }
};
// weights: k x c/groups x r x s; bias: k values or null.
OnednnOp onednn_conv(const OnednnConvSpec& spec, const float* src, const float* weights,
                     const float* bias, float* dst);

enum class OnednnPoolKind { kMax, kAvgExcludePad };

struct OnednnPoolSpec {
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t window = 2, stride = 2, pad = 0;
  OnednnPoolKind kind = OnednnPoolKind::kMax;
  OnednnLayout layout = OnednnLayout::kNchw;

  int64_t out_h() const { return (h + 2 * pad - window) / stride + 1; }
  int64_t out_w() const { return (w + 2 * pad - window) / stride + 1; }
};
OnednnOp onednn_pool(const OnednnPoolSpec& spec, const float* src, float* dst);

struct OnednnResizeSpec {
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t out_h = 1, out_w = 1;
  OnednnLayout layout = OnednnLayout::kNchw;
};
// Bilinear, with pixel centres at half-integers.
OnednnOp onednn_resize(const OnednnResizeSpec& spec, const float* src, float* dst);

// --- other types ---------------------------------------------------------------------------------
//
// On a CPU without AVX-512 oneDNN 2.6 has no products of bf16 or f16, and its int8 ones add pairs
// of products in 16 bits, saturating: they are exact where |a0*b0 + a1*b1| stays below 2^15 (with
// 128 added to a signed `a`).

enum class OnednnType { kF32, kBf16, kF16, kS8, kU8, kS32 };
struct OnednnTypes {
  OnednnType a, b, c;  // factors (source and weights) and result
};
OnednnOp onednn_matmul_of(const OnednnMatmulSpec& spec, const OnednnTypes& types, const void* a,
                          const void* b, void* c);
// The library's BLAS-like calls; `a` is kS8 or kU8.
OnednnOp onednn_gemm_s32(const GemmShape& shape, OnednnType a_type, const void* a, const int8_t* b,
                         int32_t* c);
// Images NHWC and filters HWIO if `channels_last`, else NCHW and OIHW. Of spec.layout, kAny lets
// oneDNN work in its own layout. Strides and groups are not asked for.
OnednnOp onednn_conv_of(const OnednnConvSpec& spec, const OnednnTypes& types, bool channels_last,
                        const void* src, const void* weights, void* dst);

// --- rows and elements -------------------------------------------------------------------------

// Over the last axis of rows x cols.
OnednnOp onednn_softmax(int64_t rows, int64_t cols, const float* src, float* dst);
OnednnOp onednn_logsoftmax(int64_t rows, int64_t cols, const float* src, float* dst);
// Over the last axis; scale and shift: cols values each (they are copied).
OnednnOp onednn_layer_norm(int64_t rows, int64_t cols, float epsilon, const float* scale,
                           const float* shift, const float* src, float* dst);

// dst = relu(a + b), of one shape, as one primitive.
OnednnOp onednn_add_relu(const std::vector<int64_t>& dims, const float* a, const float* b,
                         float* dst);
// Matrices of rows x cols after each other along `axis`.
OnednnOp onednn_concat(int64_t rows, int64_t cols, int axis, const std::vector<const float*>& parts,
                       float* dst);
// dst[i][j] = f(src[i][j] + bias[j]) as one primitive. oneDNN can say it in several ways (a binary
// add with an eltwise post-op, on different views of the data): all are timed at the build, and
// the fastest is kept.
OnednnOp onednn_bias_eltwise(int64_t rows, int64_t cols, OnednnEltwise kind, const float* src,
                             const float* bias, float* dst);

enum class OnednnReduceOver {
  kRows,  // each row to one value: rows outputs
  kCols,  // each column to one value: cols outputs
  kAll,
};
// A sum. Over columns it can also be had from a product with a row of ones; the fastest is kept, and
// implementation() tells which it was.
OnednnOp onednn_sum(OnednnReduceOver over, int64_t rows, int64_t cols, const float* src,
                    float* dst);

// dst is src with its axes permuted: axis i of dst is axis perm[i] of src (a reorder).
OnednnOp onednn_permute(const std::vector<int64_t>& dims, const std::vector<int>& perm,
                        const float* src, float* dst);
inline OnednnOp onednn_transpose(int64_t rows, int64_t cols, const float* src, float* dst) {
  return onednn_permute({rows, cols}, {1, 0}, src, dst);
}

}  // namespace heddle::peers
