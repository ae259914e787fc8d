#include "heuristics/collect/planted_choice.h"

#include <algorithm>

#include "heddle/heuristics/collect.h"

namespace heddle {

using namespace learning;
namespace {

class PlantedChoice : public ChoiceSource {
 public:
  PlantedChoice(std::string heuristic, NamedFeatures features, Choice choice)
      : heuristic_(std::move(heuristic)),
        features_(std::move(features)),
        choice_(std::move(choice)) {}
  std::string version() const override { return "planted"; }
  ChoiceAnswer choose(const ChoiceQuestion& question) const override {
    if (question.heuristic != heuristic_) return {};
    if (!features_.empty() && !same_values(features_, question.features)) return {};
    return {choice_};
  }

 private:
  std::string heuristic_;
  NamedFeatures features_;
  Choice choice_;
};

}  // namespace

bool learning::same_values(const NamedFeatures& a, const NamedFeatures& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const NamedFeature& x, const NamedFeature& y) {
                      return x.name == y.name && x.value == y.value;
                    });
}

ChoiceAnswer learning::ListeningSource::choose(const ChoiceQuestion& question) const {
  const bool known = std::any_of(asked_.begin(), asked_.end(), [&](const AskedQuestion& q) {
    return same_values(q.features, question.features);
  });
  if (question.heuristic == heuristic_ && !known)
    asked_.push_back({question.features, question.rule});
  return {};
}

std::shared_ptr<const ChoiceSource> planted_choice(std::string heuristic, Choice choice,
                                                   NamedFeatures features) {
  return std::make_shared<PlantedChoice>(std::move(heuristic), std::move(features),
                                         std::move(choice));
}

}  // namespace heddle
