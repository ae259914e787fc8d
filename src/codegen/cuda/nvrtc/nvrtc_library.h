// The part of NVRTC's C API that is used, declared here. It is the same from CUDA 11.2 on.
#pragma once

#include <cstddef>
#include <string>

namespace heddle::cuda {

struct NvrtcApi {
  using Program = struct NvrtcProgramTag*;
  using Result = int;
  static constexpr Result kSuccess = 0;
  static constexpr Result kOutOfMemory = 1;
  static constexpr Result kInvalidOption = 5;
  static constexpr Result kCompilation = 6;

  const char* (*get_error_string)(Result) = nullptr;
  Result (*version)(int*, int*) = nullptr;
  Result (*create_program)(Program*, const char* source, const char* name, int headers,
                           const char* const* header_texts,
                           const char* const* header_names) = nullptr;
  Result (*destroy_program)(Program*) = nullptr;
  Result (*compile_program)(Program, int count, const char* const* options) = nullptr;
  Result (*get_cubin_size)(Program, std::size_t*) = nullptr;
  Result (*get_cubin)(Program, char*) = nullptr;
  Result (*get_log_size)(Program, std::size_t*) = nullptr;
  Result (*get_log)(Program, char*) = nullptr;

  std::string path;  // path of the library that was opened
};

/// NVRTC, which is opened at first use and never closed. Null where there is none; `reason` then
/// lists the places that were tried. The search is repeated when HEDDLE_NVRTC has changed.
const NvrtcApi* find_nvrtc(std::string& reason);

}  // namespace heddle::cuda
