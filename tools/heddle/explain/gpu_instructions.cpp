#include "explain/gpu_instructions.h"

#include <algorithm>

#include "heddle/instruction/instruction.h"

namespace heddle::cli {
namespace {

std::string type_of(const TileOp& op, size_t operand) {
  return to_string(op.operands[operand].buffer->dtype);
}

std::string product(const MachineInstruction& instruction, const TileOp& op) {
  return instruction.name + " " + std::to_string(op.m) + "x" + std::to_string(op.n) + "x" +
         std::to_string(op.k) + " " + type_of(op, 0) + " += " + type_of(op, 1) + " * " +
         type_of(op, 2);
}

std::string box(const char* what, const TileOp& op) {
  return std::string(what) + std::to_string(op.m) + "x" + std::to_string(op.n) + " " +
         type_of(op, 0);
}

// "": an operation that only orders others.
std::string name_of(const TileOp& op) {
  switch (op.op) {
    case TileOpKind::Mma: return product(mma_instruction(), op);
    case TileOpKind::GroupMma: return product(wgmma_instruction(), op);
    case TileOpKind::LoadMatrix:
      return "ldmatrix x" + std::to_string(op.count) + (op.transposed ? " transposed " : " ") +
             type_of(op, 0);
    case TileOpKind::BulkLoad:
      return box(op.windows.empty() ? "TMA load " : "TMA load of windows ", op);
    case TileOpKind::BulkStore: return box("TMA store ", op);
    case TileOpKind::RoundTf32:
    case TileOpKind::GroupWait:
    case TileOpKind::BarrierInit:
    case TileOpKind::BarrierExpect:
    case TileOpKind::BarrierArrive:
    case TileOpKind::BarrierWait:
    case TileOpKind::LastArrival: return "";
  }
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
