// build_multi: several variants of one computation behind one callable.
//
//   Schedule rows = create_schedule({C}), tuned = tune({C}).schedule;
//   MultiKernel f = build_multi({{"static", rows}, {"tuned", tuned}, {"mine", my_function}},
//                               {A, B, C});
//   f(a, b, c);        // the first call measures and picks; see runtime/multi_kernel.h
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/runtime/multi_kernel.h"

namespace heddle {

/// One variant of build_multi: a schedule, of the declaration or of an alternative of it, or a
/// function of the user.
struct MultiVariant {
  /// Named "variant<i>" after its place.
  MultiVariant(Schedule s);  // NOLINT(google-explicit-constructor)
  /// `own_args`, where given, are the tensors of this variant for the arguments of build_multi, for
  /// a declaration of its own. They contain a null tensor where the variant does not read the
  /// argument.
  MultiVariant(std::string variant_name, Schedule s, std::vector<Tensor> own_args = {});
  /// The function gets all arguments in the order of the call. `version` is any text that changes
  /// when the function does. Without it no pick is remembered. `in_place`: the function reads what
  /// the outputs hold before the call.
  MultiVariant(std::string variant_name, std::function<void(std::span<const NDArray>)> f,
               std::string version = {}, bool in_place = false);

  std::string name;
  std::optional<Schedule> schedule;
  std::vector<Tensor> args;
  std::function<void(std::span<const NDArray>)> function;
  std::string code;
  bool reads_outputs = false;
};

/// The conditions under which picks of this process are valid: the machine, and the build of
/// Heddle.
struct PickOrigin {
  std::string machine, build;
};
/// The machine and the build of Heddle of this process, as the store of picks compares them.
PickOrigin pick_origin();

/// Options of build_multi(): how variants are built, and how one is picked.
struct MultiOptions {
  BuildOptions build = {};
  PickOptions pick = {};
};

/// Makes one callable of `variants`. `args` are the arguments of all variants together: every input
/// that one of them reads and every output. Each variant computes all outputs. Constants with
/// values may be left out, as in build(). The first variant is the static choice, and the results
/// of the others are compared with its results. Variants are lowered here and compiled when they
/// are first needed. Variants of equal code become one. Throws a User error where the schedules are
/// for machines of different kinds, or an argument belongs to none of them.
MultiKernel build_multi(std::vector<MultiVariant> variants, const std::vector<Tensor>& args,
                        const MultiOptions& options = {});

/// Picks on random inputs, at build time. All variants are compiled before, so that the time
/// allowed for measuring is spent on the race.
PickRow pick_on_random_inputs(const MultiKernel& kernel);

}  // namespace heddle
