// Parts that the libraries with a CBLAS interface, which are loaded at run time, share.
#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "peers/gemm_shape.h"

namespace heddle::peers {

// From cblas.h: an enumeration's values are part of the ABI. Debian's integers are 32 bits wide.
inline constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

template <typename T>
using GemmFn = void (*)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*, int);

template <typename Fn>
bool find_function(void* handle, const char* name, Fn& out) {
  out = reinterpret_cast<Fn>(dlsym(handle, name));
  return out != nullptr;
}

inline int cblas_trans(bool value) { return value ? kTrans : kNoTrans; }
inline int cblas_int(int64_t value) { return static_cast<int>(value); }

template <typename T>
void call_gemm(GemmFn<T> gemm, const GemmShape& s, const T* a, const T* b, T* c) {
  gemm(kRowMajor, cblas_trans(s.trans_a), cblas_trans(s.trans_b), cblas_int(s.m), cblas_int(s.n),
       cblas_int(s.k), T{1}, a, cblas_int(s.lda()), b, cblas_int(s.ldb()), T{0}, c, cblas_int(s.n));
}

}  // namespace heddle::peers
