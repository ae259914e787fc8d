// OpenBLAS as a peer to time against. It is loaded at run time (dlopen), not linked: its symbols
// stay out of Heddle's own process image, a machine without it loses the peer and nothing else,
// and the kernels it picks can be chosen before it starts (see openblas_info()).
//
// All matrices are row-major and dense: op(A) is m x k, op(B) is k x n, C is m x n and overwritten.
#pragma once

#include <string>

#include "peers/gemm_shape.h"

namespace heddle::peers {

struct OpenBlasInfo {
  bool available = false;
  std::string error;                // why it is not available
  std::string core_name;            // openblas_get_corename(): the kernels in use
  std::string config;               // openblas_get_config(): version and build options
  std::string core_type_set;        // OPENBLAS_CORETYPE as it stood when the library was loaded
  bool core_type_was_ours = false;  // false: the caller's environment had set it, or it stays unset
};

// Loads the library at the first call of any function here. Unless the environment already has
// OPENBLAS_CORETYPE, it is set from CPUID first, since a library older than the CPU may fall back
// to far slower kernels: AVX-512 -> SKYLAKEX (SAPPHIRERAPIDS on Intel with AMX), AMD Zen without it
// -> ZEN, other AVX2 -> HASWELL. OPENBLAS_CORETYPE=default leaves the choice to the library.
const OpenBlasInfo& openblas_info();
inline bool openblas_available() { return openblas_info().available; }

void openblas_set_threads(int threads);

// The functions below throw std::runtime_error when the library is not available.
void openblas_sgemm(const GemmShape& shape, const float* a, const float* b, float* c);
void openblas_dgemm(const GemmShape& shape, const double* a, const double* b, double* c);
// Matrix-vector: m or n of the shape must be 1.
void openblas_sgemv(const GemmShape& shape, const float* a, const float* b, float* c);

// The best OpenBLAS can do for one shape: for m or n equal to 1, gemm and gemv are both timed at
// construction (on the buffers given, at the thread count then set) and the faster one is kept.
class OpenBlasSgemm {
 public:
  OpenBlasSgemm(const GemmShape& shape, const float* a, const float* b, float* c);
  void run() const;
  bool uses_gemv() const { return uses_gemv_; }

 private:
  GemmShape shape_;
  const float* a_;
  const float* b_;
  float* c_;
  bool uses_gemv_ = false;
};

}  // namespace heddle::peers
