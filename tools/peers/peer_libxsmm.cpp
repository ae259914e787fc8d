#include "peers/peer_libxsmm.h"

#ifdef HEDDLE_HAVE_LIBXSMM
#include <libxsmm.h>
#endif

namespace heddle::peers {

#ifdef HEDDLE_HAVE_LIBXSMM

bool libxsmm_available() { return true; }
std::string libxsmm_version() { return LIBXSMM_VERSION; }

std::function<void(const float*, const float*, float*)> libxsmm_kernel(const GemmShape& s) {
  constexpr std::int64_t kSmall = std::int64_t{1} << 24;
  if (s.trans_a || s.trans_b || s.m * s.n * s.k > kSmall) return nullptr;
  // libxsmm is column-major, so it computes the transposed product C^T = B^T * A^T.
  const auto m = static_cast<libxsmm_blasint>(s.n), n = static_cast<libxsmm_blasint>(s.m),
             k = static_cast<libxsmm_blasint>(s.k);
  const float alpha = 1, beta = 0;
  const libxsmm_smmfunction kernel =
      libxsmm_smmdispatch(m, n, k, &m, &k, &m, &alpha, &beta, nullptr, nullptr);
  if (kernel == nullptr) return nullptr;
  return [kernel](const float* a, const float* b, float* c) { kernel(b, a, c); };
}

#else

bool libxsmm_available() { return false; }
std::string libxsmm_version() { return {}; }
std::function<void(const float*, const float*, float*)> libxsmm_kernel(const GemmShape&) {
  return nullptr;
}

#endif

}  // namespace heddle::peers
