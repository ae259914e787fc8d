#include "measure/messages/fleet.h"

namespace heddle::measuring {
namespace {

// Far more candidates than any request has.
constexpr size_t kMostCandidates = 4096;
constexpr double kLongestRequest = 3600;

}  // namespace

void MeasureTrials::check() const {
  if (trials.size() > kMostCandidates)
    throw_user_error("a request about " + std::to_string(trials.size()) + " candidates");
  if (!(seconds >= 0 && seconds <= kLongestRequest))
    throw_user_error("a request that may take " + std::to_string(seconds) + " s");
}

void TrialResult::check() const {
  for (const double s : result.seconds) {
    if (!(s > 0)) throw_user_error("a time that is not above 0");
  }
  if (result.error == MeasureError::None && result.seconds.empty())
    throw_user_error("a result without times and without an error");
}

}  // namespace heddle::measuring
