#include "codegen/llvm/nests.h"

namespace heddle::codegen {
namespace {

void collect(const Stmt& s, std::vector<Nest>& out) {
  if (!s) return;
  if (auto* block = s.as<Block>()) {
    for (const Stmt& child : block->stmts) collect(child, out);
  } else if (auto* allocate = s.as<Allocate>()) {
    collect(allocate->body, out);
  } else if (s.kind() == StmtKind::For) {
    Nest nest{s, canonical_form(s)};
    if (nest.form.closed) out.push_back(std::move(nest));
  }
}

}  // namespace

std::vector<Nest> outermost_nests(const LoweredFunction& function) {
  std::vector<Nest> out;
  collect(function.body, out);
  return out;
}

}  // namespace heddle::codegen
