// What an exported kernel relies on: the runtime alone, without the compiler.
#include <heddle/runtime/ndarray.h>
#include <heddle/runtime/thread_pool.h>
#include <heddle/runtime/workspace.h>

#include <cstdio>

int main() {
  heddle::NDArray a = heddle::NDArray::zeros({1000}, heddle::f32);
  heddle_parallel_for(
      [](std::int64_t begin, std::int64_t end, void* data) {
        for (std::int64_t i = begin; i < end; ++i) static_cast<float*>(data)[i] = 1;
      },
      a.data(), a.size());
  heddle_workspace_free(heddle_workspace_alloc(1 << 20));
  const bool good = heddle::max_abs_diff(a, heddle::NDArray::full({1000}, heddle::f32, 1)) == 0;
  std::puts(good ? "runtime consumer: ok" : "runtime consumer: WRONG");
  return good ? 0 : 1;
}
