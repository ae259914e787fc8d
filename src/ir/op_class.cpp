#include "ir/op_class.h"

namespace heddle {

OpClass op_class(UnaryOp op) {
  switch (op) {
    case UnaryOp::Not:
    case UnaryOp::BitNot:
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: return OpClass::Logic;
    case UnaryOp::Neg:
    case UnaryOp::Abs:
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc:
    case UnaryOp::RoundTf32: return OpClass::Add;
    case UnaryOp::Sqrt:
    case UnaryOp::Rsqrt: return OpClass::Root;
    default: return OpClass::Transcendental;
  }
}

OpClass op_class(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Sub: return OpClass::Add;
    case BinaryOp::Mul: return OpClass::Multiply;
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
    case BinaryOp::Mod: return OpClass::Divide;
    case BinaryOp::Min:
    case BinaryOp::Max: return OpClass::MinMax;
    case BinaryOp::Pow:
    case BinaryOp::Atan2: return OpClass::Transcendental;
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::And:
    case BinaryOp::Or:
    case BinaryOp::BitAnd:
    case BinaryOp::BitOr:
    case BinaryOp::BitXor:
    case BinaryOp::Shl:
    case BinaryOp::Shr: return OpClass::Logic;
  }
  return OpClass::Logic;
}

}  // namespace heddle
