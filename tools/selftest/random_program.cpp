#include "selftest/random_program.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "selftest/drawer.h"

namespace heddle::selftest {

std::vector<Tensor> RandomProgram::args() const {
  std::vector<Tensor> a = inputs;
  a.insert(a.end(), outputs.begin(), outputs.end());
  return a;
}

void RandomProgram::store_rows(Schedule& schedule) const {
  if (places) schedule[outputs[0]].scatter_rows(schedule[places], rows);
}

RandomProgram random_program(Rng& rng) {
  RandomProgram p = Drawer(rng).run();
  // Inputs that were declared but are not read are removed.
  ComputeDag dag(p.outputs);
  std::erase_if(p.inputs, [&](const Tensor& t) { return dag.index_of(t.op()) < 0; });
  return p;
}

namespace {

/// Places of which no two are equal, and some are no row.
NDArray random_places(const RandomProgram& p, uint64_t seed) {
  NDArray places = NDArray::zeros(p.places.extents(), i64);
  std::vector<int64_t> all(static_cast<size_t>(std::max(p.rows, places.size()) + 4));
  std::iota(all.begin(), all.end(), -2);
  Rng(seed).shuffle(all);
  std::copy_n(all.begin(), places.size(), places.data<int64_t>());
  return places;
}

}  // namespace

std::vector<NDArray> random_inputs(const RandomProgram& p, uint64_t seed) {
  std::vector<NDArray> out;
  for (const Tensor& t : p.inputs) {
    std::vector<int64_t> shape = t.extents();
    out.push_back(t.same_as(p.places) ? random_places(p, seed++)
                                      : NDArray::random(shape, t.dtype(), seed++));
  }
  return out;
}

std::string compare(const NDArray& want, const NDArray& got, int64_t reduce_length) {
  DataType t = want.dtype();
  double eps = t == f64 ? 1e-12 : t == f32 ? 2e-6 : t == f16 ? 4e-3 : t == bf16 ? 3e-2 : 0;
  double tolerance = eps * (4 + std::sqrt(static_cast<double>(reduce_length)));
  // Sums are added up in f32. A few roundings of results follow.
  if (t.is_float8()) tolerance = t == f8e4m3 ? 4 * 0x1p-4 : 4 * 0x1p-3;
  for (int64_t i = 0; i < want.size(); ++i) {
    double w = want.get(i), g = got.get(i);
    if (w == g || (std::isnan(w) && std::isnan(g))) continue;
    if (std::abs(w - g) <= tolerance * std::max(1.0, std::abs(w))) continue;
    return "element " + std::to_string(i) + ": want " + std::to_string(w) + ", got " +
           std::to_string(g);
  }
  return "";
}

}  // namespace heddle::selftest
