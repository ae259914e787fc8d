// Text for readers: expressions in C-like infix form, statements as indented loops. The form is
// stable, because tests compare it.
#pragma once

#include <iosfwd>
#include <string>

#include "heddle/ir/stmt.h"

namespace heddle {

/// The text of an expression, a statement or a function. `indent` counts levels of two spaces.
std::string to_string(const Expr& e);
std::string to_string(const Stmt& s, int indent = 0);
std::string to_string(const LoweredFunction& f);
std::ostream& operator<<(std::ostream& os, const Expr& e);
std::ostream& operator<<(std::ostream& os, const Stmt& s);

}  // namespace heddle
