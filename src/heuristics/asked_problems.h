// The problems that heuristics were asked about in other programs (HEDDLE_COLLECT), for learning: a file of lines in the
// folder of what is learned, KIND-CHIP.asked. Each is {"heddle_asked": 1, "heuristic", "problem", "declaration"}.
#pragma once

#include <string>
#include <vector>

#include "heddle/heuristics/heuristic.h"
#include "heddle/schedule/choice.h"
#include "heddle/target/target.h"

namespace heddle::learning {

/// Throws where problems are to be logged and cannot be: a User error for a wrong HEDDLE_COLLECT or where there is no
/// folder, a Runtime error where the file cannot be written.
void check_asked_log(const Target& target);

/// Logs the problem of a question that HEDDLE_COLLECT names the heuristic of, once.
void log_asked(const ChoiceQuestion& question);

/// The name of the file for a target, without a folder.
std::string asked_file_name(const Target& target);
/// The problems of a heuristic in such a file, each once; none where there is no file. Throws a User error that names
/// the line for one that cannot be read; a torn last line does not count.
std::vector<DrawnProblem> read_asked(const std::string& path, const std::string& heuristic);

}  // namespace heddle::learning
