#include "support/tree/outline.h"

namespace heddle {

std::string outline(std::span<const TreeNode> nodes,
                    FunctionRef<std::string(const TreeNode& node, bool yes)> question,
                    FunctionRef<std::string(std::int32_t answer)> answer, const std::string& indent,
                    std::int32_t root) {
  const TreeNode& node = nodes[static_cast<std::size_t>(root)];
  if (node.feature < 0) return indent + answer(node.yes) + "\n";
  std::string text;
  for (const bool yes : {true, false}) {
    text += indent + question(node, yes) + "\n" +
            outline(nodes, question, answer, indent + "  ", yes ? node.yes : node.no);
  }
  return text;
}

}  // namespace heddle
