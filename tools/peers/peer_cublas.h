// cuBLAS and cuBLASLt as peers on a GPU. Both are loaded at run time, where the loader or
// a program such as PyTorch has them. Row-major, dense, on the current context and a stream of the
// caller.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "peers/gemm_shape.h"

namespace heddle::peers {

/// The type of the operands. Tf32 is f32 whose products are rounded. The sum of I8 is i32.
enum class CublasType : std::uint8_t { kF32, kTf32, kF16, kBf16, kI8, kF8e4m3 };

/// Where a call works, all on the GPU.
struct CublasCall {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;  // of kCublasWorkspace bytes
  void* stream = nullptr;     // a CUstream
};
inline constexpr std::int64_t kCublasWorkspace = std::int64_t{32} << 20;

/// A product by a library, with each of its ways to compute it.
struct CublasProduct {
  std::string error;    // why there is no way
  std::string version;  // "13.1.0"
  /// A way puts the product into the stream. It returns false where the library refuses.
  std::vector<std::function<bool(const CublasCall&)>> ways;
};

/// cuBLAS, which chooses by itself: one way.
CublasProduct cublas_product(const GemmShape& shape, CublasType type);
/// cuBLASLt: all algorithms that its heuristic names when asked for many, its favourite first. The
/// caller's search times them.
CublasProduct cublaslt_product(const GemmShape& shape, CublasType type);

}  // namespace heddle::peers
