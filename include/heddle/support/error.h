// Errors: what Heddle throws, and how an internal invariant is checked.
//
//   throw_user_error("extent 12 is not a multiple of 8 lanes", where, "split 'j' by 8, 16 or 32");
//
// prints as
//
//   my_model.cpp:42: error: extent 12 is not a multiple of 8 lanes
//     help: split 'j' by 8, 16 or 32
//
// A message starts in lower case, has no final period, and says what is wrong, where, and by how
// much.
#pragma once

#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string>

namespace heddle {

/// A line of a program that uses Heddle. Functions of the public API take `Where at =
/// Where::current()` last: the default argument is evaluated at the call, so that messages show the
/// user's line.
struct Where {
  const char* file = nullptr;
  int line = 0;

  static constexpr Where current(std::source_location at = std::source_location::current()) {
    return {at.file_name(), static_cast<int>(at.line())};
  }
  constexpr bool known() const { return file != nullptr && line > 0; }
};

/// The line as "file:line", or "" if it is not known.
std::string to_string(const Where& where);

/// The cause of an error.
enum class ErrorKind : std::uint8_t {
  User,      // the program, the schedule or the input data is wrong
  Runtime,   // a device, a file, the memory, or the arguments of a kernel call
  Internal,  // a bug of Heddle
};

/// The exception that Heddle throws. `help` says how to correct the error; it may be empty.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message, Where where = {}, std::string help = {});

  ErrorKind kind;
  std::string message;
  Where where;
  std::string help;
};

/// Throw an Error of the kind in their name.
[[noreturn]] void throw_user_error(std::string message, Where where = {}, std::string help = {});
[[noreturn]] void throw_runtime_error(std::string message, Where where = {}, std::string help = {});
[[noreturn]] void throw_internal_error(std::string message, Where where = {},
                                       std::string help = {});

namespace internal {
[[noreturn]] void icheck_failed(const char* condition, std::string message, Where where);
}  // namespace internal

}  // namespace heddle

/// Checks an invariant of Heddle itself, in every build; a user's mistake must never reach one.
/// The message is evaluated only when the check fails.
#define HEDDLE_ICHECK(condition, message)                                     \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::heddle::internal::icheck_failed(#condition, (message),                \
                                        ::heddle::Where{__FILE__, __LINE__}); \
  } while (false)
