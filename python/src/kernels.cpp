// Compiled functions: kernels, families of kernels, and several variants of one.
#include <algorithm>

#include "arrays.h"
#include "bind.h"
#include "call.h"
#include "heddle/codegen/emulator.h"
#include "heddle/lower/lower.h"

namespace heddle::python {
namespace {

nb::tuple profile_of(const Kernel& kernel, const nb::args& arrays, double seconds) {
  Profile profile;
  with_arrays({kernel.name(), kernel.args(), kernel.sizes(),
               [&](std::span<const NDArray> all) {
                 profile = kernel.profile({all.begin(), all.end()}, seconds);
               }},
              arrays);
  return nb::make_tuple(profile.to_string(), profile.to_json().dump());
}

void bind_kernel(nb::module_& m) {
  nb::class_<Kernel>(m, "Kernel",
                     "A compiled function. Called with the arrays of all its arguments, in the "
                     "order given to build, it returns "
                     "None; called with those of the inputs it returns new arrays.")
      .def(
          "__call__",
          [](const Kernel& k, const nb::args& arrays) {
            return call(
                {k.name(), k.args(), k.sizes(), [&](std::span<const NDArray> all) { k.call(all); }},
                arrays);
          },
          "arrays"_a)
      .def("source", &Kernel::source, "form"_a = "llvm",
           "The kernel as text: \"llvm\", \"asm\" or \"loops\"; for a GPU \"cuda\".")
      .def("refresh", &Kernel::refresh,
           "Computes what depends on constant arguments anew at the next call.")
      .def("_profile", &profile_of, "arrays"_a, "seconds"_a = 1.0)
      .def_prop_ro("name", &Kernel::name, "In profiles and messages.")
      .def("__repr__", [](const Kernel& k) {
        return "Kernel " + k.name() + signature_of(k.args(), k.sizes());
      });
}

/// Runs the kernels of a schedule for a GPU in the emulator.
void emulate_schedule(const Schedule& schedule, std::vector<Tensor> args, const nb::args& given,
                      uint64_t seed) {
  if (given.size() != args.size())
    throw_user_error("there are " + std::to_string(args.size()) + " arguments, and " +
                         std::to_string(given.size()) + " arrays",
                     caller(), "give an array for each, also for the results");
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto what = [&] { return "argument '" + args[i].name() + "'"; };
    const bool input = args[i].op()->is_placeholder();
    arrays.push_back(input ? read_array(given[i], what) : writable_array(given[i], what));
  }
  for (const Tensor& t : schedule.dag().direct().placeholders()) {
    const auto same = [&](const Tensor& a) { return a.same_as(t); };
    if (!t.op()->data() || std::ranges::any_of(args, same)) continue;
    args.push_back(t);
    arrays.push_back(*t.op()->data());
  }
  // A rewritten graph takes them by other dimensions, as they lie.
  for (size_t i = 0; i < args.size(); ++i)
    arrays[i] = arrays[i].view(schedule.dag().counterpart(args[i]).extents());
  const WithoutGil unlocked;
  emulate(lower_gpu(schedule, args), arrays, {.seed = seed});
}

void bind_family_kernel(nb::module_& m) {
  static const std::string kName = "family";
  nb::class_<FamilyKernel>(
      m, "FamilyKernel",
      "Several kernels for a range of sizes. The sizes of a call say which one runs.")
      .def(
          "__call__",
          [](const FamilyKernel& k, const nb::args& arrays) {
            return call(
                {kName, k.args(), k.sizes(), [&](std::span<const NDArray> all) { k.call(all); }},
                arrays);
          },
          "arrays"_a)
      .def(
          "picked",
          [](const FamilyKernel& k, const nb::args& arrays) {
            std::string name;
            with_arrays({kName, k.args(), k.sizes(),
                         [&](std::span<const NDArray> all) { name = k.picked(all); }},
                        arrays);
            return name;
          },
          "arrays"_a, "The variant that a call with these arrays runs.")
      .def("force", &FamilyKernel::force, "variant"_a,
           "Makes all calls run this variant; \"\" ends that.")
      .def_prop_ro(
          "variants",
          [](const FamilyKernel& k) {
            std::vector<std::string> names;
            for (const FamilyKernel::Variant& v : k.variants()) names.push_back(v.name);
            return names;
          },
          "The names of the kernels.")
      .def("__repr__", [](const FamilyKernel& k) {
        return "FamilyKernel" + signature_of(k.args(), k.sizes());
      });
}

void bind_family(nb::module_& m) {
  bind_family_kernel(m);
  nb::class_<FamilyResult>(m, "FamilyResult",
                           "The kernels of a family, and the race that chose them.")
      .def_ro("kernel", &FamilyResult::kernel, "To be called.")
      .def_ro("expected_slowdown", &FamilyResult::expected_slowdown,
              "Over the fastest schedule at each size; a geometric mean.")
      .def_ro("problems", &FamilyResult::problems, "What went wrong and stopped nothing.")
      .def("__str__", [](const FamilyResult& r) { return to_text(r); });
  m.def(
      "choose_family",
      [](const std::vector<Dim>& dims, const std::vector<Tensor>& args, int max_kernels,
         double race_seconds, const std::optional<Target>& target, const nb::kwargs& options) {
        FamilyOptions family;
        family.max_kernels = max_kernels;
        family.race_seconds = race_seconds;
        family.target = target;
        family.scheduler = options_of(options);
        const WithoutGil unlocked;
        return choose_family(dims, args, family);
      },
      "dims"_a, "args"_a, "max_kernels"_a = 6, "race_seconds"_a = 4.0, "target"_a = nb::none(),
      "options"_a,
      "Chooses a few kernels for all sizes of `dims`, by a race of `race_seconds` seconds. `args` "
      "are inputs and outputs.");
  m.def(
      "generic_family",
      [](const std::vector<Tensor>& args, const std::optional<Target>& target) {
        const WithoutGil unlocked;
        return generic_family(args, target_or_host(target));
      },
      "args"_a, "target"_a = nb::none(),
      "A few kernels for all sizes of a declaration, chosen without running any.");
}

void bind_variants(nb::module_& m) {
  nb::class_<MultiKernel>(
      m, "MultiKernel",
      "Several variants of one function. The first call with some shapes picks one.")
      .def(
          "__call__",
          [](const MultiKernel& k, const nb::args& arrays) {
            return call(
                {k.name(), k.args(), {}, [&](std::span<const NDArray> all) { k.call(all); }},
                arrays);
          },
          "arrays"_a)
      .def("force", &MultiKernel::force, "variant"_a,
           "Makes all calls run this variant; \"\" ends that.")
      .def("forget", &MultiKernel::forget, "Picks anew at the next calls.")
      .def_prop_ro("variants", &MultiKernel::variants, "The names of the variants.")
      .def_prop_ro(
          "picked",
          [](const MultiKernel& k) {
            std::vector<std::string> names;
            for (const PickRow& row : k.picks()) names.push_back(row.picked);
            return names;
          },
          "The variants that were picked, in order.");
  m.def(
      "build_multi",
      [](const std::vector<std::pair<std::string, Schedule>>& variants,
         const std::vector<Tensor>& args) {
        std::vector<MultiVariant> list;
        for (const auto& [name, schedule] : variants) list.emplace_back(name, schedule);
        const WithoutGil unlocked;
        return build_multi(std::move(list), args);
      },
      "variants"_a, "args"_a,
      "One callable of several schedules: [(\"static\", s), (\"mine\", t)]. The first is the "
      "reference.");
}

}  // namespace

