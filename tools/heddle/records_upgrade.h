// What a record of an older version lacks, found again.
#pragma once

#include "heddle/records/record.h"

namespace heddle::cli {

/// Fills in shape class and extents where the subject, declared anew, is what was measured. False
/// where it is not (a name of the user's own, another type that we do not guess).
bool complete(Record& record);

}  // namespace heddle::cli
