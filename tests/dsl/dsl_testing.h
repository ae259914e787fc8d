// Helpers of the DSL's tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "heddle/dsl/tensor.h"

namespace heddle {

/// What `f` throws, as "message | help". The place is checked apart: it holds the line of the test.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User) << e.what();
    return e.message + " | " + e.help;
  }
  return "no error";
}

}  // namespace heddle
