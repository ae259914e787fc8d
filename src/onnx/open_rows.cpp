#include "onnx/open_rows.h"

namespace heddle::onnx {

std::optional<OpenRows> rows_of_results(const NodeScope& s, const OperatorEntry& op) {
  std::optional<OpenRows> rows;
  for (int i = 0; i < s.count(); ++i) {
    if (!s.has(i) || s.any_value(i).rows() == nullptr) continue;
    const OpenRows& given = *s.any_value(i).rows();
    const int axis = op.follow == nullptr ? -1 : op.follow(s, i, given.axis);
    const bool differs = rows && (rows->axis != axis || !rows->count.same_as(given.count));
    if (axis < 0 || differs)
      s.fail("the number of elements of dimension " + std::to_string(given.axis) +
                 " of its input '" + s.node().inputs[static_cast<size_t>(i)] +
                 "' depends on the inputs of the model, which is not supported here",
             "operators on elements and gathers take such tensors; make it an output");
    rows = OpenRows{axis, given.count};
  }
  return rows;
}

}  // namespace heddle::onnx
