// The owner of the elements of an NDArray. Views share one Storage.
#pragma once

#include "heddle/support/ref.h"

namespace heddle::internal {

class Storage : public RefCounted {};

}  // namespace heddle::internal
