// BLIS as a peer to time against; loaded at run time, as OpenBLAS is (peer_openblas.h). Row-major,
// dense.
#pragma once

#include <string>

#include "peers/gemm_shape.h"

namespace heddle::peers {

struct BlisInfo {
  bool available = false;
  std::string error;    // why it is not available
  std::string version;  // with the kernels it chose: "0.9.0, zen3"
};

const BlisInfo& blis_info();
inline bool blis_available() { return blis_info().available; }

// These throw std::runtime_error when the library is not available.
void blis_set_threads(int threads);
void blis_sgemm(const GemmShape& shape, const float* a, const float* b, float* c);

}  // namespace heddle::peers
