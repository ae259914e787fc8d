#include "peers/peer_cblas.h"

#include <cstdint>
#include <cstdlib>

#include "peers/cblas_library.h"

namespace heddle::peers {
namespace {

// Loads `name` with its sgemm. The handle is null where the peer has an error.
void* load(const char* name, CblasPeer& peer) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    peer.error = why != nullptr ? why : std::string(name) + " not found";
    return nullptr;
  }
  GemmFn<float> sgemm = nullptr;
  if (!find_function(handle, "cblas_sgemm", sgemm)) {
    peer.error = std::string(name) + " lacks cblas_sgemm";
    return nullptr;
  }
  peer.sgemm = [sgemm](const GemmShape& s, const float* a, const float* b, float* c) {
    call_gemm(sgemm, s, a, b, c);
  };
  return handle;
}

// Sets how threads are set. `Int` is the library's integer.
template <typename Int>
void take_threads(void* handle, const char* name, CblasPeer& peer) {
  void (*set_threads)(Int) = nullptr;
  if (!find_function(handle, name, set_threads)) {
    peer.error = std::string("the library lacks ") + name;
    return;
  }
  peer.set_threads = [set_threads](int threads) { set_threads(threads); };
  peer.available = true;
}

CblasPeer load_blis() {
  CblasPeer peer;
  void* handle = load("libblis.so.4", peer);
  if (handle == nullptr) return peer;
  take_threads<std::int64_t>(handle, "bli_thread_set_num_threads", peer);
  const char* (*version)() = nullptr;
  if (find_function(handle, "bli_info_get_version_str", version)) peer.version = version();
  int (*id)() = nullptr;
  const char* (*name)(int) = nullptr;
  if (find_function(handle, "bli_arch_query_id", id) &&
      find_function(handle, "bli_arch_string", name)) {
    peer.version += std::string(", ") + name(id());
  }
  return peer;
}

CblasPeer load_mkl() {
  CblasPeer peer;
  // Its idle workers would spin for 200 ms, and take a core from the peer that is timed next.
  setenv("KMP_BLOCKTIME", "1", 0);
  void* handle = load("libmkl_rt.so.3", peer);
  if (handle == nullptr) handle = load("libmkl_rt.so.2", peer);
  if (handle == nullptr) return peer;
  take_threads<int>(handle, "MKL_Set_Num_Threads", peer);
  void (*version)(char*, int) = nullptr;
  if (find_function(handle, "MKL_Get_Version_String", version)) {
    char text[200] = {};  // "Intel(R) oneAPI Math Kernel Library Version 2026.2-Product Build ..."
    version(text, sizeof text - 1);
    const std::string all = text, before = "Version ";
    const size_t begin = all.find(before) + before.size();
    peer.version = all.substr(begin, all.find(' ', begin) - begin);
  }
  return peer;
}

}  // namespace

const CblasPeer& blis() {
  static const CblasPeer peer = load_blis();
  return peer;
}

const CblasPeer& mkl() {
  static const CblasPeer peer = load_mkl();
  return peer;
}

}  // namespace heddle::peers
