// The owner of the elements of an NDArray. Views share one Storage.
#pragma once

#include "heddle/support/ref.h"

namespace heddle::internal {

class Storage : public RefCounted {
 public:
  /// Whether this is a Deferred.
  virtual bool is_deferred() const { return false; }
};

}  // namespace heddle::internal
