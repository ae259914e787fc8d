// Boxes, barriers and products of warp groups, as actions of threads.
#include <algorithm>

#include "codegen/emulator/actions.h"
#include "heddle/instruction/instruction.h"
#include "heddle/instruction/tiles.h"

namespace heddle::emu {
namespace {

using interp::Node;

/// The index of an operand in each thread.
struct Index {
  Storage* storage = nullptr;
  Unit unit;
  Node* value = nullptr;
};

class GroupAction final : public Action {
 public:
  GroupAction(Machine* m, ExprCompiler* exprs, const TileOp* t) : Action(m, t), op_(*t) {
    for (const TileOperand& o : t->operands) {
      Index x;
      x.storage = exprs->storage_of(o.buffer);
      Expr index = o.index;
      x.unit = exprs->begin(index);
      x.value = exprs->compile(index);
      operands_.push_back(std::move(x));
    }
    check();
    if (t->as<tile::BulkStore>()) m->stores.add_tile(operands_[0].storage);
  }

  void run(const Active& active) override {
    enter();
    if (const auto* x = op_.as<tile::GroupMma>()) return multiply(active, *x);
    if (const auto* x = op_.as<tile::LastArrival>()) return arrive(active, x->only_last);
    if (const auto* x = op_.as<tile::GroupWait>()) {
      for (const int g : whole_groups(*machine_, active))
        machine_->groups.wait_for_products(g, x->pending);
      return;
    }
    const std::vector<std::vector<std::int64_t>> at = indices(active);
    for (std::size_t i = 0; i < active.size(); ++i) {
      machine_->thread = active[i];
      of_thread(at[i], active[i]);
    }
    machine_->thread = -1;
  }

 private:
  void check() const {
    const auto shared = [](const TileOperand& o) { return o.buffer->scope == Scope::Shared; };
    bool good = true;
    if (const auto* x = op_.as<tile::GroupMma>()) {
      const DataType d = op_.operands[0].buffer->dtype, a = op_.operands[1].buffer->dtype,
                     b = op_.operands[2].buffer->dtype;
      const bool fragment = in_registers() && a.bytes() == 2 && !x->a_across;
      good = op_.operands[0].buffer->scope == Scope::Local &&
             (fragment || shared(op_.operands[1])) && shared(op_.operands[2]) &&
             x->m == wgmma::kRows &&
             wgmma_instruction().form({d, a, b}, {wgmma::kRowsOfWarp, x->n, x->k}) &&
             // Rows across the depth exist for 16-bit floats only.
             ((!x->a_across && !x->b_across) || a.bytes() == 2);
    } else if (op_.as<tile::BulkStore>()) {
      good = shared(op_.operands[0]) && !shared(op_.operands[1]);
    } else if (op_.as<tile::LastArrival>()) {
      good = op_.operands.size() == 5 && op_.operands[0].buffer->scope == Scope::Local;
    } else if (!op_.as<tile::GroupWait>()) {
      good = shared(op_.operands[0]) && shared(op_.operands.back());
    }
    if (!good) machine_->fail("there is no such operation of warp groups");
  }

  // Whether the left operand of a product is a fragment in registers.
  bool in_registers() const { return op_.operands[1].buffer->scope == Scope::Local; }

  // The indices of the operands: out[position in `active`][operand].
  std::vector<std::vector<std::int64_t>> indices(const Active& active) {
    std::vector<std::vector<std::int64_t>> out(active.size());
    for (Index& o : operands_) {
      std::size_t i = 0;
      o.unit.for_each(*machine_, active, [&](int) { out[i++].push_back(o.value->int_value()); });
    }
    return out;
  }

  WarpGroups::Place barrier(std::size_t operand, std::int64_t index) const {
    const Storage* s = operands_[operand].storage;
    if (index < 0 || index >= s->size) machine_->fail("a barrier outside of its array");
    return {s, index};
  }

