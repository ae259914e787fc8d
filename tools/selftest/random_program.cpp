#include "selftest/random_program.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "heddle/ops/ops.h"

namespace heddle::selftest {
namespace {

class Drawer {
 public:
  explicit Drawer(Rng& rng) : rng_(rng) {}

  RandomProgram run() {
    using Family = void (Drawer::*)();
    static const Family families[] = {
        &Drawer::contraction,   &Drawer::contraction, &Drawer::matrix_unit, &Drawer::matrix_unit,
        &Drawer::convolution,   &Drawer::convolution, &Drawer::reduction,   &Drawer::reduction,
        &Drawer::normalisation, &Drawer::movement,    &Drawer::chain,       &Drawer::pooling,
        &Drawer::tuple,         &Drawer::affine,      &Drawer::layers,      &Drawer::attention,
        &Drawer::scan};
    (this->*families[pick(0, std::size(families) - 1)])();
    return std::move(p_);
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }
  bool flip() { return pick(0, 1) == 1; }
  template <class T>
  const T& one_of(const std::vector<T>& v) {
    return v[pick(0, static_cast<int64_t>(v.size()) - 1)];
  }
  int64_t extent() {
    return one_of<int64_t>({1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 19, 24, 31, 33, 40});
  }

  Tensor input(std::vector<int64_t> shape, DataType t, const std::string& name,
               bool constant = false) {
    Shape s;
    p_.text += name + ":" + to_string(t) + "[";
    for (size_t i = 0; i < shape.size(); ++i) p_.text += (i ? "," : "") + std::to_string(shape[i]);
    p_.text += "] ";
    for (int64_t e : shape) s.push_back(Expr(e));
    Tensor x = constant ? constant_placeholder(s, t, name) : placeholder(s, t, name);
    p_.inputs.push_back(x);
    return x;
  }
  void done(const std::string& what, std::vector<Tensor> outputs) {
    p_.text = what + " " + p_.text;
    p_.outputs = std::move(outputs);
  }
  DataType float_type() { return one_of<DataType>({f32, f32, f32, f64}); }

