// Compilation ahead of time: a kernel as an object file, for this machine or another one.
//
//   export_kernel(schedule, {a, b, c}, "out/dense", options);   // out/dense.o, out/dense.json
//   $ c++ -shared -o out/dense.so out/dense.o -lmvec -lm
//   Kernel dense = load_kernel("out/dense");                    // heddle/runtime/load_kernel.h
#pragma once

#include <string>
#include <vector>

#include "heddle/driver/build.h"
#include "heddle/driver/build_multi.h"

namespace heddle {

/// Writes `STEM.o`, with the functions heddle_kernel_main and, where constants are packed,
/// heddle_kernel_prepare, and `STEM.json`: the arguments, and the CPU features that the code
/// uses, which load_kernel checks. The target of the schedule may be another CPU than this
/// machine's. For a GPU the machine code is `STEM.cubin` in place of `STEM.o`, and nothing has
/// to be linked; NVRTC is needed, and no GPU. Constants with values that `args` leaves out are
/// written too, each to a file `STEM.constant<n>.npy`: load_kernel gives a kernel that supplies
/// them.
void export_kernel(const Schedule& schedule, const std::vector<Tensor>& args,
                   const std::string& stem, const BuildOptions& options = {});

/// Writes several variants to one object, with the pick among them. Variants of equal code become
/// one. They race here on random inputs for `seconds`, so the target must be a CPU or GPU of this
/// machine (User error). The pick is heddle_kernel_main, which load_kernel loads. The others are
/// written beside it with their times, and load_multi_kernel loads them all, without a compiler and
/// without timing unless that is requested. For a GPU the pick is `STEM.cubin`, and each of the
/// others a file `STEM_N.cubin`. Returns the pick with its evidence. `variants` are schedules,
/// of which the first is the static choice. All else is as in export_kernel.
PickRow export_multi(const std::vector<MultiVariant>& variants, const std::vector<Tensor>& args,
                     const std::string& stem, const BuildOptions& options = {}, double seconds = 2);

}  // namespace heddle
