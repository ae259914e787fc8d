// Reductions, normalisations and scans.
#include <algorithm>
#include <string>
#include <vector>

#include "heddle/ops/ops.h"
#include "selftest/drawer.h"

namespace heddle::selftest {

void Drawer::reduction() {
  std::vector<int64_t> s = small_shape();
  if (flip()) s.back() = one_of<int64_t>({64, 100, 129, 257});
  const bool all = pick(0, 5) == 0;
  if (pick(0, 7) == 0) s = {one_of<int64_t>({33, 40}), one_of<int64_t>({64, 97})};
  if (pick(0, 7) == 0) s = {pick(1, 2), one_of<int64_t>({1024, 1030, 2051})};
  DataType t = one_of<DataType>({f32, f32, f64, i32, i64});
  Tensor x = input(s, t, "X");
  std::vector<int> axes;
  for (size_t d = 0; d < s.size(); ++d) {
    if (all || flip()) axes.push_back(static_cast<int>(d));
  }
  if (axes.empty()) axes.push_back(static_cast<int>(pick(0, static_cast<int64_t>(s.size()) - 1)));
  for (int a : axes) p_.reduce_length *= s[a];
  bool keep = flip();
  Tensor y;
  std::string name;
  switch (pick(0, 3)) {
    case 0:
      y = ops::sum(x, axes, keep);
      name = "sum";
      break;
    case 1:
      y = ops::max(x, axes, keep);
      name = "max";
      break;
    case 2:
      y = ops::min(x, axes, keep);
      name = "min";
      break;
    default:
      y = t.is_float() ? ops::mean(x, axes, keep) : ops::sum(x, axes, keep);
      name = "mean";
      break;
  }
  name += " over";
  for (int a : axes) name += " " + std::to_string(a);
  if (flip() && y.rank() > 0) y = ops::relu(y);
  done(name, {y});
}

void Drawer::normalisation() {
  // Often there are enough rows for everything that a template does with many rows.
  bool leading = pick(0, 3) == 0;
  std::vector<int64_t> s{leading ? extent() : one_of<int64_t>({65, 70, extent()}), extent() * 3};
  if (leading) s.insert(s.begin(), pick(1, 4));
  // Some rows are long enough to be shared by several blocks of a GPU.
  if (pick(0, 3) == 0) s = {pick(1, 2), one_of<int64_t>({1024, 1030, 2051})};
  DataType t = float_type();
  Tensor x = input(s, t, "X");
  p_.reduce_length = s.back();
  switch (std::max<int64_t>(0, pick(-2, 4))) {
    case 0: return done("softmax", {ops::softmax(x, -1)});
    case 1: return done("softmax axis 0", {ops::softmax(x, 0)});
    case 2: return done("log_softmax", {ops::log_softmax(x, -1)});
    case 3:
      return done("layer_norm", {ops::layer_norm(x, input({s.back()}, t, "scale"),
                                                 input({s.back()}, t, "shift"))});
    default: return done("rms_norm", {ops::rms_norm(x, input({s.back()}, t, "scale"))});
  }
}

void Drawer::scan() {
  const std::vector<int64_t> s{extent(), extent(), pick(1, 9)};
  const int axis = static_cast<int>(pick(0, 2));
  p_.reduce_length = s[static_cast<size_t>(axis)];
  done("cumsum", {ops::cumsum(input(s, float_type(), "X"), axis, flip())});
}

void Drawer::tuple() {
  std::vector<int64_t> s{extent(), extent() * 4};
  Tensor x = input(s, f32, "X");
  if (flip()) return done("argmax", {ops::argmax(x, static_cast<int>(pick(0, 1)))});
  p_.reduce_length = s[1];
  done("var", {ops::var(x, {1})});
}

}  // namespace heddle::selftest
