#include "instruction/registered_nest.h"

namespace heddle::instructions {
namespace {

// Whether all operands lie side by side.
bool lie_in_order(const MachineInstruction& instruction, const Unified& nest, std::string* why) {
  std::vector<int64_t> extents;
  for (const NestLoop& l : nest.loops) extents.push_back(l.extent);
  for (size_t o = 0; o < nest.operands.size(); ++o) {
    LayoutDigits digits;
    for (const int l : instruction.operands[o].loops) digits.push_back({l, 1, 0});
    if (!lies_as(nest.operands[o], nest.loops, digits, extents, why)) return false;
  }
  return true;
}

}  // namespace

std::optional<RegisteredNest> match_registered(
    const For& loop, const std::shared_ptr<const MachineInstruction>& instruction,
    std::string* why) {
  std::vector<NestLoop> loops;
  Stmt s(&loop);
  *why = "the loops do not end in one store, or have no constant extents";
  while (const For* f = s.as<For>()) {
    const int64_t* n = as_int(f->extent);
    if (!n) return {};
    loops.push_back({f->var, *n});
    s = f->body;
  }
  const Store* store = s ? s.as<Store>() : nullptr;
  if (!store) return {};
  for (Unified& nest : unify(*instruction, loops, *store, why)) {
    if (lie_in_order(*instruction, nest, why)) return RegisteredNest{instruction, std::move(nest)};
  }
  return {};
}

bool only_sets(const For& loop) {
  bool reads = false;
  visit(loop.body, [](const Stmt&) {}, [&](const Expr& e) { reads |= e.kind() == ExprKind::Load; });
  return !reads;
}

}  // namespace heddle::instructions
