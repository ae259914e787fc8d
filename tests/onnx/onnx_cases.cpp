// onnx_cases FILE [--kernels] [--verbose] [--keep OUT]: runs a file of ONNX's node tests, counts,
// and with --keep writes those that pass to OUT. Exit status 1 where a case failed that is not
// merely unsupported.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "onnx/node_cases.h"
#include "support/files/file.h"

int main(int argc, char** argv) {
  using heddle::testing::CaseResult;
  std::string file, keep, kept;
  bool verbose = false;
  auto engine = heddle::testing::Engine::Interpreter;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--kernels") == 0)
      engine = heddle::testing::Engine::Kernels;
    else if (std::strcmp(argv[i], "--verbose") == 0)
      verbose = true;
    else if (std::strcmp(argv[i], "--keep") == 0 && i + 1 < argc)
      keep = argv[++i];
    else
      file = argv[i];
  }
  if (file.empty()) {
    std::fprintf(stderr, "usage: onnx_cases FILE [--kernels] [--verbose] [--keep OUT]\n");
    return 2;
  }
  int counts[3] = {0, 0, 0};
  for (const std::string& model : heddle::testing::read_cases(file)) {
    const CaseResult r = heddle::testing::run_case(model, engine);
    ++counts[static_cast<int>(r.status)];
    if (r.status == CaseResult::Status::Failed)
      std::printf("failed       %s: %s\n", r.name.c_str(), r.message.c_str());
    if (verbose && r.status == CaseResult::Status::Unsupported)
      std::printf("unsupported  %s: %s\n", r.name.c_str(), r.message.c_str());
    std::fflush(stdout);
    if (r.status == CaseResult::Status::Passed) {
      const auto length = static_cast<uint32_t>(model.size());
      kept.append(reinterpret_cast<const char*>(&length), sizeof length);
      kept += model;
    }
  }
  if (!keep.empty()) heddle::write_file_atomic(keep, kept);
  std::printf("%d passed, %d failed, %d not supported\n", counts[0], counts[1], counts[2]);
  return counts[1] > 0 ? 1 : 0;
}
