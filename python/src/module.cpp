// The extension module heddle._heddle. The package heddle is made of it and of the Python files beside it.
#include "bind.h"
#include "heddle/records/record.h"

NB_MODULE(_heddle, m) {
  using namespace heddle::python;
  // Others may keep objects until the process ends, as torch does with compiled graphs.
  nb::set_leak_warnings(false);
  m.doc() = "The C++ library of Heddle. Programs import heddle.";
  m.attr("version") = heddle::internal::build_fingerprint();
  bind_errors(m);
  bind_arrays(m);
  bind_target(m);
  bind_expressions(m);
  bind_declarations(m);
  bind_schedule(m);
  bind_choices(m);
  bind_kernels(m);
  bind_network(m);
  bind_generalize(m);
  bind_bound_calls(m);
  bind_tune(m);
  nb::module_ ops =
      m.def_submodule("ops", "Operators: functions that declare. Shapes broadcast as numpy's do.");
  bind_elementwise(ops);
  bind_layers(ops);
  bind_movement(ops);
  bind_sampling(ops);
  bind_training(ops);
}
