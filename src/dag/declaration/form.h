// Constants and helpers that the writer and the reader of serialised declarations share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "heddle/ir/expr.h"
#include "heddle/support/json.h"
#include "ir/depth.h"

namespace heddle::dag {

inline constexpr const char* kDeclarationFormat = "heddle-declaration";
inline constexpr int64_t kDeclarationVersion = 1;

// The limit of chains of operations.
inline constexpr int kLongestChain = 4000;
// The limit of size, far above that of real declarations. It bounds the memory that a file can
// request.
inline constexpr size_t kMostOperations = 1 << 16;
inline constexpr size_t kMostNodes = 1 << 20;
inline constexpr size_t kMostAxes = 1 << 18;

/// The value of exactly sixteen digits, as to_hex writes them, or nullopt.
std::optional<uint64_t> parse_hex64(std::string_view text);
/// The checksum of the member "declaration".
uint64_t declaration_checksum(const Json& declaration);

/// The name of a built-in reducer: "sum" for Sum; empty for Custom.
std::string builtin_name(ReduceKind kind);
std::optional<ReduceKind> parse_builtin(std::string_view name);
std::optional<UnaryOp> parse_unary(std::string_view name);
std::optional<BinaryOp> parse_binary(std::string_view name);

}  // namespace heddle::dag
