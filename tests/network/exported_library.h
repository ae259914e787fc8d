// An exported library, opened by a test as a C program does.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "sanitized.h"

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
  // Until the process ends, a library keeps what threads may still use: its pool, the driver, and
  // the reserve of the C++ library for exceptions. All of it is reachable while the library stays
  // loaded, so a test with the leak checker keeps it loaded.
  static void* opened(const std::string& library) {
    return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | (kSanitized ? RTLD_NODELETE : 0));
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
