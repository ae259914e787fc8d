// Products of tiles by AMX. This file assigns the tile registers itself: the nest knows how many
// tiles it keeps, and no other code uses them. One constant configuration for ldtilecfg therefore
// serves all nests of a function. Loading it takes as long as a dozen products, so it is loaded
// once, around the outermost loop that contains only products of one form (mostly the loop of a
// task).
#include <algorithm>

#include "codegen/llvm/generator.h"
#include "heddle/instruction/instruction.h"
#include "heddle/support/error.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace heddle::codegen {

using llvm::Value;
namespace id = llvm::Intrinsic;

namespace {

const InstructionForm& form_of(const TileProduct& p) {
  return *amx_instruction().form({p.c.buffer->dtype, p.a.buffer->dtype, p.b.buffer->dtype});
}

bool is_tile_product(const For& loop) {
  return loop.loop.instruction.text() == amx_instruction().name;
}

TileProduct product_of(const For& loop) {
  TileProduct p;
  std::string why;
  HEDDLE_ICHECK(match_tile_product(loop, &p, &why),
                "a nest that lowering selected as a product of tiles is none: " + why);
  return p;
}

}  // namespace

// Nests that tiles cannot compute run as loops over vectors, so that every machine gives the results.
size_t Generator::emit_tiles(const std::vector<Stmt>& stmts, size_t from) {
  auto marked = [&](size_t i) {
    const For* f = i < stmts.size() ? stmts[i].as<For>() : nullptr;
    return f && is_tensorized(f->loop) ? f : nullptr;
  };
  const For* loop = marked(from);
  const size_t cleared = !loop && marked(from + 1) ? 1 : 0;
  if (cleared) loop = marked(from + 1);
  if (!loop) return 0;
  if (!is_tile_product(*loop)) {
    if (!cleared) emit_instruction(*loop);
    return cleared ? 0 : 1;
  }
  const TileProduct p = product_of(*loop);
  const bool here = std::ranges::count(machine_.tiles, &form_of(p)) > 0 &&
                    storage_of(p.c.buffer).base && storage_of(p.a.buffer).base &&
                    storage_of(p.b.buffer).base;
  if (cleared && (!here || !clears_tiles(stmts[from], p))) return 0;
  note_expected(p.c.buffer->name, amx_instruction().name, here);
  if (!here) {
    emit_vectors(*loop);
    return 1;
  }
  emit_tile_product(p, cleared > 0);
  return 1 + cleared;
}

// Configures the registers before a loop with `body`, where all products in it use one
// configuration. Returns whether it did.
bool Generator::begin_tiles(const Stmt& body) {
  if (frame_.tiles || machine_.tiles.empty()) return false;
  std::optional<TileConfig> config;
  bool agree = true;
  visit(
      body,
      [&](const Stmt& s) {
        const For* f = s.as<For>();
        if (!f) return;
        // A function that is called may change the tile registers.
        agree &= f->loop != LoopKind::Parallel && !calls_.contains(f);
        if (!is_tensorized(f->loop) || !is_tile_product(*f)) return;
        const TileConfig wanted = product_of(*f).config();
        agree &= !config || *config == wanted;
        config = wanted;
      },
      [](const Expr&) {});
  if (!config || !agree) return false;
  configure_tiles(*config);
  frame_.tiles = config;
  return true;
}

void Generator::end_tiles() {
  b_.CreateIntrinsic(id::x86_tilerelease, {}, {});
  frame_.tiles.reset();
}

void Generator::configure_tiles(const TileConfig& config) {
  llvm::Constant* bytes = llvm::ConstantDataArray::get(context(), config);
  auto* place = new llvm::GlobalVariable(module_, bytes->getType(), /*isConstant=*/true,
                                         llvm::GlobalValue::PrivateLinkage, bytes, "tiles");
  place->setAlignment(llvm::Align(64));
  b_.CreateIntrinsic(id::x86_ldtilecfg, {}, {place});
}

Value* Generator::tile_address(const TileProduct& p, const Buffer& buffer, const Expr& at, int row,
                               int col) {
  std::vector<VarBinding> tile = p.row_tiles.at(row), of_col = p.col_tiles.at(col);
  tile.insert(tile.end(), of_col.begin(), of_col.end());
  return address(storage_of(buffer), buffer->dtype, simplify(substitute(at, tile)));
}

