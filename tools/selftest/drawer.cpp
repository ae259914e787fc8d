#include "selftest/drawer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "heddle/ops/ops.h"

namespace heddle::selftest {

RandomProgram Drawer::run() {
  using Family = void (Drawer::*)();
  static const Family families[] = {
      &Drawer::contraction,   &Drawer::contraction,   &Drawer::matrix_unit, &Drawer::matrix_unit,
      &Drawer::convolution,   &Drawer::convolution,   &Drawer::reduction,   &Drawer::reduction,
      &Drawer::normalisation, &Drawer::movement,      &Drawer::chain,       &Drawer::pooling,
      &Drawer::tuple,         &Drawer::affine,        &Drawer::layers,      &Drawer::attention,
      &Drawer::scan,          &Drawer::rows_at_places};
  (this->*families[pick(0, std::size(families) - 1)])();
  return std::move(p_);
}

int64_t Drawer::extent() {
  return one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 19, 24, 31, 33, 40});
}

std::vector<int64_t> Drawer::small_shape(int max_rank) {
  std::vector<int64_t> s(pick(1, max_rank));
  int64_t total = 1;
  for (int64_t& e : s) {
    e = std::min(extent(), std::max<int64_t>(1, 4000 / total));
    total *= e;
  }
  return s;
}

DataType Drawer::float_type() { return one_of<DataType>({f32, f32, f32, f64}); }

Tensor Drawer::input(std::vector<int64_t> shape, DataType t, const std::string& name,
                     bool constant) {
  Shape s;
  p_.text += name + ":" + to_string(t) + "[";
  for (size_t i = 0; i < shape.size(); ++i) p_.text += (i ? "," : "") + std::to_string(shape[i]);
  p_.text += "] ";
  for (int64_t e : shape) s.push_back(Expr(e));
  Tensor x = constant ? constant_placeholder(s, t, name) : placeholder(s, t, name);
  p_.inputs.push_back(x);
  return x;
}

Tensor Drawer::epilogue(Tensor x) {
  int n = static_cast<int>(pick(0, 2));
  for (int i = 0; i < n; ++i) {
    switch (pick(0, x.dtype().is_float() ? 4 : 1)) {
      case 0: {
        Tensor b = input({x.extent(-1)}, x.dtype(), "bias" + std::to_string(i));
        x = ops::add(x, b);
        p_.text += "+bias ";
        break;
      }
      case 1:
        x = ops::relu(x);
        p_.text += "+relu ";
        break;
      case 2:
        x = ops::gelu(x);
        p_.text += "+gelu ";
        break;
      case 3:
        x = ops::sigmoid(x);
        p_.text += "+sigmoid ";
        break;
      case 4: {
        Tensor r = input(x.extents(), x.dtype(), "residual" + std::to_string(i));
        x = ops::add(x, r);
        p_.text += "+residual ";
        break;
      }
    }
  }
  return x;
}

void Drawer::done(const std::string& what, std::vector<Tensor> outputs) {
  p_.text = what + " " + p_.text;
  p_.outputs = std::move(outputs);
}

}  // namespace heddle::selftest
