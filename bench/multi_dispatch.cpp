// Measures what a multi-kernel adds to a call of a plain kernel on the CPU. The same small kernel
// is called directly, through a multi-kernel of fixed shapes, and through one that looks the shapes
// up.
#include <vector>

#include "dispatch_table.h"
#include "heddle/driver/build_multi.h"
#include "heddle/heddle.h"

using namespace heddle;

int main() {
  const Tensor a = placeholder({16}, f32, "a"), b = placeholder({16}, f32, "b");
  const Tensor c = compute({16}, [&](Axis i) { return a(i) + b(i); }, "c");
  const Schedule schedule = create_schedule({c});
  const Kernel plain = build(schedule, {a, b, c});
  MultiOptions options;
  options.pick.store = nullptr;
  const MultiKernel fixed = build_multi({schedule, naive_schedule({c})}, {a, b, c}, options);
  // Two sizes behind one callable.
  const auto variant = [&](const std::string& name, int64_t n) {
    const Tensor x = placeholder({n}), y = placeholder({n});
    const Tensor z = compute({n}, [&](Axis i) { return x(i) + y(i); });
    const Kernel k = build(create_schedule({z}), {x, y, z});
    KernelVariant v;
    v.name = name;
    v.args = k.args();
    v.compile = [k] { return k; };
    return v;
  };
  const MultiKernel by_shape({.name = "sum"}, {variant("16", 16), variant("32", 32)}, options.pick);

  const std::vector<NDArray> arrays = {NDArray::random({16}, f32, 1), NDArray::random({16}, f32, 2),
                                       NDArray::zeros({16}, f32)};
  const std::vector<bench::Callable> callables = {
      {"plain kernel", [&] { plain.call(arrays); }},
      {"multi-kernel, fixed shapes", [&] { fixed.call(arrays); }},
      {"multi-kernel, by shape", [&] { by_shape.call(arrays); }},
  };
  bench::print_dispatch_table(callables);
}
