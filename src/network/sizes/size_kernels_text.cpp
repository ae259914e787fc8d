// The kernels of a network over dimensions as text and as JSON.
#include <map>

#include "heddle/network/size_kernels.h"
#include "support/table.h"

namespace heddle {
namespace {

/// The rows of a race as those of the whole network: the sums over its tasks.
struct WholeCall {
  double seconds = 0, best = 0;
};

}  // namespace

std::string to_text(const std::vector<TaskKernels>& kernels) {
  if (kernels.empty()) return "";
  std::map<std::vector<int64_t>, WholeCall> calls;
  for (const TaskKernels& k : kernels) {
    for (const FamilyRow& row : k.kernels.rows) {
      const double seconds = row.seconds[static_cast<size_t>(row.variant)];
      WholeCall& call = calls[row.point.sizes];
      call.seconds += seconds;
      call.best += seconds / row.slowdown;
    }
  }
  std::string names;
  for (const Dim& d : kernels[0].kernels.dims) names += (names.empty() ? "" : " x ") + d.name();
  Table table({names, "tasks over " + names, "slowdown"});
  for (const auto& [sizes, call] : calls) {
    std::string text;
    for (const int64_t s : sizes) text += (text.empty() ? "" : " x ") + std::to_string(s);
    table.add_row({text, format_time(call.seconds), format_fixed(call.seconds / call.best, 2)});
  }
  std::string text = table.to_string();
  for (const TaskKernels& k : kernels)
    text += "\ntask " + std::to_string(k.task) + ", " + k.name + "\n" + to_text(k.kernels);
  return text;
}

Json to_json(const std::vector<TaskKernels>& kernels) {
  Json all = Json::array();
  for (const TaskKernels& k : kernels) {
    all.push_back(
        Json::object({{"task", k.task}, {"name", k.name}, {"family", to_json(k.kernels)}}));
  }
  return all;
}

}  // namespace heddle
