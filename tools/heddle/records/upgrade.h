// What a record says of its declaration, found again from its subject.
#pragma once

#include <optional>

#include "heddle/records/record.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// The declaration that a record is of, where its subject names one. Records do not say the type of
/// the inputs: the structural hash tells the right one.
std::optional<Problem> problem_of(const Record& record);

/// Fills in what a record of an older form lacks; false when the subject names no declaration with
/// its structural hash (an operator that has changed since, a name that the caller made up).
bool complete(Record& record);

}  // namespace heddle::cli
