// The text of kernels as a library for this machine.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "codegen/cuda/emit.h"
#include "codegen/cuda/text/prelude.h"
#include "heddle/codegen/cuda.h"
#include "heddle/runtime/ndarray.h"
#include "source_dir.h"

namespace heddle::testing {

/// Compiles the kernels with this machine's compiler, as host functions in a library of their own.
class HostLibrary {
 public:
  explicit HostLibrary(const GpuProgram& program) {
    cuda::Prelude prelude;
    const std::string kernels = cuda::emit_kernels(program, prelude);
    char folder[] = "/tmp/heddle_cuda_host_XXXXXX";
    folder_ = mkdtemp(folder);
    {
      std::ofstream file(folder_ + "/kernels.cpp");
      file << "#include \"codegen/cuda_host_shim.h\"\n"
           << prelude.text(cuda::Prelude::Which::PlainOnly) << kernels
           << "extern \"C\" void shim_set(const int* at) {\n"
              "  blockIdx = {at[0], at[1], at[2]};\n  threadIdx = {at[3], at[4], at[5]};\n}\n}\n";
    }
    const std::string command = std::string(HEDDLE_CXX) + " -std=c++20 -O0 -w -fPIC -shared -I" +
                                source_dir() + "/include -I" + source_dir() + "/src -I" +
                                source_dir() + "/tests -o " + folder_ + "/kernels.so " + folder_ +
                                "/kernels.cpp " + source_dir() + "/src/support/numbers/half.cpp";
    if (std::system(command.c_str()) != 0) return;
    handle_ = dlopen((folder_ + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  ~HostLibrary() {
    if (handle_) dlclose(handle_);
    std::filesystem::remove_all(folder_);
  }
  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;

  bool ready() const { return handle_ != nullptr; }

  /// All threads of all blocks, one after the other.
  void run(const GpuKernel& k, const std::vector<NDArray>& args) const {
    ASSERT_TRUE(has(k)) << k.name;
    for (int64_t i = 0; i < threads_of(k); ++i) call(k, args, i);
  }

  /// All warps of all blocks, one after the other, the lanes of each at the same time.
  void run_warps(const GpuKernel& k, const std::vector<NDArray>& args) const {
    ASSERT_TRUE(has(k)) << k.name;
    ASSERT_EQ(k.block[0] % 32, 0) << k.name;
    std::barrier together(32);
    std::vector<std::thread> lanes;
    for (int64_t lane = 0; lane < 32; ++lane) {
      lanes.emplace_back([&, lane] {
        for (int64_t first = 0; first < threads_of(k); first += 32) {
          call(k, args, first + lane);
          together.arrive_and_wait();
        }
      });
    }
    for (std::thread& t : lanes) t.join();
  }

 private:
  template <size_t... I>
  static void call(void* function, const std::vector<NDArray>& args, std::index_sequence<I...>) {
    reinterpret_cast<void (*)(decltype((void)I, (void*)nullptr)...)>(function)(
        const_cast<void*>(static_cast<const void*>(args[I].data()))...);
  }

  bool has(const GpuKernel& k) const { return dlsym(handle_, k.name.c_str()) != nullptr; }

  static int64_t threads_of(const GpuKernel& k) {
    return k.grid[0] * k.grid[1] * k.grid[2] * k.block[0] * k.block[1] * k.block[2];
  }

  /// Thread `i` of the grid, whose blocks follow each other, and in each its threads.
  void call(const GpuKernel& k, const std::vector<NDArray>& args, int64_t i) const {
    int at[6];
    const int64_t limit[6] = {k.block[0], k.block[1], k.block[2], k.grid[0], k.grid[1], k.grid[2]};
    for (int d = 0; d < 6; ++d) {
      at[(d + 3) % 6] = static_cast<int>(i % limit[d]);
      i /= limit[d];
    }
    reinterpret_cast<void (*)(const int*)>(dlsym(handle_, "shim_set"))(at);
    void* function = dlsym(handle_, k.name.c_str());
    switch (args.size()) {
      case 1: return call(function, args, std::make_index_sequence<1>());
      case 2: return call(function, args, std::make_index_sequence<2>());
      case 3: return call(function, args, std::make_index_sequence<3>());
      case 4: return call(function, args, std::make_index_sequence<4>());
      case 5: return call(function, args, std::make_index_sequence<5>());
      default: FAIL() << "too many arguments";
    }
  }

  std::string folder_;
  void* handle_ = nullptr;
};

}  // namespace heddle::testing