void Generator::emit_tile_product(const TileProduct& p, bool from_zero) {
  const TileConfig config = p.config();
  const bool own = frame_.tiles != config;
  if (own) configure_tiles(config);
  auto for_each_result = [&](FunctionRef<void(Value*, int, int)> fn) {
    for (int m = 0; m < p.row_tiles.count(); ++m) {
      for (int n = 0; n < p.col_tiles.count(); ++n)
        fn(b_.getInt8(static_cast<uint8_t>(p.c_register(m, n))), m, n);
    }
  };
  Value* step = b_.getInt64(static_cast<uint64_t>(p.c.step * p.c.buffer->dtype.bytes()));
  for_each_result([&](Value* tile, int m, int n) {
    if (from_zero) {
      b_.CreateIntrinsic(id::x86_tilezero, {}, {tile});
    } else {
      Value* from = tile_address(p, p.c.buffer, p.c.at, m, n);
      b_.CreateIntrinsic(id::x86_tileloadd64, {}, {tile, from, step});
    }
  });
  memo_rewind(0);
  emit_tile_steps(p, 0);
  for_each_result([&](Value* tile, int m, int n) {
    Value* to = tile_address(p, p.c.buffer, p.c.at, m, n);
    b_.CreateIntrinsic(id::x86_tilestored64, {}, {tile, to, step});
  });
  memo_rewind(0);
  if (own && frame_.tiles) configure_tiles(*frame_.tiles);
  if (own && !frame_.tiles) b_.CreateIntrinsic(id::x86_tilerelease, {}, {});
}

// The loops of the reduction from `depth` inwards.
void Generator::emit_tile_steps(const TileProduct& p, size_t depth) {
  if (depth == p.reduce.size()) return emit_tile_step(p);
  const For& loop = *p.reduce[depth];
  const int64_t* extent = as_int(loop.extent);
  if (extent && *extent == 1) {
    bind(loop.var, ops_.int_constant(loop.var->dtype, 0), {0, 0});
    emit_tile_steps(p, depth + 1);
    return unbind(loop.var);
  }
  Value* end = ops_.cast(emit(loop.extent), loop.extent.dtype(), i64);
  memo_rewind(0);
  emit_loop(loop, b_.getInt64(0), end, !extent, [&] { emit_tile_steps(p, depth + 1); });
}

// One step of the reduction multiplies each tile of A with each tile of B.
void Generator::emit_tile_step(const TileProduct& p) {
  auto load = [&](const TileProduct::Operand& x, int tile, int m, int n) {
    Value* step = b_.getInt64(static_cast<uint64_t>(x.step * x.buffer->dtype.bytes()));
    b_.CreateIntrinsic(
        id::x86_tileloadd64, {},
        {b_.getInt8(static_cast<uint8_t>(tile)), tile_address(p, x.buffer, x.at, m, n), step});
  };
  auto load_a = [&](int m) { load(p.a, p.a_register(m), m, 0); };
  auto load_b = [&](int n) { load(p.b, p.b_register(n), 0, n); };
  const id::ID product = llvm::Function::lookupIntrinsicID(form_of(p).llvm.intrinsic);
  auto multiply = [&](int m, int n) {
    auto tile = [&](int i) { return b_.getInt8(static_cast<uint8_t>(i)); };
    b_.CreateIntrinsic(product, {},
                       {tile(p.c_register(m, n)), tile(p.a_register(m)), tile(p.b_register(n))});
  };
  const int rows = p.row_tiles.count(), cols = p.col_tiles.count();
  if (p.holds_columns()) {
    for (int n = 0; n < cols; ++n) load_b(n);
    for (int m = 0; m < rows; ++m) {
      load_a(m);
      for (int n = 0; n < cols; ++n) multiply(m, n);
    }
  } else {
    for (int m = 0; m < rows; ++m) load_a(m);
    for (int n = 0; n < cols; ++n) {
      load_b(n);
      for (int m = 0; m < rows; ++m) multiply(m, n);
    }
  }
  memo_rewind(0);
}

}  // namespace heddle::codegen
