#include "peers/peer_cublas.h"

#ifdef HEDDLE_HAVE_CUBLAS
#include <cublasLt.h>
#include <cublas_v2.h>
#include <dlfcn.h>

#include <array>
#include <initializer_list>
#include <memory>
#endif

namespace heddle::peers {

#ifdef HEDDLE_HAVE_CUBLAS

namespace {

constexpr int kMostWays = 256;  // algorithms that the heuristic is asked for
constexpr std::int32_t kOne = 1, kZero = 0;
constexpr float kOneF = 1, kZeroF = 0;

// The types of a product as CUDA calls them, and what its factors point to.
struct Types {
  cudaDataType_t operand, result, beside;  // `beside` is of C in D = A B + 0 C
  cublasComputeType_t compute;
  cudaDataType_t scale;
  const void *one, *zero;
};

Types types_of(CublasType type) {
  const auto floats = [](cudaDataType_t t, cublasComputeType_t compute) {
    return Types{t, t, t, compute, CUDA_R_32F, &kOneF, &kZeroF};
  };
  switch (type) {
    case CublasType::kF32: return floats(CUDA_R_32F, CUBLAS_COMPUTE_32F);
    case CublasType::kTf32: return floats(CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32);
    case CublasType::kF16: return floats(CUDA_R_16F, CUBLAS_COMPUTE_32F);
    case CublasType::kBf16: return floats(CUDA_R_16BF, CUBLAS_COMPUTE_32F);
    case CublasType::kI8:
      return {CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I, &kOne, &kZero};
    case CublasType::kF8e4m3: break;
  }
  Types eighth = floats(CUDA_R_8F_E4M3, CUBLAS_COMPUTE_32F);
  eighth.beside = CUDA_R_16BF;
  return eighth;
}

// The library that the process has, or else the newest that the loader finds.
void* open_library(std::initializer_list<const char*> names, std::string& error) {
  for (const int only_loaded : {RTLD_NOLOAD, 0}) {
    for (const char* name : names) {
      if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL | only_loaded)) return library;
      if (const char* why = dlerror()) error = why;
    }
  }
  return nullptr;
}

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

