// The text of kernels: against the files of tests/codegen/cuda, which HEDDLE_UPDATE=1 rewrites, and
// through NVRTC for every architecture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "codegen/cuda_kernels.h"
#include "codegen/nvrtc_testing.h"
#include "heddle/codegen/cuda.h"
#include "heddle/support/error.h"

namespace heddle::testing {
namespace {

const std::vector<std::string> kArchitectures{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"};

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(HEDDLE_SOURCE_DIR) + "/tests/codegen/cuda/" + name + ".cu";
  if (const char* update = std::getenv("HEDDLE_UPDATE"); update && *update == '1') {
    std::ofstream(path) << text;
    return;
  }
  std::ostringstream file;
  file << std::ifstream(path).rdbuf();
  EXPECT_EQ(file.str(), text) << path << " differs: look at it, then run with HEDDLE_UPDATE=1";
}

/// Compiles for every architecture: nothing spilled, at most `registers`.
void expect_compiles(const std::string& text, int registers) {
  if (!nvrtc_library()) GTEST_SKIP() << "no NVRTC here";
  for (const std::string& arch : kArchitectures) {
    const NvrtcResult r = compile_cuda(text, arch);
    ASSERT_TRUE(r.ok) << arch << "\n" << r.log << "\n" << text;
    ASSERT_FALSE(r.kernels.empty()) << r.log;
    for (const auto& [name, use] : r.kernels) {
      EXPECT_EQ(use.spill_bytes, 0) << name << " for " << arch;
      EXPECT_EQ(use.stack_bytes, 0) << name << " for " << arch;
      EXPECT_LE(use.registers, registers) << name << " for " << arch;
      EXPECT_GT(use.registers, 0) << name << " for " << arch;
    }
  }
}

TEST(CudaText, CopyWithTail) {
  const std::string text = emit_cuda(one_kernel(copy_with_tail(1000)));
  expect_golden("copy", text);
  expect_compiles(text, 16);
}

TEST(CudaText, VectorsOfFloats) {
  const std::string text = emit_cuda(one_kernel(vector_gelu(f32)));
  expect_golden("gelu_f32", text);
  expect_compiles(text, 32);
}

TEST(CudaText, VectorsOfBfloat16) {
  const std::string text = emit_cuda(one_kernel(vector_gelu(bf16)));
  expect_golden("gelu_bf16", text);
  expect_compiles(text, 40);
}

TEST(CudaText, BlockReduction) {
  const std::string text = emit_cuda(one_kernel(row_sum()));
  expect_golden("row_sum", text);
  expect_compiles(text, 32);
}

TEST(CudaText, MatmulWithSharedMemoryAndAsynchronousCopies) {
  const std::string text = emit_cuda(one_kernel(simt_matmul()));
  expect_golden("matmul", text);
  expect_compiles(text, 128);
}

TEST(CudaText, MatmulOnTensorCores) {
  const std::string text = emit_cuda(one_kernel(mma_matmul(f16)));
  expect_golden("mma_f16", text);
  expect_compiles(text, 96);
  expect_compiles(emit_cuda(one_kernel(mma_matmul(bf16))), 96);
}

TEST(CudaText, SameProgramSameText) {
  EXPECT_EQ(emit_cuda(one_kernel(simt_matmul())), emit_cuda(one_kernel(simt_matmul())));
}

}  // namespace
}  // namespace heddle::testing
