// Targets, the options of the scheduler, and the threads of calls.
#include "bind.h"

namespace heddle::python {

AutoSchedulerOptions options_of(const nb::dict& keywords) {
  if (keywords.size() == 0) return {};
  const auto text = nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(keywords));
  return options_from_json(Json::parse(text));
}

const Target& target_or_host(const std::optional<Target>& target) {
  return target ? *target : Target::host();
}

void bind_target(nb::module_& m) {
  nb::class_<Target>(
      m, "Target", "The machine that code is made for: \"llvm -mcpu=native -threads=2\", \"cuda\".")
      .def(
          "__init__",
          [](Target* self, const std::string& text) { new (self) Target(Target::parse(text)); },
          "text"_a, "Reads a target, as the option --target of the command line does.")
      .def_static("host", &Target::host, nb::rv_policy::copy,
                  "This machine, with its physical cores.")
      .def_static("cuda", &Target::cuda,
                  "The first GPU of this machine, or an H200 where there is none.")
      .def("runs_here", &Target::runs_here, "Whether kernels for it can run on this machine.")
      .def_ro("kind", &Target::kind, "\"llvm\" or \"cuda\".")
      .def_rw("cores", &Target::cores, "The number of threads of a kernel, for a CPU.")
      .def_ro("vector_bytes", &Target::vector_bytes, "The bytes of a vector register, for a CPU.")
      .def_ro("vector_registers", &Target::vector_registers, "How many of them there are.")
      .def_prop_ro(
          "chip", [](const Target& t) { return t.chip(); }, "The name of the CPU or GPU.")
      .def("__eq__", [](const Target& a, const Target& b) { return a == b; })
      .def("__hash__", [](const Target& t) { return std::hash<std::string>()(to_string(t)); })
      .def("__str__", [](const Target& t) { return to_string(t); })
      .def("__repr__", [](const Target& t) { return "Target('" + to_string(t) + "')"; });
  nb::implicitly_convertible<std::string, Target>();
  m.def("num_threads", &num_threads, "The number of threads that a call from this thread may use.");
  m.def("set_num_threads", &set_num_threads, "count"_a,
        "Sets the number of threads of calls of this process; 0: one for each physical core.");
}

}  // namespace heddle::python
