// Choice sources for collection: one with a fixed answer, and one that records the questions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/schedule/choice.h"

namespace heddle::learning {

/// A question to a heuristic about one stage.
struct AskedQuestion {
  NamedFeatures features;
  Choice rule;
};

/// Is always unsure, and records each different set of features that one heuristic was asked about.
class ListeningSource : public ChoiceSource {
 public:
  explicit ListeningSource(std::string heuristic) : heuristic_(std::move(heuristic)) {}
  std::string version() const override { return "listening"; }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override;
  const std::vector<AskedQuestion>& asked() const { return asked_; }

 private:
  std::string heuristic_;
  mutable std::vector<AskedQuestion> asked_;
};

bool same_values(const NamedFeatures& a, const NamedFeatures& b);

}  // namespace heddle::learning
