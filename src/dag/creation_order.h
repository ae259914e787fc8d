// The operations of a declaration and their axes, in order of creation, in which producers precede
// consumers. Passes sort the terms of sums in that order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::dag {

struct CreationOrder {
  std::map<uint64_t, Ref<const Operation>> operations;
  std::map<uint64_t, Axis> axes;

  explicit CreationOrder(const std::vector<Tensor>& outputs) {
    std::vector<Tensor> open = outputs;
    while (!open.empty()) {
      const Ref<const Operation> op = open.back().op_ref();
      open.pop_back();
      if (!operations.emplace(op->output_buffer(0)->id, op).second) continue;
      for (const auto* list : {&op->axes(), &op->reduce_axes()}) {
        for (const Axis& a : *list) axes.emplace(a.var()->id, a);
      }
      for (const Tensor& t : op->inputs()) open.push_back(t);
      open.insert(open.end(), op->unread().begin(), op->unread().end());
    }
  }
};

}  // namespace heddle::dag
