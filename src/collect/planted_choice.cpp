#include "collect/planted_choice.h"

#include "heddle/collect/collect.h"

namespace heddle {
namespace {

class PlantedChoice : public ChoiceSource {
 public:
  PlantedChoice(std::string heuristic, Choice choice)
      : heuristic_(std::move(heuristic)), choice_(std::move(choice)) {}
  std::string version() const override { return "planted"; }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    if (question.heuristic != heuristic_) return {};
    return {choice_};
  }

 private:
  std::string heuristic_;
  Choice choice_;
};

}  // namespace

ChoiceAnswer ListeningSource::choose(const ChoiceQuestion& question) const {
  if (question.heuristic == heuristic_ && asked_++ == 0) {
    features_ = question.features;
    rule_ = question.rule;
  }
  return {};
}

std::shared_ptr<const ChoiceSource> planted_choice(std::string heuristic, Choice choice) {
  return std::make_shared<PlantedChoice>(std::move(heuristic), std::move(choice));
}

}  // namespace heddle
