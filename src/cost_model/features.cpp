#include "heddle/cost_model/features.h"

#include "cost_model/feature_row.h"
#include "heddle/support/error.h"
#include "lower/lower_to_nest.h"

namespace heddle {
namespace {

using namespace cost_model;

/// A program of one statement, to ask for columns with.
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

const std::vector<FeatureColumn>& feature_columns() {
  static const std::vector<FeatureColumn> columns = describe();
  return columns;
}

Features extract_features(const LoweredFunction& program, const Target& target) {
  Program p = walk_program(program);
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

Features schedule_features(const Schedule& schedule, const std::vector<Tensor>& args,
                           const Target& target) {
  return extract_features(lower_to_nest(schedule, args, "features", NestPurpose::Look).main,
                          target);
}

}  // namespace heddle
