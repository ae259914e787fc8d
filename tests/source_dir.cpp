#include "source_dir.h"

namespace heddle {

std::string source_dir() { return HEDDLE_SOURCE_DIR; }

}  // namespace heddle
