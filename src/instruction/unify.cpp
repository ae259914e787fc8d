#include "instruction/unify.h"

#include <algorithm>
#include <functional>

#include "heddle/ir/print.h"

namespace heddle::instructions {
namespace {

using Bound = std::vector<Expr>;  // the load of each operand; undefined: not met yet
using Then = std::function<void(const Bound&)>;

bool commutes(BinaryOp op) {
  return op == BinaryOp::Add || op == BinaryOp::Mul || op == BinaryOp::Min || op == BinaryOp::Max;
}

// Finds the operands in a value. What may be taken two ways round is tried both ways.
class ValueMatcher {
 public:
  ValueMatcher(const std::vector<Buffer>& operands, bool rounds)
      : operands_(operands), rounds_(rounds) {}

  // Calls `then` for each way in which `e` is `pattern`.
  void match(const Expr& pattern, const Expr& e, const Bound& bound, const Then& then) const {
    if (const Load* operand = pattern.as<Load>()) return match_operand(*operand, e, bound, then);
    if (pattern.kind() != e.kind() || pattern.dtype() != e.dtype()) return;
    if (const Binary* p = pattern.as<Binary>())
      return match_binary(*p, *e.as<Binary>(), bound, then);
    if (const Cast* p = pattern.as<Cast>())
      return match(p->value, e.as<Cast>()->value, bound, then);
    if (const Unary* p = pattern.as<Unary>()) {
      const Unary* u = e.as<Unary>();
      if (p->op == u->op) match(p->a, u->a, bound, then);
      return;
    }
    if (const Select* p = pattern.as<Select>()) {
      const Select* s = e.as<Select>();
      return match(p->condition, s->condition, bound, [&](const Bound& b) {
        match(p->on_true, s->on_true, b,
              [&](const Bound& c) { match(p->on_false, s->on_false, c, then); });
      });
    }
    if (equal(pattern, e)) then(bound);
  }

 private:
  void match_binary(const Binary& p, const Binary& e, const Bound& bound, const Then& then) const {
    if (p.op != e.op) return;
    const auto both = [&](const Expr& first, const Expr& second) {
      match(p.a, first, bound, [&](const Bound& b) { match(p.b, second, b, then); });
    };
    both(e.a, e.b);
    if (commutes(p.op)) both(e.b, e.a);
  }

  void match_operand(const Load& operand, const Expr& e, Bound bound, const Then& then) const {
    const size_t i =
        static_cast<size_t>(std::ranges::find(operands_, operand.buffer) - operands_.begin());
    const Unary* u = rounds_ ? e.as<Unary>() : nullptr;
    const Expr& read = u && u->op == UnaryOp::RoundTf32 ? u->a : e;
    const Load* load = read.as<Load>();
    if (!load || load->dtype != operand.dtype) return;
    if (bound[i].defined() && !equal(bound[i], read)) return;
    bound[i] = read;
    then(bound);
  }

  const std::vector<Buffer>& operands_;
  bool rounds_;  ///< the instruction rounds what it reads to tf32
};

bool uses(const std::vector<Expr>& indices, const Var& v) {
  return std::ranges::any_of(indices, [&](const Expr& i) { return uses_var(i, v); });
}

std::string number_text(const std::vector<int64_t>& values) {
  if (values.size() == 1) return std::to_string(values[0]);
  return "one of " + std::to_string(values.front()) + ".." + std::to_string(values.back());
}

class Unifier {
 public:
  Unifier(const MachineInstruction& instruction, const std::vector<NestLoop>& loops,
          const Store& store, std::string* why)
      : instruction_(instruction), loops_(loops), store_(store), why_(*why) {}

  std::vector<Unified> run() {
    if (loops_.size() > instruction_.loops.size() || (missing() > 0 && !may_be_missing())) {
      why_ = std::to_string(loops_.size()) + " loops, and not " +
             std::to_string(instruction_.loops.size());
      return {};
    }
    for (const InstructionForm& form : instruction_.forms) {
      if (form.types[0] == store_.buffer->dtype) try_form(form);
    }
    if (!found_.empty()) return std::move(found_);
    if (why_.empty()) {
      std::vector<int64_t> least;
      for (const auto& e : instruction_.forms[0].extents) least.push_back(e.front());
      const InstructionNest nest = nest_of(instruction_, instruction_.forms[0], least);
      Stmt body = nest.body;
      while (const For* f = body.as<For>()) body = f->body;
      why_ = "it computes\n  " + to_string(Stmt(&store_)) +
             "and not, of types that there are,\n  " + to_string(body);
    }
    return {};
  }

