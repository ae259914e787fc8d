// Hand-written GPU programs of one kernel.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/codegen/emulator.h"
#include "heddle/support/error.h"

namespace heddle::testing {

using ::testing::HasSubstr;

inline NDArray iota(int64_t n) {
  NDArray a = NDArray::empty({n}, f32);
  for (int64_t i = 0; i < n; ++i) a.data<float>()[i] = static_cast<float>(i);
  return a;
}
inline NDArray ones(int64_t n) { return NDArray::full({n}, f32, 1); }

/// A loop over threads, blocks or iterations.
inline Stmt loop(LoopKind kind, int64_t extent, const std::function<Stmt(Var)>& body,
                 const char* name = "i") {
  Var v(name);
  return make_for(v, extent, kind, body(v));
}
inline Stmt threads(int64_t extent, const std::function<Stmt(Var)>& body) {
  return loop(LoopKind::ThreadX, extent, body, "tx");
}
inline Stmt blocks(int64_t extent, const std::function<Stmt(Var)>& body) {
  return loop(LoopKind::BlockX, extent, body, "bx");
}
inline Stmt serial(int64_t extent, const std::function<Stmt(Var)>& body) {
  return loop(LoopKind::Serial, extent, body, "k");
}
inline Stmt seq(std::vector<Stmt> stmts) { return make_block(std::move(stmts)); }
inline Stmt barrier() { return make_sync(SyncKind::Block); }
inline Stmt store(const Buffer& b, Expr i, Expr v, StoreHint hint = StoreHint::None) {
  return make_store(b, {std::move(i)}, std::move(v), hint);
}
inline Expr at(const Buffer& b, Expr i) { return make_load(b, {std::move(i)}); }

inline Buffer shared(const char* name, DataType t, int64_t n) {
  return Buffer::make(name, t, {Expr(n)}, Scope::Shared);
}
inline Buffer local(const char* name, DataType t, int64_t n) {
  return Buffer::make(name, t, {Expr(n)}, Scope::Local);
}

/// A program of one kernel that takes `arrays` as buffers A, B, C, ...
struct OneKernel {
  GpuKernel kernel;
  std::vector<NDArray> arrays;

  OneKernel(std::vector<NDArray> a, int64_t grid, int64_t block) : arrays(std::move(a)) {
    kernel.name = "k";
    kernel.grid = {grid, 1, 1};
    kernel.block = {block, 1, 1};
    for (size_t i = 0; i < arrays.size(); ++i) {
      kernel.args.push_back(Buffer::make(std::string(1, static_cast<char>('A' + i)),
                                         arrays[i].dtype(), {Expr(arrays[i].size())},
                                         Scope::Argument));
    }
  }
  const Buffer& operator[](size_t i) const { return kernel.args[i]; }

  void run(Stmt body, uint64_t seed = 0) {
    kernel.body = std::move(body);
    if (place_shared) place();
    GpuProgram p;
    p.name = "p";
    p.args = kernel.args;
    p.main = {kernel};
    emulate(p, arrays, {seed});
  }
  bool place_shared = true;  // shared buffers one after the other; false: as `kernel` says
  void place() {
    kernel.shared.clear();
    kernel.shared_bytes = 0;
    visit(
        kernel.body,
        [&](const Stmt& s) {
          const auto* a = s.as<Allocate>();
          if (a == nullptr || a->buffer->scope != Scope::Shared) return;
          kernel.shared.push_back({a->buffer, kernel.shared_bytes});
          kernel.shared_bytes +=
              (a->buffer.num_elements() * a->buffer->dtype.bytes() + 15) / 16 * 16;
        },
        [](const Expr&) {});
  }

  /// The error that running it throws.
  std::string error(Stmt body, uint64_t seed = 0) {
    try {
      run(std::move(body), seed);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
};

}  // namespace heddle::testing
