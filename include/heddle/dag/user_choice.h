// A graph of the caller as an alternative to a declaration: another algorithm for the same outputs,
// which is tuned beside it.
//
//   ComputeDag dag({y}), other({z});                  // y and z compute the same from x
//   tune({y}, {.choices = {{"blocked", other}}});     // records call it user(blocked)
#pragma once

#include <string>

#include "heddle/dag/alternatives.h"

namespace heddle {

/// A graph of the caller that computes the outputs of a declaration in another way.
struct UserChoice {
  std::string name;  ///< consists of letters, digits, '_', '-' and '.'
  /// Computes outputs of the same shapes and types in the same order. Its placeholders are those of
  /// the declaration. Other placeholders stand for those of the declaration in order of first use,
  /// and have their shapes, types and constness.
  ComputeDag dag;
  /// The factor by which its rounding errors may exceed those of the declaration. The check before
  /// tuning allows it.
  double error_growth = 1;
  Numerics numerics = Numerics::Reassociated;
};

/// The name of the choice in schedules and records.
std::string alternative_name(const UserChoice& choice);
/// Whether the alternative of a schedule or record is a user's choice.
bool is_user_choice(const std::string& alternative);

/// The choice as an alternative of `declared` (ComputeDag::as_alternative). Throws a User error
/// that says where their names, inputs or outputs do not fit.
ComputeDag as_alternative_of(const ComputeDag& declared, const UserChoice& choice);

}  // namespace heddle
