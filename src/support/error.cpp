#include "heddle/support/error.h"

#include <utility>

namespace heddle {
namespace {

std::string render(ErrorKind kind, const std::string& message, const Where& where,
                   const std::string& help) {
  std::string text;
  if (where.known()) text += to_string(where) + ": ";
  text += kind == ErrorKind::Internal ? "internal error: " : "error: ";
  text += message;
  if (!help.empty()) text += "\n  help: " + help;
  return text;
}

}  // namespace

std::string to_string(const Where& where) {
  if (!where.known()) return {};
  return std::string(where.file) + ":" + std::to_string(where.line);
}

Error::Error(ErrorKind kind, std::string message, Where where, std::string help)
    : std::runtime_error(render(kind, message, where, help)),
      kind(kind),
      message(std::move(message)),
      where(where),
      help(std::move(help)) {}

void throw_user_error(std::string message, Where where, std::string help) {
  throw Error(ErrorKind::User, std::move(message), where, std::move(help));
}

void throw_runtime_error(std::string message, Where where, std::string help) {
  throw Error(ErrorKind::Runtime, std::move(message), where, std::move(help));
}

void throw_internal_error(std::string message, Where where, std::string help) {
  if (help.empty())
    help = "this is a bug of Heddle; please report it with the program that shows it";
  throw Error(ErrorKind::Internal, std::move(message), where, std::move(help));
}

namespace internal {

void icheck_failed(const char* condition, std::string message, Where where) {
  if (!message.empty()) message += " ";
  throw_internal_error(message + "(violated: " + condition + ")", where);
}

}  // namespace internal
}  // namespace heddle
