// One run of NVRTC, in this process or in a child process.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/nvrtc/nvrtc_library.h"

namespace heddle::cuda {

struct NvrtcOutput {
  NvrtcApi::Result result = NvrtcApi::kSuccess;
  std::string log;
  std::string bytes;  // the cubin; empty on failure
};

NvrtcOutput run_nvrtc(const NvrtcApi& api, const std::string& source, const char* file,
                      const std::vector<std::string>& options);

/// The same in a forked process. Throws an Internal error when that process dies.
NvrtcOutput run_nvrtc_in_child(const NvrtcApi& api, const std::string& source, const char* file,
                               const std::vector<std::string>& options);

}  // namespace heddle::cuda
