#include "codegen/cuda/nvrtc/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "codegen/cuda/nvrtc/cubin_cache.h"
#include "codegen/cuda/nvrtc/nvrtc_run.h"
#include "codegen/cuda/nvrtc/ptxas_log.h"
#include "heddle/support/error.h"
#include "support/files/file.h"

namespace heddle::cuda {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kAxpy = R"(extern "C" __global__ void axpy(float* y, const float* x) {
  __shared__ float tile[256];
  const int i = blockIdx.x * 256 + threadIdx.x;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  y[i] += 2.0f * tile[255 - threadIdx.x];
}
)";

class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old, had_ = true;
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (had_) {
      ::setenv(name_.c_str(), old_.c_str(), 1);
    } else {
      ::unsetenv(name_.c_str());
    }
  }

 private:
  std::string name_, old_;
  bool had_ = false;
};

// A cache of the test's own.
class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    if (!nvrtc_available()) GTEST_SKIP() << "SKIPPED: " << nvrtc_missing_reason();
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Without the key that seals them.
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      if (entry.path().filename() != "key") found.push_back(entry.path());
    }
    return found;
  }

  fs::path folder_ =
      fs::temp_directory_path() / ("heddle_nvrtc_test_" + std::to_string(::getpid()));
  ScopedVariable cache_{"HEDDLE_CUBIN_CACHE", folder_.string()};
};

template <typename F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::User, "no error"};
}

NvrtcApi::Result abort_in_compiler(NvrtcApi::Program, int, const char* const*) { std::abort(); }

// A process that is forked later must still be able to use the GPU, and NVRTC initialises the
// driver.
TEST_F(Nvrtc, AnotherProcessCompilesTheSame) {
  std::string reason;
  const NvrtcApi& api = *find_nvrtc(reason);
  const std::vector<std::string> options = {"--gpu-architecture=sm_80", "--ptxas-options=-v"};
  const NvrtcOutput here = run_nvrtc(api, kAxpy, "k.cu", options);
  const NvrtcOutput there = run_nvrtc_in_child(api, kAxpy, "k.cu", options);
  EXPECT_EQ(there.result, NvrtcApi::kSuccess);
  EXPECT_EQ(there.bytes, here.bytes);
  EXPECT_THAT(there.log, HasSubstr("registers"));
  const NvrtcOutput wrong = run_nvrtc_in_child(api, "what is this", "k.cu", options);
  EXPECT_EQ(wrong.result, NvrtcApi::kCompilation);
  EXPECT_THAT(wrong.log, HasSubstr("error"));
  EXPECT_TRUE(wrong.bytes.empty());
  NvrtcApi broken = api;
  broken.compile_program = abort_in_compiler;
  try {
    run_nvrtc_in_child(broken, kAxpy, "k.cu", options);
    FAIL() << "a compiler that dies is an error";
  } catch (const Error& e) {
    EXPECT_THAT(e.message, HasSubstr("died of signal"));
  }
}

TEST_F(Nvrtc, CompilesForEveryArchitecture) {
  const ScopedVariable off("HEDDLE_CUBIN_CACHE", "off");
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    const Cubin cubin = compile_cuda(kAxpy, arch);
    EXPECT_TRUE(cubin.bytes.starts_with("\177ELF")) << arch;
    EXPECT_EQ(cubin.arch, arch);
    ASSERT_NE(cubin.find("axpy"), nullptr) << cubin.log;
    const KernelResources& k = *cubin.find("axpy");
    EXPECT_GT(k.registers, 4) << arch;
    EXPECT_LT(k.registers, 40) << arch;
    EXPECT_EQ(k.static_smem, 1024) << arch;
    EXPECT_EQ(k.barriers, 1) << arch;
    EXPECT_EQ(k.spill_stores + k.spill_loads + k.local_bytes, 0) << arch;
    EXPECT_FALSE(cubin.cached);
    EXPECT_GT(cubin.compile_s, 0);
  }
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(Nvrtc, SpillsAndLocalMemoryAreCounted) {
  const std::string source = R"(
extern "C" __global__ void spills(float* a, int n) {
  float v[96];
  for (int j = 0; j < 96; ++j) v[j] = a[threadIdx.x + j * 256];
  __syncthreads();
  for (int j = 0; j < 96; ++j) a[threadIdx.x + (95 - j) * 512] = v[j] * v[(j + 1) % 96];
}
extern "C" __global__ void indexed(float* a, int n) {
  float v[32];
  for (int j = 0; j < 32; ++j) v[j] = a[j];
  for (int j = 0; j < n; ++j) v[(j * n) & 31] += a[j];
  a[n] = v[n & 31];
}
)";
  const Cubin cubin = compile_cuda(source, "sm_90a", {"--maxrregcount=32"});
  ASSERT_EQ(cubin.kernels.size(), 2U) << cubin.log;
  EXPECT_GT(cubin.find("spills")->spill_stores, 0) << cubin.log;
  EXPECT_GT(cubin.find("spills")->spill_loads, 0);
  EXPECT_LE(cubin.find("spills")->registers, 32);
  EXPECT_GE(cubin.find("indexed")->local_bytes, 128);
  EXPECT_EQ(cubin.find("nothing"), nullptr);
}

