// Sources for trying out choices: one that answers, and one that only listens.
#pragma once

#include <memory>
#include <string>

#include "heddle/schedule/choice.h"

namespace heddle {

/// Is always unsure, and keeps what the one heuristic was asked first.
class ListeningSource : public ChoiceSource {
 public:
  explicit ListeningSource(std::string heuristic) : heuristic_(std::move(heuristic)) {}
  std::string version() const override { return "listening"; }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override;

  int asked() const { return asked_; }  ///< times
  const NamedFeatures& features() const { return features_; }
  const Choice& rule() const { return rule_; }

 private:
  std::string heuristic_;
  mutable int asked_ = 0;
  mutable NamedFeatures features_;
  mutable Choice rule_;
};

}  // namespace heddle
