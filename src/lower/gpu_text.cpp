#include <algorithm>

#include "heddle/ir/print.h"
#include "heddle/lower/gpu_program.h"

namespace heddle {
namespace {

std::string dims(const std::array<int64_t, 3>& d) {
  return std::to_string(d[0]) + " x " + std::to_string(d[1]) + " x " + std::to_string(d[2]);
}

std::string grid_text(const GpuKernel& k) {
  std::string out;
  for (size_t d = 0; d < 3; ++d) {
    out += d == 0 ? "" : " x ";
    out += k.grid_of[d].defined() ? "(" + to_string(k.grid_of[d]) + ")" : std::to_string(k.grid[d]);
  }
  return out;
}

std::string all_text(const std::vector<GpuKernel>& prepare, const std::vector<GpuKernel>& main) {
  std::string out;
  for (const auto* list : {&prepare, &main}) {
    for (const GpuKernel& k : *list) out += to_string(k);
  }
  return out;
}

}  // namespace

std::optional<GpuKernel::TensorMap> map_of(const TileOp& op) {
  using Map = GpuKernel::TensorMap;
  const auto memory = [&] { return op.operands.at(1).buffer; };
  if (const auto* x = op.as<tile::BulkLoad>())
    return Map{memory(), x->box.row_dim, x->rows_at_once(), x->windows};
  if (const auto* x = op.as<tile::BulkStore>())
    return Map{memory(), x->box.row_dim, x->box.rows, {}};
  return {};
}

const GpuKernel::TensorMap* find_map(const GpuKernel& kernel, const TileOp& op) {
  const auto it = std::find(kernel.maps.begin(), kernel.maps.end(), map_of(op));
  return it == kernel.maps.end() ? nullptr : &*it;
}

std::string to_string(const GpuKernel& k) {
  std::string out = "// grid " + grid_text(k) + ", block " + dims(k.block) + ", " +
                    std::to_string(k.shared_bytes) + " bytes of shared memory";
  if (k.cluster > 1) out += ", clusters of " + std::to_string(k.cluster);
  if (k.pair > 1) out += ", in pairs";
  if (!k.parts.empty()) {
    out += ", in " + std::to_string(k.parts.size()) + " parts\n";
    for (const GpuKernel& part : k.parts) out += to_string(part);
    return out;
  }
  out += "\n" + to_string(LoweredFunction{k.name, k.args, k.body});
  if (k.tail) out += "// then, in the last block to finish\n" + to_string(k.tail);
  return out;
}

std::string to_string(const GpuProgram& p) { return all_text(p.prepare, p.main); }

std::string to_string(const GpuPassRecord& p) { return all_text(p.prepare, p.main); }

}  // namespace heddle
