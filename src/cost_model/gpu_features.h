// The columns of a program for a GPU: see feature_row.h for how they are named and filled.
#pragma once

#include <vector>

#include "cost_model/gpu_model.h"
#include "heddle/cost_model/features.h"

namespace heddle::cost_model {

void fill_gpu(Features* row, const GpuView& view);
std::vector<FeatureColumn> gpu_columns();

}  // namespace heddle::cost_model
