#include "lower/gpu/memory/renamed_buffers.h"

#include <utility>
#include <vector>

namespace heddle::gpu {
namespace {

class Renamed {
 public:
  explicit Renamed(FunctionRef<Buffer(const Buffer&)> of) : of_(of) {}

  Stmt statement(const Stmt& s) {
    const Stmt inside = map_children(
        s, [&](const Stmt& c) { return statement(c); },
        [&](const Expr& e) { return expression(e); });
    if (const Store* st = inside.as<Store>(); st && of_(st->buffer) != st->buffer)
      return make_store(of_(st->buffer), st->indices, st->value, st->hint);
    if (const Prefetch* p = inside.as<Prefetch>(); p && of_(p->buffer) != p->buffer)
      return make_prefetch(of_(p->buffer), p->indices);
    if (const TileOp* op = inside.as<TileOp>()) {
      std::vector<TileOperand> operands;
      for (const TileOperand& o : op->operands) operands.push_back({of_(o.buffer), o.index});
      return make_tile_op(op->op, std::move(operands));
    }
    return inside;
  }

 private:
  Expr expression(const Expr& e) {
    return memo_(e, [&](const Expr& x) -> Expr {
      const Expr inside = map_children(x, [&](const Expr& c) { return expression(c); });
      const Load* load = inside.as<Load>();
      return load && of_(load->buffer) != load->buffer ? make_load(of_(load->buffer), load->indices)
                                                       : inside;
    });
  }

  const FunctionRef<Buffer(const Buffer&)> of_;
  RewriteMemo memo_;
};

}  // namespace

Stmt renamed_buffers(const Stmt& s, FunctionRef<Buffer(const Buffer&)> of) {
  return s ? Renamed(of).statement(s) : s;
}

}  // namespace heddle::gpu
