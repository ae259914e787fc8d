// The file of the constants that calibration moved: heddle/target/rule_constants.h, with the proof of each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heddle/heuristics/learn.h"
#include "heddle/target/rule_constants.h"
#include "heddle/target/target.h"

namespace heddle::learning {

/// The constants that the file has, with what proved them; none where there is no file. Throws a User error for a file
/// that cannot be used.
std::vector<MovedConstant> read_moved(const std::string& path, const std::string& kind);

/// Writes them, or removes the file where there are none. The old file stays until the new one is complete.
void write_moved(const std::string& path, const std::string& kind,
                 const std::vector<MovedConstant>& moved, const std::string& date);

/// The JSON of a constant that moved.
Json moved_json(const MovedConstant& m);

/// What files of machines prove of constants, beside that of `own`, whose races are judged anew: those of shipped folders and
/// of the user's, the file of the target's chip first. The first value of each constant.
std::vector<std::pair<const ConstantInfo*, double>> proven_elsewhere(const Target& target,
                                                                     const std::string& own);

}  // namespace heddle::learning
