#include "heuristics/train/generate_table.h"

#include <cctype>
#include <span>
#include <utility>
#include <vector>

#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "heuristics/names.h"

namespace heddle::learning {
namespace {

/// A C++ string literal. Bytes beyond ASCII are octal escapes, which end after three digits.
std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += {'\\', static_cast<char>('0' + (byte >> 6)),
              static_cast<char>('0' + ((byte >> 3) & 7)), static_cast<char>('0' + (byte & 7))};
    }
  }
  return out + "\"";
}

std::string literal(double value) { return Json(value).dump(); }
std::string literal(float value) { return Json(shortest(value)).dump() + "F"; }

std::string literal(std::uint64_t set) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string digits;
  for (; set != 0; set >>= 4) digits.insert(digits.begin(), kHex[set & 15]);
  return digits.empty() ? "0" : "0x" + digits + "U";
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string number(std::int64_t value) { return std::to_string(value); }

/// Writes the arrays and remembers which ones exist, because C++ has no arrays without elements.
class TableWriter {
 public:
  TableWriter(const TreeHolder& holder, std::string_view symbol)
      : tree_(holder.tree()), table_(holder.table()), kinds_(holder.kinds()), symbol_(symbol) {}

  std::string write() {
    text_ = head();
    text_ += "namespace heddle::trees {\nnamespace " + symbol_ + "_parts {\n\n";
    write_features();
    write_choices();
    std::vector<std::string> nodes;
    for (const TreeNode& n : table_.nodes) nodes.push_back(node_text(n));
    array("TreeNode", "nodes", nodes);
    write_leaves();
    write_sum();
    text_ += "}  // namespace " + symbol_ + "_parts\n\n" + kinds() + definition() +
             "\n}  // namespace heddle::trees\n";
    return std::move(text_);
  }

