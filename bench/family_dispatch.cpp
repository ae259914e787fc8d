// What a family of kernels adds to a call of a plain kernel, on the CPU: the same small kernel is
// called for a constant shape, for all sizes, and through a tree on the sizes.
#include <vector>

#include "dispatch_table.h"
#include "heddle/family/choose.h"
#include "heddle/heddle.h"
#include "three_questions.h"

using namespace heddle;

int main() {
  const Dim n = dim("n", 1, 4096);
  const Tensor a = placeholder({n}, f32, "a"), b = placeholder({n}, f32, "b");
  const Tensor c = compute({n}, [&](Axis i) { return a(i) + b(i); }, "c");
  const Instance at = at_sizes({c}, {{n, 16}});
  const Kernel plain = build(create_schedule(at.outputs), at.of(std::vector<Tensor>{a, b, c}));
  const Kernel small = build(family_schedule({c}, {{n, 16}}), {a, b, c});
  const Kernel large = build(family_schedule({c}, {{n, 4096}}), {a, b, c});
  // The leaf of this size takes three questions.
  const FamilyKernel family({{"small", small}, {"large", large}}, bench::three_questions());
  const std::vector<NDArray> arrays = {NDArray::random({16}, f32, 1), NDArray::random({16}, f32, 2),
                                       NDArray::zeros({16}, f32)};
  const std::vector<bench::Callable> callables = {
      {"kernel for a constant shape", [&] { plain.call(arrays); }},
      {"kernel for all sizes", [&] { small.call(arrays); }},
      {"family, three questions", [&] { family.call(arrays); }},
  };
  bench::print_dispatch_table(callables);
}
