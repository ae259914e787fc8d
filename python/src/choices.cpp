// What the rules choose for a declaration and why, and the loops of a schedule.
#include "bind.h"
#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/lower/lower.h"
#include "heddle/schedule/meta_template.h"

namespace heddle::python {
namespace {

const char* memory_of(Scope scope) {
  switch (scope) {
    case Scope::Argument:
    case Scope::Global: return "global";
    case Scope::Shared: return "shared";
    case Scope::Local: return "local";
  }
  return "";
}

Json children_of(const Stmt& s);

void add(Json& all, const Stmt& s) {
  if (!s) return;
  if (const Block* block = s.as<Block>()) {
    for (const Stmt& each : block->stmts) add(all, each);
  } else if (const For* loop = s.as<For>()) {
    all.push_back(Json::object({{"loop", to_string(loop->loop)},
                                {"var", loop->var->name},
                                {"extent", to_string(loop->extent)},
                                {"inside", children_of(loop->body)}}));
  } else if (const Allocate* allocate = s.as<Allocate>()) {
    all.push_back(Json::object({{"memory", memory_of(allocate->buffer->scope)},
                                {"of", allocate->buffer->name},
                                {"inside", children_of(allocate->body)}}));
  } else if (const Store* store = s.as<Store>()) {
    all.push_back(Json::object({{"store", store->buffer->name}}));
  } else if (const If* branch = s.as<If>()) {
    add(all, branch->then_body);
    add(all, branch->else_body);
  } else if (const Let* let = s.as<Let>()) {
    add(all, let->body);
  }
}

Json children_of(const Stmt& s) {
  Json all = Json::array();
  add(all, s);
  return all;
}

/// The loop nests as they are built, before vectors and unrolled loops are written out.
std::string nest_of(const Schedule& schedule) {
  std::vector<Tensor> args = schedule.dag().placeholders();
  for (const Tensor& t : schedule.dag().outputs()) args.push_back(t);
  Json all = Json::array();
  if (schedule.target().is_cuda()) {
    const GpuProgram program = lower_gpu(schedule, args, {.keep_passes = true});
    for (const auto* kernels : {&program.passes.front().prepare, &program.passes.front().main}) {
      for (const GpuKernel& k : *kernels) add(all, simplify(k.body));
    }
  } else {
    const LoweredProgram program = lower(schedule, args, {.keep_passes = true});
    for (const LoweredFunction* f : {&program.passes.front().prepare, &program.passes.front().main})
      add(all, f->body ? simplify(f->body) : f->body);
  }
  return all.dump();
}

}  // namespace

void bind_choices(nb::module_& m) {
  nb::class_<Knob>(m, "Knob", "A number or a kind that a schedule leaves open.")
      .def_ro("name", &Knob::name)
      .def_prop_ro(
          "value", [](const Knob& k) { return k.text_of(k.default_value); },
          "What is chosen without measuring.")
      .def_prop_ro(
          "values",
          [](const Knob& k) {
            std::vector<std::string> all;
            for (const int64_t v : k.values) all.push_back(k.text_of(v));
            return all;
          },
          "What a tuner may choose.")
      .def_ro("reason", &Knob::reason, "Why `value` is chosen.")
      .def("__repr__", [](const Knob& k) {
        return k.name + " = " + k.text_of(k.default_value) + ": " + k.reason;
      });
  nb::class_<Template>(m, "Template",
                       "All schedules of a declaration that a tuner may choose from.")
      .def_prop_ro("knobs", &Template::knobs, "The open choices.")
      .def_prop_ro("notes", &Template::notes, "What was decided for all of them, and why.")
      .def_prop_ro("space_size", &Template::space_size, "The number of schedules.")
      .def("__str__", [](const Template& t) {
        std::string text;
        for (const std::string& note : t.notes()) text += "# " + note + "\n";
        for (const Knob& k : t.knobs())
          text += k.name + " = " + k.text_of(k.default_value) + "   of " +
                  std::to_string(k.values.size()) + " values: " + k.reason + "\n";
        return text;
      });
  m.def(
      "make_template",
      [](const Outputs& outputs, const std::optional<Target>& target, const nb::kwargs& options) {
        return make_template(ComputeDag(outputs.list), target_or_host(target), options_of(options));
      },
      "outputs"_a, "target"_a = nb::none(), "options"_a,
      "The knobs of a declaration, with the values that create_schedule takes and the reasons.");
  m.def("_nest_of", &nest_of, "schedule"_a);
}

}  // namespace heddle::python
