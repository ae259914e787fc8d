#include <algorithm>
#include <cmath>

#include "codegen/cuda/byte_quotient.h"
#include "codegen/cuda/kernel_writer.h"
#include "codegen/cuda/text/types.h"
#include "ir/reads.h"

namespace heddle::cuda {
namespace {

bool is_leaf(const Expr& e) {
  return e.kind() == ExprKind::Var || is_const(e) || e.kind() == ExprKind::Broadcast;
}

// Whether giving `e` a name makes the text shorter or avoids computing it twice.
bool worth_naming(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::Cast: return !is_leaf(e.as<Cast>()->value);
    case ExprKind::Unary: return e.dtype().is_float() || !is_leaf(e.as<Unary>()->a);
    case ExprKind::Binary:
      return e.dtype().is_float() || !is_leaf(e.as<Binary>()->a) || !is_leaf(e.as<Binary>()->b);
    case ExprKind::Load: return e.as<Load>()->buffer->scope != Scope::Local;
    case ExprKind::Select:
    case ExprKind::Shuffle: return true;
    default: return false;
  }
}

const char* stem_of(DataType t) { return t.is_bool() ? "c" : t.is_integral() ? "i" : "t"; }

bool is_rounding(UnaryOp op) {
  return op == UnaryOp::Floor || op == UnaryOp::Ceil || op == UnaryOp::Round ||
         op == UnaryOp::Trunc;
}

// The results of these operations are always numbers of the operands' type.
bool is_exact(UnaryOp op) { return is_rounding(op) || op == UnaryOp::Neg || op == UnaryOp::Abs; }
bool is_exact(BinaryOp op) {
  return op == BinaryOp::Min || op == BinaryOp::Max || op == BinaryOp::Mod;
}

// Whether the result is one of two numbers that are held in their own type, and so need not be
// widened to be compared.
bool picks_one(const Binary& b) {
  const auto computed = [](const Expr& e) {
    const Binary* of = e.as<Binary>();
    return e.kind() == ExprKind::Unary || e.kind() == ExprKind::Cast ||
           (of && of->op != BinaryOp::Min && of->op != BinaryOp::Max);
  };
  return (b.op == BinaryOp::Min || b.op == BinaryOp::Max) && !computed(b.a) && !computed(b.b);
}

/// 1 / x, where a division by the constant x may become a multiplication by it.
std::optional<double> reciprocal(const Binary& b) {
  const DataType t = b.a.dtype().element();
  if (b.op != BinaryOp::Div || !t.is_float() || t.bits > 32) return std::nullopt;
  const Broadcast* broadcast = b.b.as<Broadcast>();
  const FloatImm* c = (broadcast ? broadcast->value : b.b).as<FloatImm>();
  if (!c) return std::nullopt;
  const double size = c->value < 0 ? -c->value : c->value;
  // The constant and its reciprocal must both be normal numbers.
  if (!(size >= 0x1p-125 && size <= 0x1p125)) return std::nullopt;
  return 1 / c->value;
}

/// The constant c of round(x / c), of which a multiplication and remainders make the exact quotient
/// (round_quotient); none for all else.
std::optional<float> rounded_quotient_by(const Unary& u) {
  const Binary* div = u.op == UnaryOp::Round ? u.a.as<Binary>() : nullptr;
  if (!div || div->op != BinaryOp::Div || div->a.dtype().element() != f32) return std::nullopt;
  const Broadcast* broadcast = div->b.as<Broadcast>();
  const FloatImm* c = (broadcast ? broadcast->value : div->b).as<FloatImm>();
  if (!c) return std::nullopt;
  int exponent = 0;
  const auto value = static_cast<float>(c->value);
  const float mantissa = std::abs(std::frexp(value, &exponent));
  // The proof of the last step excludes the mantissa of ones.
  constexpr float kOnes = 1 - 0x1p-24F;
  constexpr int kFarthest = 60;
  if (mantissa == 0 || mantissa == kOnes || std::abs(exponent) > kFarthest) return std::nullopt;
  return value;
}

/// Whether `cast`, to the 16-bit float `t`, is of integers that it holds, so that nothing is rounded.
bool holds(DataType t, const Cast& cast, Interval values) {
  const DataType from = cast.value.dtype().element();
  const int64_t most = t == bf16 ? 1 << 8 : t == f16 ? 1 << 11 : 0;
  return from.is_integral() && !from.is_bool() && values.min >= -most && values.max <= most;
}

/// Whether f32 holds these integers.
bool fits_f32(Interval values) {
  constexpr int64_t kMost = 1 << 24;
  return values.min >= -kMost && values.max <= kMost;
}

}  // namespace

