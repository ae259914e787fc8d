#include "dag/declaration/form.h"

#include "support/hashing/hash.h"
#include "support/hashing/hex.h"

namespace heddle::dag {

std::optional<uint64_t> parse_hex64(std::string_view text) {
  uint64_t value = 0;
  if (!parse_hex(text, &value) || to_hex(value) != text) return std::nullopt;
  return value;
}

uint64_t declaration_checksum(const Json& declaration) {
  const std::string text = declaration.dump();
  return hash_bytes(text.data(), text.size());
}

namespace {

constexpr std::pair<ReduceKind, std::string_view> kBuiltins[] = {
    {ReduceKind::Sum, "sum"}, {ReduceKind::Prod, "prod"}, {ReduceKind::Min, "min"},
    {ReduceKind::Max, "max"}, {ReduceKind::Any, "any"},   {ReduceKind::All, "all"}};

/// The operation with this name, among those up to `last`.
template <class Op>
std::optional<Op> parse_op(std::string_view name, Op last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name == to_string(static_cast<Op>(i))) return static_cast<Op>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string builtin_name(ReduceKind kind) {
  for (const auto& [k, name] : kBuiltins) {
    if (k == kind) return std::string(name);
  }
  return "";
}

std::optional<ReduceKind> parse_builtin(std::string_view name) {
  for (const auto& [kind, known] : kBuiltins) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::optional<UnaryOp> parse_unary(std::string_view name) {
  return parse_op(name, UnaryOp::RoundTf32);
}
std::optional<BinaryOp> parse_binary(std::string_view name) {
  return parse_op(name, BinaryOp::Shr);
}

}  // namespace heddle::dag
