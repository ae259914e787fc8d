#include "peers/peer_openblas.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "peers/cblas_library.h"
#include "peers/cpu_features.h"
#include "peers/interleave.h"

namespace heddle::peers {
namespace {

using SgemvFn = void (*)(int, int, int, int, float, const float*, int, const float*, int, float,
                         float*, int);
using SetThreadsFn = void (*)(int);
using GetTextFn = char* (*)();

struct Library {
  OpenBlasInfo info;
  GemmFn<float> sgemm = nullptr;
  GemmFn<double> dgemm = nullptr;
  SgemvFn sgemv = nullptr;
  SetThreadsFn set_threads = nullptr;
};

const char* core_type_for_this_cpu() {
  const CpuFeatures& cpu = cpu_features();
  // An AMD core with AVX-512 (Zen 4 and later) is treated as SKYLAKEX, because OpenBLAS's ZEN
  // kernels use AVX2 only.
  if (cpu.avx512f) return cpu.intel && cpu.amx_bf16 ? "SAPPHIRERAPIDS" : "SKYLAKEX";
  if (cpu.amd && cpu.family >= 23 && cpu.avx2_fma) return "ZEN";
  if (cpu.avx2_fma) return "HASWELL";
  return nullptr;
}

Library load() {
  Library lib;
  const char* wanted = std::getenv("OPENBLAS_CORETYPE");
  if (wanted != nullptr && std::strcmp(wanted, "default") == 0) {
    unsetenv("OPENBLAS_CORETYPE");
  } else if (wanted == nullptr) {
    if (const char* core = core_type_for_this_cpu()) {
      setenv("OPENBLAS_CORETYPE", core, 1);
      lib.info.core_type_was_ours = true;
    }
  }
  if (const char* value = std::getenv("OPENBLAS_CORETYPE")) lib.info.core_type_set = value;
  // OpenBLAS's idle workers spin for about 2^26 cycles (about 25 ms) by default. That takes a core
  // from the peer that is timed next in the same process. 2^20 cycles still cover the calls of a
  // sample.
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);

  void* handle = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
  }
  if (handle == nullptr) {
    const char* why = dlerror();
    lib.info.error = why != nullptr ? why : "libopenblas.so.0 not found";
    return lib;
  }
  GetTextFn core_name = nullptr;
  GetTextFn config = nullptr;
  if (!find_function(handle, "cblas_sgemm", lib.sgemm) ||
      !find_function(handle, "cblas_dgemm", lib.dgemm) ||
      !find_function(handle, "cblas_sgemv", lib.sgemv) ||
      !find_function(handle, "openblas_set_num_threads", lib.set_threads)) {
    lib.info.error = "the library lacks a CBLAS function";
    return lib;
  }
  if (find_function(handle, "openblas_get_corename", core_name)) lib.info.core_name = core_name();
  if (find_function(handle, "openblas_get_config", config)) lib.info.config = config();
  lib.info.available = true;
  return lib;  // never closed, because its workers live as long as the process
}

const Library& library() {
  static const Library lib = load();
  return lib;
}

const Library& loaded_library() {
  const Library& lib = library();
  if (!lib.info.available) throw std::runtime_error("OpenBLAS: " + lib.info.error);
  return lib;
}

}  // namespace

const OpenBlasInfo& openblas_info() { return library().info; }

void openblas_set_threads(int threads) { loaded_library().set_threads(threads); }

void openblas_sgemm(const GemmShape& s, const float* a, const float* b, float* c) {
  call_gemm(loaded_library().sgemm, s, a, b, c);
}

void openblas_dgemm(const GemmShape& s, const double* a, const double* b, double* c) {
  call_gemm(loaded_library().dgemm, s, a, b, c);
}

void openblas_sgemv(const GemmShape& s, const float* a, const float* b, float* c) {
  const Library& lib = loaded_library();
  if (s.m == 1) {
    // c = op(B)^T * a, where B is stored k x n, or n x k when trans_b.
    const int rows = cblas_int(s.trans_b ? s.n : s.k);
    const int cols = cblas_int(s.trans_b ? s.k : s.n);
    lib.sgemv(kRowMajor, cblas_trans(!s.trans_b), rows, cols, 1.0f, b, cols, a, 1, 0.0f, c, 1);
  } else if (s.n == 1) {
    const int rows = cblas_int(s.trans_a ? s.k : s.m);
    const int cols = cblas_int(s.trans_a ? s.m : s.k);
    lib.sgemv(kRowMajor, cblas_trans(s.trans_a), rows, cols, 1.0f, a, cols, b, 1, 0.0f, c, 1);
  } else {
    throw std::runtime_error("openblas_sgemv: m or n must be 1");
  }
}

OpenBlasSgemm::OpenBlasSgemm(const GemmShape& shape, const float* a, const float* b, float* c)
    : shape_(shape), a_(a), b_(b), c_(c) {
  loaded_library();
  if (shape.m != 1 && shape.n != 1) return;
  InterleaveOptions options;
  options.time_cap_seconds = 0.1;
  const auto times = time_interleaved({{"gemm", [=] { openblas_sgemm(shape, a, b, c); }},
                                       {"gemv", [=] { openblas_sgemv(shape, a, b, c); }}},
                                      options);
  uses_gemv_ = times[1].median_seconds < times[0].median_seconds;
}

void OpenBlasSgemm::run() const {
  if (uses_gemv_) {
    openblas_sgemv(shape_, a_, b_, c_);
  } else {
    openblas_sgemm(shape_, a_, b_, c_);
  }
}

}  // namespace heddle::peers
