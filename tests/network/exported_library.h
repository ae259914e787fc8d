// An exported library, opened by a test as a C program does.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "sanitized.h"
#ifdef HEDDLE_SANITIZED
#include <sanitizer/lsan_interface.h>
#endif

namespace heddle::testing {

/// The functions of a library, as a C program finds them.
struct ExportedLibrary {
  explicit ExportedLibrary(const std::string& library, const std::string& name)
      : handle(opened(library)) {
    EXPECT_NE(handle, nullptr) << ::dlerror();
    open = find<void*(const char*)>(name + "_open");
    run = find<int(void*, const void* const*, void* const*)>(name + "_run");
    close = find<void(void*)>(name + "_close");
    error = find<const char*()>(name + "_error");
  }
  ~ExportedLibrary() { ::dlclose(handle); }
  ExportedLibrary(const ExportedLibrary&) = delete;
  ExportedLibrary& operator=(const ExportedLibrary&) = delete;
  // A C++ library that is linked in keeps a reserve for exceptions, and leaves it behind when it is
  // closed.
  static void* opened(const std::string& library) {
#ifdef HEDDLE_SANITIZED
    const __lsan::ScopedDisabler its_reserve;
#endif
    return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  template <class F>
  F* find(const std::string& symbol) const {
    void* found = ::dlsym(handle, symbol.c_str());
    EXPECT_NE(found, nullptr) << symbol;
    return reinterpret_cast<F*>(found);
  }
  void* handle;
  void* (*open)(const char*);
  int (*run)(void*, const void* const*, void* const*);
  void (*close)(void*);
  const char* (*error)();
};

}  // namespace heddle::testing