void KernelWriter::begin(const std::vector<Expr>& roots, bool eager) {
  uses_.clear();
  known_ranges_.clear();
  frames_.clear();
  frames_.push_back({-1, 0, "", {}});
  frame_ = 0;
  eager_ = eager || std::any_of(roots.begin(), roots.end(), is_large_tree);
  for (const Expr& e : roots) count(e, 1);
}

// The expressions of the statement itself, for names that remain valid in its body.
void KernelWriter::count_body(const Stmt& s) {
  const auto of_statement = [&](const Stmt& x) {
    if (const Store* store = x.as<Store>()) {
      for (const Expr& i : store->indices) count(i, 1);
      count(store->value, 1);
    } else if (const If* branch = x.as<If>()) {
      count(branch->condition, 1);
    } else if (const Let* let = x.as<Let>()) {
      count(let->value, 1);
    }
  };
  visit(s, of_statement, [](const Expr&) {});
}

const KernelWriter::Use& KernelWriter::count(const Expr& e, int times) {
  const auto [it, added] = uses_.try_emplace(e);
  it->second.times += times;
  if (!added) return it->second;
  // A value that is the same for all lanes is used once for each lane.
  int each = e.dtype().is_vector() && (e.as<Broadcast>() || e.as<Ramp>()) ? 2 : 1;
  if (const Select* s = e.as<Select>();
      s && e.dtype().is_vector() && s->condition.dtype().is_scalar())
    each = 2;
  const Load* load = e.as<Load>();
  bool pure = !load && e.kind() != ExprKind::Shuffle;
  bool anywhere = pure || (load && eager_ && stays_inside(*load, ranges_));
  for_each_child(e, [&](const Expr& child) {
    const Use& part = count(child, each);
    pure &= part.pure;
    anywhere &= part.anywhere;
  });
  Use& use = uses_[e];
  use.pure = pure;
  use.anywhere = anywhere;
  return use;
}

Interval KernelWriter::range(const Expr& e) {
  const auto it = known_ranges_.find(e);
  if (it != known_ranges_.end()) return it->second;
  const Interval r = range_of(e, ranges_);
  known_ranges_.emplace(e, r);
  return r;
}

IntFacts KernelWriter::facts_of(const Expr& e, const Expr& left, const Expr& right) {
  IntFacts facts;
  const DataType t = left.dtype().element();
  if (!t.is_integral() || t.is_bool()) return facts;
  if (right.defined()) {
    if (const int64_t* c = as_int(right)) facts.divisor = *c;
  }
  if (t.is_uint() || t.bits < 32) return facts;
  facts.nonnegative = range(left).min >= 0;
  facts.positive = right.defined() && range(right).min > 0;
  if (e.dtype().is_bool()) return facts;
  const Interval r = range(e);
  facts.narrow = fits_32_bits(r);
  // The analysis returns the whole range of the type when a result may have wrapped.
  facts.exact = t == i32 ? r.min > INT32_MIN && r.max < INT32_MAX : r.bounded();
  return facts;
}

std::string KernelWriter::value_type_of(const Expr& e, const Text& t) const {
  const DataType type = e.dtype().element();
  return type == i64 && !t.wide ? "int" : value_type(type);
}

Text KernelWriter::named(const Expr& e, const Text& t, const char* stem) {
  const std::string name = names_.numbered(stem);
  before("const " + value_type_of(e, t) + " " + name + " = " + t.s + ";");
  return {name, kAtom, t.wide};
}

const Text* KernelWriter::find_named(const Key& key) const {
  for (int f = frame_; f >= 0; f = frames_[f].outer) {
    const auto it = frames_[f].named.find(key);
    if (it != frames_[f].named.end()) return &it->second;
  }
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto it = scope->find(key);
    if (it != scope->end()) return &it->second;
  }
  return nullptr;
}

void KernelWriter::before(const std::string& text) {
  Frame& f = frames_[frame_];
  f.lines.append(static_cast<size_t>(indent_ + f.depth) * 2, ' ');
  f.lines += text + "\n";
}

