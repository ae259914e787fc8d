// One declaration over a dimension from what is declared at two of its sizes, and the check of a
// third.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/dag/instance.h"

namespace heddle::dag {

/// A declaration for one size of the dimension.
struct AtSize {
  int64_t size = 0;
  std::vector<Tensor> outputs;
};

struct GeneralizeOptions {
  /// An operation in messages; may be empty.
  std::function<std::string(const Operation&)> describe = {};
  /// Placeholders of the first declaration, and those over the dimension that stand for them.
  std::vector<std::pair<Tensor, Tensor>> placeholders = {};
};

/// What both declarations have in common, over `n`: integers that differ become sums of the
/// dimension times constants, and so do floating-point numbers that are counts or their inverses. A
/// constant array whose shape differs is that of `a`, which begins like the one of `b` along every
/// dimension. The tensors of the result are paired with those of `a`. A User error names what
/// differs in more.
Instance generalized(const Dim& n, const AtSize& a, const AtSize& b,
                     const GeneralizeOptions& options = {});

/// Throws a User error unless `family`, over `n` and dimensions that both share, is at that size
/// what `at` declares, in the plain form of both. `describe` gets operations of the family.
void check_at_size(const Dim& n, const std::vector<Tensor>& family, const AtSize& at,
                   const GeneralizeOptions& options = {});

/// The declaration with some of its sizes replaced by `values`, in a form in which sizes of 1 make
/// no difference: axes of one point are 0, elements of constant arrays at constant indices are
/// numbers, stages that only move elements or are one number are read through, and all is
/// simplified. The tensors of stages that are left are paired.
Instance plain_form(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& values = {});

}  // namespace heddle::dag
