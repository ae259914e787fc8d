// What a process that calls networks has in memory beside weights and buffers.
#include <cstdio>
#include <fstream>

#include "codegen/release_compiler.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

/// The bytes in memory of the mappings of files whose path contains `name`; -1 where there are
/// none.
int64_t resident(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  int64_t bytes = -1;
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "Rss: %lld kB", &kilobytes) == 1) {
      if (here) bytes += kilobytes << 10;
    } else if (line.find('/') != std::string::npos) {
      here = line.find(name) != std::string::npos;
      if (here && bytes < 0) bytes = 0;
    } else if (line.find('-') < line.find(' ')) {
      here = false;  // another mapping, of no file
    }
  }
  return bytes;
}

TEST(PeakMemory, ABuildLeavesNoCodeOfTheCompilerInMemory) {
  if (resident("libLLVM") < 0) GTEST_SKIP() << "LLVM is not a library of its own";
  const std::vector<Tensor> outputs{digits_network()}, args = args_of(outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  // Twice: what was given back is read again.
  for (const Target& target : {Target::host(), Target::parse("llvm -mcpu=x86-64-v2")}) {
    const NetworkKernel run = Network(outputs, target).build(args);
    const int64_t bytes = resident("libLLVM");
    EXPECT_LT(bytes, 16 << 20);
    run.call(arrays);
    EXPECT_EQ(differs_from_interpreter(outputs, args, arrays), "");
    codegen::release_compiler();
    EXPECT_LE(resident("libLLVM"), bytes + (1 << 20)) << "calls do not need it";
  }
}

}  // namespace
}  // namespace heddle::testing
