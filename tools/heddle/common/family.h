// Families on the command line: the table of which kernel runs at which sizes.
#pragma once

#include "commands.h"

namespace heddle::cli {

/// heddle explain of a subject with a range: static choices, raced.
int explain_family(const ExplainOptions& options);
/// heddle tune of one.
int tune_family_subject(const TuneRequest& request);

}  // namespace heddle::cli
