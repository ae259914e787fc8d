#include "measure/test_worker.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <filesystem>
#include <map>

namespace heddle::testing {
namespace {

constexpr const char* kFlag = "--as-worker";

std::map<std::string, TestWorker::Make>& kinds() {
  static std::map<std::string, TestWorker::Make> known;
  return known;
}

}  // namespace

TestWorker::TestWorker(const std::string& name, Make make) { kinds()[name] = std::move(make); }

std::vector<std::string> test_worker(const std::string& name, const std::string& argument) {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), kFlag, name, argument};
}

}  // namespace heddle::testing

int main(int argc, char** argv) {
  if (argc > 3 && std::string(argv[1]) == heddle::testing::kFlag) {
    const auto kind = heddle::testing::kinds().find(argv[2]);
    if (kind == heddle::testing::kinds().end()) {
      std::fprintf(stderr, "there is no worker '%s'\n", argv[2]);
      return 2;
    }
    return heddle::measuring::run_worker(argc, argv, kind->second(argv[3]));
  }
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
