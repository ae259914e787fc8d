#include "runtime/cuda/one_call.h"

#include <utility>

namespace heddle::cuda {
namespace {

thread_local OneCall* the_call = nullptr;

}  // namespace

OneCall::OneCall() : outer_(the_call) {
  if (outer_ == nullptr) the_call = this;
}

OneCall::~OneCall() {
  if (outer_ == nullptr) the_call = nullptr;
}

bool OneCall::begins() { return the_call == nullptr || !std::exchange(the_call->begun_, true); }

}  // namespace heddle::cuda
