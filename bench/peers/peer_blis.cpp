#include "peer_blis.h"

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>

namespace heddle::bench {
namespace {

// From cblas.h; Debian's BLAS integers are 32 bits wide, BLIS's own are 64.
constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
using SgemmFn = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
using SetThreadsFn = void (*)(std::int64_t);
using GetTextFn = const char* (*)();
using ArchIdFn = int (*)();
using ArchNameFn = const char* (*)(int);

struct Library {
  BlisInfo info;
  SgemmFn sgemm = nullptr;
  SetThreadsFn set_threads = nullptr;
};

template <typename Fn>
bool find(void* handle, const char* name, Fn& out) {
  out = reinterpret_cast<Fn>(dlsym(handle, name));
  return out != nullptr;
}

Library load() {
  Library lib;
  void* handle = dlopen("libblis.so.4", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    lib.info.error = why != nullptr ? why : "libblis.so.4 not found";
    return lib;
  }
  if (!find(handle, "cblas_sgemm", lib.sgemm) ||
      !find(handle, "bli_thread_set_num_threads", lib.set_threads)) {
    lib.info.error = "the library lacks a function";
    return lib;
  }
  GetTextFn version = nullptr;
  if (find(handle, "bli_info_get_version_str", version)) lib.info.version = version();
  ArchIdFn id = nullptr;
  ArchNameFn name = nullptr;
  if (find(handle, "bli_arch_query_id", id) && find(handle, "bli_arch_string", name)) {
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

int trans(bool value) { return value ? kTrans : kNoTrans; }
int narrow(std::int64_t value) { return static_cast<int>(value); }

}  // namespace

const BlisInfo& blis_info() { return library().info; }

void blis_set_threads(int threads) { loaded_library().set_threads(threads); }

void blis_sgemm(const GemmShape& s, const float* a, const float* b, float* c) {
  loaded_library().sgemm(kRowMajor, trans(s.trans_a), trans(s.trans_b), narrow(s.m), narrow(s.n),
                         narrow(s.k), 1.0f, a, narrow(s.lda()), b, narrow(s.ldb()), 0.0f, c,
                         narrow(s.n));
}

}  // namespace heddle::bench