 private:
  /// One line of a comment, without characters that could end it.
  static std::string comment(const std::string& text) {
    std::string line = "// ";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      line += byte >= 0x20 && byte < 0x7f && c != '\\' ? c : '?';
    }
    return line + "\n";
  }

  std::string head() const {
    std::string text =
        "// clang-format off\n"
        "// Written by generate_table (heuristics/train/generate_table.h).\n//\n";
    text += comment("heuristic " + tree_.heuristic + ", version " + tree_.version);
    text += comment("machine   " + tree_.machine);
    text += comment("target    " + tree_.target);
    text += comment("date      " + tree_.date);
    text +=
        comment("from      " + number(tree_.problems) + " problems, " + number(tree_.measurements) +
                " measurements, seed " + std::to_string(tree_.seed));
    text += comment("training  " + tree_.training.dump());
    return text + "#pragma once\n\n#include <string_view>\n\n" +
           "#include \"heddle/support/decision_tree.h\"\n\n";
  }

  void array(const std::string& type, const std::string& name,
             const std::vector<std::string>& elements) {
    if (elements.empty()) return;
    text_ += "inline constexpr " + type + " " + name + "[] = {\n";
    for (const std::string& element : elements) text_ += "    " + element + ",\n";
    text_ += "};\n\n";
  }

  std::string reference(const char* name, bool empty) const {
    return empty ? "{}" : symbol_ + "_parts::" + name;
  }

  void write_features() {
    std::vector<std::string> rows;
    for (std::size_t i = 0; i < table_.features.size(); ++i) {
      const TreeFeature& f = table_.features[i];
      static constexpr const char* kKinds[] = {"Numeric", "Boolean", "Categorical"};
      std::vector<std::string> values;
      for (const std::string_view value : f.values) values.push_back(literal(value));
      const std::string name = "values_" + number(static_cast<std::int64_t>(i));
      array("std::string_view", name, values);
      rows.push_back(
          "{" +
          joined({literal(f.name), std::string("FeatureKind::") + kKinds[static_cast<int>(f.kind)],
                  literal(f.lowest), literal(f.highest), literal(f.seen),
                  values.empty() ? "{}" : name}) +
          "}");
    }
    array("TreeFeature", "features", rows);
  }

  void write_choices() {
    std::vector<std::string> rows;
    for (const std::string& choice : tree_.choices) rows.push_back(literal(choice));
    array("std::string_view", "choices", rows);
    rows.clear();
    for (const RankedChoice& ranked : tree_.ranking) {
      rows.push_back("{" + joined({number(ranked.choice), literal(ranked.slowdown)}) + "}");
    }
    array("RankedChoice", "ranking", rows);
  }

  static std::string node_text(const TreeNode& n) {
    return "{" +
           joined({number(n.feature), number(n.yes), number(n.no), literal(n.at_most),
                   literal(n.one_of)}) +
           "}";
  }

  void write_leaves() {
    std::vector<std::string> rows;
    for (const TreeLeaf& l : tree_.leaves) {
      static constexpr const char* kVerdicts[] = {"Choice", "Rule", "Unsure"};
      rows.push_back(
          "{" +
          joined({std::string("LeafVerdict::") + kVerdicts[static_cast<int>(l.verdict)],
                  number(l.support), literal(l.regret), literal(l.regret_bound), literal(l.loss),
                  literal(l.loss_bound), literal(l.worst_loss), number(l.first), number(l.count)}) +
          "}");
    }
    array("TreeLeaf", "leaves", rows);
  }

  /// A line for each tree.
  void write_sum() {
    std::vector<std::string> nodes, roots, values;
    std::size_t node = 0, value = 0;
    for (const SumTerm& term : tree_.sum) {
      std::vector<std::string> of_nodes, of_values;
      roots.push_back(number(static_cast<std::int64_t>(node)));
      for (const TreeNode& n : table_.terms.subspan(node, term.nodes.size()))
        of_nodes.push_back(node_text(n));
      for (const float v : table_.values.subspan(value, term.values.size()))
        of_values.push_back(literal(v));
      nodes.push_back(joined(of_nodes));
      values.push_back(joined(of_values));
      node += term.nodes.size();
      value += term.values.size();
    }
    array("TreeNode", "terms", nodes);
    array("std::int32_t", "roots", roots.empty() ? roots : std::vector{joined(roots)});
    array("float", "values", values);
  }

  /// The second argument of register_tree_table.
  std::string kinds() const {
    if (kinds_.empty()) return "";
    std::string text = "inline constexpr double " + symbol_ + "_kinds[] = {\n";
    const std::size_t width = 2 * table_.features.size();
    for (std::size_t at = 0; at < kinds_.size(); at += width) {
      std::vector<std::string> row;
      for (const double v : kinds_.subspan(at, width)) row.push_back(literal(v));
      text += "    " + joined(row) + ",\n";
    }
    return text + "};\n\n";
  }

  std::string definition() const {
    const TreeOrigin& o = table_.origin;
    const TreeLimits& l = table_.limits;
    std::string text = "inline constexpr TreeTable " + symbol_ + " = {\n";
    text += "    {" +
            joined({literal(o.heuristic), literal(o.version), literal(o.machine), literal(o.target),
                    literal(o.date), number(o.problems), number(o.measurements), literal(o.seed)}) +
            "},\n";
    text += "    {" +
            joined({literal(l.confidence), literal(l.allowed_loss), literal(l.allowed_worst_loss),
                    literal(l.least_gain)}) +
            "},\n";
    for (const auto& [name, empty] :
         std::vector<std::pair<const char*, bool>>{{"features", tree_.features.empty()},
                                                   {"nodes", tree_.nodes.empty()},
                                                   {"leaves", tree_.leaves.empty()},
                                                   {"ranking", tree_.ranking.empty()},
                                                   {"choices", tree_.choices.empty()},
                                                   {"terms", table_.terms.empty()},
                                                   {"roots", table_.roots.empty()},
                                                   {"values", table_.values.empty()}}) {
      text += "    " + reference(name, empty) + ",\n";
    }
    return text + "};\n";
  }

  const TrainedTree& tree_;
  const TreeTable& table_;
  std::span<const double> kinds_;
  std::string symbol_, text_;
};

}  // namespace

std::string generate_table(const TrainedTree& tree, std::string_view symbol) {
  bool identifier = !symbol.empty() && std::isdigit(static_cast<unsigned char>(symbol[0])) == 0;
  for (const char c : symbol) {
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    identifier = identifier && fits;
  }
  if (!identifier) {
    throw_user_error("'" + std::string(symbol) + "' is no name of a C++ constant", {},
                     "use letters, digits and underscores");
  }
  const TreeHolder holder(tree);
  return TableWriter(holder, symbol).write();
}

}  // namespace heddle::learning
