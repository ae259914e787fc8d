// Networks: ONNX files and declarations with many stages, cut into nodes. heddle.Network (heddle/_network.py) is made of these.
#include "heddle/network/network.h"

#include "arrays.h"
#include "bind.h"
#include "call.h"
#include "heddle/generate/gguf.h"
#include "heddle/support/error.h"

namespace heddle::python {
namespace {

const std::string kName = "network";

NetworkPlan plan_of_file(const std::string& path) { return load_plan(path); }

nb::tuple profile_of(const NetworkKernel& kernel, const nb::args& arrays, double seconds) {
  Profile profile;
  with_arrays({kName, kernel.args(), kernel.sizes(),
               [&](std::span<const NDArray> all) {
                 kernel.call(all);
                 profile = kernel.profile({all.begin(), all.end()}, seconds);
               },
               kernel.updated()},
              arrays);
  return nb::make_tuple(profile.to_string(), profile.to_json().dump());
}

/// The task of a node, or a User error.
const TuneTask& task_of(const Network& network, int node) {
  const int nodes = static_cast<int>(network.nodes().size());
  if (node < 0 || node >= nodes)
    throw_user_error("there is no node " + std::to_string(node), caller(),
                     "nodes are 0 to " + std::to_string(nodes - 1));
  return network.tasks().at(static_cast<size_t>(network.nodes()[static_cast<size_t>(node)].task));
}

std::string explained(const Network& network, int node, const std::string& form) {
  const TuneTask& task = task_of(network, node);
  const Schedule schedule =
      create_schedule(task.tmpl.dag().outputs(), task.tmpl.target(), task.tmpl.options());
  std::string text = "node " + std::to_string(node) + ", " + task.name + "\n" +
                     task.tmpl.dag().to_text() + "schedule: " + schedule.provenance + "\n" +
                     schedule.to_text();
  if (!form.empty()) text += "\n" + build(schedule, task.args).source(form);
  return text;
}

std::string explained_all(const Network& network) {
  std::string text = network.to_text();
  if (network.plan_use()) text += "\nthe plan decides for " + to_string(*network.plan_use()) + "\n";
  if (!network.passes().empty()) text += "\npasses over the graph:\n";
  for (const PassApplication& a : network.passes()) text += "  " + a.pass + ": " + a.text + "\n";
  return text;
}

/// Samples by the names of inputs.
std::map<std::string, NDArray> arrays_of(const nb::dict& samples) {
  std::map<std::string, NDArray> arrays;
  for (const auto& [key, array] : samples) {
    const auto name = nb::cast<std::string>(key);
    arrays.emplace(name, read_array(array, [&] { return "the samples of '" + name + "'"; }));
  }
  return arrays;
}

void bind_models(nb::module_& m) {
  nb::class_<Repeat>(m, "Repeat", "A loop of a network, such as the steps of a recurrent layer.")
      .def_ro("name", &Repeat::name);
  nb::class_<OnnxModel>(m, "OnnxModel", "An ONNX file as a declaration.")
      .def_ro("inputs", &OnnxModel::inputs)
      .def_ro("outputs", &OnnxModel::outputs)
      .def_ro("input_names", &OnnxModel::input_names)
      .def_ro("output_names", &OnnxModel::output_names)
      .def_ro("constants", &OnnxModel::constants)
      .def_ro("dims", &OnnxModel::dims)
      .def_prop_ro("updates",
                   [](const OnnxModel& model) {
                     std::vector<std::pair<Tensor, Tensor>> pairs;
                     for (const StateUpdate& u : model.updates) pairs.emplace_back(u.state, u.next);
                     return pairs;
                   })
      .def_prop_ro("loops", [](const OnnxModel& model) { return model.updates.repeats; });
  m.def(
      "import_onnx",
      [](const std::string& path, const std::map<std::string, int64_t>& dims,
         const std::map<std::string, Dim>& ranges, DataType precision,
         const std::map<std::string, std::vector<std::string>>& sums, bool states, bool loops) {
        OnnxOptions options;
        options.dims = dims;
        options.ranges = ranges;
        options.precision = precision;
        options.sums = sums;
        options.states = states;
        options.loops = loops;
        const Where where = caller();
        const WithoutGil unlocked;
        return import_onnx(path, options, where);
      },
      "path"_a, "dims"_a = std::map<std::string, int64_t>(),
      "ranges"_a = std::map<std::string, Dim>(), "precision"_a = f32,
      "sums"_a = std::map<std::string, std::vector<std::string>>(), "states"_a = false,
      "loops"_a = false,
      "Reads a model as a declaration, with its dimensions as numbers or, in `ranges`, as "
      "dimensions whose size a call gives.");
  m.def(
      "_quantize",
      [](const std::string& path, const nb::dict& samples, const std::string& output,
         const std::string& method, double percentile, bool per_channel, DataType dtype,
         const std::vector<std::string>& keep, int64_t batch) {
        const std::map<std::string, NDArray> arrays = arrays_of(samples);
        const QuantizeOptions options{.method = range_method_of(method),
                                      .percentile = percentile,
                                      .per_channel = per_channel,
                                      .activations = dtype,
                                      .keep = keep,
                                      .batch = batch};
        const Where where = caller();
        const WithoutGil unlocked;
        const QuantizeReport report = quantize_onnx(path, arrays, output, options, where);
        return std::pair(report.to_string(), report.to_json().dump());
      },
      "path"_a, "samples"_a, "output"_a, "method"_a, "percentile"_a, "per_channel"_a, "dtype"_a,
      "keep"_a, "batch"_a, "heddle.quantize is made of this.");
  m.def("onnx_available", &onnx_available, "Whether this build reads ONNX files.");
}

using TensorPairs = std::vector<std::pair<Tensor, Tensor>>;

Updates updates_of(const TensorPairs& pairs, const std::vector<Repeat>& loops) {
  Updates updates({}, loops);
  for (const auto& [state, next] : pairs) updates.push_back({state, next});
  return updates;
}

/// The network with the types for a tolerance; the choice as text and as JSON. `names` are those of
/// the inputs, which come first among `args`. No samples: they are drawn.
std::pair<Network, std::pair<std::string, std::string>> within(
    const Network& network, const std::vector<Tensor>& args, double tolerance,
    const nb::dict& samples, const std::vector<std::string>& names) {
  const std::map<std::string, NDArray> arrays = arrays_of(samples);
  const WithoutGil unlocked;
  PrecisionOptions options{.tolerance = tolerance};
  if (!arrays.empty())
    options.calls = calls_of_samples(arrays, names, {args.begin(), args.begin() + names.size()});
  const PrecisionChoice choice = choose_precision(network, args, options);
  return {with_types(network, choice), {choice.to_string(), choice.to_json().dump()}};
}

void bind_graph(nb::module_& m) {
  nb::class_<Network>(m, "NetworkGraph", "A declaration cut into nodes.")
      .def(
          "__init__",
          [](Network* self, const Outputs& outputs, const std::optional<Target>& target,
             const std::string& passes, const nb::dict& options, const TensorPairs& updates,
             const std::vector<Repeat>& loops) {
            const AutoSchedulerOptions scheduler = options_of(options);
            const WithoutGil unlocked;
            new (self) Network(outputs.list, target_or_host(target), scheduler,
                               parse_passes(passes), updates_of(updates, loops));
          },
          "outputs"_a, "target"_a = nb::none(), "passes"_a = "", "options"_a = nb::dict(),
          "updates"_a = TensorPairs(), "loops"_a = std::vector<Repeat>())
      .def(
          "with_plan",
          [](const Network& n, const std::string& path) {
            const WithoutGil unlocked;
            return n.with_plan(plan_of_file(path));
          },
          "path"_a, "The same declaration with what holds of a plan.")
      .def("_within", &within, "args"_a, "tolerance"_a, "samples"_a, "names"_a)
      .def_prop_ro("tolerance", [](const Network& n) { return n.pass_options().tolerance; })
      .def_prop_ro("plan_use",
                   [](const Network& n) { return n.plan_use() ? to_string(*n.plan_use()) : ""; })
      .def_prop_ro("num_nodes", [](const Network& n) { return n.nodes().size(); })
      .def(
          "build",
          [](const Network& n, const std::vector<Tensor>& args) {
            const WithoutGil unlocked;
            return n.build(args);
          },
          "args"_a, "Compiles a kernel for each node.")
      .def("explain", &explained_all)
      .def(
          "explain_node",
          [](const Network& n, int node, const std::string& form) {
            const WithoutGil unlocked;
            return explained(n, node, form);
          },
          "node"_a, "form"_a = "")
      .def(
          "export",
          [](const Network& n, const std::vector<Tensor>& args, const std::string& folder,
             const std::string& name, const std::vector<std::string>& arg_names) {
            const WithoutGil unlocked;
            return export_network(n, args, folder, {.name = name, .arg_names = arg_names});
          },
          "args"_a, "folder"_a, "name"_a, "arg_names"_a);
}

void bind_exported(nb::module_& m) {
  nb::class_<ExportedNetwork>(m, "ExportedNetwork", "The files of an exported network.")
      .def_ro("library", &ExportedNetwork::library, "The path of lib<name>.so.")
      .def_ro("header", &ExportedNetwork::header, "The path of <name>.h.")
      .def_ro("weights", &ExportedNetwork::weights, "The path of <name>.weights.")
      .def_ro("library_bytes", &ExportedNetwork::library_bytes)
      .def_ro("weights_bytes", &ExportedNetwork::weights_bytes)
      .def_ro("arena_bytes", &ExportedNetwork::arena_bytes,
              "What a call needs for what passes between steps.")
      .def_ro("steps", &ExportedNetwork::steps)
      .def("__repr__",
           [](const ExportedNetwork& e) { return "ExportedNetwork('" + e.library + "')"; });
}

void bind_import_of_decoders(nb::module_& m) {
  m.def(
      "import_decoder",
      [](const std::string& path, int64_t capacity, int64_t chunk, int64_t batch,
         DataType precision, const std::optional<Target>& target, bool limits, int64_t block_rows,
         int64_t blocks, bool drafts) {
        const Where where = caller();
        const WithoutGil unlocked;
        const DecoderSizes sizes{capacity, chunk, batch, true, {block_rows, blocks}};
        OnnxModel model;
        if (is_gguf(path)) {
          if (precision != f32)
            throw_user_error("a GGUF file computes in f32", where, "leave dtype out");
          model = gguf_decoder(GgufFile(path), sizes);
        } else {
          OnnxOptions options = decoder_options(path, sizes, where);
          options.precision = precision;
          model = import_onnx(path, options, where);
        }
        if (drafts) return model;  // which need the logits behind each token
        model = last_logits(std::move(model));
        // On a GPU a step draws its token there.
        return target_or_host(target).is_cuda() ? with_draws(std::move(model), {}, limits) : model;
      },
      "path"_a, "capacity"_a, "chunk"_a, "batch"_a, "precision"_a, "target"_a.none(), "limits"_a,
      "block_rows"_a, "blocks"_a, "drafts"_a,
      "Reads a decoder with states, whose dimensions follow from its past and present rows, and "
      "with the logits behind the last token of a call.");
}

void bind_decoder(nb::module_& m) {
  nb::class_<Decoder>(m, "Decoder",
                      "A language model with the keys and values of what it has read.")
      .def(
          "__init__",
          [](Decoder* self, const OnnxModel& model, const Network& network) {
            const WithoutGil unlocked;
            new (self) Decoder(model, network);
          },
          "model"_a, "network"_a)
      .def_prop_ro("batch", &Decoder::batch)
      .def_prop_ro("capacity", &Decoder::capacity)
      .def_prop_ro("length", &Decoder::length)
      .def_prop_ro("vocabulary", &Decoder::vocabulary)
      .def_prop_ro("free_blocks", &Decoder::free_blocks)
      .def("blocks_of", &Decoder::blocks_of, "sequence"_a)
      .def("tokens", &Decoder::tokens, "sequence"_a)
      .def("forget", &Decoder::forget, "sequence"_a, "tokens"_a)
      .def("reset", nb::overload_cast<>(&Decoder::reset))
      .def("reset", nb::overload_cast<int64_t>(&Decoder::reset), "sequence"_a)
      .def(
          "step",
          [](Decoder& d, const std::vector<int64_t>& ids) {
            const WithoutGil unlocked;
            return d.step(ids);
          },
          "ids"_a,
          "Reads tokens, (batch, n) in a list; the logits behind the last, (batch, vocabulary).")
      .def(
          "step_each",
          [](Decoder& d, const std::vector<std::vector<int64_t>>& ids) {
            const WithoutGil unlocked;
            return d.step_each(ids);
          },
          "ids"_a, "The same with a list for each sequence; these may differ in length.")
      .def(
          "step_rows",
          [](Decoder& d, const std::vector<std::vector<int64_t>>& ids) {
            const WithoutGil unlocked;
            return d.step_rows(ids);
          },
          "ids"_a, "The same with the logits behind each token, (batch, n, vocabulary).");
}

void bind_generation(nb::module_& m) {
  nb::class_<Generation>(m, "Generation", "The tokens that a language model says after a prompt.")
      .def(
          "__init__",
          [](Generation* self, Decoder& decoder, const std::vector<std::vector<int64_t>>& prompts,
             int64_t most, double temperature, int64_t top_k, double top_p, uint64_t seed,
             const std::vector<int64_t>& end_ids) {
            const WithoutGil unlocked;
            new (self) Generation(decoder, prompts, {temperature, top_k, top_p, seed},
                                  {end_ids, most < 0 ? INT64_MAX : most});
          },
          "decoder"_a, "prompts"_a, "most"_a, "temperature"_a, "top_k"_a, "top_p"_a, "seed"_a,
          "end_ids"_a, nb::keep_alive<1, 2>())
      .def(
          "next",
          [](Generation& words) {
            const WithoutGil unlocked;
            return words.next();
          },
          "The next token of each sequence; an empty list at the end.")
      .def(
          "next_of_drafts",
          [](Generation& words, const std::vector<std::vector<int64_t>>& tokens,
             const std::vector<std::vector<std::vector<float>>>& shares) {
            const WithoutGil unlocked;
            std::vector<Draft> drafts(tokens.size());
            for (size_t b = 0; b < drafts.size(); ++b)
              drafts[b] = {tokens[b],
                           b < shares.size() ? shares[b] : std::vector<std::vector<float>>()};
            return words.next(drafts);
          },
          "tokens"_a, "shares"_a,
          "The next tokens of each sequence by drafts, whose probabilities may be empty lists.");
}

}  // namespace

void bind_network(nb::module_& m) {
  bind_models(m);
  bind_graph(m);
  bind_exported(m);
  bind_import_of_decoders(m);
  bind_decoder(m);
  bind_generation(m);
  nb::class_<NetworkKernel>(m, "NetworkKernel", "A compiled network.")
      .def(
          "__call__",
          [](const NetworkKernel& k, const nb::args& arrays) {
            return call({kName, k.args(), k.sizes(),
                         [&](std::span<const NDArray> all) { k.call(all); }, k.updated()},
                        arrays);
          },
          "arrays"_a)
      .def(
          "refresh",
          [](const NetworkKernel& k) {
            const WithoutGil unlocked;
            k.refresh();
          },
          "Computes what depends on weights anew at the next call.")
      .def("_profile", &profile_of, "arrays"_a, "seconds"_a = 1.0)
      .def_prop_ro("signature",
                   [](const NetworkKernel& k) { return signature_of(k.args(), k.sizes()); })
      .def_prop_ro("workspace_bytes", &NetworkKernel::workspace_bytes)
      .def_prop_ro("kernels", [](const NetworkKernel& k) { return k.build_report().kernels; })
      .def_prop_ro(
          "kernels_from_disk", [](const NetworkKernel& k) { return k.build_report().from_disk; },
          "Those whose code another process had left on the disk.");
}

}  // namespace heddle::python
