// The error of an allocation that failed, on a host or a device. Who measures candidates tells it from
// a wrong kernel by this type.
#pragma once

#include <string>
#include <utility>

#include "heddle/support/error.h"

namespace heddle::internal {

class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(std::string message) : Error(ErrorKind::Runtime, std::move(message)) {}
};

}  // namespace heddle::internal
