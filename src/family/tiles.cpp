#include "family/tiles.h"

#include <string>

#include "codegen/llvm/tile_product.h"
#include "heddle/family/schedule.h"
#include "heddle/lower/lower.h"

namespace heddle::family {

bool tiles_hold(const Schedule& at_one_size, const std::vector<Tensor>& outputs) {
  const Schedule all = heddle::for_all_sizes(at_one_size, outputs);
  std::vector<Tensor> args = all.dag().direct().placeholders();
  args.insert(args.end(), all.dag().outputs().begin(), all.dag().outputs().end());
  bool hold = true;
  visit(
      lower(all, args).main.body,
      [&](const Stmt& s) {
        const For* f = s.as<For>();
        if (!hold || !f || f->loop != LoopKind::Tensorized) return;
        codegen::TileProduct product;
        std::string why;
        hold = codegen::match_tile_product(*f, &product, &why);
      },
      [](const Expr&) {});
  return hold;
}

}  // namespace heddle::family
