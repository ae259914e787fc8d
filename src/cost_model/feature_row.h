// The columns and their values. The same code names a column and computes its value, so that the
// two always agree.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "cost_model/core_model.h"
#include "cost_model/memory_model.h"
#include "heddle/cost_model/features.h"

namespace heddle::cost_model {

constexpr int kStores = 2;  ///< statements that have columns of their own, the busiest first
constexpr int kSlots = 3;   ///< buffers of each: the one it writes, then those it reads
constexpr int kCurve = 6;   ///< points of the intensity curve

/// Takes values in the order of the columns.
class ValueSink {
 public:
  explicit ValueSink(Features* out) : out_(out) {}
  /// A magnitude: log2(1 + x).
  void log(const char*, const char*, const char*, double x) {
    put(std::log2(1 + std::max(0.0, x)));
  }
  /// A value without a logarithm: a share, a flag, a ratio of at most a few dozen.
  void plain(const char*, const char*, const char*, double x) { put(x); }
  void group(const std::string&) {}
  void zeros(size_t n) { out_->insert(out_->end(), n, 0.0f); }
  static constexpr bool kDescribes = false;

 private:
  // Values of an absurd program are limited, so that a tree can compare all values of a row.
  void put(double x) {
    out_->push_back(std::isfinite(x) ? static_cast<float>(std::clamp(x, -1e6, 1e6)) : 0.0f);
  }
  Features* out_;
};

/// Takes names, units and sentences.
class ColumnSink {
 public:
  explicit ColumnSink(std::vector<FeatureColumn>* out) : out_(out) {}
  void log(const char* name, const char* unit, const char* about, double) {
    out_->push_back({prefix_ + name, std::string("log2(1 + ") + unit + ")", about});
  }
  void plain(const char* name, const char* unit, const char* about, double) {
    out_->push_back({prefix_ + name, unit, about});
  }
  void group(const std::string& prefix) { prefix_ = prefix; }
  void zeros(size_t) {}
  static constexpr bool kDescribes = true;

 private:
  std::vector<FeatureColumn>* out_;
  std::string prefix_;
};

/// A statement with its tails, and the results of the models for it.
struct StoreView {
  const Statement* s = nullptr;
  CoreFigures core;
  Sharing sharing;
  double executions = 0;       ///< scalar executions, tails included
  double tail_executions = 0;  ///< of which in tails
  double cycles = 0;           ///< on one core, data in L1, tails included
  double traffic[3] = {0, 0, 0};
  double bytes = 0;  ///< loaded and stored
};

struct ProgramView {
  const Program* p = nullptr;
  const Target* target = nullptr;
  std::vector<StoreView> stores;  ///< the most arithmetic first
};

template <class Sink>
void fill_ops(Sink& out, const OpCounts& o, double n) {
  out.log("flop.mad", "operations", "Floating-point multiply-adds executed.", o.mad * n);
  out.log("flop.add", "operations",
          "Floating-point additions, subtractions, negations, roundings executed.", o.add * n);
  out.log("flop.mul", "operations",
          "Floating-point multiplications executed that no addition follows.", o.mul * n);
  out.log("flop.div", "operations", "Floating-point divisions and square roots executed.",
          o.div * n);
  out.log("flop.minmax", "operations", "Floating-point minima and maxima executed.", o.minmax * n);
  out.log("flop.special", "operations", "exp, tanh, pow and other functions executed.",
          o.special * n);
  out.log("int.add", "operations",
          "Additions, subtractions, minima, maxima of integer values executed (not of indices).",
          o.int_add * n);
  out.log("int.mul", "operations", "Multiplications of integer values executed.", o.int_mul * n);
  out.log("int.div", "operations", "Divisions and remainders of integer values executed.",
          o.int_div * n);
  out.log("logic", "operations", "Comparisons, logic and bit operations on values executed.",
          o.logic * n);
  out.log("select", "operations", "Selects executed.", o.select * n);
  out.log("cast", "operations", "Conversions executed.", o.cast * n);
}

void fill_program(ValueSink& out, const ProgramView& view);
void fill_program(ColumnSink& out, const ProgramView& view);
void fill_store(ValueSink& out, const ProgramView& view, const StoreView& v);
void fill_store(ColumnSink& out, const ProgramView& view, const StoreView& v);

ProgramView view_of(const Program& p, const Target& target);

}  // namespace heddle::cost_model
