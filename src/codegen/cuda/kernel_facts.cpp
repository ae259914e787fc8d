#include "codegen/cuda/kernel_facts.h"

#include <cstdlib>
#include <vector>

namespace heddle::cuda {
namespace {

// Larger arrays are never in registers.
constexpr int64_t kMaxUnrolled = 256;

bool is_local(const Buffer& b) { return b->scope == Scope::Local; }

/// Whether the index of some Local buffer in `s` depends on one of `vars`; grows `vars` by the
/// variables that Lets derive from them.
class LocalIndexSearch {
 public:
  explicit LocalIndexSearch(const Var& v) : vars_{v} {}
  bool found = false;

  void look(const Stmt& s) {
    visit(
        s,
        [&](const Stmt& x) {
          if (const Let* let = x.as<Let>()) {
            if (depends(let->value)) vars_.push_back(let->var);
          } else if (const Store* store = x.as<Store>()) {
            access(store->buffer, store->indices);
          } else if (const TileOp* tile = x.as<TileOp>()) {
            for (const TileOperand& operand : tile->operands) {
              access(operand.buffer, {operand.index});
            }
          }
        },
        [&](const Expr& e) {
          if (const Load* load = e.as<Load>()) access(load->buffer, load->indices);
        });
  }

 private:
  bool depends(const Expr& e) const {
    for (const Var& v : vars_) {
      if (uses_var(e, v)) return true;
    }
    return false;
  }
  void access(const Buffer& buffer, const std::vector<Expr>& indices) {
    if (buffer->scope != Scope::Local || found) return;
    for (const Expr& i : indices) found |= depends(i);
  }

  std::vector<Var> vars_;
};

enum class Growth : uint8_t { None, Up, Unknown };

Growth joined(Growth a, Growth b) {
  if (a == Growth::Unknown || b == Growth::Unknown) return Growth::Unknown;
  return a == Growth::Up || b == Growth::Up ? Growth::Up : Growth::None;
}

/// Whether `e` never decreases with `v`.
Growth growth_of(const Expr& e, const Var& v) {
  if (!uses_var(e, v)) return Growth::None;
  if (e.get() == v.get()) return Growth::Up;
  if (const Select* s = e.as<Select>())
    return uses_var(s->condition, v) ? Growth::Unknown
                                     : joined(growth_of(s->on_true, v), growth_of(s->on_false, v));
  const Binary* b = e.as<Binary>();
  if (!b) return Growth::Unknown;
  const int64_t* by = as_int(b->b);
  switch (b->op) {
    case BinaryOp::Add:
    case BinaryOp::Min:
    case BinaryOp::Max: return joined(growth_of(b->a, v), growth_of(b->b, v));
    case BinaryOp::Sub: return uses_var(b->b, v) ? Growth::Unknown : growth_of(b->a, v);
    case BinaryOp::Mul:
    case BinaryOp::FloorDiv: return by && *by > 0 ? growth_of(b->a, v) : Growth::Unknown;
    default: return Growth::Unknown;
  }
}

}  // namespace

KernelFacts kernel_facts(const Stmt& body) {
  KernelFacts facts;
  std::vector<const Store*> copies;  // from memory to registers
  std::vector<const For*> blocks;
  visit(
      body,
      [&](const Stmt& s) {
        if (const Store* store = s.as<Store>()) {
          facts.written.insert(store->buffer.get());
          const Load* from = store->value.as<Load>();
          if (from && is_local(store->buffer) && !is_local(from->buffer) &&
              from->buffer->scope != Scope::Shared)
            copies.push_back(store);
        } else if (const Sync* sync = s.as<Sync>()) {
          facts.synchronizes = true;
          for (const Store* s :
               sync->sync == SyncKind::GridWait ? copies : std::vector<const Store*>()) {
            facts.ahead.insert(s->buffer.get());
            if (s->value.dtype().is_vector() && s->buffer->dtype.bytes() < 4)
              facts.words.insert(s->buffer.get());
          }
          if (sync->sync == SyncKind::Registers) {
            facts.passes_registers = true;
            (sync->pending < 0 ? facts.loads : facts.multiplies) = std::abs(sync->pending);
          }
        } else if (const TileOp* tile = s.as<TileOp>()) {
          if (tile->as<tile::BulkStore>()) facts.written.insert(tile->operands[1].buffer.get());
          for (const TileOperand& operand : tile->operands) {
            const Buffer& b = operand.buffer;
            if (b->scope == Scope::Local && b->dtype.bytes() < 4) facts.words.insert(b.get());
          }
        } else if (const For* loop = s.as<For>()) {
          if (is_block(loop->loop)) blocks.push_back(loop);
          for (const For* b : is_block(loop->loop) ? std::vector<const For*>() : blocks) {
            if (growth_of(loop->extent, b->var) == Growth::Up)
              facts.grows[static_cast<size_t>(grid_dim(b->loop))] = true;
          }
          const int64_t* extent = as_int(loop->extent);
          if (is_block(loop->loop) || is_thread(loop->loop) || !extent || *extent > kMaxUnrolled) {
            return;
          }
          LocalIndexSearch search(loop->var);
          search.look(loop->body);
          if (search.found) facts.register_loops.insert(s.get());
        }
      },
      [&](const Expr& e) {
        if (const Load* load = e.as<Load>()) facts.read.insert(load->buffer.get());
      });
  return facts;
}

}  // namespace heddle::cuda
