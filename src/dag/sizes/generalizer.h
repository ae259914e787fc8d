// One declaration over a dimension from declarations at two of its sizes, and the check of a third.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/dag/generalize.h"
#include "heddle/dag/instance.h"

namespace heddle::dag {

/// A declaration for one size of the dimension.
struct AtSize {
  int64_t size = 0;
  std::vector<Tensor> outputs;
};

struct GeneralizeOptions {
  /// The name of an operation for messages; may be empty.
  std::function<std::string(const Operation&)> describe = {};
  /// Placeholders of the first declaration, and those over the dimension that stand for them.
  std::vector<std::pair<Tensor, Tensor>> placeholders = {};
  /// What a size is multiplied by in messages, where the dimension has multiples only.
  int64_t multiple = 1;
};

/// The common form of both declarations over `n`, which is an expression of one size. Integers that
/// differ become sums of `n` times constants, and so do floating-point numbers that are counts or
/// their inverses. A constant array whose shape differs is that of `a`, which must begin like the
/// one of `b` along every dimension. The tensors of the result are paired with those of `a`. Throws
/// a User error that names any other difference.
Instance generalized(const Expr& n, const AtSize& a, const AtSize& b,
                     const GeneralizeOptions& options = {});

/// Whether `small` is the beginning of `large` along each dimension.
bool begins_with(const NDArray& large, const NDArray& small);

/// Throws a User error unless `family` equals `outputs` at that size, in the plain form of both.
/// Other dimensions are the same objects in both. `describe` gets operations of the family.
void check_at_size(const SizeValue& at, const std::vector<Tensor>& family,
                   const std::vector<Tensor>& outputs, const GeneralizeOptions& options = {});

/// A size of a declaration: `multiple` times a variable.
struct ScaledVar {
  Var variable;
  int64_t multiple = 1;
};

/// heddle::generalize over that size.
Generalized generalize_over(const ScaledVar& n,
                            const std::function<std::vector<Tensor>(int64_t)>& declare,
                            const std::function<std::string(const Operation&)>& describe = {});

/// `dag`, a declaration over `n` alone, rewritten into the alternative `name`: rules rewrite graphs
/// of constant shapes, so it is what the rewritten graphs at two sizes have in common. A User error
/// where they differ in more than numbers that grow with the size.
ComputeDag alternative_over(const ComputeDag& dag, const Var& n, const std::string& name);

/// The declaration with some of its sizes replaced by `values`, in a form in which sizes of 1 make
/// no difference: axes of one point are 0, elements of constant arrays at constant indices are
/// numbers, stages that only move elements or are one number are inlined, and all expressions are
/// simplified. The tensors of the remaining stages are paired.
Instance plain_form(const std::vector<Tensor>& outputs, const std::vector<SizeValue>& values = {});

}  // namespace heddle::dag