 private:
  void try_form(const InstructionForm& form) {
    const std::vector<int64_t> ones(instruction_.loops.size(), 1);  // one may be missing here
    const InstructionNest nest = nest_of(instruction_, form, ones);
    Stmt body = nest.body;
    while (const For* f = body.as<For>()) body = f->body;
    Bound bound(nest.operands.size());
    bound[0] = make_load(store_.buffer, store_.indices);
    ValueMatcher(nest.operands, instruction_.rounds_to_tf32)
        .match(body.as<Store>()->value, store_.value, bound,
               [&](const Bound& b) { take(form, b); });
  }

  // The loop of the program for each loop of the instruction: the next one that the same operands
  // use.
  void take(const InstructionForm& form, const Bound& bound) {
    Unified u;
    u.form = &form;
    for (const Expr& e : bound) u.operands.push_back({e.as<Load>()->buffer, e.as<Load>()->indices});
    std::vector<bool> taken(loops_.size());
    for (size_t l = 0; l < instruction_.loops.size(); ++l) {
      size_t at = 0;
      while (at < loops_.size() && (taken[at] || !is_used_as(u, loops_[at], static_cast<int>(l))))
        ++at;
      if (at == loops_.size() && missing() > 0 && form.extents[l].front() == 1) {
        u.loops.push_back({Var(instruction_.loops[l]), 1});
        continue;
      }
      if (at == loops_.size()) {
        return fail(l, "no loop is used by the operands that use '" + instruction_.loops[l] +
                           "', and by no other");
      }
      taken[at] = true;
      u.loops.push_back(loops_[at]);
      if (std::ranges::binary_search(form.extents[l], loops_[at].extent)) continue;
      return fail(l, "loop '" + loops_[at].var->name + "', which is its '" + instruction_.loops[l] +
                         "', has " + std::to_string(loops_[at].extent) + " iterations, and not " +
                         number_text(form.extents[l]));
    }
    found_.push_back(std::move(u));
  }

  size_t missing() const { return instruction_.loops.size() - loops_.size(); }

  bool may_be_missing() const {
    return std::ranges::any_of(instruction_.forms, [](const InstructionForm& f) {
      return std::ranges::any_of(f.extents, [](const auto& e) { return e.front() == 1; });
    });
  }

  // Of several ways, that of which most loops fit is the one that was meant.
  void fail(size_t loops_that_fit, const std::string& why) {
    if (!why_.empty() && loops_that_fit < most_that_fit_) return;
    most_that_fit_ = loops_that_fit;
    why_ = why;
  }

  bool is_used_as(const Unified& u, const NestLoop& loop, int which) const {
    for (size_t o = 0; o < u.operands.size(); ++o) {
      const bool wanted = std::ranges::count(instruction_.operands[o].loops, which) > 0;
      if (uses(u.operands[o].indices, loop.var) != wanted) return false;
    }
    return true;
  }

