// Helpers of the tests of the LLVM code generator: hand-built functions, and memory that ends at a
// protected page.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "heddle/codegen/llvm.h"
#include "heddle/ir/stmt.h"

namespace heddle::testing {

inline Buffer argument(const std::string& name, DataType t, int64_t n) {
  return Buffer::make(name, t, {Expr(n)}, Scope::Argument);
}

inline Buffer local(const std::string& name, DataType t, int64_t n) {
  return Buffer::make(name, t, {Expr(n)}, Scope::Local);
}

/// This machine, or a lesser one that HEDDLE_TEST_TARGET names ("llvm -mcpu=x86-64").
inline const Target& test_target() {
  static const Target target = [] {
    const char* text = std::getenv("HEDDLE_TEST_TARGET");
    return text ? Target::parse(text) : Target::host();
  }();
  return target;
}

inline CompiledModule compile(const LoweredFunction& f, CodegenOptions options = {}) {
  return compile_llvm({f}, test_target(), options);
}

template <class... Args>
int call(const CompiledModule& module, Args*... args) {
  void* const pointers[] = {const_cast<void*>(static_cast<const void*>(args))...};
  return module.entries.at(0)(pointers);
}

/// `n` elements whose last (or, with `at_front`, whose first) byte borders on a forbidden page.
template <class T>
class GuardedArray {
 public:
  explicit GuardedArray(size_t n, bool at_front = false) : n_(n) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (n * sizeof(T) + page - 1) / page * page;
    total_ = inside_ + 2 * page;
    base_ =
        static_cast<char*>(mmap(nullptr, total_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page, inside_, PROT_READ | PROT_WRITE);
    data_ = reinterpret_cast<T*>(at_front ? base_ + page : base_ + page + inside_ - n * sizeof(T));
  }
  ~GuardedArray() { munmap(base_, total_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  size_t size() const { return n_; }

 private:
  size_t n_, inside_, total_;
  char* base_;
  T* data_;
};

/// out[i] = fn(in[i]...) over `n` elements, `lanes` at a time and a scalar rest.
template <class F>
LoweredFunction elementwise(const std::vector<DataType>& inputs, DataType output, int64_t n,
                            int lanes, F fn) {
  LoweredFunction f;
  f.name = "elementwise";
  std::vector<Buffer> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back(argument("in" + std::to_string(i), inputs[i], n));
  }
  Buffer out = argument("out", output, n);
  f.args = in;
  f.args.push_back(out);
  auto body = [&](Expr index) {
    std::vector<Expr> x;
    for (const Buffer& b : in) x.push_back(make_load(b, {index}));
    return make_store(out, {index}, fn(x));
  };
  std::vector<Stmt> parts;
  const int64_t whole = n / lanes;
  if (lanes > 1) {
    Var i("i");
    parts.push_back(
        make_for(i, whole, LoopKind::Serial, body(make_ramp(i * Expr(lanes), Expr(1), lanes))));
  }
  const int64_t begin = lanes > 1 ? whole * lanes : 0;
  Var r("r");
  parts.push_back(make_for(r, n - begin, LoopKind::Serial, body(r + Expr(begin))));
  f.body = make_block(std::move(parts));
  return f;
}

}  // namespace heddle::testing
