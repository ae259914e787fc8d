#include "lower/gpu/tiles/begun_products.h"

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"

namespace heddle::gpu {
namespace {

// What is in the loops of `s`, where that is a single tile operation; else null.
const TileOp* operation_in(const Stmt& s) {
  const For* f = s.as<For>();
  return f ? operation_in(f->body) : s.as<TileOp>();
}

// Loops over threads, and those that lead to other accumulators, stay around both parts.
class Beginning {
 public:
  explicit Beginning(const Stmt& s) : accumulators_(operation_in(s)->operands[0].index) {}

  Stmt first(const Stmt& s) const {
    if (const For* f = s.as<For>()) {
      if (stays(*f)) return make_for(f->var, f->extent, f->loop, first(f->body));
      return first(substitute(f->body, {{f->var, Expr(0)}}));
    }
    tile::GroupMma product = *tile_operation<tile::GroupMma>(s);
    product.begins = true;
    return make_tile_op(product, s.as<TileOp>()->operands);
  }
  Stmt without_first(const Stmt& s, const Expr& at) const {
    const For* f = s.as<For>();
    if (!f) return make_if(at > Expr(0), s);
    return make_for(f->var, f->extent, f->loop,
                    without_first(f->body, stays(*f) ? at : at + f->var.expr()));
  }

 private:
  bool stays(const For& f) const { return is_thread(f.loop) || uses_var(accumulators_, f.var); }
  Expr accumulators_;
};

}  // namespace

bool is_single_product(const Stmt& s) {
  const TileOp* op = operation_in(s);
  return op && op->as<tile::GroupMma>();
}

Buffer registers_of(const Stmt& use) {
  Buffer c;
  visit(
      use,
      [&](const Stmt& x) {
        if (tile_operation<tile::GroupMma>(x)) c = x.as<TileOp>()->operands[0].buffer;
      },
      [](const Expr&) {});
  HEDDLE_ICHECK(c, "a ring of boxes that no warp group multiplies");
  return c;
}

Stmt wait_for_products(const Stmt& use, int pending) {
  const Buffer c = registers_of(use);
  const int done = pending ? 0 : static_cast<int>(c.num_elements());
  return make_tile_op(tile::GroupWait{pending, done}, {{c, Expr(0)}});
}

Stmt begun_products(const Stmt& s) {
  const Beginning beginning(s);
  return make_block({beginning.first(s), beginning.without_first(s, Expr(0))});
}

}  // namespace heddle::gpu
