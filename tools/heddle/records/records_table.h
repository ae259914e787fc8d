// Records as a table.
#pragma once

#include <string>
#include <vector>

#include "heddle/records/record.h"

namespace heddle::cli {

/// A row for each record.
std::string records_table(const std::vector<Record>& records);

}  // namespace heddle::cli
