// Candidates that fail on purpose, and the behaviour of a test's worker for them.
#pragma once

#include <string>
#include <vector>

#include "measure/test_worker.h"

namespace heddle::testing {

enum class Fault { None, Segv, Abort, Exit, Throw, Hang, Eat, EatArrays, Wrong, Unwritten };

/// The candidate that fails, the phase, and the fault.
struct Plan {
  std::string phase;
  size_t candidate = 0;
  Fault fault = Fault::None;
};

/// A worker in which these happen. `journal`: a file to which a line "phase candidate process" is
/// added whenever a phase begins; empty: none.
std::vector<std::string> faulty_worker(const std::vector<Plan>& plans,
                                       const std::string& journal = "");

struct JournalLine {
  std::string phase;
  size_t candidate = 0;
  int process = 0;
};
std::vector<JournalLine> read_journal(const std::string& file);

[[noreturn]] void hang();

}  // namespace heddle::testing
