#include "subjects/gpu_peers.h"

#include <optional>

namespace heddle::cli {
namespace {

std::optional<peers::CublasType> type_of(DataType dtype, bool tf32) {
  using peers::CublasType;
  if (dtype == f32) return tf32 ? CublasType::kTf32 : CublasType::kF32;
  if (dtype == f16) return CublasType::kF16;
  if (dtype == bf16) return CublasType::kBf16;
  if (dtype == i8) return CublasType::kI8;
  if (dtype == f8e4m3) return CublasType::kF8e4m3;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> gpu_peer_names() { return {"cublas", "cublaslt"}; }

peers::CublasProduct gpu_peer(const Problem& problem, const std::string& name, bool tf32) {
  const auto none = [](std::string why) {
    return peers::CublasProduct{.error = std::move(why), .version = {}, .ways = {}};
  };
  if (!problem.product) return none("it has products alone");
  const std::optional<peers::CublasType> type = type_of(problem.dtype, tf32);
  if (!type) return none("it has no products of " + to_string(problem.dtype));
  return name == "cublas" ? peers::cublas_product(*problem.product, *type)
                          : peers::cublaslt_product(*problem.product, *type);
}

}  // namespace heddle::cli
