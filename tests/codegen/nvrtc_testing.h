// Compiles CUDA text with NVRTC where this machine has it; no GPU is needed.
#pragma once

#include <dlfcn.h>

#include <map>
#include <string>
#include <vector>

namespace heddle::testing {

/// What ptxas says of a kernel.
struct KernelUse {
  int registers = -1, spill_bytes = -1, stack_bytes = -1;
};

struct NvrtcResult {
  bool ok = false;
  std::string log;
  std::map<std::string, KernelUse> kernels;
};

inline void* nvrtc_library() {
  static void* const handle = [] {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
      if (void* found = dlopen(name, RTLD_NOW)) return found;
    }
    return static_cast<void*>(nullptr);
  }();
  return handle;
}

/// To a cubin for `arch` ("sm_90a").
inline NvrtcResult compile_cuda(const std::string& text, const std::string& arch) {
  using Handle = void*;
  const auto find = [](const char* name) { return dlsym(nvrtc_library(), name); };
  const auto create =
      reinterpret_cast<int (*)(Handle*, const char*, const char*, int, const char* const*,
                               const char* const*)>(find("nvrtcCreateProgram"));
  const auto compile =
      reinterpret_cast<int (*)(Handle, int, const char* const*)>(find("nvrtcCompileProgram"));
  const auto log_size = reinterpret_cast<int (*)(Handle, size_t*)>(find("nvrtcGetProgramLogSize"));
  const auto get_log = reinterpret_cast<int (*)(Handle, char*)>(find("nvrtcGetProgramLog"));
  const auto destroy = reinterpret_cast<int (*)(Handle*)>(find("nvrtcDestroyProgram"));
  NvrtcResult r;
  Handle program = nullptr;
  if (create(&program, text.c_str(), "kernels.cu", 0, nullptr, nullptr) != 0) return r;
  const std::string architecture = "--gpu-architecture=" + arch;
  const char* options[] = {architecture.c_str(), "--ptxas-options=-v", "--no-cache"};
  r.ok = compile(program, 3, options) == 0;
  size_t size = 0;
  log_size(program, &size);
  r.log.resize(size);
  get_log(program, r.log.data());
  destroy(&program);
  // "... Compiling entry function 'NAME' for ...", "N bytes stack frame, N bytes spill stores, N
  // bytes spill loads", "Used N registers, ..."
  KernelUse* current = nullptr;
  for (size_t at = 0; at < r.log.size();) {
    const size_t end = std::min(r.log.find('\n', at), r.log.size());
    const std::string line = r.log.substr(at, end - at);
    at = end + 1;
    const auto number_before = [&](const char* what) {
      const size_t found = line.find(what);
      if (found == std::string::npos) return -1;
      size_t begin = found;
      while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
      return std::stoi(line.substr(begin, found - begin));
    };
    if (const size_t name = line.find("entry function '"); name != std::string::npos) {
      const size_t begin = name + 16;
      current = &r.kernels[line.substr(begin, line.find('\'', begin) - begin)];
    } else if (current && line.find("bytes stack frame") != std::string::npos) {
      current->stack_bytes = number_before(" bytes stack frame");
      current->spill_bytes =
          number_before(" bytes spill stores") + number_before(" bytes spill loads");
    } else if (current && line.find("Used ") != std::string::npos) {
      current->registers = number_before(" registers");
    }
  }
  return r;
}

}  // namespace heddle::testing
