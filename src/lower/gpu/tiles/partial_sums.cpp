#include "lower/gpu/tiles/partial_sums.h"

#include "heddle/support/error.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/tiles/begun_products.h"

namespace heddle::gpu {
namespace {

const TileOp* as_product(const Stmt& s) {
  return tile_operation<tile::GroupMma>(s) ? s.as<TileOp>() : nullptr;
}

Stmt to_registers(const Stmt& s, const Buffer& registers) {
  if (const TileOp* op = as_product(s)) {
    std::vector<TileOperand> operands = op->operands;
    operands[0].buffer = registers;
    return make_tile_op(op->op, std::move(operands));
  }
  return map_children(
      s, [&](const Stmt& c) { return to_registers(c, registers); },
      [](const Expr& e) { return e; });
}

}  // namespace

bool sums_are_short(const Stmt& products, bool allow_tf32) {
  bool found = false;
  visit(
      products,
      [&](const Stmt& s) {
        const TileOp* op = as_product(s);
        if (!op) return;
        const DataType type = op->operands[1].buffer->dtype;
        found |= type.is_float8() || (type == f32 && !allow_tf32);
      },
      [](const Expr&) {});
  return found;
}

PartialSums partial_sums(const Stmt& products) {
  Buffer sums;
  visit(
      products,
      [&](const Stmt& s) {
        if (const TileOp* op = as_product(s)) sums = op->operands[0].buffer;
      },
      [](const Expr&) {});
  HEDDLE_ICHECK(sums, "partial sums of no product");
  const Expr count(sums.num_elements());
  PartialSums p;
  p.registers = Buffer::make(sums->name + ".part", sums->dtype, {count}, Scope::Local);
  p.products = begun_products(to_registers(products, p.registers));
  const Var each("i");
  const Expr at = each.expr();
  p.add = make_for(each, count, LoopKind::Unrolled,
                   make_store(sums, {at}, make_load(sums, {at}) + make_load(p.registers, {at})));
  return p;
}

}  // namespace heddle::gpu
