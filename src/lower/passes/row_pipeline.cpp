// Loops that are software-pipelined by one iteration (LoopKind::SoftwarePipelined): a reduction
// that the next iteration starts with reads memory while this one writes its results.
//
//   for (software_pipelined) i {            A(0)  for k K(0, k)  B(0)
//     A(i)  for k K(i, k)  B(i)       -->   for i { let n = min(i + 1, last)
//     for j C(i, j)                           A(n)  for k { K(n, k)  C(i, k) }
//   }                                         if (i < last) B(n) }
//
// A, K, B write what is allocated inside the loop only, C what is outside of it. The last iteration
// reduces its own row again, which is in a cache, because a condition would be in the inner loop. A
// loop of another form runs as a serial one.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "heddle/ir/simplify.h"
#include "lower/passes.h"

namespace heddle::lowering {
namespace {

using Buffers = std::set<const BufferNode*>;

struct Effects {
  Buffers reads, writes;
  bool known = true;  // nothing but loads and stores, by this thread

  void add(const Stmt& s) {
    visit(
        s,
        [&](const Stmt& c) {
          if (const Store* store = c.as<Store>()) writes.insert(store->buffer.get());
          const For* loop = c.as<For>();
          known &= c.kind() != StmtKind::Sync && c.kind() != StmtKind::TileOp &&
                   !(loop && loop->loop == LoopKind::Parallel);
        },
        [&](const Expr& e) {
          if (const Load* load = e.as<Load>()) reads.insert(load->buffer.get());
        });
  }
  static Effects of(const std::vector<Stmt>& stmts) {
    Effects out;
    for (const Stmt& s : stmts) out.add(s);
    return out;
  }
};

bool disjoint(const Buffers& a, const Buffers& b) {
  return std::none_of(a.begin(), a.end(), [&](const BufferNode* x) { return b.count(x) > 0; });
}

std::vector<Stmt>::const_iterator first_loop(const std::vector<Stmt>& stmts) {
  return std::find_if(stmts.begin(), stmts.end(), [](const Stmt& s) {
    const For* loop = s.as<For>();
    return loop && loop->loop == LoopKind::Serial && as_int(loop->extent);
  });
}

class RowPipeline {
 public:
  explicit RowPipeline(const For& rows) : rows_(rows) {}

  // Returns null where the loop has another form.
  Stmt run(const Ranges& ranges) {
    const Interval extent = range_of(rows_.extent, ranges);
    if (extent.min < 1 || extent.max < 2 || !take_apart(rows_.body)) return {};
    // The results of an iteration are written after its last store to one of its own buffers.
    auto results = stmts_.end();
    while (results != stmts_.begin() && !writes_own(*(results - 1))) --results;
    const std::vector<Stmt> prepare(stmts_.begin(), results), write(results, stmts_.end());
    const auto reduce = first_loop(prepare), store = first_loop(write);
    if (reduce == prepare.end() || store == write.end()) return {};
    const Effects early = Effects::of({prepare.begin(), reduce + 1}), late = Effects::of(write);
    if (!legal(early, Effects::of(prepare), late)) return {};

    const Var next(rows_.var->name + ".next", rows_.var->dtype);
    const Expr last = rows_.extent - Expr(1);
    const auto of_row = [&](std::vector<Stmt> s, const Expr& row) {
      const Stmt all = make_block(std::move(s));
      return all ? substitute(all, {{rows_.var, row}}) : all;
    };
    const Stmt reduced = of_row({*reduce}, next.expr());
    std::vector<Stmt> body{of_row({prepare.begin(), reduce}, next.expr())};
    body.insert(body.end(), write.begin(), store);
    merge(*reduced.as<For>(), *store->as<For>(), &body);
    body.insert(body.end(), store + 1, write.end());
    body.push_back(
        make_if(rows_.var.expr() < last, of_row({reduce + 1, prepare.end()}, next.expr())));
    const Stmt row =
        make_let(next, min(rows_.var.expr() + Expr(1), last), make_block(std::move(body)));
    const Stmt rows = make_for(rows_.var, rows_.extent, LoopKind::Serial, own(row, late, false));
    return own(make_block({own(of_row(prepare, Expr(0)), late, false), rows}), late, true);
  }

