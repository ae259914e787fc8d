// What the rewrite of a mask of attention has to know of the masked scores: who reads them, and
// whether another mask is in them.
#pragma once

#include "dag/patterns/look_through.h"

namespace heddle::network {

/// Whether each reader of `scores`, a stage computed for each element, besides their maximum, stage
/// `highest`, reads exp(score - highest of its row), through casts and stages between. Only these have
/// the same value for a low score and for -inf: a difference that is kept, or multiplied by its exp,
/// has not.
bool read_by_exp_alone(const ComputeDag& dag, dag::LookThrough* look, int scores, int highest);

/// Whether `score`, an expression with a variable `key` for the keys, may itself be masked: by a
/// number of at least `large` in size in it or in stages that it reads, down to reductions, or by data
/// of each key that is added.
bool may_be_masked(const ComputeDag& dag, dag::LookThrough* look, const Expr& score, const Var& key,
                   double large);

}  // namespace heddle::network
