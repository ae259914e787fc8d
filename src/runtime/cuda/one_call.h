// Where a call begins, of a program with many kernels: kernels load constants before the kernel before theirs has ended
// (docs/internals/decisions/gpu-lowering.md). Within a call nothing writes constants; what came before it may.
#pragma once

namespace heddle::cuda {

/// All launches of this thread until the end of the scope are one call. A scope within another one belongs to
/// that one. A kernel that runs in no scope is a call of its own.
class OneCall {
 public:
  OneCall();
  ~OneCall();
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;

  /// Whether the launch that comes now is the first one of its call; later ones are not.
  static bool begins();

 private:
  OneCall* outer_;
  bool begun_ = false;
};

}  // namespace heddle::cuda
