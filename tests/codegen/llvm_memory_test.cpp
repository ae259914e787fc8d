// What happens where there is no memory to compile with.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/ops/ops.h"
#include "llvm/Support/ErrorHandling.h"
#include "support/out_of_memory.h"

namespace heddle {
namespace {

constexpr int kNoMemory = 77, kCompiled = 1;

Kernel compiled(int64_t n) {
  const Tensor a = placeholder({n}, f32, "a"), b = ops::exp(a);
  return build(create_schedule({b}), {a, b});
}

// As a worker, whose new handler ends it with a status that names the cause.
TEST(LlvmMemory, AFailedAllocationOfLlvmEndsTheProcessAsOneOfNew) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::set_new_handler([] { ::_exit(kNoMemory); });
        compiled(8);
        llvm::report_bad_alloc_error("a test");
      },
      ::testing::ExitedWithCode(kNoMemory), "");
}

/// Memory that malloc has and the system cannot refuse. From then on the system refuses all else.
void keep_memory_and_take_no_more() {
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 256; ++i) blocks.push_back(std::make_unique<char[]>(1 << 20));
  blocks.clear();
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t used = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE));
  const rlimit limit{used, used};
  ::setrlimit(RLIMIT_AS, &limit);
}

TEST(LlvmMemory, CodeThatHasNoPlaceIsOutOfMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer has an allocator of its own";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto compile_without_memory = [] {
    compiled(8);
    keep_memory_and_take_no_more();
    try {
      compiled(9);
    } catch (const internal::OutOfMemory&) {
      ::_exit(kNoMemory);
    }
    ::_exit(kCompiled);
  };
  EXPECT_EXIT(compile_without_memory(), ::testing::ExitedWithCode(kNoMemory), "");
}

}  // namespace
}  // namespace heddle
