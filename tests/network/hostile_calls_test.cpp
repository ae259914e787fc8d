// Exported libraries that are called with arguments that make no sense, by the program that checks
// them on GPUs too (scripts/check_hostile_calls.c), and their weights when they were changed.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "heddle/network/export_network.h"
#include "network/exported_library.h"
#include "network/fake_libcuda.h"
#include "network/network_testing.h"
#include "sanitized.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Declared {
  std::vector<Tensor> args, outputs;
};

/// Two outputs, weights that are packed, and an input of another type.
Declared fixed() {
  const Tensor x = placeholder({4, 40}, f32, "x"), scale = placeholder({40}, f64, "scale");
  const Tensor w = constant(NDArray::random({40, 24}, f32, 8), "w");
  const Tensor scaled =
      compute({4, 40}, [&](Axis i, Axis k) { return x(i, k) * cast(f32, scale(k)); }, "scaled");
  const Tensor sums = ops::relu(ops::matmul(scaled, w)), out = ops::softmax(sums);
  return {{x, scale, out, sums}, {out, sums}};
}

Declared over_sizes() {
  const Dim rows = dim("rows", 1, 70), wide = dim("wide", 8, 32).multiple_of(8);
  const Tensor x = placeholder({rows, 12}, f32, "x"), y = placeholder({12, wide}, f32, "y");
  const Axis k = reduce_axis(12, "k");
  const Tensor out =
      compute({rows, wide}, [&](Axis i, Axis j) { return sum(x(i, k) * y(k, j), k); }, "out");
  return {{x, y, out}, {out}};
}

ExportedNetwork written(const Declared& d, const Target& target, const std::string& folder,
                        bool check_weights = true) {
  return export_network(Network(d.outputs, target), d.args, folder,
                        {.name = "net", .check_weights = check_weights});
}

std::string compiler_line(const std::string& options, const std::string& output) {
  return "'" HEDDLE_TEST_CXX "' -x c -std=c11 -O1 -Wall -Wextra -Werror " + options +
         " '" HEDDLE_TEST_HOSTILE_CALLS "' -x none -o '" + output + "' -ldl";
}

class HostileCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  const std::string folder_ =
      (fs::path(::testing::TempDir()) / ("heddle_hostile_" + std::to_string(::getpid()))).string();
};

TEST_F(HostileCalls, AreErrorsOfALibraryForACpu) {
  if (kSanitized) GTEST_SKIP() << "the runtime in the library needs a program with the sanitizer";
  const std::string program = folder_ + "/program";
  ASSERT_EQ(std::system(compiler_line("", program).c_str()), 0);
  for (const Declared& d : {fixed(), over_sizes()}) {
    const std::string library = written(d, Target::host(), folder_).library;
    EXPECT_EQ(std::system(("'" + program + "' '" + library + "' net").c_str()), 0);
  }
}

class HostileGpuCalls : public FakeLibcuda {
 protected:
  void SetUp() override {
    FakeLibcuda::SetUp();
    fs::create_directories(folder_);
  }
};

// In this process, because the fake driver is.
TEST_F(HostileGpuCalls, AreErrorsOfALibraryForAGpu) {
  const std::string code = folder_ + "/hostile.so";
  ASSERT_EQ(std::system(compiler_line("-shared -fPIC -DHOSTILE_LIBRARY", code).c_str()), 0);
  void* loaded = ::dlopen(code.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loaded, nullptr) << ::dlerror();
  auto* calls =
      reinterpret_cast<int (*)(const char*, const char*)>(::dlsym(loaded, "hostile_calls"));
  ASSERT_NE(calls, nullptr);
  int number = 0;
  for (const Declared& d : {fixed(), over_sizes()}) {
    emulate_network(Network(d.outputs, gpu_));
    // The loader knows a library by its path while it stays loaded.
    const std::string library = written(d, gpu_, folder_ + "/" + std::to_string(number++)).library;
    EXPECT_EQ(calls(library.c_str(), "net"), 0);
  }
}

class ChangedWeights : public HostileCalls {
 protected:
  static void change_last_byte(const std::string& path) {
    std::string bytes = read_file(path);
    bytes.back() ^= 1;
    write_file_atomic(path, bytes);
  }
};

// The loader knows a library by its path while it stays loaded, so each test has a folder.
TEST_F(ChangedWeights, DamageIsFoundWhenTheyAreOpened) {
  const ExportedNetwork files = written(fixed(), Target::host(), folder_ + "/damaged");
  const ExportedLibrary library(files.library, "net");
  const std::string good = read_file(files.weights);
  for (const size_t at : {size_t{4096}, (good.size() + 4096) / 2, good.size() - 1}) {
    std::string bytes = good;
    bytes[at] ^= 1;
    write_file_atomic(files.weights, bytes);
    EXPECT_EQ(library.open(nullptr), nullptr) << at;
    EXPECT_THAT(library.error(), HasSubstr("net.weights': it is damaged"));
  }
  write_file_atomic(files.weights, good);
  void* network = library.open(nullptr);
  EXPECT_NE(network, nullptr) << library.error();
  library.close(network);
  EXPECT_THAT(read_file(files.header), HasSubstr("All weights are read and compared"));
}

TEST_F(ChangedWeights, TheCheckCanBeLeftOut) {
  const ExportedNetwork files =
      written(fixed(), Target::host(), folder_ + "/unchecked", /*check_weights=*/false);
  const ExportedLibrary library(files.library, "net");
  change_last_byte(files.weights);
  void* network = library.open(nullptr);
  EXPECT_NE(network, nullptr) << library.error();
  library.close(network);
  EXPECT_THAT(read_file(files.header), HasSubstr("and not the weights"));
}

TEST_F(ChangedWeights, AFileThatWasCutWhileItIsMappedIsAnError) {
  const Declared d = fixed();
  const ExportedNetwork files = written(d, Target::host(), folder_ + "/cut");
  const ExportedLibrary library(files.library, "net");
  void* network = library.open(nullptr);
  ASSERT_NE(network, nullptr) << library.error();
  std::vector<NDArray> arrays;
  for (const Tensor& t : d.args) arrays.push_back(NDArray::zeros(t.extents(), t.dtype()));
  const void* inputs[] = {arrays[0].data(), arrays[1].data()};
  void* outputs[] = {arrays[2].data(), arrays[3].data()};
  EXPECT_EQ(library.run(network, inputs, outputs), 0) << library.error();
  fs::resize_file(files.weights, 4096);
  EXPECT_NE(library.run(network, inputs, outputs), 0);
  EXPECT_THAT(library.error(), HasSubstr("it was cut while the network is open"));
  EXPECT_EQ(library.open(nullptr), nullptr);
  library.close(network);
}

}  // namespace
}  // namespace heddle::testing
