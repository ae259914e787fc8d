// heddle tune with the tuner as an argument, which tests replace by a scripted one.
#pragma once

#include <functional>
#include <iosfwd>

#include "commands.h"
#include "heddle/search/tune.h"

namespace heddle::cli {

using Tuner = std::function<TuneReport(std::vector<TuneTask>, const TuneOptions&)>;

/// The output. `live` says that `out` is a terminal (descriptor 1 or 2) on which lines can be
/// overwritten.
struct TuneOutput {
  std::ostream& out;
  int descriptor = -1;
  bool live = false;
};
int run_tune(const Request& request, const TuneOutput& output, const Tuner& tuner);

}  // namespace heddle::cli