Text KernelWriter::value(const Expr& e, int lane) {
  const DataType t = e.dtype();
  if (const IntImm* imm = e.as<IntImm>()) return int_literal(t, imm->value);
  if (const FloatImm* imm = e.as<FloatImm>()) return float_literal(t, imm->value);
  if (const VarNode* v = e.as<VarNode>()) return variable(v, lane);
  if (const Broadcast* b = e.as<Broadcast>()) return value(b->value);
  if (const Ramp* r = e.as<Ramp>()) return value(r->base + r->stride * Expr(lane));
  const Key key{e, t.is_vector() ? lane : 0, rounding_};
  if (const Text* known = find_named(key)) return *known;
  const auto use = uses_.find(e);
  if (use == uses_.end() || use->second.times < 2 || !worth_naming(e)) return fresh(e, lane);
  const int arm = frame_;
  if (use->second.anywhere) frame_ = 0;  // one name serves all arms
  Text text = fresh(e, lane);
  if (const Text* known = find_named(key)) {
    text = *known;
  } else {
    if (!is_identifier(text.s)) text = named(e, text, stem_of(t));
    remember(key, text);
    // The operands do not change as long as the name is in scope.
    if (use->second.pure && frame_ == 0) scopes_.back().emplace(key, text);
  }
  frame_ = arm;
  return text;
}

Text KernelWriter::fresh(const Expr& e, int lane) {
  switch (e.kind()) {
    case ExprKind::Cast:
    case ExprKind::Unary:
    case ExprKind::Binary: return operation(e, lane);
    case ExprKind::Select: return select(e, lane);
    case ExprKind::Load: return load(e, lane);
    case ExprKind::Shuffle: return shuffle(*e.as<Shuffle>());
    case ExprKind::Reduce: fail("a reduction inside an expression");
    default: fail("an expression of unknown kind");
  }
}

Text KernelWriter::variable(const VarNode* v, int lane) const {
  const auto it = vars_.find(v);
  if (it == vars_.end()) fail("the variable '" + v->name + "' is used outside its scope");
  return it->second[v->dtype.is_vector() ? static_cast<size_t>(lane) : 0];
}

Text KernelWriter::operation(const Expr& e, int lane) {
  const DataType t = e.dtype().element();
  if (const Binary* b = e.as<Binary>(); b && picks_one(*b) && (t == f16 || t == bf16)) {
    const std::string name = std::string(b->op == BinaryOp::Min ? "min_" : "max_") + to_string(t);
    return call(prelude_.use(name), value(b->a, lane), value(b->b, lane));
  }
  if (const Binary* b = e.as<Binary>(); b && (t == f16 || t == bf16)) {
    if (const std::optional<Text> scaled = scaled_few_bits(*b, t, lane)) return *scaled;
  }
  const Text r = unrounded(e, lane);
  return is_small_float(t) && e.kind() != ExprKind::Cast ? ops_.narrow(t, r) : r;
}

// A cast, unary or binary operation before its result is rounded: for f16 and bf16 the f32 value.
Text KernelWriter::unrounded(const Expr& e, int lane) {
  const DataType t = e.dtype().element();
  const Rounding outer = rounding_;
  Text r;
  if (const Cast* c = e.as<Cast>()) {
    const DataType from = c->value.dtype().element();
    if (t == f32 && from == i32) {
      if (const std::optional<Text> few = few_bits_as_f32(c->value, lane)) return *few;
      if (const auto q = find_quotient_as_f32(c->value)) {
        r = quotient_as_f32(*q, lane);
        rounding_ = outer;
        return r;
      }
    }
    if (from.is_float() && t.is_integral()) rounding_ = Rounding::Strict;
    if (const std::optional<ByteQuotient> q = find_byte_quotient(*c, t)) {
      r = byte_quotient(*q, t, lane);
      if (q->whole) r = converted(t == i8 ? "signed char" : "unsigned char", {"~" + r.s, kUnary});
      rounding_ = outer;
      return r;
    }
    const bool fits = t == i64 && fits_32_bits(range(e));
    // What f32 holds is converted as a short integer is, without f64.
    const bool exact = from.is_integral() && is_small_float(t) && fits_f32(range(c->value));
    r = ops_.cast(is_small_float(from) ? f32
                  : exact              ? i16
                                       : from,
                  t, operand(c->value, lane), fits);
  } else if (const Unary* u = e.as<Unary>()) {
    if (is_rounding(u->op)) rounding_ = Rounding::Strict;
    if (const std::optional<float> c = rounded_quotient_by(*u)) {
      const std::string by = float_literal(f32, static_cast<double>(*c)).s + ", " +
                             float_literal(f32, static_cast<double>(1 / *c)).s;
      r = call(prelude_.use("round_quotient"), operand(u->a.as<Binary>()->a, lane), {by, kAtom});
      rounding_ = outer;
      return r;
    }
    const Text a = operand(u->a, lane);
    r = ops_.unary(u->op, u->a.dtype().element(), a, facts_of(e, u->a, {}), rounding_);
  } else {
    const Binary& b = *e.as<Binary>();
    if (b.op == BinaryOp::And || b.op == BinaryOp::Or) return logical(b, lane);
    if (b.op == BinaryOp::Mod) rounding_ = Rounding::Strict;
    const Text left = operand(b.a, lane);
    const auto factor = rounding_ == Rounding::Loose ? reciprocal(b) : std::nullopt;
    const DataType from = b.a.dtype().element();
    r = factor
            ? ops_.binary(BinaryOp::Mul, from, left, float_literal(f32, *factor), {}, rounding_)
            : ops_.binary(b.op, from, left, operand(b.b, lane), facts_of(e, b.a, b.b), rounding_);
  }
  rounding_ = outer;
  return r;
}

