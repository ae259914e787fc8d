#include "cost_model/booster.h"

#include <xgboost/c_api.h>

#include <cstdint>

#include "heddle/support/error.h"

namespace heddle::cost_model {
namespace {

void check(int status, const char* what) {
  if (status == 0) return;
  // XGBoost's messages end with a stack trace, which is removed.
  std::string why = XGBGetLastError();
  if (size_t end = why.find("\nStack trace"); end != std::string::npos) why.resize(end);
  while (!why.empty() && (why.back() == '\n' || why.back() == ' ')) why.pop_back();
  throw_runtime_error(std::string("XGBoost cannot ") + what + ": " + why);
}

/// An array in the form that XGBoost takes: its address, described in JSON.
std::string array_interface(const DenseRows& rows) {
  return "{\"data\": [" + std::to_string(reinterpret_cast<uintptr_t>(rows.values.data())) +
         ", true], \"shape\": [" + std::to_string(rows.rows()) + ", " + std::to_string(rows.width) +
         "], \"typestr\": \"<f4\", \"version\": 3}";
}

class Matrix {
 public:
  Matrix(const DenseRows& rows, int threads) {
    std::string config = "{\"missing\": NaN, \"nthread\": " + std::to_string(threads) + "}";
    check(XGDMatrixCreateFromDense(array_interface(rows).c_str(), config.c_str(), &handle_),
          "take the rows");
  }
  ~Matrix() { XGDMatrixFree(handle_); }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  void set(const char* field, std::span<const float> values) {
    if (values.empty()) return;
    check(XGDMatrixSetFloatInfo(handle_, field, values.data(), values.size()), "take the labels");
  }
  void set_groups(std::span<const unsigned> groups) {
    if (groups.empty()) return;
    check(XGDMatrixSetUIntInfo(handle_, "group", groups.data(), groups.size()), "take the groups");
  }
  DMatrixHandle handle() const { return handle_; }

 private:
  DMatrixHandle handle_ = nullptr;
};

// Without this, warnings and notes are printed on the caller's terminal.
void quiet(BoosterHandle handle) { check(XGBoosterSetParam(handle, "verbosity", "0"), "be quiet"); }

}  // namespace

Booster::~Booster() {
  if (handle_) XGBoosterFree(handle_);
}

Booster Booster::fit(const TrainingData& data, const Parameters& parameters, int rounds,
                     const std::string& base, int threads) {
  Matrix matrix(data.rows, threads);
  matrix.set("label", data.labels);
  matrix.set("weight", data.weights);
  matrix.set_groups(data.groups);
  Booster b;
  DMatrixHandle list[] = {matrix.handle()};
  check(XGBoosterCreate(list, 1, &b.handle_), "make a model");
  quiet(b.handle_);
  if (!base.empty()) {
    check(XGBoosterLoadModelFromBuffer(b.handle_, base.data(), base.size()), "read the model");
  }
  for (const auto& [name, value] : parameters) {
    check(XGBoosterSetParam(b.handle_, name.c_str(), value.c_str()), "take a parameter");
  }
  check(XGBoosterSetParam(b.handle_, "nthread", std::to_string(threads).c_str()),
        "take the number of threads");
  int done = 0;
  check(XGBoosterBoostedRounds(b.handle_, &done), "count its trees");
  for (int i = 0; i < rounds; ++i) {
    check(XGBoosterUpdateOneIter(b.handle_, done + i, matrix.handle()), "fit a tree");
  }
  return b;
}

Booster Booster::load(const std::string& bytes) {
  Booster b;
  check(XGBoosterCreate(nullptr, 0, &b.handle_), "make a model");
  quiet(b.handle_);
  check(XGBoosterLoadModelFromBuffer(b.handle_, bytes.data(), bytes.size()), "read the model");
  check(XGBoosterSetParam(b.handle_, "nthread", "1"), "take the number of threads");
  return b;
}

std::string Booster::save() const {
  bst_ulong size = 0;
  const char* data = nullptr;
  check(XGBoosterSaveModelToBuffer(handle_, "{\"format\": \"ubj\"}", &size, &data),
        "write the model");
  return std::string(data, size);
}

std::vector<double> Booster::predict(const DenseRows& rows) const {
  if (rows.rows() == 0) return {};
  const char* config =
      "{\"type\": 0, \"training\": false, \"iteration_begin\": 0, \"iteration_end\": 0, "
      "\"strict_shape\": false, \"cache_id\": 0, \"missing\": NaN}";
  const bst_ulong* shape = nullptr;
  bst_ulong dims = 0;
  const float* out = nullptr;
  check(XGBoosterPredictFromDense(handle_, array_interface(rows).c_str(), config, nullptr, &shape,
                                  &dims, &out),
        "predict");
  return std::vector<double>(out, out + rows.rows());
}

size_t Booster::width() const {
  bst_ulong n = 0;
  check(XGBoosterGetNumFeature(handle_, &n), "count its columns");
  return n;
}

}  // namespace heddle::cost_model
