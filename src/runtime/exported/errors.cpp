#include "runtime/exported/errors.h"

#include <exception>
#include <new>
#include <string>

#include "heddle/support/error.h"
#include "runtime/exported/network.h"

namespace heddle {
namespace {

thread_local std::string last_error;

void remember_exception() {
  try {
    throw;
  } catch (const Error& error) {
    last_error = error.message + (error.help.empty() ? "" : "; " + error.help);
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";  // short enough to need none
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "unknown error";
  }
}

}  // namespace

bool succeeds(FunctionRef<void()> action) noexcept {
  try {
    try {
      action();
      return true;
    } catch (...) {
      remember_exception();
    }
  } catch (...) {
    last_error = "out of memory";  // there was none for the text of the error
  }
  return false;
}

}  // namespace heddle

extern "C" const char* heddle_network_error(void) HEDDLE_NOEXCEPT {
  return heddle::last_error.c_str();
}
