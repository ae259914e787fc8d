// Operations of a whole warp: mma and ldmatrix, with the fragment maps of the PTX ISA
// (mma.sync.m16n8k16 and its kin, ldmatrix). Lane l is in group l / 4, and is the (l % 4)th of it.
#include <algorithm>
#include <array>
#include <bit>

#include "codegen/emulator/actions.h"
#include "heddle/instruction/instruction.h"
#include "ir/fold.h"

namespace heddle::emu {
namespace {

using interp::Node;

struct Place {
  int row, col;
};

/// An operand's index, evaluated in each lane.
struct Operand {
  Storage* storage = nullptr;
  Unit unit;
  Node* index = nullptr;
};

class TileAction : public Action {
 public:
  TileAction(Machine* m, ExprCompiler* exprs, const TileOp* t) : Action(m, t) {
    for (const TileOperand& o : t->operands) {
      Operand operand;
      operand.storage = exprs->storage_of(o.buffer);
      Expr index = o.index;
      operand.unit = exprs->begin(index);
      operand.index = exprs->compile(index);
      operands_.push_back(std::move(operand));
    }
  }
  void run(const Active& active) final {
    enter();
    for (const auto& warp : whole_warps(*machine_, active, "an operation of a warp")) {
      machine_->thread = warp[0];
      if (warp.size() != kWarp)
        machine_->fail("an operation of a warp that has fewer than 32 lanes");
      for (std::size_t i = 0; i < operands_.size(); ++i) {
        operands_[i].unit.for_each(*machine_, warp, [&](int t) {
          index_[i][static_cast<std::size_t>(t % kWarp)] = operands_[i].index->int_value();
        });
      }
      run_warp(warp[0]);
      machine_->thread = -1;
    }
  }

 protected:
  /// Runs the operation. Thread `first` is lane 0 of the warp. The indices are in index_.
  virtual void run_warp(int first) = 0;

  std::int64_t at(std::size_t operand, int lane, int offset) const {
    const Storage& s = *operands_[operand].storage;
    const std::int64_t i = index_[operand][static_cast<std::size_t>(lane)] + offset;
    if (i < 0 || i >= s.size) {
      machine_->fail("access to '" + s.buffer->name + "' at [" + std::to_string(i) +
                     "] (flat), outside its " + std::to_string(s.size) + " elements");
    }
    return i;
  }
  Storage& storage(std::size_t operand) const { return *operands_[operand].storage; }

 private:
  std::vector<Operand> operands_;
  std::array<std::array<std::int64_t, kWarp>, 3> index_{};
};

// ---- mma ----

double truncate_to_tf32(double v) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
  return std::bit_cast<float>(bits & ~std::uint32_t{0x1fff});
}

/// Element i of a lane's part of A (16 x k), B (k x 8) or C (16 x 8). A register holds 32 bits:
/// `pack` elements that lie side by side along k.
Place place_in_a(int lane, int i, int pack) {
  const int reg = i / pack;
  return {lane / 4 + 8 * (reg % 2), lane % 4 * pack + i % pack + 4 * pack * (reg / 2)};
}
Place place_in_b(int lane, int i, int pack) {
  return {lane % 4 * pack + i % pack + 4 * pack * (i / pack), lane / 4};
}
Place place_in_c(int lane, int i) { return {lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2}; }

class MmaAction final : public TileAction {
 public:
  MmaAction(Machine* m, ExprCompiler* exprs, const TileOp* t, const tile::Mma& product)
      : TileAction(m, exprs, t), k_(product.k), type_(t->operands[1].buffer->dtype) {
    pack_ = 32 / type_.bits;
    const DataType d = t->operands[0].buffer->dtype, b = t->operands[2].buffer->dtype;
    const bool known = mma_instruction().form({d, type_, b}, {product.m, product.n, product.k});
    const bool local = std::all_of(t->operands.begin(), t->operands.end(),
                                   [](const auto& o) { return o.buffer->scope == Scope::Local; });
    if (!known || !local) {
      m->fail("there is no such mma: " + to_string(d) + " += " + to_string(type_) + " * " +
              to_string(b));
    }
  }

