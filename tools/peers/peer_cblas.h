// BLIS and MKL as peers to time against; loaded at run time, as OpenBLAS is (peer_openblas.h).
// Row-major, dense. MKL is found where the loader looks, such as the folder of its Python wheel in
// LD_LIBRARY_PATH.
#pragma once

#include <functional>
#include <string>

#include "peers/gemm_shape.h"

namespace heddle::peers {

struct CblasPeer {
  bool available = false;
  std::string error;    // why it is not available
  std::string version;  // with the kernels it chose, where it says so: "0.9.0, zen3"
  // Empty when the library is not available.
  std::function<void(int threads)> set_threads;
  std::function<void(const GemmShape& shape, const float* a, const float* b, float* c)> sgemm;
};

// Loaded at the first call.
const CblasPeer& blis();
const CblasPeer& mkl();

struct NamedCblas {
  const char* name;
  const CblasPeer& (*peer)();
};
inline constexpr NamedCblas kCblasPeers[] = {{"blis", blis}, {"mkl", mkl}};

}  // namespace heddle::peers
