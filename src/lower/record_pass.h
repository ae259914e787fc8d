// The record that the pipelines of lowering keep of each pass.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "heddle/lower/lower.h"

namespace heddle::lowering {

using PassClock = std::chrono::steady_clock;

/// Appends the record of pass `name`: the program after it, and its time since `begin`. The program
/// is kept only where the options ask for it.
template <typename Program>
void record_pass(Program& program, const LowerOptions& options, std::string name,
                 PassClock::time_point begin) {
  typename decltype(program.passes)::value_type record;
  record.name = std::move(name);
  record.ms = std::chrono::duration<double, std::milli>(PassClock::now() - begin).count();
  if (options.keep_passes) {
    record.main = program.main;
    record.prepare = program.prepare;
  }
  program.passes.push_back(std::move(record));
}

}  // namespace heddle::lowering
