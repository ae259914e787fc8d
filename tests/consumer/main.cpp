// The first program of somebody who installed Heddle.
#include <heddle/heddle.h>

#include <cstdio>
using namespace heddle;

int main() {
  Tensor a = placeholder({16, 32}, f32, "a"), b = placeholder({32, 8}, f32, "b");
  Axis k = reduce_axis(32, "k");
  Tensor c = compute({16, 8}, [&](Axis i, Axis j) { return sum(a(i, k) * b(k, j), k); }, "c");
  NDArray ones = NDArray::full({16, 32}, f32, 1), halves = NDArray::full({32, 8}, f32, 0.5);
  NDArray result = NDArray::zeros({16, 8}, f32);
  build(create_schedule({c}), {a, b, c})(ones, halves, result);
  const bool good = allclose(result, NDArray::full({16, 8}, f32, 16));
  std::printf("consumer: %s on %s\n", good ? "ok" : "WRONG", to_string(Target::host()).c_str());
  return good ? 0 : 1;
}
