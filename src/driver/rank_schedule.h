// The static choice by a cost model: configs near the default of a template, ranked without
// measuring any.
#pragma once

#include "heddle/cost_model/cost_model.h"
#include "heddle/schedule/template.h"

namespace heddle {

struct RankedConfig {
  Config config;
  double score = 0;          ///< of `config`; higher is better
  double default_score = 0;  ///< of the default config
  int ranked = 0;            ///< configs that were given a score
};

/// The config that `model` ranks best, by steepest ascent from the default: each step examines the
/// configs that differ in one knob. The default is kept unless another config is predicted to be
/// faster by more than the model's usual error. Equal arguments give equal results.
RankedConfig best_ranked(const Template& t, CostModel& model);

/// The schedule of the config that the shipped cost model of the target (tophub) ranks best. The
/// static schedule where no model is shipped for the target; its provenance says so.
Schedule ranked_schedule(const Template& t);

}  // namespace heddle