// 130100 is "13.1.0".
std::string version_text(std::size_t v) {
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

/// The library, with a handle for the current context.
struct Lt {
  std::string error, version;
  cublasLtHandle_t handle = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;

  Lt() {
    void* library = open_library({"libcublasLt.so.13", "libcublasLt.so.12"}, error);
    if (library == nullptr) return;
    const bool complete = find(library, "cublasLtCreate", create) &&
                          find(library, "cublasLtGetVersion", get_version) &&
                          find(library, "cublasLtMatmulDescCreate", desc_create) &&
                          find(library, "cublasLtMatmulDescDestroy", desc_destroy) &&
                          find(library, "cublasLtMatmulDescSetAttribute", desc_set) &&
                          find(library, "cublasLtMatrixLayoutCreate", layout_create) &&
                          find(library, "cublasLtMatrixLayoutDestroy", layout_destroy) &&
                          find(library, "cublasLtMatmulPreferenceCreate", preference_create) &&
                          find(library, "cublasLtMatmulPreferenceDestroy", preference_destroy) &&
                          find(library, "cublasLtMatmulPreferenceSetAttribute", preference_set) &&
                          find(library, "cublasLtMatmulAlgoGetHeuristic", heuristic) &&
                          find(library, "cublasLtMatmul", matmul);
    error.clear();
    if (!complete) {
      error = "the library lacks a function";
    } else if (create(&handle) != CUBLAS_STATUS_SUCCESS) {
      error = "it does not start on this GPU";
    } else {
      version = version_text(get_version());
    }
  }
};

const Lt& lt() {
  static const Lt library;
  return library;
}

// Both libraries are column-major: a row-major C = A B is C^T = B^T A^T there, so their first
// operand is our second.
cublasOperation_t operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

/// The descriptions of a product.
struct LtProduct {
  Types types;
  cublasLtMatmulDesc_t desc = nullptr;
  std::array<cublasLtMatrixLayout_t, 4> layouts = {};  // of B, A, C and D
  cublasLtMatmulPreference_t preference = nullptr;
  bool good = true;

  LtProduct(const GemmShape& s, CublasType type) : types(types_of(type)) {
    const auto make = [&](std::size_t i, cudaDataType_t t, std::int64_t rows, std::int64_t cols) {
      check(lt().layout_create(&layouts[i], t, static_cast<std::uint64_t>(rows),
                               static_cast<std::uint64_t>(cols), rows));
    };
    check(lt().desc_create(&desc, types.compute, types.scale));
    const cublasOperation_t first = operation(s.trans_b), second = operation(s.trans_a);
    check(lt().desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    check(lt().desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    make(0, types.operand, s.ldb(), s.trans_b ? s.n : s.k);
    make(1, types.operand, s.lda(), s.trans_a ? s.k : s.m);
    make(2, types.beside, s.n, s.m);
    make(3, types.result, s.n, s.m);
    check(lt().preference_create(&preference));
    const std::size_t bytes = kCublasWorkspace;
    check(lt().preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                              sizeof bytes));
  }
  ~LtProduct() {
    for (const cublasLtMatrixLayout_t layout : layouts) {
      if (layout != nullptr) lt().layout_destroy(layout);
    }
    if (preference != nullptr) lt().preference_destroy(preference);
    if (desc != nullptr) lt().desc_destroy(desc);
  }
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  bool run(const cublasLtMatmulAlgo_t& algorithm, const CublasCall& call) const {
    const void* beside = types.beside == types.result ? call.c : nullptr;
    return lt().matmul(lt().handle, desc, types.one, call.b, layouts[0], call.a, layouts[1],
                       types.zero, beside, layouts[2], call.c, layouts[3], &algorithm,
                       call.workspace, kCublasWorkspace,
                       static_cast<cudaStream_t>(call.stream)) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  void check(cublasStatus_t status) { good = good && status == CUBLAS_STATUS_SUCCESS; }
};

/// cuBLAS, with a handle for the current context.
struct Blas {
  std::string error, version;
  cublasHandle_t handle = nullptr;
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasGetVersion_v2) get_version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetWorkspace_v2) set_workspace = nullptr;
  // cublasGemmEx, which has overloads.
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                         const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                         int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                         cublasGemmAlgo_t) = nullptr;

  Blas() {
    void* library = open_library({"libcublas.so.13", "libcublas.so.12"}, error);
    if (library == nullptr) return;
    const bool complete = find(library, "cublasCreate_v2", create) &&
                          find(library, "cublasGetVersion_v2", get_version) &&
                          find(library, "cublasSetStream_v2", set_stream) &&
                          find(library, "cublasSetWorkspace_v2", set_workspace) &&
                          find(library, "cublasGemmEx", gemm);
    error.clear();
    int number = 0;
    if (!complete) {
      error = "the library lacks a function";
    } else if (create(&handle) != CUBLAS_STATUS_SUCCESS) {
      error = "it does not start on this GPU";
    } else if (get_version(handle, &number) == CUBLAS_STATUS_SUCCESS) {
      version = version_text(static_cast<std::size_t>(number));
    }
  }

  // Setting the stream takes the library's own workspace, which a graph may not allocate.
  bool run(const GemmShape& s, const Types& t, const CublasCall& call) const {
    const auto extent = [](std::int64_t n) { return static_cast<int>(n); };
    return set_stream(handle, static_cast<cudaStream_t>(call.stream)) == CUBLAS_STATUS_SUCCESS &&
           set_workspace(handle, call.workspace, kCublasWorkspace) == CUBLAS_STATUS_SUCCESS &&
           gemm(handle, operation(s.trans_b), operation(s.trans_a), extent(s.n), extent(s.m),
                extent(s.k), t.one, call.b, t.operand, extent(s.ldb()), call.a, t.operand,
                extent(s.lda()), t.zero, call.c, t.result, extent(s.n), t.compute,
                CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
  }
};

}  // namespace

CublasProduct cublas_product(const GemmShape& shape, CublasType type) {
  static const Blas library;
  CublasProduct out{.error = library.error, .version = library.version, .ways = {}};
  if (type == CublasType::kF8e4m3) out.error = "8-bit floats are cuBLASLt's alone";
  if (out.error.empty()) {
    out.ways.emplace_back([shape, types = types_of(type)](const CublasCall& call) {
      return library.run(shape, types, call);
    });
  }
  return out;
}

CublasProduct cublaslt_product(const GemmShape& shape, CublasType type) {
  CublasProduct out{.error = lt().error, .version = lt().version, .ways = {}};
  if (!out.error.empty()) return out;
  const auto product = std::make_shared<const LtProduct>(shape, type);
  std::vector<cublasLtMatmulHeuristicResult_t> found(kMostWays);
  int count = 0;
  if (!product->good ||
      lt().heuristic(lt().handle, product->desc, product->layouts[0], product->layouts[1],
                     product->layouts[2], product->layouts[3], product->preference, kMostWays,
                     found.data(), &count) != CUBLAS_STATUS_SUCCESS) {
    count = 0;
  }
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& each = found[static_cast<std::size_t>(i)];
    if (each.state != CUBLAS_STATUS_SUCCESS) continue;
    out.ways.emplace_back([product, algorithm = each.algo](const CublasCall& call) {
      return product->run(algorithm, call);
    });
  }
  if (out.ways.empty()) out.error = "it has no algorithm for this product";
  return out;
}

#else

CublasProduct cublas_product(const GemmShape&, CublasType) {
  return {.error = "built without its headers", .version = {}, .ways = {}};
}
CublasProduct cublaslt_product(const GemmShape&, CublasType) {
  return {.error = "built without its headers", .version = {}, .ways = {}};
}

#endif

}  // namespace heddle::peers
