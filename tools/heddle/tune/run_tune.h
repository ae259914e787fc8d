// heddle tune, with the tuner itself as an argument: tests put a scripted one there.
#pragma once

#include <functional>
#include <iosfwd>

#include "commands.h"
#include "heddle/search/tune.h"

namespace heddle::cli {

using Tuner = std::function<TuneReport(std::vector<TuneTask>, const TuneOptions&)>;

/// Where to print; `live`: `out` is a terminal (descriptor 1 or 2) that can be drawn over.
struct TuneOutput {
  std::ostream& out;
  int descriptor = -1;
  bool live = false;
};
int run_tune(const TuneRequest& request, const TuneOutput& output, const Tuner& tuner);

}  // namespace heddle::cli