 private:
  // The statements of an iteration, and the buffers that are allocated around them.
  bool take_apart(const Stmt& s) {
    if (const Allocate* a = s.as<Allocate>()) {
      const bool constant = std::all_of(a->buffer->shape.begin(), a->buffer->shape.end(),
                                        [](const Expr& e) { return as_int(e) != nullptr; });
      if (!constant || a->copies != 1 || !own_.insert(a->buffer.get()).second) return false;
      buffers_.push_back(a->buffer);
      return take_apart(a->body);
    }
    if (const Block* block = s.as<Block>()) {
      return std::all_of(block->stmts.begin(), block->stmts.end(),
                         [&](const Stmt& c) { return take_apart(c); });
    }
    stmts_.push_back(s);
    return true;
  }

  bool writes_own(const Stmt& s) const { return !disjoint(Effects::of({s}).writes, own_); }

  // Whether `early` of the next iteration may run beside `late` of this one.
  bool legal(const Effects& early, const Effects& all, const Effects& late) const {
    return all.known && late.known && disjoint(early.writes, late.reads) &&
           disjoint(late.writes, all.reads) &&
           std::all_of(all.writes.begin(), all.writes.end(),
                       [&](const BufferNode* b) { return own_.count(b) > 0; });
  }

  // Merges  for k A(k); for j B(j)  into  for k { A(k) B(k) }  and the rest of the longer loop.
  static void merge(const For& a, const For& b, std::vector<Stmt>* out) {
    const int64_t na = *as_int(a.extent), nb = *as_int(b.extent), both = std::min(na, nb);
    const Stmt second = substitute(b.body, {{b.var, a.var.expr()}});
    out->push_back(make_for(a.var, Expr(both), LoopKind::Serial, make_block({a.body, second})));
    const For& longer = na > nb ? a : b;
    if (na == nb) return;
    const Stmt rest = substitute(longer.body, {{longer.var, longer.var.expr() + Expr(both)}});
    out->push_back(make_for(longer.var, Expr(std::abs(na - nb)), LoopKind::Serial, rest));
  }

  // Allocates around `s` the buffers that the results are computed from (`carried`), or the others.
  Stmt own(Stmt s, const Effects& late, bool carried) const {
    for (const Buffer& b : buffers_) {
      if ((late.reads.count(b.get()) > 0) == carried) s = make_allocate(b, s);
    }
    return s;
  }

  const For& rows_;
  std::vector<Buffer> buffers_;
  Buffers own_;
  std::vector<Stmt> stmts_;
};

Stmt pipeline_rows(const Stmt& s, Ranges& ranges) {
  if (!s) return s;
  const For* loop = s.as<For>();
  if (!loop) {
    return map_children(
        s, [&](const Stmt& c) { return pipeline_rows(c, ranges); },
        [](const Expr& e) { return e; });
  }
  const bool marked = loop->loop == LoopKind::SoftwarePipelined;
  const Interval extent = range_of(loop->extent, ranges);
  ranges.set(loop->var, {0, extent.max == Interval::kPosInf ? extent.max : extent.max - 1});
  const Stmt body = pipeline_rows(loop->body, ranges);
  ranges.erase(loop->var);
  if (!marked && body.same_as(loop->body)) return s;
  const LoopKind kind = marked ? LoopKind::Serial : loop->loop;
  const Stmt out = make_for(loop->var, loop->extent, kind, body);
  const For* rows = marked ? out.as<For>() : nullptr;
  const Stmt pipelined = rows ? RowPipeline(*rows).run(ranges) : Stmt();
  return pipelined ? simplify(pipelined, ranges) : out;
}

}  // namespace

Stmt pipeline_rows(const Stmt& s) {
  Ranges ranges;
  return pipeline_rows(s, ranges);
}

}  // namespace heddle::lowering
