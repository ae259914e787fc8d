// The step as_product: a sum of products of two operands becomes one product of matrices, whose
// rows, columns and depth are numbers made of the digits of the sum's axes (implicit GEMM).
#include <array>

#include "heddle/dag/factors.h"
#include "heddle/ir/simplify.h"
#include "schedule/steps/step_applier.h"

namespace heddle {
namespace {

constexpr int64_t kMaxMultiple = 1 << 20, kMaxExtent = int64_t{1} << 40;
enum Role : int64_t { kBatch, kRows, kCols, kDepth, kRoles };

struct Digit {
  int axis = -1;
  int64_t divisor = 1, extent = 1;
  Var var;          // the value of the digit
  Expr symbolic{};  // its extent, where that varies from call to call; `extent` is the largest
};

// A length of digits, or of digits followed by zeros.
struct Length {
  int64_t most = 1;
  Expr symbolic{};  // where it varies from call to call
  Expr expr() const { return symbolic.defined() ? symbolic : Expr(most); }
};

class ProductStep : public StepApplier {
 public:
  using StepApplier::StepApplier;

  void run() {
    check_sum();
    read_digits();
    check_digits();
    read_factors();
    find_operands();
    make_stages();
  }

 private:
  void check_sum() {
    check_computes();
    STEP_CHECK(stage().is_reduction(), "it is no reduction");
    for (int id : stage().reduce) {
      STEP_CHECK(s_.axes[id].is_leaf() && s_.axes[id].loop == LoopKind::Serial,
                 "reduce axis '" + s_.axes[id].name + "' was split, fused or annotated before",
                 "as_product comes first");
      check_nothing_inside(id);
    }
    const Reduce* reduce = stage().bodies[0].as<Reduce>();
    STEP_CHECK(stage().buffers.size() == 1 && reduce->combiner->kind == ReduceKind::Sum,
               "it is no sum: zeros would change it");
  }

  void read_digits() {
    STEP_CHECK(step_.params.size() == 3 * step_.axes.size() + 11,
               "there are three parameters a digit, and eleven more");
    for (size_t i = 0; i < step_.axes.size(); ++i) {
      const int64_t role = param(3 * i);
      Digit d{step_.axes[i], param(3 * i + 1), param(3 * i + 2), Var("digit")};
      STEP_CHECK(role >= 0 && role < kRoles, "a digit's role is 0 to 3");
      STEP_CHECK(d.divisor > 0 && d.extent > 0 && d.divisor < kMaxExtent && d.extent < kMaxExtent,
                 "a digit's divisor or extent is not positive, or too large");
      STEP_CHECK(d.axis >= 0 && d.axis < static_cast<int>(s_.axes.size()) &&
                     s_.axes[d.axis].defined && s_.axes[d.axis].stage == step_.stage,
                 "axis " + std::to_string(d.axis) + " is none of its own axes");
      STEP_CHECK((role == kDepth) == (s_.axes[d.axis].kind == AxisKind::Reduce),
                 "the digits of the depth, and no others, are of reduce axes");
      if (const AxisState& a = s_.axes[d.axis]; is_symbolic(a.extent)) {
        STEP_CHECK(d.divisor == 1 && (role == kBatch || digits_[static_cast<size_t>(role)].empty()),
                   "the extent of '" + a.name + "' varies, and it is not the slowest digit");
        d.extent = a.static_extent;
        d.symbolic = a.extent;
      }
      digits_[static_cast<size_t>(role)].push_back(d);
      ranges_.set(d.var, {0, d.extent - 1});
    }
  }