 private:
  void run_warp(int first) override {
    const auto gather = [&](std::size_t operand, int count, auto place, auto& tile) {
      Storage& s = storage(operand);
      for (int lane = 0; lane < kWarp; ++lane) {
        machine_->thread = first + lane;
        for (int i = 0; i < count; ++i) {
          const Slot v = machine_->read(s, at(operand, lane, i));
          const Place p = place(lane, i);
          tile[p.row][p.col] = s.buffer->dtype.is_float() ? v.f : static_cast<double>(v.i);
        }
      }
    };
    gather(1, k_ / 2, [&](int l, int i) { return place_in_a(l, i, pack_); }, a_);
    gather(2, k_ / 4, [&](int l, int i) { return place_in_b(l, i, pack_); }, b_);
    gather(0, 4, place_in_c, c_);
    // Integers are exact in double: a sum of 32 products of bytes and one 32-bit number.
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        for (int k = 0; k < k_; ++k) c_[i][j] += input(a_[i][k]) * input(b_[k][j]);
      }
    }
    Storage& d = storage(0);
    for (int lane = 0; lane < kWarp; ++lane) {
      machine_->thread = first + lane;
      for (int i = 0; i < 4; ++i) {
        const Place p = place_in_c(lane, i);
        machine_->write(d, at(0, lane, i), result(c_[p.row][p.col]));
      }
    }
  }
  double input(double v) const { return type_ == f32 ? truncate_to_tf32(v) : v; }
  Slot result(double v) const {
    Slot s;
    const DataType d = storage(0).buffer->dtype;
    if (d == i32) {
      s.i = interp::Int<std::int32_t>::wrap(static_cast<std::int64_t>(v));
    } else {
      s.f = d == f16 ? interp::F16::round(v) : interp::F32::round(v);
    }
    return s;
  }

  int k_, pack_;
  DataType type_;
  double a_[16][32] = {}, b_[32][8] = {}, c_[16][8] = {};
};

// ---- ldmatrix ----

class LoadMatrixAction final : public TileAction {
 public:
  LoadMatrixAction(Machine* m, ExprCompiler* exprs, const TileOp* t, const tile::LoadMatrix& load)
      : TileAction(m, exprs, t), count_(load.matrices), transposed_(load.transposed) {
    const Buffer &to = t->operands[0].buffer, &from = t->operands[1].buffer;
    if (to->scope != Scope::Local || from->scope != Scope::Shared || to->dtype != from->dtype ||
        to->dtype.bits > 32 || (transposed_ && to->dtype.bits != 16)) {
      m->fail("ldmatrix from '" + from->name + "' of " + to_string(from->dtype) + " to '" +
              to->name + "' of " + to_string(to->dtype) +
              ": it takes 32 bits a lane from shared to local memory, and transposes 16-bit "
              "elements");
    }
    pack_ = 32 / to->dtype.bits;
  }

 private:
  void run_warp(int first) override {
    for (int matrix = 0; matrix < count_; ++matrix) {
      for (int row = 0; row < 8; ++row) {
        machine_->thread = first + 8 * matrix + row;
        if (const std::int64_t address = at(1, 8 * matrix + row, 0); address % (4 * pack_) != 0) {
          machine_->fail("ldmatrix of a row at '" + storage(1).buffer->name + "'[" +
                         std::to_string(address) + "], which is not aligned to 16 bytes");
        }
      }
      for (int lane = 0; lane < kWarp; ++lane) {
        machine_->thread = first + lane;
        for (int i = 0; i < pack_; ++i) {
          Place p{lane / 4, lane % 4 * pack_ + i};
          if (transposed_) std::swap(p.row, p.col);
          const Slot v = machine_->read(storage(1), at(1, 8 * matrix + p.row, p.col));
          machine_->write(storage(0), at(0, lane, pack_ * matrix + i), v);
        }
      }
    }
  }

  int count_;
  bool transposed_;
  int pack_ = 2;  // elements in 32 bits
};

// ---- cvt.rna.tf32 ----

class RoundTf32Action final : public TileAction {
 public:
  RoundTf32Action(Machine* m, ExprCompiler* exprs, const TileOp* t, int registers)
      : TileAction(m, exprs, t), count_(registers) {
    if (t->operands[0].buffer->scope != Scope::Local)
      m->fail("'" + t->operands[0].buffer->name + "' is not in registers");
  }

 private:
  void run_warp(int first) override {
    for (int lane = 0; lane < kWarp; ++lane) {
      machine_->thread = first + lane;
      for (int i = 0; i < count_; ++i) {
        Slot v = machine_->read(storage(0), at(0, lane, i));
        v.f = rounded_to_tf32(v.f);
        machine_->write(storage(0), at(0, lane, i), v);
      }
    }
  }

  int count_;
};

}  // namespace

ActionPtr compile_tile_op(Machine* machine, ExprCompiler* exprs, const TileOp* t) {
  if (const auto* x = t->as<tile::Mma>()) return std::make_unique<MmaAction>(machine, exprs, t, *x);
  if (const auto* x = t->as<tile::LoadMatrix>())
    return std::make_unique<LoadMatrixAction>(machine, exprs, t, *x);
  if (const auto* x = t->as<tile::RoundTf32>())
    return std::make_unique<RoundTf32Action>(machine, exprs, t, x->registers);
  return compile_group_op(machine, exprs, t);
}

}  // namespace heddle::emu
