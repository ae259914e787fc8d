// A libcublasLt.so.13 whose GPU is the memory of the host: it has three algorithms for f32, of which
// the first refuses, the second computes something else, and the third is right.
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

constexpr int kSuccess = 0, kNotSupported = 15, kWays = 3;

struct Layout {
  std::int64_t rows, cols, ld;
};
struct Desc {
  int transposed[2];  // of the first operand and the second
};
struct Algorithm {
  std::uint64_t data[8];
};
struct Found {
  Algorithm algorithm;
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

float element(const float* x, const Layout& l, bool transposed, std::int64_t row,
              std::int64_t col) {
  return transposed ? x[row * l.ld + col] : x[col * l.ld + row];
}

}  // namespace

extern "C" {

int cublasLtCreate(void** handle) {
  static int it;
  *handle = &it;
  return kSuccess;
}
std::size_t cublasLtGetVersion() { return 130204; }
int cublasLtMatmulDescCreate(Desc** desc, int, int) {
  *desc = new Desc{};
  return kSuccess;
}
int cublasLtMatmulDescDestroy(Desc* desc) {
  delete desc;
  return kSuccess;
}
int cublasLtMatmulDescSetAttribute(Desc* desc, int attribute, const void* value, std::size_t size) {
  constexpr int kFirst = 3;  // CUBLASLT_MATMUL_DESC_TRANSA; TRANSB is the next
  std::memcpy(&desc->transposed[attribute - kFirst], value, size);
  return kSuccess;
}
int cublasLtMatrixLayoutCreate(Layout** layout, int, std::uint64_t rows, std::uint64_t cols,
                               std::int64_t ld) {
  *layout = new Layout{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld};
  return kSuccess;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return kSuccess;
}
int cublasLtMatmulPreferenceCreate(void** preference) { return cublasLtCreate(preference); }
int cublasLtMatmulPreferenceDestroy(void*) { return kSuccess; }
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) { return kSuccess; }

int cublasLtMatmulAlgoGetHeuristic(void*, Desc*, Layout*, Layout*, Layout*, Layout*, void*,
                                   int most, Found* found, int* count) {
  *count = most < kWays ? most : kWays;
  for (int i = 0; i < *count; ++i) found[i] = {{{static_cast<std::uint64_t>(i)}}, 0, 0, 1, {}};
  return kSuccess;
}

int cublasLtMatmul(void*, Desc* desc, const float* alpha, const float* a, Layout* la,
                   const float* b, Layout* lb, const float*, const float*, Layout*, float* d,
                   Layout* ld, const Algorithm* algorithm, void*, std::size_t, void*) {
  const std::uint64_t way = algorithm->data[0];
  if (way == 0) return kNotSupported;
  const std::int64_t depth = desc->transposed[0] != 0 ? la->rows : la->cols;
  for (std::int64_t col = 0; col < ld->cols; ++col) {
    for (std::int64_t row = 0; row < ld->rows; ++row) {
      float sum = way == 1 ? 1.0F : 0.0F;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += element(a, *la, desc->transposed[0] != 0, row, k) *
               element(b, *lb, desc->transposed[1] != 0, k, col);
      }
      d[col * ld->ld + row] = *alpha * sum;
    }
  }
  return kSuccess;
}
}