  // Each axis must consist of its digits, which chain from divisor 1 up to its extent.
  void check_digits() {
    for (const auto* list : {&stage().spatial, &stage().reduce}) {
      for (int id : *list) {
        STEP_CHECK(as_int(s_.axes[id].extent) || is_symbolic(s_.axes[id].extent),
                   "the extent of '" + s_.axes[id].name + "' varies");
        int64_t next = 1;
        Expr value(0);
        for (const Digit* d = part_at(id, next); d; d = part_at(id, next)) {
          value = value + d->var.expr() * Expr(d->divisor);
          next *= d->extent;
          if (d->extent == 1 || next >= kMaxExtent) break;
        }
        STEP_CHECK(next == s_.axes[id].static_extent,
                   "the digits of axis '" + s_.axes[id].name + "' do not make it up");
        of_axis_.push_back({s_.axes[id].var, value});
      }
    }
    size_t n = 0;
    for (const auto& list : digits_) n += list.size();
    STEP_CHECK(n == used_, "a digit is of no use");
  }
  // The digit of the axis with that divisor. Of two, the one with more than one value.
  const Digit* part_at(int axis, int64_t divisor) {
    const Digit* found = nullptr;
    for (const auto& list : digits_) {
      for (const Digit& d : list) {
        if (d.axis == axis && d.divisor == divisor && (!found || d.extent > 1)) found = &d;
      }
    }
    if (found && divisor == s_.axes[axis].static_extent && divisor > 1) return nullptr;
    used_ += found ? 1 : 0;
    return found;
  }

  void read_factors() {
    const size_t at = 3 * step_.axes.size();
    for (size_t i = 0; i < 3; ++i) {
      int64_t multiple = 1;
      for (size_t f = 0; f < 3; ++f) {
        const int64_t factor = param(at + 3 * i + f);
        STEP_CHECK(factor > 0 && factor <= kMaxMultiple, "a factor is not positive, or too large");
        multiple *= factor;
      }
      int64_t n = 1;
      Expr length(1);
      for (const Digit& d : digits_[kRows + i]) {
        n *= d.extent;
        length = length * (d.symbolic.defined() ? d.symbolic : Expr(d.extent));
      }
      STEP_CHECK(!digits_[kRows + i].empty() && n < kMaxExtent,
                 "rows, columns and depth have one axis each at least");
      exact_[i].most = n;
      padded_[i].most = (n + multiple - 1) / multiple * multiple;
      length = simplify(length);
      if (as_int(length)) continue;
      exact_[i].symbolic = length;
      padded_[i].symbolic =
          simplify(floordiv(length + Expr(multiple - 1), Expr(multiple)) * Expr(multiple));
    }
    along_depth_ = {param(at + 9) != 0, param(at + 10) != 0};
  }

  // Finds the two reads of the product by their digits.
  void find_operands() {
    const Reduce* reduce = stage().bodies[0].as<Reduce>();
    const Binary* mul = reduce->sources[0].as<Binary>();
    STEP_CHECK(mul && mul->op == BinaryOp::Mul, "it is no sum of products of two operands");
    const Load *a = read_of_factor(mul->a), *b = read_of_factor(mul->b);
    STEP_CHECK(a && b, "it is no sum of products of two operands");
    const auto in_digits = [&](const Load* l) {
      std::vector<Expr> out;
      for (const Expr& i : l->indices) out.push_back(simplify(substitute(i, of_axis_), ranges_));
      return out;
    };
    std::vector<Expr> at_a = in_digits(a), at_b = in_digits(b);
    rows_first_ = !uses(at_a, kCols) && !uses(at_b, kRows);
    STEP_CHECK(rows_first_ || (!uses(at_a, kRows) && !uses(at_b, kCols)),
               "an operand depends on digits of rows and of columns");
    if (!rows_first_) {
      std::swap(a, b);
      std::swap(at_a, at_b);
    }
    operands_ = {a, b};
    indices_ = {std::move(at_a), std::move(at_b)};
    source_ = reduce->sources[0];
    combiner_ = reduce->combiner;
    marks_ = reduce->axes;
  }
  bool uses(const std::vector<Expr>& indices, Role role) const {
    return std::any_of(indices.begin(), indices.end(), [&](const Expr& i) {
      return std::any_of(digits_[role].begin(), digits_[role].end(),
                         [&](const Digit& d) { return uses_var(i, d.var); });
    });
  }

