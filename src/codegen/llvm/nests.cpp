#include "codegen/llvm/nests.h"

namespace heddle::codegen {
namespace {

void collect_loops(const Stmt& s, std::vector<Stmt>& out) {
  if (!s) return;
  if (auto* block = s.as<Block>()) {
    for (const Stmt& child : block->stmts) collect_loops(child, out);
  } else if (auto* allocate = s.as<Allocate>()) {
    collect_loops(allocate->body, out);
  } else if (s.kind() == StmtKind::For) {
    out.push_back(s);
  }
}

}  // namespace

std::vector<Nest> outermost_nests(const std::vector<LoweredFunction>& functions) {
  std::vector<Stmt> loops;
  for (const LoweredFunction& f : functions) collect_loops(f.body, loops);
  if (loops.size() < 2) return {};  // most programs have one nest
  std::vector<Nest> out;
  for (const Stmt& loop : loops) {
    Nest nest{loop, canonical_form(loop)};
    if (nest.form.closed && nest.form.sizes.empty()) out.push_back(std::move(nest));
  }
  if (out.size() < 2) out.clear();
  return out;
}

}  // namespace heddle::codegen
