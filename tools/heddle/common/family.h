// Families on the command line: the table of kernels by sizes.
#pragma once

#include "commands.h"

namespace heddle::cli {

/// heddle explain for a subject with a range: static choices, which race.
int explain_family(const Request& options);
/// heddle tune for such a subject.
int tune_family_subject(const Request& request);

}  // namespace heddle::cli