// As `value`, but f16 and bf16 operands are given as the f32 in which they are computed.
Text KernelWriter::operand(const Expr& x, int lane) {
  const DataType t = x.dtype().element();
  if (!is_small_float(t)) return value(x, lane);
  const Broadcast* broadcast = x.as<Broadcast>();
  const Expr& e = broadcast ? broadcast->value : x;
  if (const FloatImm* imm = e.as<FloatImm>()) return float_literal(f32, imm->value);
  const auto use = uses_.find(e);
  const bool once = use == uses_.end() || use->second.times < 2;
  const Unary* u = e.as<Unary>();
  const Binary* b = e.as<Binary>();
  if (const Cast* c = e.as<Cast>(); c && once && holds(t, *c, range(c->value)))
    return integer_as_f32(c->value, lane);
  if (!once || (!u && !b)) return ops_.widen(t, value(e, lane));
  if (b && (t == f16 || t == bf16)) {
    if (const std::optional<Text> scaled = scaled_few_bits(*b, t, lane))
      return ops_.widen(t, *scaled);
  }
  const Text r = unrounded(e, lane);
  if ((u && is_exact(u->op)) || (b && is_exact(b->op))) return r;
  return call(prelude_.use("round_" + to_string(t)), r);
}

// An integer that f32 holds, as f32. That of few bits is put behind the exponent of 3 * 2^22 and the number
// subtracted, which takes two instructions at the full rate in place of a conversion.
Text KernelWriter::integer_as_f32(const Expr& e, int lane) {
  if (const std::optional<Text> few = few_bits_as_f32(e, lane)) return *few;
  const Text x = value(e, lane);
  const Interval values = range(e);
  constexpr int64_t kMost = int64_t{1} << 22;
  if (values.min < -kMost || values.max >= kMost || x.wide) return converted("float", x);
  return call(prelude_.use("f32_from_few_bits"), x);
}

// The right operand of && and || is evaluated lazily, as an arm of a select is, unless it only
// computes and a load waits for the whole condition.
Text KernelWriter::logical(const Binary& b, int lane) {
  const Text left = value(b.a, lane);
  if (at_once_ && is_pure(b.b)) {
    const Text right = value(b.b, lane);
    return b.op == BinaryOp::And ? infix(left, "&", right, kBitAnd)
                                 : infix(left, "|", right, kBitOr);
  }
  const bool outer = per_lane_;
  per_lane_ |= b.b.dtype().is_vector();
  const Arm right = arm(b.b, lane, 1);
  per_lane_ = outer;
  if (right.lines.empty()) {
    return ops_.binary(b.op, boolean, left, right.lanes[0], {}, rounding_);
  }
  const std::string name = names_.numbered("c");
  before("bool " + name + " = " + left.s + ";");
  before(std::string("if (") + (b.op == BinaryOp::And ? "" : "!") + name + ") {");
  frames_[frame_].lines += right.lines;
  before("  " + name + " = " + right.lanes[0].s + ";");
  before("}");
  return {name, kAtom};
}

// Whether `e`, a part of the statement, reads no memory and no other lane.
bool KernelWriter::is_pure(const Expr& e) const {
  const auto use = uses_.find(e);
  return use != uses_.end() && use->second.pure;
}

