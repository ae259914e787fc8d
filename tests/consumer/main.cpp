// The first program of somebody who installed Heddle.
#include <heddle/runtime/ndarray.h>
#include <heddle/target/target.h>

#include <cstdio>

int main() {
  const heddle::NDArray a = heddle::NDArray::random({16, 16}, heddle::f32, /*seed=*/1);
  const bool good = heddle::allclose(a, a.copy()) && heddle::Target::host().runs_here();
  std::printf("consumer: %s on %s\n", good ? "ok" : "WRONG",
              heddle::to_string(heddle::Target::host()).c_str());
  return good ? 0 : 1;
}
