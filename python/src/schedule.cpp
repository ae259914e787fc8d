// Schedules: those that rules choose, and those that are written by hand.
#include <nanobind/stl/array.h>

#include "bind.h"

namespace heddle::python {
namespace {

const Names<LoopKind>& bindings() {
  static const Names<LoopKind> names = {
      {"blockIdx.x", LoopKind::BlockX},    {"blockIdx.y", LoopKind::BlockY},
      {"blockIdx.z", LoopKind::BlockZ},    {"threadIdx.x", LoopKind::ThreadX},
      {"threadIdx.y", LoopKind::ThreadY},  {"threadIdx.z", LoopKind::ThreadZ},
      {"cluster2", LoopKind::clusters(2)}, {"cluster4", LoopKind::clusters(4)},
      {"cluster8", LoopKind::clusters(8)}};
  return names;
}

TailStrategy tail_of(const std::string& name) {
  return named<TailStrategy>(
      name, "treatment of tails",
      {{"shorten", TailStrategy::Shorten}, {"predicate", TailStrategy::PredicateStores}});
}

void bind_stage_units(nb::class_<StageRef>& s) {
  s.def(
       "software_pipeline",
       [](StageRef& r, Loop i) {
         r.software_pipeline(i, caller());
         return r;
       },
       "loop"_a, "Lets an iteration begin before the previous one has ended.")
      .def(
          "bind",
          [](StageRef& r, Loop i, const std::string& index) {
            r.bind(i, named(index, "index of a GPU", bindings()), caller());
            return r;
          },
          "loop"_a, "index"_a,
          "Shares the iterations among blocks (\"blockIdx.x\") or threads (\"threadIdx.x\") of a "
          "GPU.")
      .def(
          "tensorize",
          [](StageRef& r, Loop i, const std::string& instruction) {
            r.tensorize(i, instruction, caller());
            return r;
          },
          "loop"_a, "instruction"_a = "",
          "Makes the loops from this one inwards an instruction, such as \"amx\"; \"\": the one "
          "that they are.");
}

void bind_stage_loops(nb::class_<StageRef>& s) {
  s.def_prop_ro("axes", &StageRef::all_axes, "The root spatial axes, as loops.")
      .def_prop_ro("reduce_axes", &StageRef::all_reduce_axes, "The root reduce axes, as loops.")
      .def("axis", &StageRef::axis, "index"_a,
           "Root spatial axis `index`; a negative one counts from the last.")
      .def("reduce_axis", &StageRef::reduce_axis, "index"_a, "Root reduce axis `index`.")
      .def(
          "split",
          [](StageRef& r, Loop i, int64_t factor, const std::string& tail) {
            const auto [outer, inner] = r.split(i, factor, tail_of(tail), caller());
            return std::pair(outer, inner);
          },
          "loop"_a, "factor"_a, "tail"_a = "shorten",
          "for i in 0..n becomes an outer loop and an inner one of `factor` iterations.")
      .def(
          "fuse",
          [](StageRef& r, const std::vector<Loop>& loops) { return r.fuse(loops, caller()); },
          "loops"_a, "Adjacent loops, outermost first, become one.")
      .def(
          "reorder",
          [](StageRef& r, const std::vector<Loop>& order) {
            r.reorder(order, caller());
            return r;
          },
          "order"_a, "Puts the loops, in this order, into the positions that they have now.")
      .def(
          "vectorize",
          [](StageRef& r, Loop i) {
            r.vectorize(i, caller());
            return r;
          },
          "loop"_a, "Runs the loop in vectors.")
      .def(
          "unroll",
          [](StageRef& r, Loop i) {
            r.unroll(i, caller());
            return r;
          },
          "loop"_a, "Writes the iterations one after the other.")
      .def(
          "parallel",
          [](StageRef& r, Loop i) {
            r.parallel(i, caller());
            return r;
          },
          "loop"_a, "Shares the iterations among threads.");
  bind_stage_units(s);
}

void bind_stage_layout(nb::class_<StageRef>& s) {
  s.def(
      "layout",
      [](StageRef& r, const std::vector<std::vector<int64_t>>& dims) {
        std::vector<StageRef::StorageDim> order;
        for (const std::vector<int64_t>& d : dims) {
          if (d.empty() || d.size() > 3)
            throw_user_error(
                "a dimension of a layout is (dim, divisor, modulus)", caller(),
                "leave out the divisor 1 and the modulus 0: [(1, 16), (0,), (1, 1, 16)]");
          order.push_back(
              {static_cast<int>(d[0]), d.size() > 1 ? d[1] : 1, d.size() > 2 ? d[2] : 0});
        }
        r.layout(order, caller());
        return r;
      },
      "dims"_a,
      "The order of the elements in memory, outermost first: (dim, divisor, modulus) is index // "
      "divisor % modulus of a "
      "dimension. Tiles of 16 columns of a matrix: [(1, 16), (0,), (1, 1, 16)].");
}

void bind_stage_memory(nb::class_<StageRef>& s) {
  bind_stage_layout(s);
  s.def(
       "set_scope",
       [](StageRef& r, const std::string& scope) {
         r.set_scope(
             named<Scope>(scope, "memory", {{"local", Scope::Local}, {"shared", Scope::Shared}}),
             caller());
         return r;
       },
       "scope"_a,
       "The memory of a stage that is computed at a loop: \"local\" or, on a GPU, \"shared\".")
      .def(
          "storage_pad",
          [](StageRef& r, int64_t elements) {
            r.storage_pad(elements, caller());
            return r;
          },
          "elements"_a, "Adds unused elements after each row.")
      .def(
          "multi_buffer",
          [](StageRef& r, int64_t copies) {
            r.multi_buffer(copies, caller());
            return r;
          },
          "copies"_a, "Keeps several buffers of the stage in shared memory.")
      .def(
          "prefetch",
          [](StageRef& r, StageRef producer, int dim, int64_t distance) {
            r.prefetch(producer, dim, distance, caller());
            return r;
          },
          "producer"_a, "dim"_a, "distance"_a,
          "Prefetches the element `distance` further along dimension `dim` of `producer`.")
      .def(
          "widen",
          [](StageRef& r, DataType to) {
            r.widen(to, caller());
            return r;
          },
          "dtype"_a, "Stores the results in a type that holds all their values.")
      .def(
          "store_nontemporal",
          [](StageRef& r) {
            r.store_nontemporal(caller());
            return r;
          },
          "Stores bypass the caches.");
}

void bind_stage_places(nb::class_<StageRef>& s) {
  s.def(
       "compute_at",
       [](StageRef& r, StageRef consumer, Loop loop) {
         r.compute_at(consumer, loop, caller());
         return r;
       },
       "consumer"_a, "loop"_a,
       "Computes the stage inside a loop of a consumer: the part that the iteration needs.")
      .def(
          "store_at",
          [](StageRef& r, StageRef host, Loop loop) {
            r.store_at(host, loop, caller());
            return r;
          },
          "host"_a, "loop"_a,
          "Keeps what compute_at's loop computes for a whole iteration of a loop around it.")
      .def(
          "compute_inline",
          [](StageRef& r) {
            r.compute_inline(caller());
            return r;
          },
          "Substitutes the body into every reader.")
      .def(
          "cache_write", [](StageRef& r) { return r.cache_write(caller()); },
          "Computes into a private copy first, which is returned.")
      .def(
          "cache_read",
          [](StageRef& r, const std::vector<StageRef>& readers) {
            return r.cache_read(readers, caller());
          },
          "readers"_a, "Copies the stage for these readers; the copy is returned.")
      .def(
          "rfactor",
          [](StageRef& r, Loop k, int64_t factor, bool inner) {
            return r.rfactor(k, factor, inner, caller());
          },
          "loop"_a, "factor"_a, "inner"_a,
          "Splits a reduction into partial results, whose stage is returned, and their reduction.");
  bind_stage_memory(s);
}

}  // namespace

void bind_schedule(nb::module_& m) {
  nb::class_<Loop>(m, "Loop", "A loop of a stage.")
      .def("__eq__", [](Loop a, Loop b) { return a == b; })
      .def("__hash__", [](Loop a) { return a.id; })
      .def("__repr__", [](Loop a) { return "Loop(" + std::to_string(a.id) + ")"; });
  auto stage = nb::class_<StageRef>(
      m, "Stage",
      "The primitives of one stage of a schedule. Those that make no stage return this one.");
  bind_stage_loops(stage);
  bind_stage_places(stage);
  nb::class_<Schedule>(m, "Schedule",
                       "How a declaration is computed: a list of steps for a target.")
      .def(
          "__init__",
          [](Schedule* self, const Outputs& outputs, const std::optional<Target>& target,
             const nb::kwargs& options) {
            new (self) Schedule(outputs.list, target_or_host(target), options_of(options));
          },
          "outputs"_a, "target"_a = nb::none(), "options"_a,
          "Serial loops, every stage at the root.")
      .def(
          "__getitem__", [](Schedule& s, const Tensor& t) { return s[t]; }, "tensor"_a,
          nb::keep_alive<0, 1>(), "The stage of a tensor.")
      .def_prop_ro("target", &Schedule::target, "The machine that it is for.")
      .def_ro("provenance", &Schedule::provenance, "Where it is from: a rule, a record.")
      .def(
          "to_json", [](const Schedule& s) { return s.to_json().dump(); }, "The steps, as JSON.")
      .def_static(
          "from_json",
          [](const std::string& text, const Outputs& outputs) {
            return Schedule::from_json(Json::parse(text), ComputeDag(outputs.list));
          },
          "text"_a, "outputs"_a, "Replays what to_json wrote on a declaration.")
      .def("__str__", &Schedule::to_text)
      .def("__repr__", [](const Schedule& s) { return "Schedule(" + s.provenance + ")"; });
  m.def(
      "create_schedule",
      [](const Outputs& outputs, const std::optional<Target>& target, const nb::kwargs& options) {
        return create_schedule(outputs.list, target_or_host(target), options_of(options));
      },
      "outputs"_a, "target"_a = nb::none(), "options"_a,
      "Chooses a schedule without measuring: the best record, or that of the rules. Keywords are "
      "the options of the "
      "scheduler: threads=2, allow_tf32=True.");
  m.def(
      "naive_schedule",
      [](const Outputs& outputs, const std::optional<Target>& target) {
        return naive_schedule(outputs.list, target_or_host(target));
      },
      "outputs"_a, "target"_a = nb::none(), "The reference without optimisation.");
  m.def(
      "describe", [](const Outputs& outputs) { return ComputeDag(outputs.list).to_text(); },
      "outputs"_a, "The stages of a declaration as text: class, shape and reads of each.");
}

}  // namespace heddle::python