TEST_F(Nvrtc, MistakesShowTheLinesAround) {
  const Error error = error_of([] {
    compile_cuda("extern \"C\" __global__ void k(float* a) {\n  int x = 1;\n  a[0] = y;\n}\n",
                 "sm_90a");
  });
  EXPECT_EQ(error.kind, ErrorKind::Internal);
  EXPECT_THAT(error.message, HasSubstr("identifier \"y\" is undefined"));
  EXPECT_THAT(error.message, HasSubstr("     2 |   int x = 1;\n>    3 |   a[0] = y;\n     4 | }"));

  const Error ptx = error_of([] {
    compile_cuda("extern \"C\" __global__ void k() { asm volatile(\"foo.bar;\"); }", "sm_90a");
  });
  EXPECT_THAT(ptx.message, HasSubstr("Not a name of any known instruction: 'foo'"));
  EXPECT_TRUE(files().empty()) << "a failure was cached";
}

TEST_F(Nvrtc, UnknownArchitecturesAndOptionsAreTheCallersMistake) {
  const Error arch = error_of([] { compile_cuda(kAxpy, "sm_31"); });
  EXPECT_EQ(arch.kind, ErrorKind::User);
  EXPECT_THAT(arch.message, HasSubstr("sm_31"));
  EXPECT_EQ(error_of([] { compile_cuda(kAxpy, "compute_90"); }).kind, ErrorKind::User);
  const Error option = error_of([] { compile_cuda(kAxpy, "sm_80", {"--no-such-option"}); });
  EXPECT_EQ(option.kind, ErrorKind::User);
  EXPECT_THAT(option.message, HasSubstr("--no-such-option"));
}

TEST_F(Nvrtc, TheCacheAnswersTheSecondTime) {
  const Cubin first = compile_cuda(kAxpy, "sm_90a");
  const Cubin second = compile_cuda(kAxpy, "sm_90a");
  EXPECT_FALSE(first.cached);
  EXPECT_TRUE(second.cached);
  EXPECT_EQ(first.bytes, second.bytes);
  EXPECT_EQ(first.log, second.log);
  ASSERT_NE(second.find("axpy"), nullptr);
  EXPECT_EQ(second.find("axpy")->registers, first.find("axpy")->registers);
  EXPECT_EQ(files().size(), 1U);
  // Another architecture, option or text is another file.
  EXPECT_FALSE(compile_cuda(kAxpy, "sm_80").cached);
  EXPECT_FALSE(compile_cuda(kAxpy, "sm_90a", {"--maxrregcount=40"}).cached);
  EXPECT_FALSE(compile_cuda(std::string(kAxpy) + "\n", "sm_90a").cached);
  EXPECT_EQ(files().size(), 4U);
}

TEST_F(Nvrtc, DamagedFilesAreCompiledAgain) {
  const Cubin good = compile_cuda(kAxpy, "sm_90a");
  ASSERT_EQ(files().size(), 1U);
  const std::string path = files()[0].string();
  const std::string content = read_file(path);
  std::string flipped = content;
  flipped[content.size() - 100] = static_cast<char>(flipped[content.size() - 100] ^ 1);
  for (const std::string& damaged : {std::string(), content.substr(0, content.size() / 2), flipped,
                                     "{}\n" + good.bytes, "no json\n" + good.bytes}) {
    write_file_atomic(path, damaged);
    const Cubin again = compile_cuda(kAxpy, "sm_90a");
    EXPECT_FALSE(again.cached);
    EXPECT_EQ(again.bytes, good.bytes);
    EXPECT_TRUE(compile_cuda(kAxpy, "sm_90a").cached);
  }
}