  const MachineInstruction& instruction_;
  const std::vector<NestLoop>& loops_;
  const Store& store_;
  std::string& why_;
  size_t most_that_fit_ = 0;
  std::vector<Unified> found_;
};

// Calls `fn` with all values of those of `loops` that `e` uses, the others at zero, until it
// returns false. Returns whether it never did.
bool for_all_values(const Expr& e, const std::vector<NestLoop>& loops,
                    FunctionRef<bool(const std::vector<int64_t>&)> fn) {
  std::vector<int64_t> values(loops.size(), 0);
  for (;;) {
    if (!fn(values)) return false;
    size_t l = 0;
    for (; l < loops.size(); ++l) {
      if (!uses_var(e, loops[l].var)) continue;
      if (++values[l] < loops[l].extent) break;
      values[l] = 0;
    }
    if (l == loops.size()) return true;
  }
}

Ranges ranges_of(const std::vector<NestLoop>& loops) {
  Ranges out;
  for (const NestLoop& l : loops) out.set(l.var, {0, l.extent - 1});
  return out;
}

// Whether `e` is its value at zero plus `wanted`, for all values of the loops.
bool moves_by(const Expr& e, const std::vector<NestLoop>& loops, const Expr& wanted) {
  const Expr first = at({e}, loops, std::vector<int64_t>(loops.size(), 0))[0];
  const Ranges ranges = ranges_of(loops);
  if (is_const(simplify(e - first - wanted, ranges), 0)) return true;
  // Both of the index and of what is wanted, so that a loop which only one of them uses counts.
  return for_all_values(e + wanted, loops, [&](const std::vector<int64_t>& values) {
    return is_const(at({e - first - wanted}, loops, values)[0], 0);
  });
}

std::string digit_text(const LayoutDigit& d, const Var& loop) {
  std::string out = loop->name;
  if (d.divisor > 1) out += "/" + std::to_string(d.divisor);
  return d.modulus > 0 ? "(" + out + ")%" + std::to_string(d.modulus) : out;
}

}  // namespace

Expr digit_of(const LayoutDigit& d, const Expr& index) {
  const Expr quotient = floordiv(index, Expr(d.divisor));
  return d.modulus > 0 ? floormod(quotient, Expr(d.modulus)) : quotient;
}

Expr flat_index(const Buffer& b, const std::vector<Expr>& indices) {
  Expr e(0);
  for (size_t d = 0; d < indices.size(); ++d) e = e * b->shape[d] + indices[d];
  return simplify(e);
}

std::vector<Expr> at(const std::vector<Expr>& indices, const std::vector<NestLoop>& loops,
                     const std::vector<int64_t>& values) {
  std::vector<VarBinding> bind;
  for (size_t l = 0; l < loops.size(); ++l) bind.push_back({loops[l].var, Expr(values[l])});
  std::vector<Expr> out;
  for (const Expr& i : indices) out.push_back(simplify(substitute(i, bind)));
  return out;
}

Place Unified::first(size_t operand) const {
  const Place& p = operands[operand];
  return {p.buffer, at(p.indices, loops, std::vector<int64_t>(loops.size(), 0))};
}

std::vector<Unified> unify(const MachineInstruction& instruction,
                           const std::vector<NestLoop>& loops, const Store& store,
                           std::string* why) {
  why->clear();
  return Unifier(instruction, loops, store, why).run();
}

bool has_layout(const Place& place, const std::vector<NestLoop>& loops, const LayoutDigits& digits,
                std::string* why) {
  const size_t rank = place.indices.size();
  if (rank < digits.size()) {
    *why = "'" + place.buffer->name + "' has " + std::to_string(rank) +
           " dimensions, and not the " + std::to_string(digits.size()) + " of its layout";
    return false;
  }
  const size_t others = rank - digits.size();
  for (size_t d = 0; d < rank; ++d) {
    const LayoutDigit* digit = d < others ? nullptr : &digits[d - others];
    const Var* loop = digit ? &loops[static_cast<size_t>(digit->dim)].var : nullptr;
    if (moves_by(place.indices[d], loops, digit ? digit_of(*digit, loop->expr()) : Expr(0)))
      continue;
    *why = "dimension " + std::to_string(d) + " of '" + place.buffer->name + "' is " +
           to_string(place.indices[d]) + ", and " +
           (digit ? "its layout has " + digit_text(*digit, *loop) + " there"
                  : "must not depend on the loops");
    return false;
  }
  return true;
}

bool lies_as(const Place& place, const std::vector<NestLoop>& loops, const LayoutDigits& digits,
             const std::vector<int64_t>& extents, std::string* why) {
  Expr wanted(0);
  for (const LayoutDigit& d : digits) {
    const size_t dim = static_cast<size_t>(d.dim);
    const int64_t extent = d.modulus > 0 ? d.modulus : extents[dim] / d.divisor;
    wanted = wanted * Expr(extent) + digit_of(d, loops[dim].var.expr());
  }
  const Expr index = flat_index(place.buffer, place.indices);
  if (moves_by(index, loops, wanted)) return true;
  *why = "'" + place.buffer->name + "' is read at " + to_string(index) +
         " (flat), which is not as far behind the first element as " + to_string(simplify(wanted));
  return false;
}

}  // namespace heddle::instructions