KernelWriter::Arm KernelWriter::arm(const Expr& e, int first_lane, int lanes) {
  const int outer = frame_;
  frames_.push_back({outer, frames_[outer].depth + 1, "", {}});
  frame_ = static_cast<int>(frames_.size()) - 1;
  Arm a;
  for (int i = 0; i < lanes; ++i) a.lanes.push_back(value(e, first_lane + i));
  a.lines = std::move(frames_[frame_].lines);
  frame_ = outer;
  return a;
}

// Where arms share many nodes, the shared nodes are computed in front of them.
void KernelWriter::name_common(const Select& s, int lane) {
  if (!eager_) return;
  const auto named = [&](const Expr& e) {
    return find_named({e, e.dtype().is_vector() ? lane : 0, rounding_}) != nullptr;
  };
  for (const Expr& e : computed_by_both(s.on_true, s.on_false, named)) value(e, lane);
}

// Several branches in front of a load keep the compiler from issuing the next loads before it has
// arrived. One condition predicates the load.
Text KernelWriter::condition_of(const Select& s, int lane) {
  const bool outer = at_once_;
  at_once_ = !is_pure(s.on_true) || !is_pure(s.on_false);
  const Text condition = value(s.condition, lane);
  at_once_ = outer;
  return condition;
}

Text KernelWriter::select(const Expr& e, int lane) {
  const Select& s = *e.as<Select>();
  const int lanes = e.dtype().lanes;
  const bool by_lane = s.condition.dtype().is_vector();
  if (lanes > 1 && !by_lane && !per_lane_) {
    // All lanes are written at once, so that the arms may load vectors.
    const Text condition = value(s.condition);
    for (int l = 0; l < lanes; ++l) name_common(s, l);
    const Arm t = arm(s.on_true, 0, lanes), f = arm(s.on_false, 0, lanes);
    if (!t.lines.empty() || !f.lines.empty()) {
      branches(e, condition, t, f, 0);
      return *find_named({e, lane, rounding_});
    }
  }
  // The condition is evaluated in any case, so that vectors it reads are loaded once for all lanes.
  const Text condition = condition_of(s, lane);
  const bool outer = per_lane_;
  per_lane_ |= by_lane;
  name_common(s, lane);
  const Arm t = arm(s.on_true, lane, 1), f = arm(s.on_false, lane, 1);
  per_lane_ = outer;
  if (!t.lines.empty() || !f.lines.empty()) return branches(e, condition, t, f, lane);
  Text r{condition.at(kOr) + " ? " + t.lanes[0].at(kOr) + " : " + f.lanes[0].at(kTernary),
         kTernary};
  r.wide = t.lanes[0].wide || f.lanes[0].wide;
  return r;
}

// Writes the arms as branches. Returns the value of the first lane and remembers those of all
// lanes.
Text KernelWriter::branches(const Expr& e, const Text& condition, const Arm& on_true,
                            const Arm& on_false, int first_lane) {
  const size_t lanes = on_true.lanes.size();
  Text r{names_.numbered("s"), kAtom};
  for (size_t i = 0; i < lanes; ++i) r.wide |= on_true.lanes[i].wide || on_false.lanes[i].wide;
  const std::string name = r.s;
  const auto target = [&](size_t i) {
    return lanes == 1 ? name : name + "[" + std::to_string(i) + "]";
  };
  const auto body = [&](const Arm& a) {
    frames_[frame_].lines += a.lines;
    for (size_t i = 0; i < lanes; ++i) before("  " + target(i) + " = " + a.lanes[i].s + ";");
  };
  before(value_type_of(e, r) + " " + name + (lanes == 1 ? "" : "[" + std::to_string(lanes) + "]") +
         ";");
  before("if (" + condition.s + ") {");
  body(on_true);
  before("} else {");
  body(on_false);
  before("}");
  for (size_t i = 0; i < lanes; ++i) {
    const Text t{target(i), kAtom, r.wide};
    remember({e, e.dtype().is_vector() ? first_lane + static_cast<int>(i) : 0, rounding_}, t);
  }
  return {target(0), kAtom, r.wide};
}

Text KernelWriter::shuffle(const Shuffle& s) {
  const DataType t = s.value.dtype();
  const Text v = value(s.value);
  const bool small = t.bytes() < 4;
  const Text moved{"__shfl_xor_sync(" + warp_mask_ + ", " +
                       (small ? converted("unsigned", v).s : v.s) + ", " +
                       std::to_string(s.lane_xor) + ")",
                   kAtom, v.wide};
  if (!small) return moved;
  return t.is_bool() ? infix(moved, "!=", {"0", kAtom}, kEquality)
                     : converted(value_type(t), moved);
}

}  // namespace heddle::cuda