void bind_kernels(nb::module_& m) {
  bind_kernel(m);
  bind_family(m);
  bind_variants(m);
  m.def(
      "build",
      [](const Schedule& schedule, const std::vector<Tensor>& args, const std::string& name,
         int opt_level, bool check_finite, bool check_indices) {
        BuildOptions options;
        options.name = name;
        options.opt_level = opt_level;
        options.check_finite = check_finite;
        options.check_indices = check_indices;
        const WithoutGil unlocked;
        return build(schedule, args, options);
      },
      "schedule"_a, "args"_a, "name"_a = "kernel", "opt_level"_a = 1, "check_finite"_a = false,
      "check_indices"_a = false,
      "Compiles a schedule into a kernel that takes `args` in this order: every input and every "
      "output. Constants may be left "
      "out. check_finite: calls check for NaN and infinity. check_indices: calls check indices "
      "that are data.");
  m.def("emulate", &emulate_schedule, "schedule"_a, "args"_a, "arrays"_a, nb::kw_only(),
        "seed"_a = 0,
        "Runs a schedule for a GPU on the CPU, thread by thread: emulate(schedule, args, *arrays). "
        "Arrays of results "
        "are written. It is slow, and an error names races and reads of what nobody wrote. A seed "
        "draws the order of "
        "blocks and warps.");
  m.def("load_kernel", &load_kernel, "stem"_a,
        "Loads the kernel that export_kernel wrote: stem.so and stem.json.");
  m.def(
      "export_kernel",
      [](const Schedule& schedule, const std::vector<Tensor>& args, const std::string& stem) {
        export_kernel(schedule, args, stem);
      },
      "schedule"_a, "args"_a, "stem"_a, "Writes stem.o (for a GPU stem.cubin) and stem.json.");
}

}  // namespace heddle::python
