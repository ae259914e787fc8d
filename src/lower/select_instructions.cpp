#include "lower/select_instructions.h"

#include <algorithm>

#include "heddle/instruction/instruction.h"
#include "heddle/ir/print.h"
#include "heddle/support/error.h"
#include "instruction/registered_nest.h"
#include "instruction/tile_product.h"

namespace heddle::lowering {
namespace {

class Selection {
 public:
  explicit Selection(const std::vector<InstructionMatch>& matches) : matches_(matches) {}

  Stmt of(const Stmt& s, Around around) const {
    if (!s) return s;
    if (const For* f = s.as<For>()) {
      if (is_tensorized(f->loop)) return take(*f, around);
      const int64_t last = range_of(f->extent, around.ranges).max - 1;
      around.ranges.set(f->var, {0, std::max<int64_t>(0, last)});
      if (f->loop == LoopKind::Serial) around.serial = f->var;
    }
    return map_children(
        s, [&](const Stmt& c) { return of(c, around); }, [](const Expr& e) { return e; });
  }

 private:
  Stmt take(const For& f, const Around& around) const {
    const InstructionName named = f.loop.instruction;
    std::string reasons;
    for (const InstructionMatch& m : matches_) {
      if (named && named.text() != m.instruction) continue;
      const auto kind = LoopKind::tensorized(InstructionName(m.instruction));
      const Stmt with_name = named ? Stmt(&f) : make_for(f.var, f.extent, kind, f.body);
      std::string why;
      if (const Stmt taken = m.take(*with_name.as<For>(), around, &why)) return taken;
      reasons += "\n  as " + m.instruction + ": " + why;
    }
    if (reasons.empty()) reasons = " this target has no '" + named.text() + "'";
    throw_user_error("the loops from '" + f.var->name + "' on are marked by tensorize(), but are " +
                         "not the instruction:" + reasons + "\n" + to_string(Stmt(&f)),
                     {},
                     "mark loops that compute what it computes, or choose the schedule at another "
                     "size");
  }

  const std::vector<InstructionMatch>& matches_;
};

}  // namespace

Stmt select_instructions(const Stmt& s, const std::vector<InstructionMatch>& matches) {
  return Selection(matches).of(s, {});
}

Stmt plain_loops(const For& f) { return make_for(f.var, f.extent, LoopKind::Serial, f.body); }

std::vector<InstructionMatch> cpu_instructions() {
  std::vector<InstructionMatch> out;
  const auto add = [&](const std::string& name, auto matches) {
    out.push_back({name, [=](const For& f, const Around&, std::string* why) {
                     if (instructions::only_sets(f)) return plain_loops(f);
                     return matches(f, why) ? Stmt(&f) : Stmt();
                   }});
  };
  for (const auto& instruction : registered_instructions()) {
    add(instruction->name, [=](const For& f, std::string* why) {
      return instructions::match_registered(f, instruction, why).has_value();
    });
  }
  add(amx_instruction().name, [](const For& f, std::string* why) {
    instructions::TileProduct product;
    return instructions::match_tile_product(f, &product, why);
  });
  return out;
}

}  // namespace heddle::lowering
