// Arrays whose elements are in a file. They are read when they are needed, and dropped when only
// packed copies of them are needed. Their address is fixed from the beginning.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <string>

#include "heddle/runtime/ndarray.h"
#include "runtime/array/storage.h"

namespace heddle::internal {

class Deferred : public Storage {
 public:
  /// `identity` identifies the bytes in the file; it is equal for equal contents only. Empty where
  /// it is not known.
  explicit Deferred(std::string identity) : identity_(std::move(identity)) {}
  bool is_deferred() const override { return true; }

  virtual void* block() const = 0;

  /// Keeps the elements in memory from now on. Callers of NDArray::data() may change them.
  void expose();
  /// The same for callers that only read.
  void keep();
  /// Keeps the elements in memory until unpin() was called as often as pin().
  void pin();
  void unpin();

  /// Also empty where the elements may have been changed.
  std::string identity() const { return exposed_.load() ? std::string() : identity_; }

 private:
  virtual void read() = 0;
  virtual void drop() = 0;

  const std::string identity_;
  std::mutex mutex_;
  int pins_ = 0;
  bool present_ = false;
  std::atomic<bool> kept_{false}, exposed_{false};
};

/// Keeps the elements of these arrays in memory, at their address(), until the end of the scope.
class Pinned {
 public:
  explicit Pinned(std::span<const NDArray> arrays);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  std::span<const NDArray> arrays_;
};

/// The identity of the bytes of the array; equal for equal contents only. Empty where it is not
/// known.
std::string identity_of(const NDArray& array);
/// address(), with the elements in memory permanently. The caller only reads them.
void* kept(const NDArray& array);

}  // namespace heddle::internal
