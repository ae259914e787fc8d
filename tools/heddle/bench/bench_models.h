// Times models with the choices of their plans beside the rules'.
#pragma once

#include <iosfwd>
#include <string>

#include "commands.h"
#include "heddle/support/json.h"

namespace heddle::cli {

/// The options of one subject as `run` takes them: those of its plan where bench leaves them open.
Request bench_request(const Request& options, const std::string& subject, int threads);

/// Whether the subjects are models or plans. A User error for a list that has other subjects, too.
bool are_models(const Request& options);

/// Calls each network by its plan (the subject, or the one beside the model) and by rules in turns,
/// with random inputs, and prints a table. Returns the results as JSON.
Json bench_models(const Request& options, std::ostream& out);

}  // namespace heddle::cli