TEST_F(Nvrtc, ManyThreadsCompileAtOnce) {
  constexpr int kThreads = 4;
  std::vector<Cubin> cubins(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "k" + std::to_string(t / 2);  // two threads for each text
      cubins[static_cast<std::size_t>(t)] = compile_cuda(
          "extern \"C\" __global__ void " + name + "(float* a) { a[threadIdx.x] *= 2; }", "sm_80");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_NE(cubins[static_cast<std::size_t>(t)].find("k" + std::to_string(t / 2)), nullptr);
  }
  EXPECT_EQ(cubins[0].bytes, cubins[1].bytes);
  EXPECT_EQ(files().size(), 2U) << "a temporary file is left";
}

TEST(NvrtcMissing, TheErrorSaysWhatToDo) {
  const ScopedVariable nowhere("HEDDLE_NVRTC", "/nonexistent/libnvrtc.so.13");
  EXPECT_FALSE(nvrtc_available());
  const Error error = error_of([] { compile_cuda(kAxpy, "sm_90a"); });
  EXPECT_EQ(error.kind, ErrorKind::Runtime);
  EXPECT_THAT(error.message, HasSubstr("/nonexistent/libnvrtc.so.13"));
  EXPECT_THAT(error.help, HasSubstr("HEDDLE_NVRTC"));
  const ScopedVariable folder("HEDDLE_NVRTC", fs::temp_directory_path().string());
  EXPECT_THAT(nvrtc_missing_reason(), HasSubstr("no libnvrtc.so in the folder"));
}

TEST(CubinCache, KeepsToItsLimit) {
  const fs::path folder =
      fs::temp_directory_path() / ("heddle_cubin_test_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  const ScopedVariable cache("HEDDLE_CUBIN_CACHE", folder.string());
  const ScopedVariable limit("HEDDLE_CUBIN_CACHE_MB", "1");
  Cubin cubin;
  cubin.arch = "sm_80";
  cubin.bytes.assign(100 << 10, 'x');
  for (int i = 0; i < 130; ++i) {  // two sweeps at least
    store_cubin(cubin_key("source " + std::to_string(i), "sm_80", {}, 13000), cubin);
  }
  std::uintmax_t total = 0;
  for (const auto& entry : fs::directory_iterator(folder)) total += entry.file_size();
  // Nothing is swept between two sweeps, 64 stores apart.
  EXPECT_LT(total, (64 + 8) * (101U << 10));
  EXPECT_TRUE(load_cubin(cubin_key("source 129", "sm_80", {}, 13000)).has_value());
  EXPECT_FALSE(load_cubin(cubin_key("source 0", "sm_80", {}, 13000)).has_value());
  fs::remove_all(folder);
}

TEST(CubinCache, AFolderThatCannotBeIsNoError) {
  const ScopedVariable cache("HEDDLE_CUBIN_CACHE", "/proc/no/such/folder");
  Cubin cubin;
  cubin.arch = "sm_80";
  EXPECT_NO_THROW(store_cubin("00", cubin));
  EXPECT_FALSE(load_cubin("00").has_value());
}

TEST(CubinCache, KeysDependOnEverything) {
  const std::string key = cubin_key("text", "sm_80", {"-a", "b"}, 13000);
  EXPECT_EQ(key.size(), 32U);
  EXPECT_EQ(key, cubin_key("text", "sm_80", {"-a", "b"}, 13000));
  EXPECT_NE(key, cubin_key("text", "sm_80", {"-ab"}, 13000));
  EXPECT_NE(key, cubin_key("text", "sm_80", {"-a", "b"}, 12090));
  EXPECT_NE(key, cubin_key("text", "sm_86", {"-a", "b"}, 13000));
}

TEST(PtxasLog, FunctionsThatAreCalledAreNoKernels) {
  const std::vector<KernelResources> kernels = parse_resources(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'g' for 'sm_90a'\n"
      "ptxas info    : Function properties for g\n"
      "ptxas         .     8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 24 registers, used 3 barriers, 4096 bytes smem, 400 bytes cmem[0]\n"
      "ptxas info    : Compile time = 16.169 ms\n"
      "ptxas info    : Function properties for _Z1fPf\n"
      "ptxas         .     99 bytes stack frame, 98 bytes spill stores, 97 bytes spill loads\n");
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].kernel, "g");
  EXPECT_EQ(kernels[0].registers, 24);
  EXPECT_EQ(kernels[0].barriers, 3);
  EXPECT_EQ(kernels[0].static_smem, 4096);
  EXPECT_EQ(kernels[0].local_bytes, 8);
  EXPECT_EQ(kernels[0].spill_stores, 12);
  EXPECT_EQ(kernels[0].spill_loads, 16);
  EXPECT_THAT(parse_warnings("x\nptxas info : (C7511) Potential Performance Loss: serialized\ny"),
              testing::ElementsAre(HasSubstr("C7511")));
}

}  // namespace
}  // namespace heddle::cuda