  // Adds a stage at results_[next_], with the batch axes and then the named axes.
  StageState& add_stage(const std::string& name, const std::vector<Role>& spatial, bool reduces) {
    const int id = take_stage_id(next_++);
    StageState st;
    st.name = stage().name + name;
    const auto axis = [&](const std::string& called, AxisKind kind, const Length& length) {
      AxisState a = root_axis(id, called, kind, length.most);
      a.extent = length.expr();
      return new_axis(next_++, std::move(a));
    };
    for (const Digit& d : digits_[kBatch])
      st.spatial.push_back(axis(s_.axes[d.axis].name, AxisKind::Spatial, {d.extent, d.symbolic}));
    for (Role r : spatial)
      st.spatial.push_back(
          axis(name_of(r), AxisKind::Spatial, padded_[static_cast<size_t>(r - 1)]));
    if (reduces) st.reduce.push_back(axis(name_of(kDepth), AxisKind::Reduce, padded_[2]));
    st.leaves = st.spatial;
    st.leaves.insert(st.leaves.end(), st.reduce.begin(), st.reduce.end());
    s_.stages[static_cast<size_t>(id)] = std::move(st);
    return s_.stages[static_cast<size_t>(id)];
  }
  static const char* name_of(Role r) { return r == kRows ? "m" : r == kCols ? "n" : "d"; }

  std::vector<Expr> vars_of(const std::vector<int>& axes) const {
    std::vector<Expr> out;
    for (int id : axes) out.push_back(s_.axes[static_cast<size_t>(id)].var);
    return out;
  }
  Buffer buffer_of(const StageState& st, DataType type, std::vector<WindowDim> windows = {}) const {
    std::vector<Expr> shape;
    for (int id : st.spatial) shape.emplace_back(s_.axes[static_cast<size_t>(id)].static_extent);
    return Buffer::make(st.name, type, shape, Scope::Local, std::move(windows));
  }

  void make_stages() {
    const std::vector<Role> row_dims =
        along_depth_[0] ? std::vector<Role>{kRows, kDepth} : std::vector<Role>{kDepth, kRows};
    const std::vector<Role> col_dims =
        along_depth_[1] ? std::vector<Role>{kCols, kDepth} : std::vector<Role>{kDepth, kCols};
    STEP_CHECK(step_.results.size() == 3 * (digits_[kBatch].size() + 3) + 1,
               "the step has the wrong number of results");
    const StageState sum = add_stage(".product", {kRows, kCols}, true);
    const int sum_id = step_.results[0];
    const std::vector<Expr> at = vars_of(sum.spatial);
    const Expr depth = s_.axes[static_cast<size_t>(sum.reduce[0])].var.expr();
    std::vector<Expr> batch(at.begin(), at.end() - 2);
    const Expr rows = operand_stage(".rows", 0, row_dims, batch, at[at.size() - 2], depth);
    const Expr cols = operand_stage(".columns", 1, col_dims, batch, at.back(), depth);
    StageState& st = s_.stages[static_cast<size_t>(sum_id)];
    const std::array<Expr, 2> loads = {rows_first_ ? rows : cols, rows_first_ ? cols : rows};
    const Binary* mul = source_.as<Binary>();
    st.bodies = {make_reduce(combiner_, {factor_of(mul->a, loads[0]) * factor_of(mul->b, loads[1])},
                             marks_, 0)};
    StageState& c = stage();
    st.buffers = {buffer_of(st, c.buffers[0]->dtype)};
    c.bodies = {make_load(st.buffers[0], place_of_element())};
    c.reduce.clear();
    std::erase_if(c.leaves, [&](int id) { return s_.axes[id].kind == AxisKind::Reduce; });
  }

  // Makes the stage of operand `which`. Returns how the product reads it.
  Expr operand_stage(const std::string& name, size_t which, const std::vector<Role>& dims,
                     const std::vector<Expr>& batch, const Expr& line, const Expr& depth) {
    StageState& st = add_stage(name, dims, false);
    const std::vector<Expr> own = vars_of(st.spatial);
    std::vector<VarBinding> bind;
    Expr inside(true);
    for (size_t i = 0; i < digits_[kBatch].size(); ++i)
      bind.push_back({digits_[kBatch][i].var, own[i]});
    for (size_t i = 0; i < 2; ++i) {
      const auto role = static_cast<size_t>(dims[i]);
      const Expr& number = own[digits_[kBatch].size() + i];
      take_apart(digits_[role], number, &bind);
      const Length &exact = exact_[role - 1], &padded = padded_[role - 1];
      if (exact.symbolic.defined() ? !equal(exact.symbolic, padded.symbolic)
                                   : padded.most > exact.most)
        inside = inside && number < exact.expr();
    }
    std::vector<Expr> indices;
    for (const Expr& i : indices_[which]) indices.push_back(substitute(i, bind));
    const Load* from = operands_[which];
    const Expr value = make_load(from->buffer, indices);
    const bool rows = dims == std::vector<Role>{kRows, kDepth};
    st.buffers = {
        buffer_of(st, from->dtype, rows ? windows_of(indices_[which]) : std::vector<WindowDim>())};
    st.bodies = {is_const(inside, 1) ? value
                                     : make_select(inside, value, make_const(from->dtype, 0))};
    std::vector<Expr> at = batch;
    for (Role r : dims) at.push_back(r == kDepth ? depth : line);
    return make_load(st.buffers[0], at);
  }

