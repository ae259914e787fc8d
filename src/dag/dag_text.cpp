// The graph as text.
#include <sstream>

#include "dag/internal.h"
#include "heddle/ir/print.h"

namespace heddle {
namespace {

std::string shape_text(const std::vector<Expr>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d != 0 ? ", " : "") + to_string(shape[d]);
  return text + "]";
}

std::string axis_names(const Operation& op, const std::vector<int>& positions) {
  std::vector<std::string> names;
  for (int p : positions) names.push_back(op.axes()[static_cast<std::size_t>(p)].name());
  return dag::join_words(names);
}

/// "f32[8, 16]", or "(i64, f32)[8]" for several outputs.
std::string type_text(const Operation& op) {
  std::string types = op.num_outputs() > 1 ? "(" : "";
  for (int i = 0; i < op.num_outputs(); ++i) {
    types += (i != 0 ? ", " : "") + to_string(op.output_buffer(i)->dtype);
  }
  return types + (op.num_outputs() > 1 ? ")" : "") + shape_text(op.output_buffer(0)->shape);
}

std::string read_text(const Operation& op, const Access& read) {
  std::string text =
      to_string(make_load(read.buffer, read.indices)) + " (" + to_string(read.pattern);
  if (read.guarded) text += ", guarded";
  if (!read.reuse_axes.empty()) text += ", reused along " + axis_names(op, read.reuse_axes);
  if (!read.window_axes.empty()) text += ", windows along " + axis_names(op, read.window_axes);
  return text + ")";
}

}  // namespace

std::string ComputeDag::to_text() const {
  std::ostringstream out;
  for (int s = 0; s < size(); ++s) {
    const Operation& op = stage(s);
    const StageInfo& stage_info = info(s);
    out << op.name() << ": " << type_text(op) << " " << (op.is_constant() ? "constant " : "")
        << to_string(stage_info.stage_class);
    for (std::size_t n = 0; n < op.reduce_axes().size(); ++n) {
      const Axis& a = op.reduce_axes()[n];
      out << (n == 0 ? " over " : ", ") << a.name() << "=" << to_string(a->extent);
    }
    if (stage_info.is_output) out << ", output";
    for (std::size_t n = 0; n < stage_info.reads.size(); ++n) {
      out << (n == 0 ? ", reads " : ", ") << read_text(op, stage_info.reads[n]);
    }
    out << "\n";
  }
  return out.str();
}

}  // namespace heddle