  // Nothing, or element-wise work on the result.
  Tensor epilogue(Tensor x) {
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

  void contraction() {
    int64_t m = extent(), n = extent(), k = extent() * (pick(0, 3) == 0 ? 5 : 1);
    bool ta = flip(), tb = flip(), batch = pick(0, 3) == 0;
    DataType t = one_of<DataType>({f32, f32, f32, f32, f64, i32, i8, u8, i16, bf16, f16});
    std::vector<int64_t> sa = ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
    std::vector<int64_t> sb = tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
    if (batch) {
      int64_t b = pick(1, 5);
      sa.insert(sa.begin(), b);
      sb.insert(sb.begin(), b);
    }
    // As they lie, or by way of a stage that is a mere change of index.
    auto operand = [&](std::vector<int64_t> shape, const char* name, bool constant) {
      if (pick(0, 3) > 0) return input(shape, t, name, constant);
      std::swap(shape[shape.size() - 2], shape.back());
      std::vector<int> order(shape.size());
      std::iota(order.begin(), order.end(), 0);
      std::swap(order[shape.size() - 2], order.back());
      p_.text += "transposed ";
      return ops::transpose(input(shape, t, name, constant), order);
    };
    Tensor a = operand(sa, "A", false), b = operand(sb, "B", flip());
    p_.reduce_length = k;
    Tensor c = ops::matmul(a, b, ta, tb);
    done("matmul(" + std::string(ta ? "T" : "N") + (tb ? "T)" : "N)"), {epilogue(c)});
  }

  // Products of products, whose rows may go through both together. Operands may lie with the heads
  // inside.
  void attention() {
    const int64_t l = one_of<int64_t>({1, 7, 8, 13, 24, 31, 50}), heads = pick(1, 4);
    const int64_t s = one_of<int64_t>({1, 6, 9, 16, 17, 40}), e = one_of<int64_t>({1, 5, 8, 16});
    const int64_t f = one_of<int64_t>({1, 7, 8, 16, 19, 40});
    const DataType t = one_of<DataType>({f32, f32, f32, f64, bf16});
    const bool batch = pick(0, 3) > 0, inside = flip();
    auto operand = [&](int64_t rows, int64_t cols, const char* name) {
      if (!batch) return input({rows, cols}, t, name);
      if (!inside) return input({heads, rows, cols}, t, name);
      return ops::transpose(input({rows, heads, cols}, t, name), {1, 0, 2});
    };
    const Tensor q = operand(l, e, "q"), k = operand(s, e, "k"), v = operand(s, f, "v");
    p_.reduce_length = e + s;
    if (pick(0, 2) == 0) {
      done("product of a product",
           {epilogue(ops::matmul(ops::relu(ops::matmul(q, k, false, true)), v))});
      return;
    }
    const Tensor mask = flip() ? input({l, s}, t, "mask") : Tensor();
    done("attention", {epilogue(ops::scaled_dot_product_attention(q, k, v, mask))});
  }

  // Products of the types that matrix units take, of sizes around those of their tiles; some deep
  // enough to be cut along the reduction.
  void matrix_unit() {
    const std::vector<int64_t> around{2, 3, 7, 8, 15, 16, 17, 31, 32, 48, 65, 72, 100, 129};
    const bool deep = pick(0, 3) == 0;
    const int64_t m = deep ? pick(2, 20) : one_of(around), n = deep ? pick(2, 20) : one_of(around);
    const int64_t k = deep ? one_of<int64_t>({512, 520, 639, 700}) : one_of(around);
    const bool ta = flip(), tb = flip();
    std::vector<int64_t> sa = ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
    std::vector<int64_t> sb = tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
    if (pick(0, 3) == 0) {
      sa.insert(sa.begin(), pick(1, 3));
      sb.insert(sb.begin(), flip() ? sa[0] : 1);
    }
    const DataType t = one_of<DataType>({bf16, f16, i8, u8, f32});
    const bool mixed = t.bits == 8 && pick(0, 3) == 0;
    p_.allow_tf32 = t == f32;
    p_.reduce_length = k;
    Tensor a = input(sa, t, "A"), b = input(sb, !mixed ? t : t == i8 ? u8 : i8, "B", flip());
    done("product(" + std::string(ta ? "T" : "N") + (tb ? "T)" : "N)") +
             (p_.allow_tf32 ? " tf32" : ""),
         {epilogue(ops::matmul(a, b, ta, tb))});
  }

  void convolution() {
    bool nhwc = flip();
    ops::Conv at;
    at.layout = nhwc ? ops::Layout::ChannelsLast : ops::Layout::ChannelsFirst;
    int64_t r = pick(1, 3), s = pick(1, 3), n = pick(1, 2);
    at.groups = one_of<int64_t>({1, 1, 1, 2, 3});
    int64_t c = at.groups * pick(1, 9), k = at.groups * pick(1, 18);
    at.stride = {pick(1, 2), pick(1, 2)};
    at.padding = {pick(0, 2), pick(0, 2)};
    at.dilation = {pick(1, 2), pick(1, 2)};
    if (pick(0, 3) == 0) {  // what Winograd is for
      r = s = 3;
      at.stride = at.dilation = {1, 1};
      k = k / at.groups, c = c / at.groups, at.groups = 1;
    }
    if (pick(0, 4) == 0) {  // enough filters for vectors of them, and channels to copy
      c = pick(8, 20), k = pick(16, 40), at.groups = 1;
    }
    DataType t = pick(0, 4) == 0 ? one_of<DataType>({i8, u8, bf16}) : float_type();
    if (pick(0, 2) == 0) {  // what matrix units take, their vectors whole or not
      at.groups = one_of<int64_t>({1, 1, 1, 2, 4});
      c = at.groups * one_of<int64_t>({1, 2, 3, 6, 8, 16, 24, 64});
      k = at.groups * one_of<int64_t>({3, 4, 8, 16, 24, 33});
      t = one_of<DataType>({bf16, f16, f16, i8, u8, f32});
      p_.allow_tf32 = t == f32;
    }
    int64_t h = pick(1, 14) + (r - 1) * at.dilation[0], w = pick(1, 14) + (s - 1) * at.dilation[1];
    p_.reduce_length = r * s * c / at.groups;
    Tensor x = nhwc ? input({n, h, w, c}, t, "X") : input({n, c, h, w}, t, "X");
    Tensor wt = nhwc ? input({r, s, c / at.groups, k}, t, "W", flip())
                     : input({k, c / at.groups, r, s}, t, "W", flip());
    Tensor y = ops::conv2d(x, wt, at, flip() ? input({k}, t, "b") : Tensor());
    done(std::string("conv2d ") + (nhwc ? "nhwc groups=" : "nchw groups=") +
             std::to_string(at.groups) + " stride=" + std::to_string(at.stride[0]) + "," +
             std::to_string(at.stride[1]) + " pad=" + std::to_string(at.padding[0]) + "," +
             std::to_string(at.padding[1]),
         {flip() ? ops::relu(y) : y});
  }

  std::vector<int64_t> small_shape(int max_rank = 4) {
    std::vector<int64_t> s(pick(1, max_rank));
    int64_t total = 1;
    for (int64_t& e : s) {
      e = std::min(extent(), std::max<int64_t>(1, 4000 / total));
      total *= e;
    }
    return s;
  }

  void reduction() {
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

  void normalisation() {
    // Often enough rows for everything that a template does with many of them.
    bool leading = pick(0, 3) == 0;
    std::vector<int64_t> s{leading ? extent() : one_of<int64_t>({65, 70, extent()}), extent() * 3};
    if (leading) s.insert(s.begin(), pick(1, 4));
    // Long enough for a row to be shared by several blocks of a GPU.
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

  void movement() {
    std::vector<int64_t> s = small_shape();
    DataType t = one_of<DataType>({f32, f32, f64, i32, u8, i8, f16, bf16});
    Tensor x = input(s, t, "X");
    std::string text;
    for (int i = static_cast<int>(pick(1, 2)); i > 0; --i) {
      switch (pick(0, 6)) {
        case 0: {
          std::vector<int> perm(x.rank());
          for (int d = 0; d < x.rank(); ++d) perm[d] = d;
          for (int d = x.rank() - 1; d > 0; --d) std::swap(perm[d], perm[pick(0, d)]);
          x = ops::transpose(x, perm);
          text += "transpose ";
          break;
        }
        case 1: {
          std::vector<int64_t> before(x.rank()), after(x.rank());
          for (int64_t& p : before) p = pick(0, 2);
          for (int64_t& p : after) p = pick(0, 2);
          x = ops::pad(x, before, after);
          text += "pad ";
          break;
        }
        case 2:
          x = ops::flip(x, {static_cast<int>(pick(0, x.rank() - 1))});
          text += "flip ";
          break;
        case 3:
          x = ops::reshape(x, {-1});
          text += "flatten ";
          break;
        case 4: {
          int axis = static_cast<int>(pick(0, x.rank() - 1));
          x = ops::concat({x, x}, axis);
          text += "concat ";
          break;
        }
        case 5:
          x = ops::cast(x, one_of<DataType>({f32, f64, i32}));
          text += "cast ";
          break;
        case 6:
          x = ops::add(x, x);
          text += "double ";
          break;
      }
    }
    done(text, {x});
  }

  void chain() {
    std::vector<int64_t> s = small_shape(3);
    DataType t = float_type();
    Tensor x = input(s, t, "X"), y = input(flip() ? s : std::vector<int64_t>{s.back()}, t, "Y");
    Tensor z = ops::mul(x, y);
    std::string text = "mul ";
    std::vector<Tensor> outs;
    const auto step = [&](const Tensor& to, const char* what) {
      z = to;
      text += what;
    };
    for (int i = static_cast<int>(pick(1, 4)); i > 0; --i) {
      switch (pick(0, 6)) {
        case 0: step(ops::tanh(z), "tanh "); break;
        case 1: step(ops::sigmoid(ops::exp(z)), "exp sigmoid "); break;
        case 2: step(ops::sub(z, y), "sub "); break;
        case 3: step(ops::silu(z), "silu "); break;
        case 4: step(ops::gelu_tanh(z), "gelu_tanh "); break;
        case 5: step(ops::clip(z, -0.5, 0.75), "clip "); break;
        case 6:
          if (outs.empty() && i > 1) outs.push_back(z);
          step(ops::abs(z), "(out) ");
          break;
      }
    }
    outs.push_back(z);
    done(text, outs);
  }

  void pooling() {
    ops::Pool at;
    at.kernel = {pick(1, 3), pick(1, 3)};
    at.stride = {pick(1, 2), pick(1, 2)};
    at.layout = flip() ? ops::Layout::ChannelsLast : ops::Layout::ChannelsFirst;
    int64_t n = pick(1, 2), c = extent(), h = pick(3, 15), w = pick(3, 15);
    bool last = at.layout == ops::Layout::ChannelsLast;
    Tensor x = last ? input({n, h, w, c}, f32, "X") : input({n, c, h, w}, f32, "X");
    p_.reduce_length = at.kernel[0] * at.kernel[1];
    if (flip()) return done("max_pool", {ops::max_pool(x, at)});
    done("avg_pool", {ops::avg_pool(x, at)});
  }

  void scan() {
    const std::vector<int64_t> s{extent(), extent(), pick(1, 9)};
    const int axis = static_cast<int>(pick(0, 2));
    p_.reduce_length = s[static_cast<size_t>(axis)];
    done("cumsum", {ops::cumsum(input(s, float_type(), "X"), axis, flip())});
  }

  void tuple() {
    std::vector<int64_t> s{extent(), extent() * 4};
    Tensor x = input(s, f32, "X");
    if (flip()) return done("argmax", {ops::argmax(x, static_cast<int>(pick(0, 1)))});
    p_.reduce_length = s[1];
    done("var", {ops::var(x, {1})});
  }

  // Contractions that feed each other: groups, hosted stages and shared producers meet.
  void layers() {
    int64_t m = extent(), n = extent(), e = pick(1, 20);
    if (flip()) {
      int64_t b = pick(1, 3);
      Tensor q = input({b, m, e}, f32, "Q"), k = input({b, n, e}, f32, "K"),
             v = input({b, n, e}, f32, "V");
      p_.reduce_length = std::max(n, e);
      return done("attention", {ops::scaled_dot_product_attention(q, k, v)});
    }
    Tensor x = input({m, e}, f32, "X"), w1 = input({e, n}, f32, "W1", flip()),
           w2 = input({n, e}, f32, "W2", flip());
    Tensor h = ops::gelu(ops::matmul(x, w1));
    p_.reduce_length = std::max(n, e);
    // A row of two nearly equal sums has next to no variance: without the epsilon their rounding
    // errors would be divided by it.
    done("mlp", {ops::layer_norm(ops::add(x, ops::matmul(h, w2)), {}, {}, -1, 0.1)});
  }

  // A window over an affine index, with reuse in odd places.
  void affine() {
    int64_t n = pick(3, 40), k = pick(1, 7), a = pick(1, 3), b = pick(1, 2), m = pick(1, 20);
    int64_t len = a * (n - 1) + b * (k - 1) + 1;
    Tensor x = input({m, len}, f32, "X"), w = input({k}, f32, "w");
    Axis r = reduce_axis(Expr(k), "r");
    p_.reduce_length = k;
    if (flip()) {
      return done(
          "window",
          {compute(
              {Expr(m), Expr(n)},
              [&](Axis i, Axis j) { return sum(x(i, j * Expr(a) + r * Expr(b)) * w(r), r); },
              "win")});
    }
    done("triangle",
         {compute(
             {Expr(m), Expr(len)},
             [&](Axis i, Axis j) { return select(j <= i, x(i, j), Expr(0.f)); }, "tri")});
  }

  Rng& rng_;
  RandomProgram p_;
};

}  // namespace

std::vector<Tensor> RandomProgram::args() const {
  std::vector<Tensor> a = inputs;
  a.insert(a.end(), outputs.begin(), outputs.end());
  return a;
}

RandomProgram random_program(Rng& rng) {
  RandomProgram p = Drawer(rng).run();
  // Inputs that were declared but are not read take no part.
  ComputeDag dag(p.outputs);
  std::erase_if(p.inputs, [&](const Tensor& t) { return dag.index_of(t.op()) < 0; });
  return p;
}

Config random_config(const Template& t, Rng& rng) {
  for (int attempt = 0; attempt < 30; ++attempt) {
    Config c;
    for (const Knob& k : t.knobs()) {
      c.values.push_back(k.values[rng.uniform_int(0, static_cast<int64_t>(k.values.size()) - 1)]);
    }
    if (t.why_invalid(c).empty()) return c;
  }
  // Where few are valid: from one that is, knob by knob in any order, as far as it stays so.
  Config c = t.default_config();
  std::vector<size_t> order(c.values.size());
  std::iota(order.begin(), order.end(), 0);
  rng.shuffle(order);
  for (const size_t k : order) {
    const int64_t before = c.values[k];
    c.values[k] = rng.choose(t.knobs()[k].values);
    if (!t.why_invalid(c).empty()) c.values[k] = before;
  }
  return c;
}

namespace {
DataType one_of_types(Rng& rng) {
  return rng.choose(std::vector<DataType>{f32, f64, i16, i32, i64, u16});
}
}  // namespace

Schedule random_schedule(const std::vector<Tensor>& outputs, Rng& rng) {
  Schedule s(outputs);
  auto pick = [&](int64_t lo, int64_t hi) { return rng.uniform_int(lo, hi); };
  std::vector<std::vector<Loop>> loops;  // by stage: all axes ever made
  auto sync = [&](StageRef st) {
    while (static_cast<int>(loops.size()) <= st.id()) loops.emplace_back();
    auto& l = loops[st.id()];
    for (Loop x : st.all_axes()) l.push_back(x);
    for (Loop x : st.all_reduce_axes()) l.push_back(x);
  };
  for (int i = 0; i < s.dag().size(); ++i) sync(s.stage(i));
  int steps = static_cast<int>(pick(1, 14));
  for (int n = 0; n < steps; ++n) {
    Schedule before = s;
    auto loops_before = loops;
    int id = static_cast<int>(pick(0, static_cast<int64_t>(loops.size()) - 1));
    StageRef st = s.stage(id);
    auto any_loop = [&](int of) {
      return loops[of].empty() ? Loop{}
                               : loops[of][pick(0, static_cast<int64_t>(loops[of].size()) - 1)];
    };
    try {
      switch (pick(0, 14)) {
        case 0:
        case 1:
        case 2: {
          auto [o, i] = st.split(any_loop(id), Param(pick(1, 9)));
          loops[id].push_back(o);
          loops[id].push_back(i);
          break;
        }
        case 13: {
          auto [o, i] = st.split_whole(any_loop(id), Param(pick(1, 9)));
          loops[id].push_back(o);
          loops[id].push_back(i);
          break;
        }
        case 14: {  // what a product reads, with zeros around it
          if (id >= s.dag().size()) break;
          std::vector<int> read;
          for (const Access& a : s.dag().info(id).reads) {
            if (std::find(read.begin(), read.end(), a.producer) == read.end())
              read.push_back(a.producer);
          }
          for (int producer : read) sync(s.stage(producer).cache_read({st}));
          std::vector<StageRef::Padding> axes;
          for (Loop l : st.all_axes()) axes.push_back({l, pick(1, 3), pick(1, 3)});
          for (Loop l : st.all_reduce_axes()) axes.push_back({l, pick(1, 3), pick(1, 3)});
          sync(st.pad(axes));
          break;
        }
        case 3: loops[id].push_back(st.fuse(any_loop(id), any_loop(id))); break;
        case 4: st.reorder({any_loop(id), any_loop(id)}); break;
        case 5: st.vectorize(any_loop(id)); break;
        case 6: st.unroll(any_loop(id)); break;
        case 7:
          if (pick(0, 2) == 0) {
            st.overlap(any_loop(id));
          } else {
            st.parallel(any_loop(id));
          }
          break;
        case 8: {
          int at = static_cast<int>(pick(0, static_cast<int64_t>(loops.size()) - 1));
          st.compute_at(s.stage(at), any_loop(at));
          const int keeper = static_cast<int>(pick(0, static_cast<int64_t>(loops.size()) - 1));
          if (pick(0, 2) == 0) st.store_at(s.stage(keeper), any_loop(keeper));
          break;
        }
        case 9: st.compute_inline(); break;
        case 10: sync(st.cache_write()); break;
        case 11: {
          std::vector<Loop> ks{any_loop(id)};
          if (pick(0, 1) == 1) ks.push_back(any_loop(id));
          sync(st.rfactor(ks, Param(pick(1, 9)), pick(0, 1) == 1));
          break;
        }
        case 12: {
          StageRef copy = st.cache_read(
              {s.stage(static_cast<int>(pick(0, static_cast<int64_t>(loops.size()) - 1)))});
          sync(copy);
          if (copy.num_axes() > 1 && pick(0, 1)) {
            int64_t f = pick(2, 5);
            std::vector<StageRef::StorageDim> dims{{1, f, 0}, {0}};
            for (int d = 2; d < copy.num_axes(); ++d) dims.push_back({d});
            dims.push_back({1, 1, f});
            copy.layout(dims);
          }
          if (pick(0, 3) == 0) copy.widen(one_of_types(rng));
          break;
        }
      }
      lower(s, [&] {
        std::vector<Tensor> args = s.dag().placeholders();
        for (const Tensor& t : s.dag().outputs()) args.push_back(t);
        return args;
      }());
    } catch (const Error& e) {
      if (e.kind == ErrorKind::Internal) throw;
      s = before;
      loops = loops_before;
    }
  }
  return s;
}

std::vector<NDArray> random_inputs(const RandomProgram& p, uint64_t seed) {
  std::vector<NDArray> out;
  for (const Tensor& t : p.inputs) {
    std::vector<int64_t> shape = t.extents();
    out.push_back(NDArray::random(shape, t.dtype(), seed++));
  }
  return out;
}

std::string compare(const NDArray& want, const NDArray& got, int64_t reduce_length) {
  DataType t = want.dtype();
  double eps = t == f64 ? 1e-12 : t == f32 ? 2e-6 : t == f16 ? 4e-3 : t == bf16 ? 3e-2 : 0;
  double tolerance = eps * (4 + std::sqrt(static_cast<double>(reduce_length)));
  for (int64_t i = 0; i < want.size(); ++i) {
    double w = want.get(i), g = got.get(i);
    if (w == g || (std::isnan(w) && std::isnan(g))) continue;
    if (std::abs(w - g) <= tolerance * std::max(1.0, std::abs(w))) continue;
    return "element " + std::to_string(i) + ": want " + std::to_string(w) + ", got " +
           std::to_string(g);
  }
  return "";
}

}  // namespace heddle::selftest
