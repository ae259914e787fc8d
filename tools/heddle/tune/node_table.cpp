#include "tune/node_table.h"

#include <algorithm>

#include "common/figures.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

std::string note_of(const NodeUse& node) {
  if (!node.set_aside.empty()) return "set aside: " + node.set_aside;
  return node.gone ? "gone" : "";
}

}  // namespace

std::vector<std::string> node_lines(const std::vector<NodeUse>& nodes, size_t most) {
  if (nodes.empty() || most < 3) return {};
  const size_t shown = nodes.size() + 1 <= most ? nodes.size() : most - 2;
  Table table({"device", "trials", "failed", "waiting", ""});
  table.align_left(4);
  for (size_t i = 0; i < shown; ++i) {
    const NodeUse& n = nodes[i];
    table.add_row({n.name, std::to_string(n.trials), std::to_string(n.failures),
                   percent(n.waiting()), note_of(n)});
  }
  std::vector<std::string> lines;
  const std::string text = table.to_string();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = "  " + text.substr(at, end - at);
    line.erase(line.find_last_not_of(' ') + 1);
    // The rule below the header is left out to save a line of the terminal.
    if (line.find_first_not_of(" -") != std::string::npos) lines.push_back(std::move(line));
    at = end + 1;
  }
  if (shown < nodes.size()) {
    lines.push_back("  and " +
                    count_text(static_cast<int64_t>(nodes.size() - shown), "other device"));
  }
  return lines;
}

Json nodes_json(const std::vector<NodeUse>& nodes) {
  Json out = Json::array();
  for (const NodeUse& n : nodes) {
    Json j = Json::object({{"name", n.name},
                           {"machine", n.machine},
                           {"trials", n.trials},
                           {"failures", n.failures},
                           {"seconds", n.seconds},
                           {"waiting", n.waiting()},
                           {"gone", n.gone}});
    if (!n.set_aside.empty()) j["set_aside"] = Json(n.set_aside);
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace heddle::cli