  void of_thread(const std::vector<std::int64_t>& at, int thread) {
    WarpGroups& groups = machine_->groups;
    if (const auto* x = op_.as<tile::BarrierInit>())
      return groups.init(barrier(0, at[0]), x->arrivals);
    if (const auto* x = op_.as<tile::BarrierExpect>())
      return groups.arrive(barrier(0, at[0]), thread, x->bytes);
    if (const auto* x = op_.as<tile::BarrierArrive>())
      return groups.arrive(barrier(0, at[0]), thread, 0, x->at_pair ? 2 : 1);
    if (op_.as<tile::BarrierWait>()) return groups.wait(barrier(0, at[0]), at[1]);
    const auto* load = op_.as<tile::BulkLoad>();
    const tile::Box& copied = load ? load->box : op_.as<tile::BulkStore>()->box;
    Box box;
    box.tile = operands_[0].storage;
    box.address = box.tile->shared_offset + at[0] * box.tile->buffer->dtype.bytes();
    box.rows = copied.rows;
    box.columns = copied.columns;
    box.row_dim = copied.row_dim;
    box.source = operands_[1].storage;
    box.thread = thread;
    box.shared = load && load->by_pair;
    if (load) box.windows = load->windows;
    const std::size_t rank = at.size() - (load ? 2 : 1) - box.windows.size();
    for (std::size_t d = 0; d < rank; ++d) {
      box.at.push_back(at[1 + d]);
      const int64_t* constant = as_int(box.source->buffer->shape[d]);
      box.extents.push_back(constant ? *constant : box.source->array.shape()[d]);
    }
    for (std::size_t d = 0; d < box.windows.size(); ++d) box.offsets.push_back(at[1 + rank + d]);
    if (!box.begins_at_window()) machine_->fail("rows of windows that begin at none of the image");
    if (box.address % (8 * kBoxRowBytes) != 0)
      machine_->fail("a box that does not begin where the swizzle does");
    if (!load) return machine_->stores.store(std::move(box));
    groups.load(barrier(at.size() - 1, at.back()), std::move(box));
  }

  // Accesses of other blocks to the parts are ordered before those of the last warp group.
  void arrive(const Active& active, bool only_last) {
    const std::vector<std::vector<std::int64_t>> at = indices(active);
    Storage &last = *operands_[0].storage, &parts = *operands_[3].storage;
    for (const int g : whole_groups(*machine_, active)) {
      bool asked = false, is_last = false;
      for (std::size_t i = 0; i < active.size(); ++i) {
        if (active[i] / kGroup != g) continue;
        if (!asked) {
          const BulkStores::Place ticket{operands_[1].storage, at[i][1]};
          is_last = only_last ? machine_->stores.arrive_if_last(ticket, at[i][2])
                              : machine_->stores.arrive(ticket, at[i][2]);
          if (is_last) forget(parts, at[i][3], at[i][4]);
        }
        asked = true;
        machine_->thread = active[i];
        Slot value;
        value.i = is_last ? 1 : 0;
        machine_->write(last, at[i][0], value);
      }
    }
    machine_->thread = -1;
  }
  void forget(Storage& parts, std::int64_t first, std::int64_t end) const {
    if (first < 0 || first > end || end > parts.size)
      machine_->fail("parts outside of their memory");
    if (parts.history != nullptr) std::fill(parts.history + first, parts.history + end, History{});
  }

  GroupOperand operand(std::size_t which, std::int64_t index, int lines, bool across) const {
    GroupOperand o;
    o.storage = operands_[which].storage;
    o.address = o.storage->shared_offset + index * o.storage->buffer->dtype.bytes();
    o.lines = lines;
    o.across = across;
    return o;
  }

  void multiply(const Active& active, const tile::GroupMma& product) {
    const std::vector<int> groups = whole_groups(*machine_, active);
    const std::vector<std::vector<std::int64_t>> at = indices(active);
    for (const int g : groups) {
      GroupProduct p;
      p.c = operands_[0].storage;
      p.begins = product.begins;
      p.registers.resize(kGroup);
      if (in_registers()) p.a.registers.resize(kGroup);
      std::int64_t a = -1, b = -1;
      for (std::size_t i = 0; i < active.size(); ++i) {
        if (active[i] / kGroup != g) continue;
        p.registers[static_cast<std::size_t>(active[i] % kGroup)] = at[i][0];
        if (in_registers()) p.a.registers[static_cast<std::size_t>(active[i] % kGroup)] = at[i][1];
        if (a >= 0 && ((!in_registers() && a != at[i][1]) || b != at[i][2]))
          machine_->fail("the threads of a warp group name different tiles");
        a = at[i][1];
        b = at[i][2];
      }
      std::vector<std::int64_t> fragment = std::move(p.a.registers);
      p.a = operand(1, a, product.m, product.a_across);
      p.a.registers = std::move(fragment);
      p.b = operand(2, b, product.n, product.b_across);
      machine_->groups.multiply(g, std::move(p));
    }
    machine_->thread = -1;
  }

  const TileOp& op_;
  std::vector<Index> operands_;
};

}  // namespace

std::vector<int> whole_groups(Machine& m, const Active& active) {
  std::vector<int> count(static_cast<std::size_t>((m.threads + kGroup - 1) / kGroup)), out;
  for (const int t : active) ++count[static_cast<std::size_t>(t / kGroup)];
  for (std::size_t g = 0; g < count.size(); ++g) {
    if (count[g] == 0) continue;
    if (count[g] != kGroup) {
      m.fail("an operation of a warp group that " + std::to_string(count[g]) + " of its " +
             std::to_string(kGroup) + " threads reach");
    }
    out.push_back(static_cast<int>(g));
  }
  return out;
}

ActionPtr compile_group_op(Machine* machine, ExprCompiler* exprs, const TileOp* t) {
  return std::make_unique<GroupAction>(machine, exprs, t);
}

}  // namespace heddle::emu
