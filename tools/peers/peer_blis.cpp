#include "peers/peer_blis.h"

#include <cstdint>
#include <stdexcept>

#include "peers/cblas_library.h"

namespace heddle::peers {
namespace {

// BLIS's own integers are 64 bits wide.
using SetThreadsFn = void (*)(std::int64_t);
using GetTextFn = const char* (*)();
using ArchIdFn = int (*)();
using ArchNameFn = const char* (*)(int);

struct Library {
  BlisInfo info;
  GemmFn<float> sgemm = nullptr;
  SetThreadsFn set_threads = nullptr;
};

Library load() {
  Library lib;
  void* handle = dlopen("libblis.so.4", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    lib.info.error = why != nullptr ? why : "libblis.so.4 not found";
    return lib;
  }
  if (!find_function(handle, "cblas_sgemm", lib.sgemm) ||
      !find_function(handle, "bli_thread_set_num_threads", lib.set_threads)) {
    lib.info.error = "the library lacks a function";
    return lib;
  }
  GetTextFn version = nullptr;
  if (find_function(handle, "bli_info_get_version_str", version)) lib.info.version = version();
  ArchIdFn id = nullptr;
  ArchNameFn name = nullptr;
  if (find_function(handle, "bli_arch_query_id", id) &&
      find_function(handle, "bli_arch_string", name)) {
    lib.info.version += std::string(", ") + name(id());
  }
  lib.info.available = true;
  return lib;
}

const Library& library() {
  static const Library lib = load();
  return lib;
}

const Library& loaded_library() {
  const Library& lib = library();
  if (!lib.info.available) throw std::runtime_error("BLIS: " + lib.info.error);
  return lib;
}

}  // namespace

const BlisInfo& blis_info() { return library().info; }

void blis_set_threads(int threads) { loaded_library().set_threads(threads); }

void blis_sgemm(const GemmShape& s, const float* a, const float* b, float* c) {
  call_gemm(loaded_library().sgemm, s, a, b, c);
}

}  // namespace heddle::peers
