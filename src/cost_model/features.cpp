#include "heddle/cost_model/features.h"

#include "cost_model/feature_row.h"
#include "cost_model/gpu_features.h"
#include "heddle/support/error.h"
#include "lower/lower_to_nest.h"

namespace heddle {
namespace {

using namespace cost_model;

/// A program of one statement, from which the columns are described.
std::vector<FeatureColumn> describe() {
  std::vector<FeatureColumn> columns;
  ColumnSink sink(&columns);
  Program p;
  p.buffers.resize(1);
  Statement s;
  s.accesses.resize(1);
  s.accesses[0].slot = 0;
  s.accesses[0].inside.resize(1);
  Target target;
  ProgramView view{&p, &target, {}};
  StoreView v;
  v.s = &s;
  fill_program(sink, view);
  fill_store(sink, view, v);
  return columns;
}

}  // namespace

const std::vector<FeatureColumn>& feature_columns(std::string_view target_kind) {
  static const std::vector<FeatureColumn> of_cpus = describe(), of_gpus = gpu_columns();
  return target_kind == "cuda" ? of_gpus : of_cpus;
}

Features extract_features(const LoweredFunction& program, const Target& target) {
  Program p = walk_program(program);
  if (target.is_cuda()) {
    Features row;
    row.reserve(feature_columns(target.kind).size());
    fill_gpu(&row, view_on_gpu(p, target));
    return row;
  }
  model_memory(&p, target);
  ProgramView view = view_of(p, target);
  size_t width = feature_columns().size();
  Features row;
  row.reserve(width);
  ValueSink sink(&row);
  fill_program(sink, view);
  for (size_t i = 0; i < view.stores.size() && i < kStores; ++i)
    fill_store(sink, view, view.stores[i]);
  HEDDLE_ICHECK(row.size() <= width, "a row of features is wider than its columns");
  row.resize(width, 0.0f);
  return row;
}

Features schedule_features(const Schedule& schedule, const std::vector<Tensor>& args) {
  return extract_features(
      lowering::lower_to_nest(schedule, args, "features", lowering::NestPurpose::Look).main,
      schedule.target());
}

}  // namespace heddle