  // The dimensions of the windows, where the rows are all windows of an image: a tensor of batch,
  // dimensions of windows and channels. Empty where they are not.
  std::vector<WindowDim> windows_of(const std::vector<Expr>& indices) const {
    std::vector<const Digit*> digits;
    for (const Digit& d : digits_[kRows]) {
      if (d.symbolic.defined()) return {};
      if (d.extent > 1) digits.push_back(&d);
    }
    if (indices.size() < 3 || uses(indices.back(), kRows) || uses(indices[0], kDepth)) return {};
    std::vector<WindowDim> out;
    size_t next = 0;
    for (size_t d = 0; d + 1 < indices.size(); ++d) {
      const std::optional<Affine> a = as_affine(indices[d]);
      if (!a) return {};
      WindowDim w;
      for (size_t i = 0; i < digits.size(); ++i) {
        if (!uses_var(indices[d], digits[i]->var)) continue;
        if (i != next || w.points > 1) return {};
        w = {digits[i]->extent, a->coefficient(digits[i]->var), 0};
      }
      if (w.points > 1) ++next;
      if (w.stride < 1 || (d == 0 && (w.stride != 1 || a->constant != 0))) return {};
      if (d > 0) out.push_back(w);
    }
    return next == digits.size() ? out : std::vector<WindowDim>();
  }
  bool uses(const Expr& index, Role role) const {
    return std::any_of(digits_[role].begin(), digits_[role].end(),
                       [&](const Digit& d) { return uses_var(index, d.var); });
  }

  // Splits `number` into its digits, of which the last varies fastest.
  static void take_apart(const std::vector<Digit>& digits, const Expr& number,
                         std::vector<VarBinding>* bind) {
    Expr rest = number;
    for (size_t i = digits.size(); i-- > 0;) {
      const Expr n(digits[i].extent);
      bind->push_back({digits[i].var, i == 0 ? rest : floormod(rest, n)});
      if (i > 0) rest = floordiv(rest, n);
    }
  }

  // The indices of the product's element for the current point of the stage.
  std::vector<Expr> place_of_element() {
    const auto digit = [&](const Digit& d) {
      const AxisState& a = s_.axes[static_cast<size_t>(d.axis)];
      Expr e = a.var.expr();
      if (d.divisor > 1) e = floordiv(e, Expr(d.divisor));
      return d.divisor * d.extent < a.static_extent ? floormod(e, Expr(d.extent)) : e;
    };
    std::vector<Expr> at;
    for (const Digit& d : digits_[kBatch]) at.push_back(digit(d));
    for (Role r : {kRows, kCols}) {
      Expr number(0);
      for (const Digit& d : digits_[r]) number = number * Expr(d.extent) + digit(d);
      at.push_back(number);
    }
    return at;
  }

  std::array<std::vector<Digit>, kRoles> digits_;
  std::array<Length, 3> exact_{}, padded_{};  // rows, columns, depth
  std::array<bool, 2> along_depth_{};
  std::vector<VarBinding> of_axis_;
  Ranges ranges_;
  size_t used_ = 0, next_ = 0;
  std::array<const Load*, 2> operands_{};  // the operand of the rows, that of the columns
  std::array<std::vector<Expr>, 2> indices_;
  bool rows_first_ = true;
  Expr source_;
  Ref<const Combiner> combiner_;
  std::vector<Axis> marks_;
};

}  // namespace

void apply_product_step(ScheduleState& state, const Step& step) { ProductStep(state, step).run(); }

}  // namespace heddle
