// The log of picks, and whether a pick of the store holds in this process.
#pragma once

#include <functional>
#include <string>

#include "heddle/runtime/pick_row.h"

namespace heddle {

/// Appends a pick to the file, or to the one that HEDDLE_PICK_LOG names where `path` is empty. `say`
/// gets what goes wrong.
void log_pick(const PickRow& row, const std::string& path,
              const std::function<void(const std::string&)>& say);

/// Why a stored pick is not valid for a process of this machine and build; empty where it is.
std::string why_invalid(const PickRow& stored, const std::string& machine,
                        const std::string& build);

}  // namespace heddle
