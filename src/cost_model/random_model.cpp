#include "heddle/cost_model/cost_model.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"

namespace heddle {
namespace {

class RandomModel : public CostModel {
 public:
  explicit RandomModel(uint64_t seed) : rng_(seed) {}
  std::string name() const override { return "random"; }
  void update(std::span<const TrainingRow>) override {}
  std::vector<double> predict(uint64_t, std::span<const Features> programs) override {
    std::vector<double> out;
    for (size_t i = 0; i < programs.size(); ++i) out.push_back(rng_.uniform_real());
    return out;
  }
  bool ready() const override { return false; }
  void save(const std::string&) const override {
    throw_runtime_error("the random cost model has nothing to save", {},
                        "save a model that learns (make_xgboost_model)");
  }
  void load(const std::string&) override {
    throw_runtime_error("the random cost model cannot load anything", {},
                        "load into a model that learns (make_xgboost_model)");
  }

 private:
  Rng rng_;
};

}  // namespace

std::unique_ptr<CostModel> make_random_model(uint64_t seed) {
  return std::make_unique<RandomModel>(seed);
}

}  // namespace heddle
