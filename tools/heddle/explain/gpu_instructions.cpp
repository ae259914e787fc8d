#include "explain/gpu_instructions.h"

#include <algorithm>

#include "heddle/instruction/instruction.h"

namespace heddle::cli {
namespace {

std::string type_of(const TileOp& op, size_t operand) {
  return to_string(op.operands[operand].buffer->dtype);
}

template <class Product>
std::string product(const Product& x, const TileOp& op) {
  return instruction_of(op.op)->name + " " + std::to_string(x.m) + "x" + std::to_string(x.n) + "x" +
         std::to_string(x.k) + " " + type_of(op, 0) + " += " + type_of(op, 1) + " * " +
         type_of(op, 2);
}

std::string box(const char* what, const tile::Box& b, const TileOp& op) {
  return std::string(what) + std::to_string(b.rows) + "x" + std::to_string(b.columns) + " " +
         type_of(op, 0);
}

// "": an operation that only orders others.
std::string name_of(const TileOp& op) {
  if (const auto* x = op.as<tile::Mma>()) return product(*x, op);
  if (const auto* x = op.as<tile::GroupMma>()) return product(*x, op);
  if (const auto* x = op.as<tile::LoadMatrix>())
    return instruction_of(op.op)->name + " x" + std::to_string(x->matrices) +
           (x->transposed ? " transposed " : " ") + type_of(op, 0);
  if (const auto* x = op.as<tile::BulkLoad>())
    return box(x->windows.empty() ? "TMA load " : "TMA load of windows ", x->box, op);
  if (const auto* x = op.as<tile::BulkStore>()) return box("TMA store ", x->box, op);
  return "";
}

}  // namespace

std::vector<UsedInstruction> used_instructions(const GpuProgram& program) {
  std::vector<UsedInstruction> out;
  const auto add = [&](const std::string& kernel, const std::string& name) {
    const auto it = std::ranges::find_if(
        out, [&](const UsedInstruction& u) { return u.kernel == kernel && u.instruction == name; });
    if (it == out.end()) return out.push_back({kernel, name, 1});
    ++it->count;
  };
  for (const auto* kernels : {&program.prepare, &program.main}) {
    for (const GpuKernel& k : *kernels) {
      visit(
          k.body,
          [&](const Stmt& s) {
            const TileOp* op = s.as<TileOp>();
            const std::string name = op ? name_of(*op) : "";
            if (!name.empty()) add(k.name, name);
          },
          [](const Expr&) {});
    }
  }
  return out;
}

}  // namespace heddle::cli
