// A program of layers that are added one after the other, for the tests of chains of products and
// convolutions.
#pragma once

#include <string>
#include <utility>

#include "heddle/ops/ops.h"
#include "selftest/random_program.h"

namespace heddle::testing {

/// `Self` is the class that adds further kinds of layers. Weights are constants.
template <class Self>
class LayeredProgram {
 public:
  Self& pointwise(int64_t filters) {
    const int64_t channels = y_.extent(3);
    y_ = ops::conv2d(y_, weights({1, 1, channels, filters}), {.layout = ops::NHWC});
    p_.reduce_length *= channels;
    return self();
  }
  Self& residual() {
    y_ = ops::add(y_, p_.inputs[0]);
    return self();
  }
  selftest::RandomProgram program() {
    p_.outputs = {y_};
    return p_;
  }

 protected:
  LayeredProgram(Shape input, std::string text) {
    p_.inputs = {placeholder(std::move(input), f32, "X")};
    p_.reduce_length = 1;
    p_.text = std::move(text);
    y_ = p_.inputs[0];
  }
  Tensor weights(Shape shape) {
    p_.inputs.push_back(
        constant_placeholder(std::move(shape), f32, "W" + std::to_string(p_.inputs.size())));
    return p_.inputs.back();
  }
  Self& self() { return static_cast<Self&>(*this); }

  selftest::RandomProgram p_;
  Tensor y_;
};

}  // namespace heddle::testing
