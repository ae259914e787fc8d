// Compiled by compile_errors.cmake once for each CASE: 0 is right, the others give one error each.
#include "heddle/dsl/tensor.h"

using namespace heddle;

void declare() {
#if CASE == 1
  compute({4, 4}, [](const std::string&, Axis) { return Expr(1); });
#elif CASE == 2
  compute({4, 4}, [](Axis, Axis) { return std::vector<Expr>{}; });
#elif CASE == 3
  compute_all({4, 4}, [](Axis i, Axis) { return Expr(i); });
#else
  compute({4, 4}, [](Axis, Axis) { return 1; });
  compute({4, 4}, [](Axis i, Axis j) { return i < j; });
  compute({4, 4}, [](const std::vector<Axis>& i) { return i[0] + 1; });
  compute({4, 4}, [](auto i, auto j) { return i + j; });
  compute_all({}, [] { return std::vector<Expr>{1, 2}; });
#endif
}
