// The derivatives of single operators.
#pragma once

#include <vector>

#include "heddle/ir/expr.h"

namespace heddle::autodiff {

/// What an operand of a node receives. It may be an operand of an operand, where the rule sees
/// through a form such as 1 / (1 + exp(x)).
struct OperandDerivative {
  Expr operand;
  Expr value;  ///< null for 0
};

/// What the operands of `node` receive if it receives `g`. `value` is the value of the node. Has no
/// rule for selects, which decide between their arms.
std::vector<OperandDerivative> operand_derivatives(const Expr& node, const Expr& g,
                                                   const Expr& value);

}  // namespace heddle::autodiff
