// Sources for trying out choices: one that answers, and one that only listens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/schedule/choice.h"

namespace heddle {

/// What a heuristic is asked about one stage.
struct AskedQuestion {
  NamedFeatures features;
  Choice rule;
};

/// Is always unsure, and keeps what the one heuristic was asked: each set of features once.
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

}  // namespace heddle
